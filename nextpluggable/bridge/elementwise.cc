// Ops that TensorFlow's bridge translates number by number, or along a row, with other results than
// the kernels for CPUs and GPUs have.
//
// M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied
// Statistics 37, 1988, for the inverse of the normal distribution.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "nextpluggable/bridge/expressions.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/xla_builder.h"
#include "xla/shape_util.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

// The value at x of the polynomial with these coefficients, that of the highest power first.
xla::XlaOp Polynomial(xla::XlaOp x, std::vector<double> coefficients) {
  xla::XlaOp sum = xla::ScalarLike(x, coefficients[0]);
  for (size_t i = 1; i < coefficients.size(); ++i) {
    sum = xla::Add(xla::Mul(sum, x), xla::ScalarLike(x, coefficients[i]));
  }
  return sum;
}

// The place below which a normal number lies with probability p (f32 or f64), by Wichura's quotients of
// polynomials: one about the middle, one for each tail up to e^-25, and one further out.
xla::XlaOp InverseOfNormalDistribution(xla::XlaOp p) {
  const xla::XlaOp q = xla::Sub(p, xla::ScalarLike(p, 0.5));
  const xla::XlaOp near = xla::Sub(xla::ScalarLike(p, 0.180625), xla::Mul(q, q));
  const xla::XlaOp in_the_middle = xla::Mul(
      q, xla::Div(
             Polynomial(near, {2509.0809287301226727, 33430.575583588128105, 67265.770927008700853,
                               45921.953931549871457, 13731.693765509461125, 1971.5909503065514427,
                               133.14166789178437745, 3.3871328727963666080}),
             Polynomial(near, {5226.4952788528545610, 28729.085735721942674, 39307.895800092710610,
                               21213.794301586595867, 5394.1960214247511077, 687.18700749205790830,
                               42.313330701600911252, 1.0})));
  const xla::XlaOp is_low = xla::Lt(q, xla::ScalarLike(p, 0.0));
  const xla::XlaOp tail = xla::Select(is_low, p, xla::Sub(xla::ScalarLike(p, 1.0), p));
  const xla::XlaOp root = xla::Sqrt(xla::Neg(xla::Log(tail)));
  const xla::XlaOp r = xla::Sub(root, xla::ScalarLike(p, 1.6));
  const xla::XlaOp in_a_tail = xla::Div(
      Polynomial(r, {7.74545014278341407640e-4, 2.27238449892691845833e-2,
                     2.41780725177450611770e-1, 1.27045825245236838258, 3.64784832476320460504,
                     5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734}),
      Polynomial(r,
                 {1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
                  1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
                  2.05319162663775882187, 1.0}));
  const xla::XlaOp s = xla::Sub(root, xla::ScalarLike(p, 5.0));
  const xla::XlaOp far_out =
      xla::Div(Polynomial(s, {2.01033439929228813265e-7, 2.71155556874348757815e-5,
                              1.24266094738807843860e-3, 2.65321895265761230930e-2,
                              2.96560571828504891230e-1, 1.78482653991729133580,
                              5.46378491116411436990, 6.65790464350110377720}),
               Polynomial(s, {2.04426310338993978564e-15, 1.42151175831644588870e-7,
                              1.84631831751005468180e-5, 7.86869131145613259100e-4,
                              1.48753612908506148525e-2, 1.36929880922735805310e-1,
                              5.99832206555887937690e-1, 1.0}));
  // Beyond all numbers the quotient of two infinities would be NaN. A p outside of [0, 1] has the
  // root of a negative number, or its logarithm, which is NaN.
  const xla::XlaOp infinity = xla::ScalarLike(p, std::numeric_limits<double>::infinity());
  xla::XlaOp outside = xla::Select(xla::Le(root, xla::ScalarLike(p, 5.0)), in_a_tail, far_out);
  outside = xla::Select(xla::Eq(root, infinity), infinity, outside);
  outside = xla::Select(is_low, xla::Neg(outside), outside);
  return xla::Select(xla::Le(xla::Abs(q), xla::ScalarLike(p, 0.425)), in_the_middle, outside);
}

}  // namespace

// The bridge takes the inverse of the error function of 2 p - 1, which is -1 for all p below 1e-8, and
// so gives -inf there.
absl::Status Ndtri(Context* context, tf::OpKernel&) {
  const xla::PrimitiveType type = context->input_xla_type(0);
  const bool is_wide = type == xla::F32 || type == xla::F64;
  const xla::XlaOp p = xla::ConvertElementType(context->Input(0), is_wide ? type : xla::F32);
  context->SetOutput(0, xla::ConvertElementType(InverseOfNormalDistribution(p), type));
  return absl::OkStatus();
}

// At 0 the bridge gives the slope from below, the other kernels that from above.
absl::Status SeluGrad(Context* context, tf::OpKernel&) {
  constexpr double kScale = 1.0507009873554804934193349852946;
  constexpr double kScaleAlpha = 1.7580993408473768599402175208123;
  const xla::XlaOp gradient = context->Input(0);
  const xla::XlaOp result = context->Input(1);
  const xla::XlaOp from_below =
      xla::Mul(gradient, xla::Add(result, xla::ScalarLike(result, kScaleAlpha)));
  const xla::XlaOp from_above = xla::Mul(gradient, xla::ScalarLike(gradient, kScale));
  const xla::XlaOp is_negative = xla::Lt(result, xla::ScalarLike(result, 0.0));
  context->SetOutput(0, xla::Select(is_negative, from_below, from_above));
  return absl::OkStatus();
}

// The part of a complex number that counts is the real one; for the bridge i is true.
absl::Status CastToBool(Context* context, tf::OpKernel& original) {
  if (!tf::DataTypeIsComplex(context->input_type(0)) ||
      context->expected_output_dtype(0) != tf::DT_BOOL) {
    return AsTheBridge(context, original);
  }
  const xla::XlaOp real = xla::Real(context->Input(0));
  context->SetOutput(0, xla::Ne(real, xla::ZerosLike(real)));
  return absl::OkStatus();
}

// Arrays whose shapes do not go together are not equal, unless that is to be an error: it always is one
// for the bridge.
absl::Status Equality(Context* context, tf::OpKernel& original) {
  bool is_error = true;
  TF_RETURN_IF_ERROR(
      tf::GetNodeAttr(context->op_kernel().def(), "incompatible_shape_error", &is_error));
  // The bounds of sizes that depend on values may differ where the sizes are the same.
  if (is_error || HasComputedSize(context)) return AsTheBridge(context, original);
  const tf::TensorShape x = context->InputShape(0);
  const tf::TensorShape y = context->InputShape(1);
  bool go_together = true;
  for (int i = 1; i <= std::min(x.dims(), y.dims()); ++i) {
    const int64_t of_x = x.dim_size(x.dims() - i);
    const int64_t of_y = y.dim_size(y.dims() - i);
    go_together = go_together && (of_x == of_y || of_x == 1 || of_y == 1);
  }
  if (go_together) return AsTheBridge(context, original);
  const bool differ = original.type_string() == "NotEqual";
  context->SetOutput(0, xla::ConstantR0<bool>(context->builder(), differ));
  return absl::OkStatus();
}

// Gradients of 1 / x, 1 / sqrt(x) and sqrt(x) from the result and its gradient. Where that is 0 it stays
// 0, also at the end of the range, where the slope is infinite: for the bridge it is NaN there. Those of
// complex numbers are by the conjugate of the result; by the result itself for the bridge.
absl::Status GradientByResult(Context* context, tf::OpKernel& original) {
  const xla::XlaOp gradient = context->Input(1);
  const xla::XlaOp zero = xla::ZerosLike(gradient);
  if (!tf::DataTypeIsComplex(context->input_type(0))) {
    TF_RETURN_IF_ERROR(AsTheBridge(context, original));
    TF_RETURN_IF_ERROR(context->status());
    // The bridge broadcasts, where the bounds of sizes that depend on values may differ, too.
    if (context->InputShape(0) == context->InputShape(1)) {
      ReplaceOutput(context, 0, xla::Select(xla::Eq(gradient, zero), zero, Output(context, 0)));
    }
    return absl::OkStatus();
  }
  const xla::XlaOp result = xla::Conj(context->Input(0));
  const std::string_view op = original.type_string_view();
  xla::XlaOp slope;
  if (op == "SqrtGrad") {
    slope = xla::Div(xla::ScalarLike(result, 0.5), result);
  } else if (op == "RsqrtGrad") {
    const xla::XlaOp cube = xla::Mul(xla::Mul(result, result), result);
    slope = xla::Mul(cube, xla::ScalarLike(result, -0.5));
  } else {
    slope = xla::Neg(xla::Mul(result, result));
  }
  context->SetOutput(0, xla::Select(xla::Eq(gradient, zero), zero, xla::Mul(gradient, slope)));
  return absl::OkStatus();
}

// Real and imaginary parts are clipped each by itself: XLA's clamp takes no complex numbers.
absl::Status ClipByValue(Context* context, tf::OpKernel& original) {
  if (!tf::DataTypeIsComplex(context->input_type(0))) return AsTheBridge(context, original);
  for (int bound = 1; bound <= 2; ++bound) {
    const tf::TensorShape shape = context->InputShape(bound);
    if (shape.dims() != 0 && shape != context->InputShape(0)) {
      return absl::InvalidArgumentError(
          "bounds must be scalars or have the shape of what is clipped");
    }
  }
  const auto clip = [&](xla::XlaOp (*part)(xla::XlaOp)) {
    return xla::Clamp(part(context->Input(1)), part(context->Input(0)), part(context->Input(2)));
  };
  const xla::XlaOp real = clip([](xla::XlaOp number) { return xla::Real(number); });
  const xla::XlaOp imaginary = clip([](xla::XlaOp number) { return xla::Imag(number); });
  context->SetOutput(0, xla::Complex(real, imaginary));
  return absl::OkStatus();
}

// A target outside of the classes is never among the best, nor is any of a row with a number that is not
// finite. The bridge takes 0 for the former's number, and looks at the target's alone.
absl::Status InTopK(Context* context, tf::OpKernel& original) {
  if (HasComputedSize(context) || HasComputedConstant(context)) return Refuse(context, original);
  int64_t k = 0;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntScalar(2, &k));
  if (k < 0) return absl::InvalidArgumentError("k must not be negative");
  const tf::TensorShape shape = context->InputShape(0);
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp numbers = context->Input(0);
  const xla::XlaOp targets = context->Input(1);
  const xla::PrimitiveType index_type = context->input_xla_type(1);
  const std::vector<int64_t> sizes = {shape.dim_size(0), shape.dim_size(1)};
  const xla::XlaOp classes =
      xla::Iota(builder, xla::ShapeUtil::MakeShape(index_type, sizes), /*iota_dimension=*/1);
  const xla::XlaOp is_target = xla::Eq(classes, targets, {0});
  const xla::XlaOp zero = xla::Zero(builder, xla::F32);
  const xla::XlaOp of_target =
      xla::Reduce(xla::Select(is_target, numbers, xla::ZerosLike(numbers)), zero,
                  xla::CreateScalarAddComputation(xla::F32, builder), {1});
  const xla::XlaOp larger = xla::ConvertElementType(xla::Gt(numbers, of_target, {0}), xla::S32);
  const xla::XlaOp count = xla::Reduce(larger, xla::Zero(builder, xla::S32),
                                       xla::CreateScalarAddComputation(xla::S32, builder), {1});
  const xla::XlaOp no = xla::ConstantR0<bool>(builder, false);
  const xla::XlaOp yes = xla::ConstantR0<bool>(builder, true);
  const xla::XlaOp is_class =
      xla::Reduce(is_target, no, xla::CreateScalarOrComputation(xla::PRED, builder), {1});
  const xla::XlaOp are_finite = xla::Reduce(
      xla::IsFinite(numbers), yes, xla::CreateScalarAndComputation(xla::PRED, builder), {1});
  const xla::XlaOp is_among =
      xla::Lt(xla::ConvertElementType(count, xla::S64), xla::ConstantR0<int64_t>(builder, k));
  context->SetOutput(0, xla::And(is_among, xla::And(is_class, are_finite)));
  return absl::OkStatus();
}

// How many boundaries a number does not lie below. A NaN lies below none: it is in the last bucket,
// and in the first for the bridge.
absl::Status Bucketize(Context* context, tf::OpKernel&) {
  std::vector<float> boundaries;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "boundaries", &boundaries));
  const bool is_double = context->input_type(0) == tf::DT_DOUBLE;
  const xla::PrimitiveType type = is_double ? xla::F64 : xla::F32;
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp numbers = xla::ConvertElementType(context->Input(0), type);
  const xla::XlaOp bounds =
      xla::ConvertElementType(xla::ConstantR1<float>(builder, boundaries), type);
  const xla::XlaOp is_below = xla::Lt(xla::Broadcast(numbers, {1}), bounds, {0});
  const xla::XlaOp reached = xla::ConvertElementType(xla::Not(is_below), xla::S32);
  context->SetOutput(0, xla::Reduce(reached, xla::Zero(builder, xla::S32),
                                    xla::CreateScalarAddComputation(xla::S32, builder), {0}));
  return absl::OkStatus();
}

// The same for sorted rows: a NaN's place is behind all of them, and before them for the bridge.
absl::Status UpperBound(Context* context, tf::OpKernel&) {
  xla::XlaBuilder* const builder = context->builder();
  const tf::TensorShape rows = context->InputShape(0);
  const tf::TensorShape values = context->InputShape(1);
  if (rows.dims() != 2 || values.dims() != 2) {
    return absl::FailedPreconditionError("sorted_inputs and values must have two dimensions");
  }
  tf::DataType out_type = tf::DT_INVALID;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "out_type", &out_type));
  const xla::PrimitiveType type = out_type == tf::DT_INT64 ? xla::S64 : xla::S32;
  const xla::XlaOp value =
      xla::Reshape(context->Input(1), {values.dim_size(0), values.dim_size(1), 1});
  const xla::XlaOp row = xla::Reshape(context->Input(0), {rows.dim_size(0), 1, rows.dim_size(1)});
  const xla::XlaOp reached = xla::ConvertElementType(xla::Not(xla::Lt(value, row)), type);
  context->SetOutput(0, xla::Reduce(reached, xla::Zero(builder, type),
                                    xla::CreateScalarAddComputation(type, builder), {2}));
  return absl::OkStatus();
}

// The bridge counts the classes in the type of the indices. Those of 8 bits begin again where that type ends:
// class 256 would be class 0.
absl::Status OneHot(Context* context, tf::OpKernel& original) {
  const xla::PrimitiveType type = context->input_xla_type(0);
  if ((type != xla::S8 && type != xla::U8) || HasComputedConstant(context)) {
    return AsTheBridge(context, original);
  }
  int64_t depth = 0;
  TF_RETURN_IF_ERROR(context->ConstantInputAsIntScalar(1, &depth));
  int64_t axis = -1;
  TF_RETURN_IF_ERROR(tf::GetNodeAttr(context->op_kernel().def(), "axis", &axis));
  const tf::TensorShape shape = context->InputShape(0);
  if (axis < 0) axis += shape.dims() + 1;
  std::vector<int64_t> sizes;
  std::vector<int64_t> dimensions;  // those of the indices in the result
  for (int64_t d = 0; d <= shape.dims(); ++d) {
    if (d == axis) {
      sizes.push_back(depth);
    } else {
      sizes.push_back(shape.dim_size(static_cast<int>(dimensions.size())));
      dimensions.push_back(d);
    }
  }
  xla::XlaBuilder* const builder = context->builder();
  const xla::XlaOp index = xla::ConvertElementType(context->Input(0), xla::S32);
  const xla::XlaOp classes = xla::Iota(builder, xla::ShapeUtil::MakeShape(xla::S32, sizes), axis);
  const xla::XlaOp is_on = xla::Eq(index, classes, dimensions);
  context->SetOutput(0, xla::Select(is_on, xla::Broadcast(context->Input(2), sizes),
                                    xla::Broadcast(context->Input(3), sizes)));
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
