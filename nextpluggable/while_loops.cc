#include "nextpluggable/while_loops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/placement.h"
#include "tensorflow/core/common_runtime/eager/context.h"
#include "tensorflow/core/common_runtime/eager/eager_op_rewrite_registry.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.pb.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/graph/graph.h"
#include "tsl/platform/fingerprint.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr char kLower[] = "_lower_using_switch_merge";

bool IsWhile(std::string_view op) { return op == "While" || op == "StatelessWhile"; }

bool Has(tf::DataType type, const tf::DataTypeVector& types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

absl::Status CannotRun(const std::string& op, const std::string& name) {
  return absl::UnimplementedError("tripont: " + op + " " + name +
                                  " has int32 in its state, and cannot run on XPU as one op: call "
                                  "it in a tf.function, or use tf.while_loop");
}

class Lower : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    const tf::Device* device = options.default_function_device;
    const bool on_xpu = device != nullptr && device->device_type() == kDeviceType;
    for (tf::Node* node : (*options.graph)->op_nodes()) {
      if (!IsWhile(node->type_string()) || !Has(tf::DT_INT32, node->input_types())) continue;
      const std::string& requested = node->requested_device();
      // A variable takes the loop to its own device.
      const bool may_be_on_xpu = on_xpu || Has(tf::DT_RESOURCE, node->input_types());
      if (requested.empty() ? may_be_on_xpu : IsOn(kDeviceType, requested)) {
        node->AddAttr(kLower, true);
      }
    }
    return absl::OkStatus();
  }
};

class RefuseGraph : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    for (const tf::Node* node : (*options.graph)->op_nodes()) {
      if (IsWhile(node->type_string()) && Has(tf::DT_INT32, node->input_types()) &&
          IsOn(kDeviceType, node->assigned_device_name())) {
        return CannotRun(node->type_string(), node->name());
      }
    }
    return absl::OkStatus();
  }
};

// The loop as a function of its state that does nothing else: its name, and its definition if the
// context has none of that name. The name says all that the definition depends on.
std::string LoopFunction(tf::EagerContext& context, const tf::NodeDef& loop,
                         const tf::DataTypeVector& state,
                         std::optional<tf::FunctionDef>* definition) {
  std::string attributes = loop.device();
  for (const auto& [name, value] :
       std::map<std::string, tf::AttrValue>(loop.attr().begin(), loop.attr().end())) {
    absl::StrAppend(&attributes, ";", name, "=", value.SerializeAsString());
  }
  const std::string name = absl::StrCat("tripont_", loop.op(), "_", tsl::Fingerprint64(attributes));
  if (context.FindFunctionByName(name)) return name;

  tf::FunctionDef function;
  tf::OpDef* signature = function.mutable_signature();
  signature->set_name(name);
  signature->set_is_stateful(loop.op() == "While");
  tf::NodeDef* node = function.add_node_def();
  *node = loop;
  node->set_name("loop");
  node->clear_input();
  (*node->mutable_attr())[kLower].set_b(true);
  for (size_t i = 0; i < state.size(); ++i) {
    const std::string argument = absl::StrCat("before_", i);
    const std::string result = absl::StrCat("after_", i);
    auto* in = signature->add_input_arg();
    in->set_name(argument);
    in->set_type(state[i]);
    auto* out = signature->add_output_arg();
    out->set_name(result);
    out->set_type(state[i]);
    node->add_input(argument);
    (*function.mutable_ret())[result] = absl::StrCat("loop:output:", i);
  }
  if (signature->is_stateful()) {
    signature->add_control_output("loop");
    (*function.mutable_control_ret())["loop"] = "loop";
  }
  *definition = std::move(function);
  return name;
}

// Instead of the loop, a function that contains it is called. There the loop is lowered.
class CallInFunction : public tf::EagerOpRewrite {
 public:
  using EagerOpRewrite::EagerOpRewrite;
  absl::Status Run(tf::EagerOperation* op, std::unique_ptr<tf::EagerOperation>* call) override {
    if (!IsWhile(op->Name()) || op->GetDeviceParsedName().type != kDeviceType) {
      return absl::OkStatus();
    }
    const tf::OpDef* definition = nullptr;
    TF_RETURN_IF_ERROR(tf::OpRegistry::Global()->LookUpOpDef(op->Name(), &definition));
    const tf::NodeDef loop = op->MutableAttrs()->BuildNodeDef();
    tf::DataTypeVector inputs;
    tf::DataTypeVector outputs;
    TF_RETURN_IF_ERROR(tf::InOutTypesForNode(loop, *definition, &inputs, &outputs));
    if (!Has(tf::DT_INT32, inputs)) return absl::OkStatus();
    tf::EagerContext& context = op->EagerContext();
    std::optional<tf::FunctionDef> function;
    const std::string name = LoopFunction(context, loop, inputs, &function);
    if (function) TF_RETURN_IF_ERROR(context.AddFunctionDef(*function));
    auto made = std::make_unique<tf::EagerOperation>(&context);
    TF_RETURN_IF_ERROR(
        made->Reset(name.c_str(), op->DeviceName().c_str(), /*remote=*/false, &op->Executor()));
    for (tf::ImmediateExecutionTensorHandle* input : op->Inputs()) {
      TF_RETURN_IF_ERROR(made->AddInput(input));
    }
    *call = std::move(made);
    return absl::OkStatus();
  }
};

}  // namespace

void LowerLoopsWithHostState() {
  using Passes = tf::OptimizationPassRegistry;
  // TensorFlow's own pass that lowers control flow is number 10.
  Passes::Global()->Register(Passes::PRE_PLACEMENT, 9, std::make_unique<Lower>());
  Passes::Global()->Register(Passes::POST_PLACEMENT, 1001, std::make_unique<RefuseGraph>());
  using Rewrites = tf::EagerOpRewriteRegistry;
  Rewrites::Global()->Register(
      Rewrites::PRE_EXECUTION, 20'001,
      std::make_unique<CallInFunction>("CallInFunction", __FILE__, std::to_string(__LINE__)));
}

}  // namespace tripont::tensorflow
