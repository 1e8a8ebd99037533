// Ops on variables that TensorFlow's bridge to XLA does not have, though its kernels for CPUs and GPUs do. A
// variable on XPU is in no other device's reach.

#include <vector>

#include "nextpluggable/bridge/kernels.h"
#include "tensorflow/compiler/tf2xla/kernels/gather_op_helpers.h"
#include "tensorflow/compiler/tf2xla/lib/scatter.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/kernels/scatter_nd_util.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

absl::Status GatherNd(Context* context) {
  const tf::DataType type = context->expected_output_dtype(0);
  tf::TensorShape shape;
  xla::XlaOp whole;
  xla::XlaOp gathered;
  TF_RETURN_IF_ERROR(context->ReadVariableInput(0, type, &shape, &whole));
  TF_RETURN_IF_ERROR(tf::XlaGather(whole, shape, context->Input(1), context->InputShape(1),
                                   /*axis=*/0, /*indices_are_nd=*/true, type,
                                   context->input_type(1), context->builder(), &gathered));
  context->SetOutput(0, gathered);
  return absl::OkStatus();
}

absl::Status ScatterNdExtremum(Context* context) {
  const bool is_largest = context->op_kernel().type_string_view() == "ResourceScatterNdMax";
  const tf::DataType type = context->input_type(2);
  tf::TensorShape shape;
  xla::XlaOp whole;
  TF_RETURN_IF_ERROR(context->ReadVariableInput(0, type, &shape, &whole));
  TF_RETURN_IF_ERROR(
      tf::ValidateScatterNdUpdateShape(shape, context->InputShape(1), context->InputShape(2)));
  TF_ASSIGN_OR_RETURN(const xla::XlaOp written,
                      tf::XlaScatter(
                          whole, context->Input(2), context->Input(1), /*indices_are_vectors=*/true,
                          /*indices_are_sorted=*/false,
                          [is_largest](xla::XlaOp x, xla::XlaOp y, xla::XlaBuilder*) {
                            return is_largest ? xla::Max(x, y) : xla::Min(x, y);
                          },
                          context->builder()));
  return context->AssignVariable(0, type, written);
}

template <absl::Status (*kCompile)(Context*)>
class VariableKernel : public tf::XlaOpKernel {
 public:
  explicit VariableKernel(tf::OpKernelConstruction* construction) : XlaOpKernel(construction) {}
  void Compile(Context* context) override { OP_REQUIRES_OK(context, kCompile(context)); }
};

template <absl::Status (*kCompile)(Context*)>
tf::OpKernel* Make(tf::OpKernelConstruction* construction) {
  return new VariableKernel<kCompile>(construction);
}

}  // namespace

std::vector<OwnKernel> OwnKernels() {
  return {{"ResourceGatherNd", Make<GatherNd>},
          {"ResourceScatterNdMax", Make<ScatterNdExtremum>},
          {"ResourceScatterNdMin", Make<ScatterNdExtremum>}};
}

}  // namespace tripont::tensorflow
