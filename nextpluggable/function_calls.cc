#include "nextpluggable/function_calls.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "nextpluggable/kernel_of.h"
#include "nextpluggable/placement.h"
#include "tensorflow/core/common_runtime/eager/context.h"
#include "tensorflow/core/common_runtime/eager/eager_op_rewrite_registry.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr char kMustCompile[] = "_XlaMustCompile";

bool IsCall(const std::string& op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

// The kernel that every device has for the call.
class Call : public KernelOf<tf::AsyncOpKernel> {
 public:
  explicit Call(tf::OpKernelConstruction* construction)
      : KernelOf(construction, tf::DEVICE_DEFAULT) {
    OP_REQUIRES(
        construction, kernel_ == nullptr || kernel_->AsAsync() != nullptr,
        absl::InternalError("TensorFlow's kernel of " + type_string() + " is not asynchronous"));
  }

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    kernel_->AsAsync()->ComputeAsync(context, std::move(done));
  }
};

bool MustCompile(const tf::FunctionDef* function) {
  if (function == nullptr) return false;
  const auto found = function->attr().find(kMustCompile);
  return found != function->attr().end() && found->second.b();
}

// The one XPU that variables are on.
class CommonDevice {
 public:
  // Adds a variable by the name of its device, empty if it is not known.
  void Add(const std::string& device) {
    if (!IsOn(kDeviceType, device) || (!name_.empty() && device != name_)) other_ = true;
    name_ = device;
  }
  // Empty if there is none, or if there are others.
  std::string name() const { return other_ ? std::string() : name_; }

 private:
  std::string name_;
  bool other_ = false;
};

class PlaceEager : public tf::EagerOpRewrite {
 public:
  using EagerOpRewrite::EagerOpRewrite;
  absl::Status Run(tf::EagerOperation* op, std::unique_ptr<tf::EagerOperation>*) override {
    if (!op->is_function() || op->GetDeviceParsedName().has_type ||
        !MustCompile(op->EagerContext().FindFunctionDef(op->Name()))) {
      return absl::OkStatus();
    }
    const absl::InlinedVector<tf::TensorHandle*, 4>* inputs = nullptr;
    if (!op->TensorHandleInputs(&inputs).ok()) return absl::OkStatus();
    CommonDevice common;
    for (const tf::TensorHandle* input : *inputs) {
      if (input->dtype != tf::DT_RESOURCE) continue;
      const tf::Device* device = input->resource_device();
      common.Add(device == nullptr ? std::string() : device->name());
    }
    const std::string name = common.name();
    return name.empty() ? absl::OkStatus() : op->SetDeviceName(name.c_str());
  }
};

class PlaceInGraph : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    for (tf::Node* node : (*options.graph)->op_nodes()) {
      if (!IsCall(node->type_string()) || !node->requested_device().empty()) continue;
      const tf::AttrValue* compile = node->attrs().Find(kMustCompile);
      if (compile == nullptr || !compile->b()) continue;
      CommonDevice common;
      for (const tf::Edge* edge : node->in_edges()) {
        if (edge->IsControlEdge() || node->input_type(edge->dst_input()) != tf::DT_RESOURCE) {
          continue;
        }
        // Arguments of the function are on the devices of what they were given.
        common.Add(edge->src()->assigned_device_name());
      }
      if (const std::string name = common.name(); !name.empty()) node->set_requested_device(name);
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterFunctionCallKernels() {
  for (const char* op : {"PartitionedCall", "StatefulPartitionedCall"}) {
    RegisterKernel<Call>(tf::KernelDefBuilder(op).Device(kDeviceType).Priority(2).Build(),
                         "TripontFunctionCall");
  }
}

void PlaceCompiledCalls() {
  using Rewrites = tf::EagerOpRewriteRegistry;
  // Before placement.cc looks.
  Rewrites::Global()->Register(
      Rewrites::PRE_EXECUTION, 19'999,
      std::make_unique<PlaceEager>("PlaceEager", __FILE__, std::to_string(__LINE__)));
  using Passes = tf::OptimizationPassRegistry;
  Passes::Global()->Register(Passes::PRE_PLACEMENT, 8, std::make_unique<PlaceInGraph>());
}

}  // namespace tripont::tensorflow
