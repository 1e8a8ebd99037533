// Boxes that are chosen in a compiled function. TensorFlow's bridge refuses to choose from fewer boxes
// than it may, and gives places of other boxes behind the chosen ones.

#include <algorithm>
#include <cstdint>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

}  // namespace

absl::Status NonMaxSuppression(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) {
    return AsTheBridge(context, original);
  }
  int64_t most = 0;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntScalar(2, &most));
  const tf::TensorShape boxes = context->InputShape(0);
  const int64_t count = boxes.dims() == 2 ? std::min(most, boxes.dim_size(0)) : most;
  xla::XlaBuilder* const builder = context->builder();
  // The bridge reads the first box.
  if (count == 0) {
    const bool has_room = context->num_outputs() == 2;
    context->SetOutput(0, xla::Broadcast(Number(builder, 0), {has_room ? most : 0}));
    if (has_room) context->SetOutput(1, Number(builder, 0));
    return absl::OkStatus();
  }
  {
    const OtherInput at_most(context, 2, Number(builder, count));
    original.Compute(context->op_kernel_context());
  }
  TF_RETURN_IF_ERROR(context->status());
  // The result of version 4 has room for all that may be chosen, and zeros behind those that are.
  if (context->num_outputs() == 2) {
    const xla::XlaOp chosen = Output(context, 0);
    const xla::XlaOp is_chosen = xla::Lt(xla::Iota(builder, xla::S32, count), Output(context, 1));
    const xla::XlaOp zeros_behind = xla::Select(is_chosen, chosen, xla::ZerosLike(chosen));
    ReplaceOutput(context, 0,
                  xla::PadInDim(zeros_behind, xla::Zero(builder, xla::S32), /*dimno=*/0,
                                /*pad_lo=*/0, /*pad_hi=*/most - count));
  }
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
