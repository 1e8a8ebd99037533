// Ops that TensorFlow's kernels get wrong for sizes that depend on values, made right.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/dynamic_shaped_ops.h"
#include "xla/hlo/builder/lib/slicing.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

int64_t Positive(int64_t dimension, size_t rank) {
  return dimension < 0 ? dimension + static_cast<int64_t>(rank) : dimension;
}

// What Slice takes of one dimension; a negative count: all from the beginning on.
struct SlicePart {
  std::optional<int64_t> constant_begin;
  std::optional<int64_t> constant_count;
  xla::XlaOp begin;
  xla::XlaOp count;
};

absl::StatusOr<SlicePart> ReadSlicePart(Context* context, int64_t dimension) {
  SlicePart part;
  const xla::XlaOp begin = Element(context, context->Input(1), dimension);
  const xla::XlaOp count = Element(context, context->Input(2), dimension);
  TF_ASSIGN_OR_RETURN(part.constant_begin, ConstantOf(context, begin));
  TF_ASSIGN_OR_RETURN(part.constant_count, ConstantOf(context, count));
  part.begin = xla::ConvertElementType(begin, xla::S32);
  part.count = xla::ConvertElementType(count, xla::S32);
  return part;
}

// The part of one dimension of x, whose size is `size` there.
absl::StatusOr<xla::XlaOp> SliceDimension(Context* context, xla::XlaOp x, const Size& size,
                                          const SlicePart& part, int64_t dimension) {
  const bool to_end = part.constant_count && *part.constant_count < 0;
  const bool from_start = part.constant_begin && *part.constant_begin == 0;
  if (from_start && (to_end || (size.constant && part.constant_count == size.constant))) return x;
  if (part.constant_begin && size.constant && part.constant_count) {
    const int64_t begin = *part.constant_begin;
    const int64_t end = to_end ? size.bound : begin + *part.constant_count;
    return xla::SliceInDim(x, begin, end, 1, dimension);
  }
  // A begin past the end is an error, as everywhere but in XLA.
  if (to_end) {
    const xla::XlaOp begin = Within(part.begin, size);
    const int64_t most = size.bound - part.constant_begin.value_or(0);
    if (most < 0) return absl::InvalidArgumentError("Slice begins past the end");
    x = Window(x, begin, most, dimension);
    return xla::SetDimensionSizeWithRebound(&context->value_inference(), x,
                                            xla::Sub(size.value, begin), dimension);
  }
  const xla::XlaOp zero = Number(context->builder(), 0);
  const xla::XlaOp begin = Within(part.begin, size);
  const xla::XlaOp end = Within(xla::Add(begin, xla::Max(part.count, zero)), size);
  const xla::XlaOp count = xla::Sub(end, begin);
  if (part.constant_count) {
    if (*part.constant_count > size.bound) {
      return absl::InvalidArgumentError("Slice is larger than what it is taken of");
    }
    return Window(x, xla::Sub(end, part.count), *part.constant_count, dimension);
  }
  // How many there are at most is inferred from the number as it was given.
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> most, MostOf(context, part.count));
  const int64_t range = most ? std::min(std::max<int64_t>(*most, 0), size.bound) : size.bound;
  x = Window(x, begin, range, dimension);
  return xla::SetDimensionSize(
      x, xla::Select(xla::Lt(part.count, zero), xla::Sub(size.value, begin), count), dimension);
}

}  // namespace

// `tf.constant([x], shape)` gives its one value as a vector, and the shape as a constant. The kernels
// of CPUs and GPUs take that, the bridge's does not.
absl::Status Fill(Context* context, tf::OpKernel& original) {
  if (context->InputShape(1) != tf::TensorShape({1}) || IsComputed(context, 0)) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  tf::TensorShape shape;
  TF_RETURN_IF_ERROR(context->ConstantInputAsShape(0, &shape));
  const xla::XlaOp value = xla::Reshape(context->Input(1), {});
  context->SetOutput(0, xla::Broadcast(value, shape.dim_sizes()));
  return absl::OkStatus();
}

absl::Status Slice(Context* context, tf::OpKernel& original) {
  xla::XlaOp x = context->Input(0);
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, x));
  std::vector<SlicePart> parts;
  parts.reserve(sizes.size());
  bool sizes_are_constant = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    TF_ASSIGN_OR_RETURN(const SlicePart part, ReadSlicePart(context, static_cast<int64_t>(d)));
    sizes_are_constant &= sizes[d].constant && part.constant_count &&
                          (*part.constant_count >= 0 || part.constant_begin);
    parts.push_back(part);
  }
  if (sizes_are_constant) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  for (size_t d = 0; d < sizes.size(); ++d) {
    TF_ASSIGN_OR_RETURN(x, SliceDimension(context, x, sizes[d], parts[d], static_cast<int64_t>(d)));
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

absl::Status ConcatOffset(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> along, ConstantOf(context, context->Input(0)));
  if (!along) return Refuse(context, original);
  xla::XlaOp offset;
  for (int shape = 1; shape < context->num_inputs(); ++shape) {
    const xla::XlaOp sizes = context->Input(shape);
    TF_ASSIGN_OR_RETURN(const xla::Shape of_sizes, context->builder()->GetShape(sizes));
    const int64_t rank = of_sizes.dimensions(0);
    const int64_t d = Positive(*along, static_cast<size_t>(rank));
    const xla::XlaOp zero = xla::Zero(context->builder(), of_sizes.element_type());
    if (!offset.valid()) offset = zero;
    std::vector<xla::XlaOp> parts(static_cast<size_t>(rank), xla::Reshape(zero, {1}));
    parts[static_cast<size_t>(d)] = xla::Reshape(offset, {1});
    context->SetOutput(shape - 1, xla::ConcatInDim(context->builder(), parts, 0));
    offset = xla::Add(offset, Element(context, sizes, d));
  }
  return absl::OkStatus();
}

absl::Status Roll(Context* context, tf::OpKernel&) {
  xla::XlaOp x = context->Input(0);
  xla::XlaBuilder* builder = context->builder();
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, x));
  std::vector<int64_t> axes;
  TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(2, &axes));
  for (size_t n = 0; n < axes.size(); ++n) {
    const int64_t d = Positive(axes[n], sizes.size());
    const Size& size = sizes[static_cast<size_t>(d)];
    const xla::XlaOp zero = Number(builder, 0);
    const xla::XlaOp count = xla::Max(size.value, Number(builder, 1));
    const auto within = [&](xla::XlaOp number) {
      const xla::XlaOp rest = xla::Rem(number, count);
      return xla::Select(xla::Lt(rest, zero), xla::Add(rest, count), rest);
    };
    const xla::XlaOp shift = within(xla::ConvertElementType(
        Element(context, context->Input(1), static_cast<int64_t>(n)), xla::S32));
    xla::XlaOp from = within(xla::Sub(xla::Iota(builder, xla::S32, size.bound), shift));
    if (!size.constant) from = xla::SetDimensionSize(from, size.value, 0);
    x = xla::TorchIndexSelect(x, from, d, 0);
  }
  context->SetOutput(0, x);
  return absl::OkStatus();
}

absl::Status Range(Context* context, tf::OpKernel& original) {
  const auto type = context->input_xla_type(0);
  const xla::XlaOp start = context->Input(0);
  const xla::XlaOp limit = context->Input(1);
  const xla::XlaOp step = context->Input(2);
  const bool is_integer = type == xla::S32 || type == xla::S64;
  if (!is_integer) {
    if (IsComputed(context, 0) || IsComputed(context, 2)) return Refuse(context, original);
    double delta = 0;
    TF_RETURN_IF_ERROR(context->ConstantInputAsFloatScalar(2, &delta));
    if (delta <= 0) return Refuse(context, original);
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> delta, ConstantOf(context, step));
  if (!delta || *delta == 0) return Refuse(context, original);
  xla::XlaBuilder* builder = context->builder();
  const auto number = [&](int64_t value) {
    return xla::ConvertElementType(xla::ConstantR0<int64_t>(builder, value), type);
  };
  const int64_t stride = std::abs(*delta);
  xla::XlaOp between = *delta > 0 ? xla::Sub(limit, start) : xla::Sub(start, limit);
  if (stride > 1) between = xla::Div(xla::Add(between, number(stride - 1)), number(stride));
  const xla::XlaOp count = xla::Max(between, number(0));
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> most, MostOf(context, count));
  if (!most) return Refuse(context, original);
  xla::XlaOp numbers = xla::Iota(builder, type, *most);
  numbers = xla::Add(xla::Mul(numbers, number(*delta)), start);
  context->SetOutput(0,
                     xla::SetDimensionSize(numbers, xla::ConvertElementType(count, xla::S32), 0));
  return absl::OkStatus();
}

absl::Status Unique(Context* context, tf::OpKernel& original) {
  const xla::XlaOp x = context->Input(0);
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, x));
  int64_t d = 0;
  if (context->num_inputs() > 1) {
    std::vector<int64_t> axis;
    TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(1, &axis));
    if (!axis.empty()) d = Positive(axis[0], sizes.size());
  }
  for (size_t other = 0; other < sizes.size(); ++other) {
    if (static_cast<int64_t>(other) != d && !sizes[other].constant) {
      return Refuse(context, original);
    }
  }
  // Zeros follow. They come last, so whatever they add to the unique elements is cut away.
  const Size& size = sizes[static_cast<size_t>(d)];
  xla::XlaBuilder* builder = context->builder();
  {
    const OtherInput whole(context, 0, Window(x, Number(builder, 0), size.bound, d));
    original.Compute(context->op_kernel_context());
  }
  TF_RETURN_IF_ERROR(context->status());
  const xla::XlaOp places = xla::SetDimensionSize(Output(context, 1), size.value, 0);
  ReplaceOutput(context, 1, places);
  const auto type = context->output_xla_type(1);
  const xla::XlaOp none = xla::ConvertElementType(Number(builder, -1), type);
  const xla::XlaOp last =
      xla::Reduce(places, none, *context->GetOrCreateMax(context->expected_output_dtype(1)), {0});
  const xla::XlaOp count = xla::Add(xla::ConvertElementType(last, xla::S32), Number(builder, 1));
  ReplaceOutput(context, 0, xla::SetDimensionSize(Output(context, 0), count, d));
  return absl::OkStatus();
}

absl::Status TopK(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  original.Compute(context->op_kernel_context());
  TF_RETURN_IF_ERROR(context->status());
  const Size& size = sizes.back();
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> k, ConstantOf(context, context->Input(1)));
  if (size.constant || !k) return absl::OkStatus();
  // Fewer elements than are asked for are an error, so there are as many.
  const xla::XlaOp number = Number(context->builder(), *k);
  const xla::XlaOp start = xla::Sub(Within(number, size), number);
  const auto last = static_cast<int64_t>(sizes.size()) - 1;
  for (int index = 0; index < 2; ++index) {
    ReplaceOutput(context, index, Window(Output(context, index), start, *k, last));
  }
  return absl::OkStatus();
}

absl::Status ArgMinMax(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  TF_ASSIGN_OR_RETURN(const std::optional<int64_t> axis, ConstantOf(context, context->Input(1)));
  original.Compute(context->op_kernel_context());
  TF_RETURN_IF_ERROR(context->status());
  if (!axis) return absl::OkStatus();
  const Size& size = sizes[static_cast<size_t>(Positive(*axis, sizes.size()))];
  if (size.constant) return absl::OkStatus();
  // An empty array does not have a largest element.
  const xla::XlaOp one = Within(Number(context->builder(), 1), size);
  const xla::XlaOp zero = xla::Sub(one, Number(context->builder(), 1));
  const xla::XlaOp found = Output(context, 0);
  ReplaceOutput(context, 0,
                xla::Add(found, xla::ConvertElementType(zero, context->output_xla_type(0))));
  return absl::OkStatus();
}

absl::Status SizesOfFirst(Context* context, tf::OpKernel& original) {
  TF_ASSIGN_OR_RETURN(const std::vector<Size> sizes, SizesOf(context, context->Input(0)));
  original.Compute(context->op_kernel_context());
  TF_RETURN_IF_ERROR(context->status());
  xla::XlaOp result = Output(context, 0);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d].constant) continue;
    result = xla::SetDimensionSize(result, sizes[d].value, static_cast<int64_t>(d));
  }
  ReplaceOutput(context, 0, result);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
