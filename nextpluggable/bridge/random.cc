// Stateless random numbers: the numbers that TensorFlow's kernels for CPUs and GPUs draw, which
// TensorFlow's translation to XLA does not. (The kernels' source is the specification: how the seed
// is scrambled, which words of Philox-4x32-10 make which number, and how a word becomes one.
// Integers and uniform numbers are the same to the bit. Normal ones differ by the last digits of
// the logarithm, sine and cosine.)
//
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011, for Philox; Box and Muller,
// "A note on the generation of random normal deviates", 1958.

#include <array>
#include <cstdint>
#include <memory>
#include <numbers>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/dynamic_shaped_ops.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// tensorflow::random::Algorithm
constexpr int64_t kPhilox = 1;
constexpr int64_t kChosenByDevice = 3;

// A block of Philox: four words.
using Block = std::array<xla::XlaOp, 4>;

// Where a sequence of blocks starts.
struct Start {
  xla::XlaOp key;   // u64[]
  xla::XlaOp low;   // u64[], of the number of the first block
  xla::XlaOp high;  // u64[]
};

xla::XlaOp U32(xla::XlaBuilder* builder, uint32_t value) {
  return xla::ConstantR0<uint32_t>(builder, value);
}

xla::XlaOp U64(xla::XlaBuilder* builder, uint64_t value) {
  return xla::ConstantR0<uint64_t>(builder, value);
}

xla::XlaOp LowWord(xla::XlaOp number) { return xla::ConvertElementType(number, xla::U32); }

xla::XlaOp HighWord(xla::XlaOp number) {
  return LowWord(xla::ShiftRightLogical(number, U64(number.builder(), 32)));
}

xla::XlaOp FromWords(xla::XlaOp low, xla::XlaOp high) {
  return xla::Or(xla::ConvertElementType(low, xla::U64),
                 xla::ShiftLeft(xla::ConvertElementType(high, xla::U64), U64(low.builder(), 32)));
}

xla::XlaOp At(xla::XlaOp vector, int64_t index) {
  return xla::Reshape(xla::Slice(vector, {index}, {index + 1}, {1}), {});
}

// u32[count]: the words of the blocks from `start` on.
xla::XlaOp Words(const Start& start, int64_t count) {
  const xla::XlaOp state = xla::ConcatInDim(
      start.key.builder(),
      {xla::Reshape(start.key, {1}), xla::Reshape(start.low, {1}), xla::Reshape(start.high, {1})},
      0);
  return xla::GetTupleElement(xla::RngBitGenerator(xla::RandomAlgorithm::RNG_PHILOX, state,
                                                   xla::ShapeUtil::MakeShape(xla::U32, {count})),
                              1);
}

// `seed` [2] of 32 or 64 bits, which is scrambled so that every bit of it matters everywhere.
Start FromSeed(xla::XlaOp seed) {
  xla::XlaBuilder* const builder = seed.builder();
  const xla::XlaOp wide =
      xla::BitcastConvertType(xla::ConvertElementType(seed, xla::S64), xla::U64);
  const Start scrambler{U64(builder, 0x02461e293ec8f720), At(wide, 0), At(wide, 1)};
  const xla::XlaOp words = Words(scrambler, 4);
  return {FromWords(At(words, 0), At(words, 1)), U64(builder, 0),
          FromWords(At(words, 2), At(words, 3))};
}

// The blocks that are `offsets` (u64[n]) after the start: four arrays of n words.
Block Blocks(const Start& start, xla::XlaOp offsets) {
  xla::XlaBuilder* const builder = offsets.builder();
  const xla::XlaOp low = xla::Add(offsets, start.low);
  const xla::XlaOp carry = xla::ConvertElementType(xla::Lt(low, start.low), xla::U64);
  const xla::XlaOp high = xla::Add(carry, start.high);
  Block counter{LowWord(low), HighWord(low), LowWord(high), HighWord(high)};
  std::array<xla::XlaOp, 2> key{LowWord(start.key), HighWord(start.key)};
  for (int round = 0; round < 10; ++round) {
    const auto product = [&](xla::XlaOp word, uint64_t factor) {
      return xla::Mul(xla::ConvertElementType(word, xla::U64), U64(builder, factor));
    };
    const xla::XlaOp first = product(counter[0], 0xD2511F53);
    const xla::XlaOp second = product(counter[2], 0xCD9E8D57);
    counter = {xla::Xor(xla::Xor(HighWord(second), counter[1]), key[0]), LowWord(second),
               xla::Xor(xla::Xor(HighWord(first), counter[3]), key[1]), LowWord(first)};
    key[0] = xla::Add(key[0], U32(builder, 0x9E3779B9));
    key[1] = xla::Add(key[1], U32(builder, 0xBB67AE85));
  }
  return counter;
}

// In [0, 1), of the last bits of each word.
xla::XlaOp Uniform(xla::XlaOp words, xla::PrimitiveType type) {
  xla::XlaBuilder* const builder = words.builder();
  const auto from_bits = [&](uint32_t mantissa, uint32_t one, xla::PrimitiveType bits) {
    const xla::XlaOp number = xla::Or(xla::And(words, U32(builder, mantissa)), U32(builder, one));
    const xla::XlaOp converted = xla::ConvertElementType(number, bits);
    return xla::Sub(xla::BitcastConvertType(converted, type), xla::One(builder, type));
  };
  if (type == xla::F16) return from_bits(0x3ff, 15 << 10, xla::U16);
  if (type == xla::BF16) return from_bits(0x7f, 127 << 7, xla::U16);
  return from_bits(0x7fffff, 127 << 23, xla::U32);
}

// In [0, 1), of the last 20 bits of a word and all of the next.
xla::XlaOp UniformDouble(xla::XlaOp first, xla::XlaOp second) {
  xla::XlaBuilder* const builder = first.builder();
  const xla::XlaOp mantissa = FromWords(second, xla::And(first, U32(builder, 0xfffff)));
  const xla::XlaOp number = xla::Or(mantissa, U64(builder, uint64_t{1023} << 52));
  return xla::Sub(xla::BitcastConvertType(number, xla::F64), xla::ConstantR0<double>(builder, 1));
}

// Two independent normal numbers of two independent uniform ones.
std::array<xla::XlaOp, 2> BoxMuller(xla::XlaOp radius, xla::XlaOp angle, xla::PrimitiveType type) {
  xla::XlaBuilder* const builder = radius.builder();
  const xla::XlaOp away = xla::Max(radius, xla::ScalarLike(radius, 1e-7));
  const xla::XlaOp length = xla::Sqrt(xla::Mul(xla::ScalarLike(away, -2), xla::Log(away)));
  // The product of a float is rounded once.
  const xla::XlaOp turn =
      xla::ConvertElementType(xla::Mul(xla::ConvertElementType(angle, xla::F64),
                                       xla::ConstantR0<double>(builder, 2 * std::numbers::pi)),
                              type);
  return {xla::Mul(xla::Sin(turn), length), xla::Mul(xla::Cos(turn), length)};
}

// The normal numbers of one block.
std::vector<xla::XlaOp> Normal(const Block& block, xla::PrimitiveType type) {
  if (type == xla::F64) {
    const auto pair =
        BoxMuller(UniformDouble(block[0], block[1]), UniformDouble(block[2], block[3]), xla::F64);
    return {pair[0], pair[1]};
  }
  std::vector<xla::XlaOp> numbers;
  for (size_t i : {0, 2}) {
    const auto pair =
        BoxMuller(Uniform(block[i], xla::F32), Uniform(block[i + 1], xla::F32), xla::F32);
    numbers.insert(numbers.end(), pair.begin(), pair.end());
  }
  return numbers;
}

// The arrays [n], element by element: [n * arrays], of which the first `count`.
xla::XlaOp Interleave(const std::vector<xla::XlaOp>& arrays, int64_t n, int64_t count) {
  std::vector<xla::XlaOp> columns;
  columns.reserve(arrays.size());
  for (const xla::XlaOp array : arrays) columns.push_back(xla::Reshape(array, {n, 1}));
  const auto width = static_cast<int64_t>(arrays.size());
  const xla::XlaOp flat =
      xla::Reshape(xla::ConcatInDim(arrays[0].builder(), columns, 1), {n * width});
  return xla::Slice(flat, {0}, {count}, {1});
}

int64_t RoundUp(int64_t count, int64_t to) { return (count + to - 1) / to; }

xla::XlaOp Column(xla::XlaOp rows, int64_t n, int64_t index) {
  return xla::Reshape(xla::Slice(rows, {0, index}, {n, index + 1}, {1, 1}), {n});
}

// How a kernel draws `count` numbers.
using Draw = absl::StatusOr<xla::XlaOp> (*)(const Start& start, int64_t count,
                                            xla::PrimitiveType type);

absl::StatusOr<xla::XlaOp> DrawUniform(const Start& start, int64_t count, xla::PrimitiveType type) {
  if (type != xla::F64) return Uniform(Words(start, count), type);
  const xla::XlaOp pairs = xla::Reshape(Words(start, 2 * count), {count, 2});
  return UniformDouble(Column(pairs, count, 0), Column(pairs, count, 1));
}

absl::StatusOr<xla::XlaOp> DrawNormal(const Start& start, int64_t count, xla::PrimitiveType type) {
  const bool is_double = type == xla::F64;
  const int64_t n = RoundUp(count, 2);
  const int64_t words = is_double ? 4 : 2;  // of two numbers
  const xla::XlaOp rows = xla::Reshape(Words(start, words * n), {n, words});
  const auto column = [&](int64_t i) { return Column(rows, n, i); };
  const auto pair =
      is_double ? BoxMuller(UniformDouble(column(0), column(1)),
                            UniformDouble(column(2), column(3)), type)
                : BoxMuller(Uniform(column(0), xla::F32), Uniform(column(1), xla::F32), xla::F32);
  return xla::ConvertElementType(Interleave({pair[0], pair[1]}, n, count), type);
}

// Normal numbers within two standard deviations. As many as a block holds are a group, and have 256
// words for each to themselves: those that are too large are passed over, block by block.
absl::StatusOr<xla::XlaOp> DrawTruncated(const Start& start, int64_t count,
                                         xla::PrimitiveType type) {
  xla::XlaBuilder* const outer = start.key.builder();
  const xla::PrimitiveType computed = type == xla::F64 ? xla::F64 : xla::F32;
  const int64_t size = type == xla::F64 ? 2 : 4;  // of a group
  const int64_t groups = RoundUp(count, size);
  const xla::Shape array = xla::ShapeUtil::MakeShape(computed, {groups});
  const xla::Shape number = xla::ShapeUtil::MakeShape(xla::U64, {});
  // The block to be drawn, how many numbers a group has, the start, and the numbers.
  std::vector<xla::Shape> shapes{number, xla::ShapeUtil::MakeShape(xla::S32, {groups}), number,
                                 number, number};
  for (int64_t i = 0; i < size; ++i) shapes.push_back(array);
  constexpr int64_t kFirst = 5;
  const xla::Shape state = xla::ShapeUtil::MakeTupleShape(shapes);

  const std::unique_ptr<xla::XlaBuilder> more = outer->CreateSubBuilder("more");
  {
    const xla::XlaOp has = xla::GetTupleElement(xla::Parameter(more.get(), 0, state, "state"), 1);
    const xla::XlaOp least =
        xla::Reduce(has, Number(more.get(), static_cast<int64_t>(size)),
                    xla::CreateScalarMinComputation(xla::S32, more.get()), {0});
    xla::Lt(least, Number(more.get(), size));
  }
  TF_ASSIGN_OR_RETURN(const xla::XlaComputation condition, more->Build());

  const std::unique_ptr<xla::XlaBuilder> step = outer->CreateSubBuilder("step");
  {
    xla::XlaBuilder* const builder = step.get();
    const xla::XlaOp before = xla::Parameter(builder, 0, state, "state");
    const auto part = [&](int64_t i) { return xla::GetTupleElement(before, i); };
    const xla::XlaOp group = xla::Iota(builder, xla::U64, groups);
    const xla::XlaOp offsets =
        xla::Add(xla::Mul(group, U64(builder, static_cast<uint64_t>(size) * 64)), part(0));
    xla::XlaOp has = part(1);
    std::vector<xla::XlaOp> kept;
    kept.reserve(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) kept.push_back(part(kFirst + i));
    for (const xla::XlaOp drawn : Normal(Blocks({part(2), part(3), part(4)}, offsets), computed)) {
      const xla::XlaOp small = xla::Lt(xla::Abs(drawn), xla::ScalarLike(drawn, 2));
      for (int64_t i = 0; i < size; ++i) {
        const xla::XlaOp is_next = xla::And(small, xla::Eq(has, Number(builder, i)));
        kept[static_cast<size_t>(i)] = xla::Select(is_next, drawn, kept[static_cast<size_t>(i)]);
      }
      has = xla::Add(has, xla::ConvertElementType(small, xla::S32));
    }
    std::vector<xla::XlaOp> after{xla::Add(part(0), U64(builder, 1)), has, part(2), part(3),
                                  part(4)};
    after.insert(after.end(), kept.begin(), kept.end());
    xla::Tuple(builder, after);
  }
  TF_ASSIGN_OR_RETURN(const xla::XlaComputation body, step->Build());

  std::vector<xla::XlaOp> initial{U64(outer, 0), xla::Broadcast(Number(outer, 0), {groups}),
                                  start.key, start.low, start.high};
  for (int64_t i = 0; i < size; ++i) initial.push_back(xla::Zeros(outer, array));
  const xla::XlaOp done = xla::While(condition, body, xla::Tuple(outer, initial));
  std::vector<xla::XlaOp> numbers;
  numbers.reserve(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) numbers.push_back(xla::GetTupleElement(done, kFirst + i));
  return xla::ConvertElementType(Interleave(numbers, groups, count), type);
}

// Integers of all bits.
absl::StatusOr<xla::XlaOp> DrawBits(const Start& start, int64_t count, xla::PrimitiveType type) {
  if (type == xla::U32 || type == xla::S32) {
    return xla::BitcastConvertType(Words(start, count), type);
  }
  const xla::XlaOp pairs = xla::Reshape(Words(start, 2 * count), {count, 2});
  return xla::BitcastConvertType(FromWords(Column(pairs, count, 0), Column(pairs, count, 1)), type);
}

// Makes integers in [least, end) of integers of all bits.
xla::XlaOp IntoRange(xla::XlaOp bits, xla::XlaOp least, xla::XlaOp end, xla::PrimitiveType type) {
  const bool is_narrow = type == xla::U32 || type == xla::S32;
  const xla::PrimitiveType whole = is_narrow ? xla::U32 : xla::U64;
  const auto as_whole = [&](xla::XlaOp x) { return xla::BitcastConvertType(x, whole); };
  const xla::XlaOp range = xla::Sub(as_whole(end), as_whole(least));
  const xla::XlaOp number = xla::Add(xla::Rem(as_whole(bits), range), as_whole(least));
  return xla::BitcastConvertType(number, type);
}

absl::StatusOr<xla::PrimitiveType> TypeOf(Context* context, std::string_view attribute) {
  tf::DataType type = tf::DT_INVALID;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), attribute, &type));
  xla::PrimitiveType primitive = xla::PRIMITIVE_TYPE_INVALID;
  TF_RETURN_IF_ERROR(tf::DataTypeToPrimitiveType(type, &primitive));
  return primitive;
}

// Where a kernel's numbers are drawn from a range: the inputs that are its ends.
constexpr int kNoRange = -1;

absl::Status CheckRange(Context* context, int input) {
  for (int i : {input, input + 1}) {
    const tf::TensorShape shape = context->InputShape(i);
    if (shape.dims() != 0) {
      return absl::InvalidArgumentError(std::string(i == input ? "minval" : "maxval") +
                                        " must be scalar, got shape " + shape.DebugString());
    }
  }
  int64_t least = 0;
  int64_t end = 0;
  const bool known = context->ConstantInputAsIntScalar(input, &least).ok() &&
                     context->ConstantInputAsIntScalar(input + 1, &end).ok();
  if (known && least >= end) {
    return absl::InvalidArgumentError("Need minval < maxval, got " + std::to_string(least) +
                                      " >= " + std::to_string(end));
  }
  return absl::OkStatus();
}

// The output of a kernel whose first input is the shape.
absl::Status SetDrawn(Context* context, const Start& start, Draw draw, int range) {
  if (range != kNoRange) TF_RETURN_IF_ERROR(CheckRange(context, range));
  TF_ASSIGN_OR_RETURN(const xla::PrimitiveType type, TypeOf(context, "dtype"));
  tf::TensorShape shape;
  TF_RETURN_IF_ERROR(
      context->ConstantInputAsShape(0, &shape, xla::ValueInferenceMode::kUpperBound));
  const auto dimensions = shape.dim_sizes();
  const int64_t count = shape.num_elements();
  xla::XlaOp drawn = xla::Zeros(context->builder(), xla::ShapeUtil::MakeShape(type, dimensions));
  if (count != 0) {
    TF_ASSIGN_OR_RETURN(xla::XlaOp flat, draw(start, count, type));
    if (range != kNoRange) {
      flat = IntoRange(flat, context->Input(range), context->Input(range + 1), type);
    }
    drawn = xla::Reshape(flat, dimensions);
  }
  tf::TensorShape known;
  if (!context->ConstantInputAsShape(0, &known).ok()) {
    TF_ASSIGN_OR_RETURN(
        drawn, xla::SetAllDimensionSizes(&context->value_inference(), drawn, context->Input(0)));
  }
  context->SetOutput(0, drawn);
  return absl::OkStatus();
}

// Whether the shape, the first input, is known but for its first size: the numbers are drawn in the
// order of their places, so that those of more rows are those of fewer, and more.
bool FirstSizeOnlyIsComputed(Context* context) {
  if (!HasComputedConstant(context)) return true;
  const absl::StatusOr<std::vector<Size>> ranks = SizesOf(context, context->Input(0));
  if (!ranks.ok() || ranks->size() != 1 || !(*ranks)[0].constant) return false;
  for (int64_t d = 1; d < (*ranks)[0].bound; ++d) {
    const auto size = ConstantOf(context, Element(context, context->Input(0), d));
    if (!size.ok() || !size->has_value()) return false;
  }
  return true;
}

// Inputs: shape, key [1], counter [2 or more], alg, and for kRange the range.
template <Draw kDraw, int kRange = kNoRange>
absl::Status FromKey(Context* context, tf::OpKernel& original) {
  int64_t algorithm = 0;
  const absl::Status constant = context->ConstantInputAsIntScalar(3, &algorithm);
  const bool is_philox = algorithm == kPhilox || algorithm == kChosenByDevice;
  if (!constant.ok() || !is_philox || !FirstSizeOnlyIsComputed(context)) {
    const Rule rule = FindRule(original.type_string());
    if (rule != nullptr && (HasComputedSize(context) || HasComputedConstant(context))) {
      return rule(context, original);
    }
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  const tf::TensorShape key = context->InputShape(1);
  const tf::TensorShape counter = context->InputShape(2);
  if (key != tf::TensorShape({1})) {
    return absl::InvalidArgumentError("key must have shape [1], not " + key.DebugString());
  }
  if (counter.dims() != 1 || counter.dim_size(0) < 2) {
    return absl::InvalidArgumentError("counter must be a vector of at least 2 elements, not " +
                                      counter.DebugString());
  }
  const xla::XlaOp number = context->Input(2);
  return SetDrawn(context, {At(context->Input(1), 0), At(number, 0), At(number, 1)}, kDraw, kRange);
}

absl::StatusOr<Start> SeedOf(Context* context, int input) {
  const tf::TensorShape shape = context->InputShape(input);
  if (shape != tf::TensorShape({2})) {
    return absl::InvalidArgumentError("seed must have shape [2], not " + shape.DebugString());
  }
  return FromSeed(context->Input(input));
}

// Inputs: shape, seed, and for kRange the range.
template <Draw kDraw, int kRange = kNoRange>
absl::Status FromSeedInput(Context* context, tf::OpKernel& original) {
  if (!FirstSizeOnlyIsComputed(context)) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const Start start, SeedOf(context, 1));
  return SetDrawn(context, start, kDraw, kRange);
}

// What a class weighs, [rows, classes] in double, whose logarithms are given: the largest finite
// one of a row weighs 1, an infinity and NaN weigh 0.
xla::XlaOp Weights(xla::XlaOp logits, xla::PrimitiveType type,
                   absl::Span<const int64_t> dimensions) {
  xla::XlaBuilder* const builder = logits.builder();
  const xla::XlaOp counts = xla::IsFinite(logits);
  const xla::XlaOp finite =
      xla::Select(counts, logits, xla::Broadcast(xla::MinFiniteValue(builder, type), dimensions));
  const xla::XlaOp largest = xla::Reduce(finite, xla::MinFiniteValue(builder, type),
                                         xla::CreateScalarMaxComputation(type, builder), {1});
  const auto wide = [](xla::XlaOp x) { return xla::ConvertElementType(x, xla::F64); };
  const xla::XlaOp weights = xla::Exp(xla::Sub(wide(finite), wide(largest), {0}));
  return xla::Select(counts, weights, xla::ZerosLike(weights));
}

// Inputs: logits [rows, classes], the number of samples, seed. A sample is the number of classes
// whose weights, with those before them, add up to no more than a part of the row's that is drawn.
// The draws are those of the CPU's kernel on one thread. (On several it starts anew in the rows
// that each of them gets, so that its numbers depend on the machine.)
absl::Status Multinomial(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) return Refuse(context, original);
  const tf::TensorShape shape = context->InputShape(0);
  if (shape.dims() != 2) {
    return absl::InvalidArgumentError("logits should be a matrix, got shape " +
                                      shape.DebugString());
  }
  if (const tf::TensorShape number = context->InputShape(1); number.dims() != 0) {
    return absl::InvalidArgumentError("num_samples should be a scalar, got shape " +
                                      number.DebugString());
  }
  int64_t samples = 0;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntScalar(1, &samples));
  if (samples < 0) {
    return absl::InvalidArgumentError("num_samples should be non-negative, got " +
                                      std::to_string(samples));
  }
  const int64_t rows = shape.dim_size(0);
  const int64_t classes = shape.dim_size(1);
  if (classes < 1) {
    return absl::InvalidArgumentError("num_classes should be positive, got " +
                                      std::to_string(classes));
  }
  TF_ASSIGN_OR_RETURN(const Start start, SeedOf(context, 2));
  TF_ASSIGN_OR_RETURN(const xla::PrimitiveType type, TypeOf(context, "output_dtype"));
  xla::XlaBuilder* const builder = context->builder();
  if (rows * samples == 0) {
    context->SetOutput(0, xla::Zeros(builder, xla::ShapeUtil::MakeShape(type, {rows, samples})));
    return absl::OkStatus();
  }
  const xla::XlaOp weights =
      Weights(context->Input(0), context->input_xla_type(0), {rows, classes});
  const xla::XlaComputation add = xla::CreateScalarAddComputation(xla::F64, builder);
  const xla::XlaOp zero = xla::ConstantR0<double>(builder, 0);
  const xla::XlaOp sums = xla::ReduceWindowWithGeneralPadding(
      weights, zero, add, {1, classes}, {1, 1}, {}, {}, {{0, 0}, {classes - 1, 0}});
  const xla::XlaOp totals =
      xla::Reshape(xla::Slice(sums, {0, classes - 1}, {rows, classes}, {1, 1}), {rows});
  TF_ASSIGN_OR_RETURN(const xla::XlaOp drawn, DrawUniform(start, rows * samples, xla::F64));
  const xla::XlaOp parts = xla::Mul(xla::Reshape(drawn, {rows, samples}), totals, {0});
  const std::array<int64_t, 3> cube{rows, samples, classes};
  const xla::XlaOp is_before =
      xla::Le(xla::BroadcastInDim(sums, cube, {0, 2}), xla::BroadcastInDim(parts, cube, {0, 1}));
  context->SetOutput(0,
                     xla::Reduce(xla::ConvertElementType(is_before, type), xla::Zero(builder, type),
                                 xla::CreateScalarAddComputation(type, builder), {2}));
  return absl::OkStatus();
}

void SetAlgorithm(Context* context, int output) {
  tf::Tensor algorithm(tf::DT_INT32, tf::TensorShape({}));
  algorithm.scalar<int32_t>()() = kPhilox;
  context->SetConstantOutput(output, algorithm);
}

absl::Status SetKeyAndCounter(Context* context) {
  TF_ASSIGN_OR_RETURN(const Start start, SeedOf(context, 0));
  context->SetOutput(0, xla::Reshape(start.key, {1}));
  context->SetOutput(
      1, xla::ConcatInDim(context->builder(),
                          {xla::Reshape(start.low, {1}), xla::Reshape(start.high, {1})}, 0));
  return absl::OkStatus();
}

absl::Status GetKeyCounter(Context* context, tf::OpKernel&) { return SetKeyAndCounter(context); }

absl::Status GetKeyCounterAlg(Context* context, tf::OpKernel&) {
  SetAlgorithm(context, 2);
  return SetKeyAndCounter(context);
}

absl::Status GetAlg(Context* context, tf::OpKernel&) {
  SetAlgorithm(context, 0);
  return absl::OkStatus();
}

}  // namespace

Rule FindRandomTranslation(std::string_view op) {
  static const auto* const translations = new std::unordered_map<std::string_view, Rule>{
      {"StatelessMultinomial", Multinomial},
      {"StatelessRandomGetAlg", GetAlg},
      {"StatelessRandomGetKeyCounter", GetKeyCounter},
      {"StatelessRandomGetKeyCounterAlg", GetKeyCounterAlg},
      {"StatelessRandomNormal", FromSeedInput<DrawNormal>},
      {"StatelessRandomNormalV2", FromKey<DrawNormal>},
      {"StatelessRandomUniform", FromSeedInput<DrawUniform>},
      {"StatelessRandomUniformFullInt", FromSeedInput<DrawBits>},
      {"StatelessRandomUniformFullIntV2", FromKey<DrawBits>},
      {"StatelessRandomUniformInt", FromSeedInput<DrawBits, 2>},
      {"StatelessRandomUniformIntV2", FromKey<DrawBits, 4>},
      {"StatelessRandomUniformV2", FromKey<DrawUniform>},
      {"StatelessTruncatedNormal", FromSeedInput<DrawTruncated>},
      {"StatelessTruncatedNormalV2", FromKey<DrawTruncated>},
  };
  const auto found = translations->find(op);
  return found == translations->end() ? nullptr : found->second;
}

}  // namespace tripont::tensorflow
