// Windows of images: what TensorFlow's bridge refuses, or computes by products where the kernels for CPUs
// and GPUs copy numbers.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/padding.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;
using Integers = std::vector<int64_t>;
using Padding = std::vector<std::pair<int64_t, int64_t>>;

absl::StatusOr<Integers> Attribute(Context* context, const char* name) {
  std::vector<int32_t> values;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), name, &values));
  return Integers(values.begin(), values.end());
}

absl::StatusOr<std::string> PaddingOf(Context* context) {
  std::string padding;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "padding", &padding));
  return padding;
}

// The windows of a pool: sizes, steps and what is added at the borders, for each dimension.
struct Pool {
  Integers sizes;
  Integers steps;
  Padding padding;
};

// From the attributes, or from the arguments behind `first` in the ops of version 2.
absl::StatusOr<Pool> PoolOf(Context* context, const tf::TensorShape& shape, int first) {
  Pool pool;
  if (context->num_inputs() > first) {
    TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector(first, &pool.sizes));
    TF_RETURN_IF_ERROR(context->ConstantInputAsIntVector(first + 1, &pool.steps));
  } else {
    TF_ASSIGN_OR_RETURN(pool.sizes, Attribute(context, "ksize"));
    TF_ASSIGN_OR_RETURN(pool.steps, Attribute(context, "strides"));
  }
  const size_t rank = static_cast<size_t>(shape.dims());
  const auto is_positive = [](int64_t number) { return number > 0; };
  if (pool.sizes.size() != rank || pool.steps.size() != rank ||
      !std::all_of(pool.sizes.begin(), pool.sizes.end(), is_positive) ||
      !std::all_of(pool.steps.begin(), pool.steps.end(), is_positive)) {
    return absl::InvalidArgumentError("windows need a positive size and stride for each dimension");
  }
  TF_ASSIGN_OR_RETURN(const std::string padding, PaddingOf(context));
  if (padding == "EXPLICIT") {
    TF_ASSIGN_OR_RETURN(const Integers numbers, Attribute(context, "explicit_paddings"));
    if (numbers.size() != 2 * rank) {
      return absl::InvalidArgumentError("explicit_paddings needs two numbers for each dimension");
    }
    for (size_t d = 0; d < rank; ++d) {
      const int64_t low = numbers[2 * d];
      const int64_t high = numbers[2 * d + 1];
      // A window of padding alone would have no largest number.
      if (low < 0 || high < 0 || low >= pool.sizes[d] || high >= pool.sizes[d]) {
        return absl::InvalidArgumentError(
            "padding must be less than the window's size, and not negative");
      }
      pool.padding.emplace_back(low, high);
    }
  } else {
    pool.padding =
        xla::MakePadding(shape.dim_sizes(), pool.sizes, pool.steps,
                         padding == "VALID" ? xla::Padding::kValid : xla::Padding::kSame);
  }
  return pool;
}

// Takes two elements (a number, another number, and a place), and gives the one whose first number
// is larger; of equal ones that whose place is before the other's.
xla::XlaComputation LargerElement(xla::XlaBuilder* parent) {
  const auto builder = parent->CreateSubBuilder("larger_element");
  const xla::PrimitiveType types[] = {xla::F32, xla::F32, xla::S64};
  std::vector<xla::XlaOp> elements;
  for (int64_t i = 0; i < 6; ++i) {
    elements.push_back(xla::Parameter(builder.get(), i, xla::ShapeUtil::MakeShape(types[i % 3], {}),
                                      "p" + std::to_string(i)));
  }
  const xla::XlaOp is_first =
      xla::Or(xla::Gt(elements[0], elements[3]),
              xla::And(xla::Eq(elements[0], elements[3]), xla::Lt(elements[2], elements[5])));
  std::vector<xla::XlaOp> chosen;
  for (size_t i = 0; i < 3; ++i) {
    chosen.push_back(xla::Select(is_first, elements[i], elements[i + 3]));
  }
  xla::Tuple(builder.get(), chosen);
  return builder->BuildAndNoteError();
}

// `count` windows of `size` pixels that are `rate` apart, one from every `step` pixels on, as the
// places of all their pixels one behind the other.
std::vector<int32_t> PlacesOfWindows(int64_t count, int64_t size, int64_t step, int64_t rate) {
  std::vector<int32_t> places;
  for (int64_t window = 0; window < count; ++window) {
    for (int64_t i = 0; i < size; ++i) {
      places.push_back(static_cast<int32_t>(window * step + i * rate));
    }
  }
  return places;
}

}  // namespace

// The bridge refuses padding that is given in numbers.
absl::Status MaxPool(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::string padding, PaddingOf(context));
  if (padding != "EXPLICIT") return AsTheBridge(context, original);
  if (HasComputedSize(context)) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const Pool pool, PoolOf(context, context->InputShape(0), 1));
  const xla::PrimitiveType type = context->input_xla_type(0);
  xla::XlaBuilder* const builder = context->builder();
  context->SetOutput(
      0, xla::ReduceWindowWithGeneralPadding(context->Input(0), xla::MinValue(builder, type),
                                             xla::CreateScalarMaxComputation(type, builder),
                                             pool.sizes, pool.steps, {}, {}, pool.padding));
  return absl::OkStatus();
}

absl::Status MaxPoolGrad(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::string padding, PaddingOf(context));
  if (padding != "EXPLICIT") return AsTheBridge(context, original);
  if (HasComputedSize(context)) return Refuse(context, original);
  TF_ASSIGN_OR_RETURN(const Pool pool, PoolOf(context, context->InputShape(0), 3));
  const xla::PrimitiveType type = context->input_xla_type(0);
  xla::XlaBuilder* const builder = context->builder();
  context->SetOutput(
      0, xla::SelectAndScatterWithGeneralPadding(
             context->Input(0), xla::CreateScalarGeComputation(type, builder), pool.sizes,
             pool.steps, pool.padding, context->Input(2), xla::Zero(builder, type),
             xla::CreateScalarAddComputation(type, builder)));
  return absl::OkStatus();
}

// The bridge compares numbers that are rounded to bfloat16, and so takes the gradient of another pixel
// where the largest ones of a window differ by less than a 128th.
absl::Status MaxPoolGradGrad(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) return Refuse(context, original);
  const tf::TensorShape shape = context->InputShape(0);
  TF_ASSIGN_OR_RETURN(const Pool pool, PoolOf(context, shape, 3));
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp places =
      xla::Reshape(xla::Iota(builder, xla::S64, shape.num_elements()), shape.dim_sizes());
  const xla::XlaOp last = xla::ConstantR0<int64_t>(builder, std::numeric_limits<int64_t>::max());
  const std::vector<xla::XlaOp> arrays = {context->Input(0), context->Input(2), places};
  const std::vector<xla::XlaOp> initial = {xla::MinValue(builder, xla::F32),
                                           xla::Zero(builder, xla::F32), last};
  const xla::XlaOp largest = xla::ReduceWindowWithGeneralPadding(
      arrays, initial, LargerElement(builder), pool.sizes, pool.steps, {}, {}, pool.padding);
  context->SetOutput(0, xla::GetTupleElement(largest, 1));
  return absl::OkStatus();
}

// The bridge multiplies all pixels of a window by 0 but for one: an infinity or a NaN would be in
// places that it does not belong to.
absl::Status ExtractImagePatches(Context* context, tf::OpKernel& original) {
  const tf::TensorShape shape = context->InputShape(0);
  TF_ASSIGN_OR_RETURN(const Integers sizes, Attribute(context, "ksizes"));
  TF_ASSIGN_OR_RETURN(const Integers steps, Attribute(context, "strides"));
  TF_ASSIGN_OR_RETURN(const Integers rates, Attribute(context, "rates"));
  TF_ASSIGN_OR_RETURN(const std::string padding, PaddingOf(context));
  if (HasComputedSize(context) || shape.dims() != 4 || shape.num_elements() == 0) {
    return AsTheBridge(context, original);
  }
  for (const size_t i : {0, 3}) {
    if (sizes[i] != 1 || steps[i] != 1 || rates[i] != 1) return AsTheBridge(context, original);
  }
  Integers counts(4, 0);
  xla::PaddingConfig config = xla::MakeNoPaddingConfig(4);
  for (int d = 1; d <= 2; ++d) {
    const size_t i = static_cast<size_t>(d);
    if (sizes[i] < 1 || steps[i] < 1 || rates[i] < 1) return AsTheBridge(context, original);
    const int64_t size = shape.dim_size(d);
    const int64_t window = (sizes[i] - 1) * rates[i] + 1;
    const bool is_valid = padding == "VALID";
    counts[i] = is_valid ? (size - window + steps[i]) / steps[i] : (size + steps[i] - 1) / steps[i];
    if (counts[i] < 1) return AsTheBridge(context, original);
    const int64_t more = std::max<int64_t>(0, (counts[i] - 1) * steps[i] + window - size);
    config.mutable_dimensions(d)->set_edge_padding_low(more / 2);
    config.mutable_dimensions(d)->set_edge_padding_high(more - more / 2);
  }
  xla::XlaBuilder* const builder = context->builder();
  xla::XlaOp x =
      xla::Pad(context->Input(0), xla::Zero(builder, context->input_xla_type(0)), config);
  for (int d = 1; d <= 2; ++d) {
    const size_t i = static_cast<size_t>(d);
    const std::vector<int32_t> places = PlacesOfWindows(counts[i], sizes[i], steps[i], rates[i]);
    x = xla::TorchIndexSelect(x, xla::ConstantR1<int32_t>(builder, places), d, 0);
  }
  const int64_t batch = shape.dim_size(0);
  const int64_t channels = shape.dim_size(3);
  x = xla::Reshape(x, {batch, counts[1], sizes[1], counts[2], sizes[2], channels});
  x = xla::Transpose(x, {0, 1, 3, 2, 4, 5});
  context->SetOutput(
      0, xla::Reshape(x, {batch, counts[1], counts[2], sizes[1] * sizes[2] * channels}));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
