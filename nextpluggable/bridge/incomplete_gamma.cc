// The incomplete gamma functions and their slope: one call of the device's function for each.
//
// The bridge makes loops of them that add up terms until the last one is nothing. Where both arguments are
// large that takes the root of them as many steps: 1e18 and 1e18 do not end.

#include <limits>
#include <string>
#include <string_view>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/compiler/tf2xla/lib/broadcast.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/util/bcast.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

std::string TargetOf(std::string_view op) {
  if (op == "Igamma") return "tripont.igamma";
  return op == "Igammac" ? "tripont.igammac" : "tripont.igamma_grad_a";
}

// How a number x that is drawn from the gamma distribution changes with a large alpha.
//
// E. B. Wilson and M. M. Hilferty, "The distribution of chi-square", 1931: with c the cube root of x / alpha,
// z = 3 sqrt(alpha) (c - 1 + 1 / (9 alpha)) has nearly a normal distribution, and does not change with alpha.
xla::XlaOp SlopeForLarge(xla::XlaOp alpha, xla::XlaOp x) {
  const auto number = [&](double value) { return xla::FullLike(x, value); };
  const xla::XlaOp c = xla::Cbrt(xla::Div(x, alpha));
  const xla::XlaOp square = xla::Mul(c, c);
  const xla::XlaOp less = xla::Mul(number(1.5), xla::Sub(c, number(1)));
  const xla::XlaOp more = xla::Div(number(1.0 / 6), alpha);
  return xla::Mul(square, xla::Add(xla::Sub(c, less), more));
}

}  // namespace

absl::Status RandomGammaGrad(tf::XlaOpKernelContext* context, tf::OpKernel& original) {
  if (HasComputedSize(context)) return AsTheBridge(context, original);
  const tf::BCast shapes(tf::BCast::FromShape(context->InputShape(0)),
                         tf::BCast::FromShape(context->InputShape(1)));
  if (!shapes.IsValid()) return AsTheBridge(context, original);
  const tf::BCast::Vec& sizes = shapes.output_shape();
  // From there on the formula has more digits than the sum, whose terms are logarithms of alpha times alpha.
  const double large = context->input_xla_type(0) == xla::F64 ? 1e10 : 1e6;
  const auto is_large = [&](xla::XlaOp numbers) {
    return xla::Ge(numbers, xla::FullLike(numbers, large));
  };
  const xla::XlaOp alpha = context->Input(0);
  {
    const xla::XlaOp one = xla::FullLike(alpha, 1);
    const OtherInput ordinary(context, 0, xla::Select(is_large(alpha), one, alpha));
    TF_RETURN_IF_ERROR(AsTheBridge(context, original));
  }
  TF_RETURN_IF_ERROR(context->status());
  TF_ASSIGN_OR_RETURN(const xla::XlaOp each, tf::BroadcastTo(alpha, sizes));
  TF_ASSIGN_OR_RETURN(const xla::XlaOp x, tf::BroadcastTo(context->Input(1), sizes));
  ReplaceOutput(context, 0,
                xla::Select(is_large(each), SlopeForLarge(each, x), Output(context, 0)));
  return absl::OkStatus();
}

absl::Status IncompleteGamma(tf::XlaOpKernelContext* context, tf::OpKernel& original) {
  if (HasComputedSize(context)) return AsTheBridge(context, original);
  const tf::BCast shapes(tf::BCast::FromShape(context->InputShape(0)),
                         tf::BCast::FromShape(context->InputShape(1)));
  if (!shapes.IsValid()) return AsTheBridge(context, original);
  const tf::BCast::Vec& sizes = shapes.output_shape();
  const xla::PrimitiveType type = context->input_xla_type(0);
  const xla::PrimitiveType computed = type == xla::F64 ? xla::F64 : xla::F32;
  TF_ASSIGN_OR_RETURN(xla::XlaOp a, tf::BroadcastTo(context->Input(0), sizes));
  TF_ASSIGN_OR_RETURN(xla::XlaOp x, tf::BroadcastTo(context->Input(1), sizes));
  a = xla::ConvertElementType(a, computed);
  x = xla::ConvertElementType(x, computed);
  const std::string op = original.type_string();
  if (op == "IgammaGradA") {
    // Beyond that it is nothing, and it was NaN.
    const double largest = computed == xla::F64 ? 1e300 : std::numeric_limits<float>::max();
    x = xla::Min(x, xla::FullLike(x, largest));
  }
  xla::XlaOp result = xla::CustomCall(context->builder(), TargetOf(op), {a, x},
                                      xla::ShapeUtil::MakeShape(computed, sizes));
  // JAX's functions, which the device has, are 1 for a = 0, and their slope is NaN for what is infinite.
  const xla::XlaOp zero = xla::ZerosLike(a);
  const xla::XlaOp nan = xla::FullLike(a, std::numeric_limits<double>::quiet_NaN());
  result = xla::Select(xla::Le(a, zero), nan, result);
  if (op == "IgammaGradA") {
    const xla::XlaOp infinity = xla::FullLike(a, std::numeric_limits<double>::infinity());
    result = xla::Select(xla::And(xla::Eq(a, infinity), xla::Lt(x, infinity)), zero, result);
  }
  if (op != "Igammac") result = xla::Select(xla::Eq(x, zero), zero, result);
  context->SetOutput(0, xla::ConvertElementType(result, type));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
