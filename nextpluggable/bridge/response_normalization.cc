// Local response normalization of float16 and bfloat16, computed in float. TensorFlow's bridge adds and
// multiplies these by its float attributes, and XLA refuses such a program.

#include <algorithm>
#include <cstdint>

#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/padding.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// Sums of f32[batch, height, width, depth] over the channels up to `radius` away.
xla::XlaOp SumsOfNeighbours(xla::XlaOp x, int64_t radius) {
  xla::XlaBuilder* const builder = x.builder();
  return xla::ReduceWindow(x, xla::Zero(builder, xla::F32),
                           xla::CreateScalarAddComputation(xla::F32, builder),
                           {1, 1, 1, 2 * radius + 1}, {1, 1, 1, 1}, xla::Padding::kSame);
}

}  // namespace

// LRN of an image, and LRNGrad of a gradient, an image and its result.
absl::Status ResponseNormalization(Context* context, tf::OpKernel& original) {
  const bool is_gradient = context->num_inputs() == 3;
  const int image = is_gradient ? 1 : 0;
  const xla::PrimitiveType type = context->input_xla_type(image);
  const tf::TensorShape shape = context->InputShape(image);
  if (type == xla::F32 || HasComputedSize(context) || shape.dims() != 4) {
    return AsTheBridge(context, original);
  }
  const auto& node = context->op_kernel().def();
  int64_t radius = 0;
  float bias = 0;
  float alpha = 0;
  float beta = 0;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "depth_radius", &radius));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "bias", &bias));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "alpha", &alpha));
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, "beta", &beta));
  radius = std::min(radius, shape.dim_size(3));
  const auto input = [&](int i) { return xla::ConvertElementType(context->Input(i), xla::F32); };
  const xla::XlaOp x = input(image);
  const auto number = [&](float value) { return xla::ScalarLike(x, value); };
  const xla::XlaOp squares = SumsOfNeighbours(xla::Mul(x, x), radius);
  const xla::XlaOp norm = xla::Add(number(bias), xla::Mul(number(alpha), squares));
  const xla::XlaOp scale = xla::Pow(norm, number(-beta));
  xla::XlaOp result = xla::Mul(x, scale);
  if (is_gradient) {
    const xla::XlaOp gradient = input(0);
    const xla::XlaOp of_norm =
        xla::Mul(xla::Mul(number(-2 * alpha * beta), xla::Div(input(2), norm)), gradient);
    result = xla::Add(xla::Mul(x, SumsOfNeighbours(of_norm, radius)), xla::Mul(gradient, scale));
  }
  context->SetOutput(0, xla::ConvertElementType(result, type));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
