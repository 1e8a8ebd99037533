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
#include "tensorflow/core/common_runtime/lower_functional_ops.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/function.h"
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
// Has a call put into the graph, whatever the session's options say.
constexpr char kInline[] = "_lower_as_multi_device_function";
constexpr char kCompiled[] = "_XlaMustCompile";

bool IsWhile(std::string_view op) { return op == "While" || op == "StatelessWhile"; }
bool IsConditional(std::string_view op) {
  return op == "If" || op == "StatelessIf" || op == "Case" || op == "StatelessCase";
}

bool IsCallOp(std::string_view op) {
  return op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

bool IsTrue(const tf::AttrSlice& attributes, const char* name) {
  const tf::AttrValue* const value = attributes.Find(name);
  return value != nullptr && value->b();
}

bool Has(tf::DataType type, const tf::DataTypeVector& types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

absl::Status CannotRun(const std::string& op, const std::string& name) {
  return absl::UnimplementedError("tripont: " + op + " " + name +
                                  " has int32 in its state, and cannot run on XPU as one op: call "
                                  "it in a tf.function, or use tf.while_loop");
}

absl::Status CallsItself(const tf::Node& node) {
  return absl::UnimplementedError("tripont: " + node.type_string() + " " + node.name() +
                                  " calls itself in the end, and cannot run on XPU, whose "
                                  "compiler would go on without end: place it on the CPU");
}

// Whether a function that an op calls, by its name or under its attributes, calls itself in the end.
class Recursion {
 public:
  explicit Recursion(const tf::FunctionLibraryDefinition& library) : library_(library) {}

  bool IsIn(const std::string& op, const tf::AttrSlice& attributes) {
    if (IsInFunction(op)) return true;
    for (const auto& [name, value] : attributes) {
      if (value.has_func() && IsInFunction(value.func().name())) return true;
      for (const tf::NameAttrList& function : value.list().func()) {
        if (IsInFunction(function.name())) return true;
      }
    }
    return false;
  }

 private:
  bool IsInFunction(const std::string& name) {
    const tf::FunctionDef* const function = library_.Find(name);
    if (function == nullptr) return false;
    const auto [known, is_new] = is_done_.emplace(name, false);
    if (!is_new) return !known->second;
    for (const tf::NodeDef& node : function->node_def()) {
      if (IsIn(node.op(), tf::AttrSlice(node))) return true;
    }
    return !(is_done_[name] = true);
  }

  const tf::FunctionLibraryDefinition& library_;
  std::map<std::string, bool> is_done_;  // false while its nodes are looked at
};

// Has loops with int32 in their state and conditionals lowered that do not ask for it: marks them,
// and has TensorFlow lower what is marked. What a lowered op calls is put into the graph, so that it
// is looked at too, where it will be placed. So is what a call calls that contains one: a session
// does that only after placement, too late. Functions that stay calls have all this done to their own
// graphs; the library, which others use, stays as it is.
class Lower : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || options.flib_def == nullptr) return absl::OkStatus();
    TF_RETURN_IF_ERROR(RefuseRecursion(options));
    while (Mark(options)) {
      TF_RETURN_IF_ERROR(tf::LowerFunctionalOpsPass().Run(options));
    }
    return absl::OkStatus();
  }

 private:
  // A conditional or a loop that stays one op is compiled with all that it calls, and so is what a
  // function calls that is not put into the graph: XLA would translate one that calls itself until
  // the stack is full, and the process would end. Where all that a function reaches is lowered, no
  // compiler sees it, and TensorFlow does with it what it does on its CPU.
  static absl::Status RefuseRecursion(const tf::GraphOptimizationPassOptions& options) {
    const tf::FunctionLibraryDefinition& library = *options.flib_def;
    const bool default_on_xpu = DefaultIsXpu(options);
    for (const tf::Node* node : (*options.graph)->op_nodes()) {
      const std::string& op = node->type_string();
      const bool stays_one = StaysOne(op);
      if (stays_one ? !MayBeOnXpu(*node, default_on_xpu)
                    : !library.Contains(op) || !IsOn(kDeviceType, node->requested_device()) ||
                          !ReachesOneThatStays(*node, library)) {
        continue;
      }
      if (Recursion(library).IsIn(op, node->attrs())) return CallsItself(*node);
    }
    return absl::OkStatus();
  }

  static bool StaysOne(const std::string& op) { return IsConditional(op) || IsWhile(op); }

  // Whether the functions that a call reaches have a conditional or a loop that is not marked.
  static bool ReachesOneThatStays(const tf::Node& call,
                                  const tf::FunctionLibraryDefinition& library) {
    return ReachesAny(call, library, [](const tf::NodeDef& node) {
      return StaysOne(node.op()) && !IsTrue(tf::AttrSlice(node), kLower);
    });
  }

  // Whether the functions that a call reaches have an op of which `is_one` holds.
  template <typename IsOne>
  static bool ReachesAny(const tf::Node& call, const tf::FunctionLibraryDefinition& library,
                         const IsOne& is_one) {
    tf::GraphDef only;
    *only.add_node() = call.def();
    const tf::FunctionLibraryDefinition reachable = library.ReachableDefinitions(only);
    for (const std::string& name : reachable.ListFunctionNames()) {
      const auto& nodes = reachable.Find(name)->node_def();
      if (std::any_of(nodes.begin(), nodes.end(), is_one)) return true;
    }
    return false;
  }

  // Whether ops that name no device are placed on an XPU.
  static bool DefaultIsXpu(const tf::GraphOptimizationPassOptions& options) {
    const tf::Device* const device = options.default_function_device;
    return device != nullptr && device->device_type() == kDeviceType;
  }

  // Whether there was anything to mark. Nothing is marked twice.
  static bool Mark(const tf::GraphOptimizationPassOptions& options) {
    const tf::FunctionLibraryDefinition& library = *options.flib_def;
    const bool default_on_xpu = DefaultIsXpu(options);
    bool has_marked = false;
    for (tf::Node* node : (*options.graph)->op_nodes()) {
      const bool is_call = IsCallOp(node->type_string());
      if (!is_call && !IsToBeLowered(node->def())) continue;
      const bool may_be_on_xpu = MayBeOnXpu(*node, default_on_xpu);
      if (is_call ? !IsToBeInlined(*node, may_be_on_xpu, library) : !may_be_on_xpu) continue;
      // Putting a function that calls itself into the graph would not end.
      if (Recursion(library).IsIn(node->type_string(), node->attrs())) continue;
      node->AddAttr(is_call ? kInline : kLower, true);
      has_marked = true;
    }
    return has_marked;
  }

  // A conditional, or a loop with int32 in its state, that is not marked.
  static bool IsToBeLowered(const tf::NodeDef& node) {
    if (IsTrue(tf::AttrSlice(node), kLower)) return false;
    if (IsConditional(node.op())) return true;
    if (!IsWhile(node.op())) return false;
    const tf::AttrValue* const state = tf::AttrSlice(node).Find("T");
    if (state == nullptr) return false;
    const auto& types = state->list().type();
    return std::find(types.begin(), types.end(), tf::DT_INT32) != types.end();
  }

  // A call that is not compiled as a whole and has an op to be lowered in its functions.
  static bool IsToBeInlined(const tf::Node& call, bool may_be_on_xpu,
                            const tf::FunctionLibraryDefinition& library) {
    const tf::AttrValue* const called = call.attrs().Find("f");
    const tf::FunctionDef* const function =
        called == nullptr ? nullptr : library.Find(called->func().name());
    if (function == nullptr || IsTrue(call.attrs(), kInline) || IsTrue(call.attrs(), kCompiled) ||
        IsTrue(tf::AttrSlice(&function->attr()), kCompiled)) {
      return false;
    }
    const auto names_xpu = [](const tf::NodeDef& node) { return IsOn(kDeviceType, node.device()); };
    return ReachesAny(call, library, IsToBeLowered) &&
           (may_be_on_xpu || ReachesAny(call, library, names_xpu));
  }

  // default_on_xpu: where ops are that name no device.
  static bool MayBeOnXpu(const tf::Node& node, bool default_on_xpu) {
    const std::string& requested = node.requested_device();
    if (!requested.empty()) return IsOn(kDeviceType, requested);
    if (default_on_xpu) return true;
    // A variable takes the op to its own device.
    for (const tf::Edge* edge : node.in_edges()) {
      if (edge->IsControlEdge() || node.input_type(edge->dst_input()) != tf::DT_RESOURCE) continue;
      const tf::Node& source = *edge->src();
      const std::string& device = source.assigned_device_name().empty()
                                      ? source.requested_device()
                                      : source.assigned_device_name();
      if (device.empty() || IsOn(kDeviceType, device)) return true;
    }
    return false;
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
  // After TensorFlow's own pass that lowers control flow and puts calls into the graph: number 10.
  Passes::Global()->Register(Passes::PRE_PLACEMENT, 11, std::make_unique<Lower>());
  Passes::Global()->Register(Passes::POST_PLACEMENT, 1001, std::make_unique<RefuseGraph>());
  using Rewrites = tf::EagerOpRewriteRegistry;
  Rewrites::Global()->Register(
      Rewrites::PRE_EXECUTION, 20'001,
      std::make_unique<CallInFunction>("CallInFunction", __FILE__, std::to_string(__LINE__)));
}

}  // namespace tripont::tensorflow
