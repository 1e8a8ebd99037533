#include "nextpluggable/bridge/shape_check.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/compiler/tf2xla/xla_resource.h"
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
    const bool is_array =
        expression.kind() == Kind::kXlaOp || expression.kind() == Kind::kConstant;
    const bool is_resource = expression.kind() == Kind::kResource;
    arguments.shapes.push_back(is_array ? tf::PartialTensorShape(context->InputShape(input))
                                        : tf::PartialTensorShape());
    arguments.constants.push_back(expression.constant_value());
    arguments.variables.push_back(is_resource ? VariableOf(expression.resource()) : nullptr);
  }
  return arguments;
}

}  // namespace

absl::Status CheckShapes(tf::XlaOpKernelContext* context) {
  const tf::NodeDef& node = context->op_kernel().def();
  const tf::OpRegistrationData* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUp(node.op(), &op).ok() || !op->shape_inference_fn) {
    return absl::OkStatus();
  }
  const Arguments arguments = ArgumentsOf(context);
  std::vector<const tf::Tensor*> constants;
  for (const auto& constant : arguments.constants) {
    constants.push_back(constant ? &*constant : nullptr);
  }
  tf::shape_inference::InferenceContext inference(TF_GRAPH_DEF_VERSION, node, op->op_def,
                                                  arguments.shapes, constants, {},
                                                  arguments.variables);
  TF_RETURN_IF_ERROR(inference.construction_status());
  return inference.Run(op->shape_inference_fn);
}

}  // namespace tripont::tensorflow
