#include "nextpluggable/bridge/sizes.h"

#include <algorithm>

#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/compiler/tf2xla/xla_resource.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/value_inference.h"
#include "xla/literal.h"
#include "xla/shape.h"
#include "xla/tsl/platform/statusor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Context = tf::XlaOpKernelContext;

bool IsOfComputedSize(Context* context, xla::XlaOp value) {
  if (!value.valid()) return false;
  const auto shape = context->builder()->GetShape(value);
  return shape.ok() && !shape->is_static();
}

absl::StatusOr<std::optional<int64_t>> Inferred(Context* context, xla::XlaOp scalar,
                                                xla::ValueInferenceMode mode) {
  TF_ASSIGN_OR_RETURN(
      const xla::OptionalLiteral value,
      context->value_inference().AnalyzeConstant(xla::ConvertElementType(scalar, xla::S64), mode));
  return value.Get<int64_t>({});
}

}  // namespace

bool HasComputedSize(Context* context) {
  for (int input = 0; input < context->num_inputs(); ++input) {
    const tf::XlaExpression& expression = context->InputExpression(input);
    switch (expression.kind()) {
      case tf::XlaExpression::Kind::kXlaOp:
      case tf::XlaExpression::Kind::kTensorList:
        if (IsOfComputedSize(context, expression.handle())) return true;
        break;
      case tf::XlaExpression::Kind::kResource:
        if (IsOfComputedSize(context, expression.resource()->value())) return true;
        break;
      default:
        break;
    }
  }
  return false;
}

bool IsComputed(Context* context, int input) {
  if (context->InputExpression(input).kind() != tf::XlaExpression::Kind::kXlaOp) return false;
  xla::Literal value;
  return !context->ConstantInput(input, &value).ok();
}

bool HasComputedConstant(Context* context) {
  std::vector<int> constants;
  return tf::XlaOpRegistry::CompileTimeConstantInputs(context->op_kernel(), &constants).ok() &&
         std::any_of(constants.begin(), constants.end(),
                     [context](int input) { return IsComputed(context, input); });
}

absl::StatusOr<std::vector<Size>> SizesOf(Context* context, xla::XlaOp x) {
  TF_ASSIGN_OR_RETURN(const xla::Shape shape, context->builder()->GetShape(x));
  std::vector<Size> sizes;
  for (int d = 0; d < static_cast<int>(shape.dimensions().size()); ++d) {
    Size size;
    size.bound = shape.dimensions(d);
    if (shape.is_dynamic_dimension(d)) {
      size.value = xla::GetDimensionSize(x, d);
    } else {
      size.constant = size.bound;
      size.value = Number(context->builder(), size.bound);
    }
    sizes.push_back(size);
  }
  return sizes;
}

absl::StatusOr<std::optional<int64_t>> ConstantOf(Context* context, xla::XlaOp scalar) {
  return Inferred(context, scalar, xla::ValueInferenceMode::kValue);
}

absl::StatusOr<std::optional<int64_t>> LeastOf(Context* context, xla::XlaOp scalar) {
  return Inferred(context, scalar, xla::ValueInferenceMode::kLowerBound);
}

absl::StatusOr<std::optional<int64_t>> MostOf(Context* context, xla::XlaOp scalar) {
  return Inferred(context, scalar, xla::ValueInferenceMode::kUpperBound);
}

xla::XlaOp Element(Context* context, xla::XlaOp vector, int64_t position) {
  const auto shape = context->builder()->GetShape(vector);
  if (shape.ok() && shape->dimensions().empty()) return vector;
  return xla::Reshape(xla::Slice(vector, {position}, {position + 1}, {1}), {});
}

xla::XlaOp Window(xla::XlaOp x, xla::XlaOp start, int64_t range, int64_t dimension) {
  xla::XlaBuilder* builder = x.builder();
  const auto shape = builder->GetShape(x);
  if (!shape.ok()) return builder->ReportError(shape.status());
  // One more than is needed, so that no size of the slice is that of the array.
  x = xla::PadInDim(x, xla::Zero(builder, shape->element_type()), dimension, 0, range + 1);
  std::vector<xla::XlaOp> starts(shape->dimensions().size(), Number(builder, 0));
  starts[static_cast<size_t>(dimension)] = start;
  std::vector<int64_t> extents(shape->dimensions().begin(), shape->dimensions().end());
  extents[static_cast<size_t>(dimension)] = range;
  return xla::DynamicSlice(x, starts, extents);
}

xla::XlaOp Within(xla::XlaOp number, const Size& size) {
  // An element is read out of an array that has one more than `size`: its own index.
  xla::XlaBuilder* builder = number.builder();
  xla::XlaOp numbers = xla::Iota(builder, xla::S32, size.bound + 2);
  numbers = xla::SetDimensionSize(numbers, xla::Add(size.value, Number(builder, 1)), 0);
  return xla::Reshape(xla::DynamicSlice(numbers, {number}, {1}), {});
}

}  // namespace tripont::tensorflow
