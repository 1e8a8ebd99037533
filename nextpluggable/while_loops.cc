#include "nextpluggable/while_loops.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/placement.h"
#include "tensorflow/core/common_runtime/eager/eager_op_rewrite_registry.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/graph/graph.h"

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

// TensorFlow calls this only when it makes a new kernel.
class RefuseEager : public tf::EagerOpRewrite {
 public:
  using EagerOpRewrite::EagerOpRewrite;
  absl::Status Run(tf::EagerOperation* op, std::unique_ptr<tf::EagerOperation>*) override {
    if (!IsWhile(op->Name()) || op->GetDeviceParsedName().type != kDeviceType) {
      return absl::OkStatus();
    }
    const tf::OpDef* definition = nullptr;
    TF_RETURN_IF_ERROR(tf::OpRegistry::Global()->LookUpOpDef(op->Name(), &definition));
    tf::DataTypeVector inputs;
    tf::DataTypeVector outputs;
    TF_RETURN_IF_ERROR(
        tf::InOutTypesForNode(op->MutableAttrs()->BuildNodeDef(), *definition, &inputs, &outputs));
    return Has(tf::DT_INT32, inputs) ? CannotRun(op->Name(), "called eagerly") : absl::OkStatus();
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
      Rewrites::POST_PLACEMENT, 20'001,
      std::make_unique<RefuseEager>("RefuseEager", __FILE__, std::to_string(__LINE__)));
}

}  // namespace tripont::tensorflow
