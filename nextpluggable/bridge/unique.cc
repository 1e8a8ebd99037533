// The unique elements of an array, in the order in which they come first.

#include <cstdint>
#include <vector>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/primitive_util.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// The bridge sorts -0 before 0, though they are equal: what is unique was not in its order, and the zero not
// the first one. It is given zeros of one sign, and a vector's zero is made the first one again.
absl::Status WithZeros(Context* context, tf::OpKernel& original) {
  const xla::XlaOp x = context->Input(0);
  const xla::XlaOp zero = xla::ZerosLike(x);
  const xla::XlaOp is_zero = xla::Eq(x, zero);
  {
    const OtherInput unsigned_zeros(context, 0, xla::Select(is_zero, zero, x));
    TF_RETURN_IF_ERROR(AsTheBridge(context, original));
  }
  TF_RETURN_IF_ERROR(context->status());
  const tf::TensorShape shape = context->InputShape(0);
  if (shape.dims() != 1 || shape.num_elements() == 0 || HasComputedSize(context)) {
    return absl::OkStatus();
  }
  xla::XlaBuilder* const builder = context->builder();
  const int64_t last = shape.dim_size(0) - 1;
  const xla::XlaOp places = xla::Iota(builder, xla::S32, shape.dim_size(0));
  const xla::XlaOp first = xla::Reduce(
      xla::Select(is_zero, places, xla::Broadcast(Number(builder, last), shape.dim_sizes())),
      Number(builder, last), xla::CreateScalarMinComputation(xla::S32, builder), {0});
  const xla::XlaOp first_zero = xla::Reshape(xla::DynamicSlice(x, {first}, {1}), {});
  const xla::XlaOp result = Output(context, 0);
  const xla::XlaOp is_zero_there = xla::Eq(result, xla::ZerosLike(result));
  ReplaceOutput(
      context, 0,
      xla::Select(is_zero_there, xla::BroadcastInDim(first_zero, shape.dim_sizes(), {}), result));
  return absl::OkStatus();
}

}  // namespace

absl::Status UniqueInOrder(Context* context, tf::OpKernel& original) {
  const int rank = context->InputShape(0).dims();
  std::vector<int64_t> axis;
  if (context->num_inputs() > 1 && !IsComputed(context, 1)) {
    TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(1, &axis));
  }
  if (axis.size() > 1) return absl::InvalidArgumentError("axis must have at most one element");
  if (axis.empty() && rank != 1) {
    return absl::InvalidArgumentError("without an axis, only a vector has unique elements");
  }
  if (!axis.empty() && (axis[0] < -rank || axis[0] >= rank)) {
    return absl::InvalidArgumentError("axis is not that of a dimension");
  }
  const xla::PrimitiveType type = context->input_xla_type(0);
  return xla::primitive_util::IsFloatingPointType(type) ? WithZeros(context, original)
                                                        : AsTheBridge(context, original);
}

}  // namespace tripont::tensorflow
