// x[begin:end:stride] = value.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "nextpluggable/bridge/slice_masks.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/util/strided_slice_op.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"
#include "xla/xla_data.pb.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// Which elements of an array are written: along each dimension `count` of them, from `begin` on. `value` is the shape
// of the given value, which lacks the dimensions of single indices.
struct Written {
  tf::TensorShape counts;
  tf::TensorShape value;
  absl::InlinedVector<int64_t, 4> begin;
  absl::InlinedVector<int64_t, 4> strides;
};

absl::StatusOr<Written> WrittenOf(Context* context, const tf::TensorShape& shape) {
  TF_ASSIGN_OR_RETURN(const SliceMasks masks, MasksOf(context->op_kernel().def()));
  TF_ASSIGN_OR_RETURN(const tf::Tensor begin, context->ConstantInputTensor(1));
  TF_ASSIGN_OR_RETURN(const tf::Tensor end, context->ConstantInputTensor(2));
  TF_ASSIGN_OR_RETURN(const tf::Tensor strides, context->ConstantInputTensor(3));
  Written written;
  bool unused = false;
  absl::InlinedVector<int64_t, 4> ends;
  TF_RETURN_IF_ERROR(tf::ValidateStridedSliceOp(
      &begin, &end, strides, shape, masks.begin, masks.end, masks.ellipsis, masks.new_axis,
      masks.shrink_axis, &written.counts, &written.value, &unused, &unused, &unused, &written.begin,
      &ends, &written.strides));
  return written;
}

// `value`, repeated so that it has the shape of the elements that are written.
absl::StatusOr<xla::XlaOp> Repeated(Context* context, const tf::TensorShape& shape) {
  const tf::TensorShape given = context->InputShape(4);
  const int more = shape.dims() - given.dims();
  bool fits = more >= 0;
  for (int d = 0; fits && d < given.dims(); ++d) {
    fits = given.dim_size(d) == 1 || given.dim_size(d) == shape.dim_size(d + more);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("a value of the shape ", given.DebugString(),
                                                   " cannot be written to elements of the shape ",
                                                   shape.DebugString()));
  }
  std::vector<int64_t> dimensions(static_cast<size_t>(given.dims()));
  std::iota(dimensions.begin(), dimensions.end(), more);
  return xla::BroadcastInDim(context->Input(4), shape.dim_sizes(), dimensions);
}

// `whole` with `value` in the place of the elements that are written.
xla::XlaOp Write(xla::XlaOp whole, xla::XlaOp value, xla::XlaOp zero, const Written& written,
                 const tf::TensorShape& shape) {
  xla::XlaBuilder* const builder = whole.builder();
  xla::PaddingConfig padding;
  std::vector<int64_t> reversed;
  xla::XlaOp is_written = xla::ConstantR0<bool>(builder, true);
  is_written = xla::Broadcast(is_written, shape.dim_sizes());
  const xla::Shape places = xla::ShapeUtil::MakeShape(xla::S64, shape.dim_sizes());
  const auto number = [&](int64_t value) { return xla::ConstantR0<int64_t>(builder, value); };
  for (int d = 0; d < shape.dims(); ++d) {
    const int64_t count = written.counts.dim_size(d);
    const int64_t stride = written.strides[static_cast<size_t>(d)];
    const int64_t step = std::max(stride, -stride);
    const int64_t first = written.begin[static_cast<size_t>(d)];
    const int64_t low = stride > 0 ? first : first + (count - 1) * stride;
    const int64_t high = low + (count - 1) * step;
    if (stride < 0) reversed.push_back(d);
    auto* const dimension = padding.add_dimensions();
    dimension->set_edge_padding_low(low);
    dimension->set_interior_padding(step - 1);
    dimension->set_edge_padding_high(shape.dim_size(d) - 1 - high);
    const xla::XlaOp distance = xla::Sub(xla::Iota(builder, places, d), number(low));
    const xla::XlaOp is_within =
        xla::And(xla::Ge(distance, number(0)), xla::Le(distance, number(high - low)));
    is_written = xla::And(
        is_written, xla::And(is_within, xla::Eq(xla::Rem(distance, number(step)), number(0))));
  }
  value = xla::Reshape(value, written.counts.dim_sizes());
  if (!reversed.empty()) value = xla::Rev(value, reversed);
  return xla::Select(is_written, xla::Pad(value, zero, padding), whole);
}

}  // namespace

// The bridge takes no steps but 1 and -1, and no value that has to be repeated.
absl::Status StridedSliceAssign(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) {
    return AsTheBridge(context, original);
  }
  const bool is_variable = original.type_string_view() == "ResourceStridedSliceAssign";
  const tf::DataType type = context->input_type(4);
  tf::TensorShape shape;
  xla::XlaOp whole;
  if (is_variable) {
    TF_RETURN_IF_ERROR(context->ReadVariableInput(0, type, &shape, &whole));
  } else {
    shape = context->InputShape(0);
    whole = context->Input(0);
  }
  TF_ASSIGN_OR_RETURN(const Written written, WrittenOf(context, shape));
  const bool are_neighbours =
      std::all_of(written.strides.begin(), written.strides.end(),
                  [](int64_t stride) { return stride == 1 || stride == -1; });
  if (are_neighbours && context->InputShape(4) == written.value) {
    original.Compute(context->op_kernel_context());
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(const xla::XlaOp value, Repeated(context, written.value));
  const bool is_empty = written.counts.num_elements() == 0;
  const xla::XlaOp zero = xla::Zero(context->builder(), context->input_xla_type(4));
  const xla::XlaOp result = is_empty ? whole : Write(whole, value, zero, written, shape);
  if (is_variable) return context->AssignVariable(0, type, result);
  context->SetOutput(0, result);
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
