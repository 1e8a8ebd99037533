#include "nextpluggable/placement.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "absl/log/log.h"
#include "nextpluggable/context_lifetime.h"
#include "nextpluggable/pjrt.h"
#include "tensorflow/core/common_runtime/eager/eager_op_rewrite_registry.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The kinds of ops that were logged.
class Kinds {
 public:
  // Whether XPU:<ordinal>, on which the program wants an op or a function, does not exist. That is
  // said once for each.
  bool WarnIfMissing(const std::string& name, int ordinal) {
    if (ordinal < 0 || TheClient() == nullptr || TheDevice(ordinal) != nullptr) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (missing_.insert(ordinal).second) {
      LOG(WARNING) << "tripont: there is no device XPU:" << ordinal
                   << ": what the program places there runs on the CPU, " << name
                   << " to begin with (TRIPONT_NUM_DEVICES is the number of devices; "
                      "tf.config.set_soft_device_placement(False) makes this an error)";
    }
    return true;
  }
  // An op that was asked for on XPU:<ordinal>, or on any XPU if that is negative.
  void Add(const std::string& op, int ordinal) {
    if (op.starts_with('_')) return;  // arguments and other parts of TensorFlow's own graphs
    const bool missing = WarnIfMissing(op, ordinal);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!seen_.insert(op).second) return;
    names_ += names_.empty() ? op : "\n" + op;
    if (!missing) LOG(INFO) << "tripont: " << op << " runs on the CPU: XPU has no kernel for it";
  }
  std::string names() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return names_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::string> seen_;
  std::set<int> missing_;  // devices that do not exist
  std::string names_;
};

Kinds& TheKinds() {
  static Kinds* kinds = new Kinds();
  return *kinds;
}

bool HasStrings(const tf::DataTypeVector& types) {
  return std::find(types.begin(), types.end(), tf::DT_STRING) != types.end();
}

int Ordinal(const tf::DeviceNameUtils::ParsedName& device) {
  return device.has_id ? device.id : -1;
}

// Where the program wants the eager op that this thread is executing.
thread_local bool wants_xpu = false;
thread_local int wanted_ordinal = -1;

class BeforePlacement : public tf::EagerOpRewrite {
 public:
  using EagerOpRewrite::EagerOpRewrite;
  absl::Status Run(tf::EagerOperation* op, std::unique_ptr<tf::EagerOperation>*) override {
    wants_xpu = op->GetDeviceParsedName().type == kDeviceType;
    wanted_ordinal = Ordinal(op->GetDeviceParsedName());
    if (wants_xpu && op->is_function()) TheKinds().WarnIfMissing(op->Name(), wanted_ordinal);
    // The ops that a function places on XPU are not known here.
    if (wants_xpu || op->is_function()) KeepForever(op->EagerContext());
    return absl::OkStatus();
  }
};

// TensorFlow calls this only when it makes a new kernel.
class AfterPlacement : public tf::EagerOpRewrite {
 public:
  using EagerOpRewrite::EagerOpRewrite;
  absl::Status Run(tf::EagerOperation* op, std::unique_ptr<tf::EagerOperation>*) override {
    if (!wants_xpu || op->is_function() || op->GetDeviceParsedName().type != tf::DEVICE_CPU) {
      return absl::OkStatus();
    }
    tf::DataTypeVector inputs;
    tf::DataTypeVector outputs;
    const tf::NodeDef& node = op->MutableAttrs()->BuildNodeDef();
    // The operation's own pointer is null for ops that it did not need the definition of.
    const tf::OpDef* definition = nullptr;
    TF_RETURN_IF_ERROR(tf::OpRegistry::Global()->LookUpOpDef(op->Name(), &definition));
    TF_RETURN_IF_ERROR(tf::InOutTypesForNode(node, *definition, &inputs, &outputs));
    if (!HasStrings(inputs) && !HasStrings(outputs)) {
      TheKinds().Add(op->Name(), wanted_ordinal);
    }
    return absl::OkStatus();
  }
};

class GraphPass : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr) return absl::OkStatus();
    const tf::Device* device = options.default_function_device;
    const bool on_xpu = device != nullptr && device->device_type() == kDeviceType;
    for (const tf::Node* node : (*options.graph)->op_nodes()) {
      const std::string& requested = node->requested_device();
      const bool wanted = requested.empty() ? on_xpu : IsOn(kDeviceType, requested);
      if (wanted && IsOn(tf::DEVICE_CPU, node->assigned_device_name()) &&
          !HasStrings(node->input_types()) && !HasStrings(node->output_types())) {
        tf::DeviceNameUtils::ParsedName name;
        tf::DeviceNameUtils::ParseFullName(requested, &name);
        TheKinds().Add(node->type_string(), Ordinal(name));
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

bool IsOn(std::string_view type, const std::string& device) {
  tf::DeviceNameUtils::ParsedName name;
  return tf::DeviceNameUtils::ParseFullName(device, &name) && name.has_type && name.type == type;
}

void WatchPlacement() {
  using Registry = tf::EagerOpRewriteRegistry;
  Registry::Global()->Register(
      Registry::PRE_EXECUTION, 20'000,
      std::make_unique<BeforePlacement>("BeforePlacement", __FILE__, std::to_string(__LINE__)));
  Registry::Global()->Register(
      Registry::POST_PLACEMENT, 20'000,
      std::make_unique<AfterPlacement>("AfterPlacement", __FILE__, std::to_string(__LINE__)));
  tf::OptimizationPassRegistry::Global()->Register(tf::OptimizationPassRegistry::POST_PLACEMENT,
                                                   1000, std::make_unique<GraphPass>());
}

}  // namespace tripont::tensorflow

size_t tripont_tensorflow_ops_on_cpu(char* names, size_t size) {
  const std::string all = tripont::tensorflow::TheKinds().names();
  if (size > 0) {
    const size_t copied = std::min(size - 1, all.size());
    std::memcpy(names, all.data(), copied);
    names[copied] = 0;
  }
  return all.size();
}
