#include "nextpluggable/bridge/shape_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/compiler/tf2xla/xla_resource.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;
using Kind = tf::XlaExpression::Kind;
// The shapes and types of the variables that a resource stands for.
using Variables = std::vector<std::pair<tf::PartialTensorShape, tf::DataType>>;

// What a shape function is told of a kernel's arguments.
struct Arguments {
  std::vector<tf::PartialTensorShape> shapes;
  std::vector<std::optional<tf::Tensor>> constants;
  std::vector<std::unique_ptr<Variables>> variables;
};

std::unique_ptr<Variables> VariableOf(const tf::XlaResource* resource) {
  if (resource == nullptr || resource->kind() != tf::XlaResource::kVariable ||
      !resource->initialized()) {
    return nullptr;
  }
  auto variable = std::make_unique<Variables>();
  variable->emplace_back(resource->shape(), resource->type());
  return variable;
}

Arguments ArgumentsOf(tf::XlaOpKernelContext* context) {
  Arguments arguments;
  for (int input = 0; input < context->num_inputs(); ++input) {
    const tf::XlaExpression& expression = context->InputExpression(input);
    const bool is_array = expression.kind() == Kind::kXlaOp || expression.kind() == Kind::kConstant;
    const bool is_resource = expression.kind() == Kind::kResource;
    arguments.shapes.push_back(is_array ? tf::PartialTensorShape(context->InputShape(input))
                                        : tf::PartialTensorShape());
    arguments.constants.push_back(expression.constant_value());
    arguments.variables.push_back(is_resource ? VariableOf(expression.resource()) : nullptr);
  }
  return arguments;
}

// A shape that a shape function gave, if it knows the whole of it, has as many elements as can be counted.
absl::Status CheckSize(tf::shape_inference::InferenceContext& inference,
                       tf::shape_inference::ShapeHandle shape) {
  if (!inference.FullyDefined(shape)) return absl::OkStatus();
  std::vector<int64_t> sizes;
  for (int d = 0; d < inference.Rank(shape); ++d) {
    sizes.push_back(inference.Value(inference.Dim(shape, d)));
  }
  tf::TensorShape counted;
  return tf::TensorShape::BuildTensorShape(sizes, &counted);
}

tf::PartialTensorShape ShapeOf(tf::shape_inference::InferenceContext& inference,
                               tf::shape_inference::ShapeHandle shape) {
  tf::TensorShapeProto proto;
  inference.ShapeHandleToProto(shape, &proto);
  return tf::PartialTensorShape(proto);
}

// The gradient of a result has the result's shape.
absl::Status CheckNormalizationGradient(tf::XlaOpKernelContext* context) {
  const tf::TensorShape gradient = context->InputShape(0);
  const tf::TensorShape x = context->InputShape(1);
  if (gradient == x) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("x and y_backprop must have the same shape, but x has ", x.DebugString(),
                   " and y_backprop has ", gradient.DebugString()));
}

// A matrix with a diagonal so far out can be counted. The bridge counts in 64 bits without a look, the
// shape function in 32.
absl::Status CheckDiagonals(tf::XlaOpKernelContext* context) {
  std::vector<int64_t> diagonals;
  TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(1, &diagonals));
  int64_t distance = 0;
  for (const int64_t each : diagonals) distance = std::max(distance, each < 0 ? -each : each);
  std::vector<int64_t> sizes;
  for (const auto& dimension : context->InputShape(0)) sizes.push_back(dimension.size);
  if (sizes.empty()) return absl::OkStatus();
  const int64_t size = sizes.back() + distance;
  sizes.back() = size;
  sizes.push_back(size);
  tf::TensorShape counted;
  return tf::TensorShape::BuildTensorShape(sizes, &counted);
}

// The real numbers of a transform and the complex ones have the same precision: the bridge takes any.
absl::Status CheckPrecision(tf::XlaOpKernelContext* context) {
  const tf::DataType from = context->input_type(0);
  const tf::DataType to = context->expected_output_dtype(0);
  const auto is_double = [](tf::DataType type) {
    return type == tf::DT_DOUBLE || type == tf::DT_COMPLEX128;
  };
  if (is_double(from) == is_double(to)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no transform of ", tf::DataTypeString(from), " to ", tf::DataTypeString(to)));
}

// The bridge takes a length that is negative for a size.
absl::Status CheckLengths(tf::XlaOpKernelContext* context) {
  TF_RETURN_IF_ERROR(CheckPrecision(context));
  std::vector<int64_t> lengths;
  TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(1, &lengths));
  for (const int64_t each : lengths) {
    if (each < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("fft_length must not be negative, but has ", each));
    }
  }
  return absl::OkStatus();
}

// Bools cannot be subtracted, and the bridge does not look at the type.
absl::Status CheckDifference(tf::XlaOpKernelContext* context) {
  if (context->input_type(2) != tf::DT_BOOL) return absl::OkStatus();
  return absl::InvalidArgumentError("updates of type bool cannot be subtracted");
}

absl::Status CheckChannels(tf::XlaOpKernelContext* context) {
  const tf::TensorShape images = context->InputShape(0);
  if (images.dims() == 0 || images.dim_size(images.dims() - 1) > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("images must have channels, but have the shape ", images.DebugString()));
}

// The bridge divides the channels of the image by those of the filter.
absl::Status CheckFilter(tf::XlaOpKernelContext* context) {
  const tf::TensorShape filter = context->InputShape(1);
  if (filter.dims() < 2 || filter.dim_size(filter.dims() - 2) > 0) return absl::OkStatus();
  tf::TensorShape image;
  TF_RETURN_IF_ERROR(context->ConstantInputAsShape(0, &image));
  if (image.num_elements() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the filter has no input channels (its shape is ", filter.DebugString(),
                   "), but the image has the shape ", image.DebugString()));
}

// Windows have a positive size and stride in each dimension. The shape functions of gradients, and that of
// averages in three dimensions, do not look at all of them.
absl::Status CheckWindows(tf::XlaOpKernelContext* context) {
  const tf::NodeDef& node = context->op_kernel().def();
  const size_t rank = absl::StrContains(node.op(), "3D") ? 5 : 4;
  for (const char* const name : {"ksize", "strides"}) {
    std::vector<int32_t> numbers;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(node, name, &numbers));
    if (numbers.size() != rank) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must have ", rank, " numbers, but has ", numbers.size()));
    }
    for (const int32_t each : numbers) {
      if (each > 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(name, " must be positive in each dimension, but has ", each));
    }
  }
  return absl::OkStatus();
}

// The parts of an array that is split have as many rows together as the array. The bridge makes an array of
// the length of the first.
absl::Status CheckParts(tf::XlaOpKernelContext* context) {
  const tf::TensorShape value = context->InputShape(1);
  std::vector<int64_t> lengths;
  TF_RETURN_IF_ERROR(context->ConstantInputReshapedToIntVector(2, &lengths));
  if (value.dims() == 0) return absl::OkStatus();
  int64_t left = value.dim_size(0);
  for (const int64_t each : lengths) {
    if (each < 0 || each > left) {
      left = -1;
      break;
    }
    left -= each;
  }
  if (left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "lengths must not be negative, and must add up to the first dimension of value, ",
      "whose shape is ", value.DebugString()));
}

struct Check {
  std::string_view op;
  absl::Status (*check)(tf::XlaOpKernelContext* context);
};

// What neither the shape function nor the bridge's kernel looks at: it would end the process.
constexpr std::array<Check, 28> kChecks = {{{"AvgPool", CheckWindows},
                                            {"AvgPool3D", CheckWindows},
                                            {"AvgPool3DGrad", CheckWindows},
                                            {"AvgPoolGrad", CheckWindows},
                                            {"Conv2DBackpropInput", CheckFilter},
                                            {"Conv3DBackpropInputV2", CheckFilter},
                                            {"DepthwiseConv2dNativeBackpropInput", CheckFilter},
                                            {"ExtractImagePatches", CheckChannels},
                                            {"FusedBatchNormGrad", CheckNormalizationGradient},
                                            {"FusedBatchNormGradV2", CheckNormalizationGradient},
                                            {"FusedBatchNormGradV3", CheckNormalizationGradient},
                                            {"IRFFT", CheckLengths},
                                            {"IRFFT2D", CheckLengths},
                                            {"IRFFT3D", CheckLengths},
                                            {"MatrixDiagV2", CheckDiagonals},
                                            {"MatrixDiagV3", CheckDiagonals},
                                            {"MaxPool", CheckWindows},
                                            {"MaxPool3D", CheckWindows},
                                            {"MaxPool3DGrad", CheckWindows},
                                            {"MaxPool3DGradGrad", CheckWindows},
                                            {"MaxPoolGrad", CheckWindows},
                                            {"MaxPoolGradGrad", CheckWindows},
                                            {"RFFT", CheckPrecision},
                                            {"RFFT2D", CheckPrecision},
                                            {"RFFT3D", CheckPrecision},
                                            {"ResourceScatterNdSub", CheckDifference},
                                            {"TensorArraySplitV3", CheckParts},
                                            {"TensorScatterSub", CheckDifference}}};

}  // namespace

absl::StatusOr<std::vector<tf::PartialTensorShape>> CheckShapes(tf::XlaOpKernelContext* context) {
  const tf::NodeDef& node = context->op_kernel().def();
  const auto* const own = std::find_if(kChecks.begin(), kChecks.end(),
                                       [&](const Check& each) { return each.op == node.op(); });
  if (own != kChecks.end()) TF_RETURN_IF_ERROR(own->check(context));
  const tf::OpRegistrationData* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUp(node.op(), &op).ok() || !op->shape_inference_fn) {
    return std::vector<tf::PartialTensorShape>();
  }
  Arguments arguments = ArgumentsOf(context);
  // Kernels take a vector of one value, which the shape function refuses (array_rules.cc).
  if (node.op() == "Fill" && arguments.shapes[1].IsIdenticalTo(tf::PartialTensorShape({1}))) {
    arguments.shapes[1] = tf::PartialTensorShape({});
  }
  // The shape function of SplitV ends the process for sizes of int8, and for a single one that is a scalar.
  const bool may_see_values = node.op() != "SplitV";
  std::vector<const tf::Tensor*> constants;
  for (const auto& constant : arguments.constants) {
    constants.push_back(constant && may_see_values ? &*constant : nullptr);
  }
  tf::shape_inference::InferenceContext inference(
      TF_GRAPH_DEF_VERSION, node, op->op_def, arguments.shapes, constants, {}, arguments.variables);
  TF_RETURN_IF_ERROR(inference.construction_status());
  TF_RETURN_IF_ERROR(inference.Run(op->shape_inference_fn));
  std::vector<tf::PartialTensorShape> results;
  for (int output = 0; output < inference.num_outputs(); ++output) {
    TF_RETURN_IF_ERROR(CheckSize(inference, inference.output(output)));
    results.push_back(ShapeOf(inference, inference.output(output)));
  }
  return results;
}

}  // namespace tripont::tensorflow
