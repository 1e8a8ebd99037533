#include "nextpluggable/loop_programs.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/log.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nextpluggable/kernel_of.h"
#include "nextpluggable/loop_list_sizes.h"
#include "nextpluggable/loop_lists.h"
#include "nextpluggable/placement.h"
#include "tensorflow/compiler/jit/compilability_check_util.h"
#include "tensorflow/compiler/jit/encapsulate_subgraphs_pass.h"
#include "tensorflow/compiler/tf2xla/const_analysis.h"
#include "tensorflow/compiler/tf2xla/resource_operation_table.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/common_runtime/function.h"
#include "tensorflow/core/common_runtime/lower_function_call_op.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/common_runtime/process_function_library_runtime.h"
#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/graph/graph.h"
#include "tensorflow/core/public/session_options.h"
#include "tensorflow/core/public/version.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The program that a node belongs to.
constexpr char kProgram[] = "_tripont_loop_program";
// Marks a loop that is in a program already: where the program is not compiled, the loop runs op by
// op.
constexpr char kOpByOp[] = "_tripont_op_by_op";

// Ops that XLA translates with another meaning than their kernels for XPU have, or whose results
// have sizes that depend on values.
constexpr std::string_view kOtherMeaning[] = {"Assert",
                                              "CheckNumerics",
                                              "CheckNumericsV2",
                                              "DynamicPartition",
                                              "MatrixInverse",
                                              "MatrixSolve",
                                              "NonMaxSuppressionV3",
                                              "NonMaxSuppressionV4",
                                              "NonMaxSuppressionV5",
                                              "Print",
                                              "PrintV2",
                                              "TridiagonalSolve",
                                              "Unique",
                                              "UniqueV2",
                                              "UniqueWithCounts",
                                              "UniqueWithCountsV2",
                                              "VarHandleOp",
                                              "Where"};

bool IsLoop(std::string_view op) { return op == "While" || op == "StatelessWhile"; }

bool IsCallOfFunction(std::string_view op) {
  return IsLoop(op) || op == "If" || op == "StatelessIf" || op == "Case" || op == "StatelessCase" ||
         op == "PartitionedCall" || op == "StatefulPartitionedCall";
}

// Whether an op does nothing but compute, read variables and write them.
bool IsPlain(const std::string& op, const tf::FunctionLibraryDefinition& functions) {
  if (std::ranges::find(kOtherMeaning, op) != std::end(kOtherMeaning)) {
    return false;
  }
  if (IsCallOfFunction(op)) return true;
  const tf::OpDef* definition = nullptr;
  if (!functions.LookUpOpDef(op, &definition).ok()) return false;
  if (!definition->is_stateful()) return true;
  const tf::XlaResourceOpInfo* resource = tf::GetResourceOpInfoForOp(op);
  return resource != nullptr && resource->resource_kind() == tf::XlaResourceKind::kVariable;
}

// Whether two names of devices, of which parts may be missing, can be those of one.
bool Same(const std::string& one, const std::string& other) {
  tf::DeviceNameUtils::ParsedName first;
  tf::DeviceNameUtils::ParsedName second;
  return tf::DeviceNameUtils::ParseFullName(one, &first) &&
         tf::DeviceNameUtils::ParseFullName(other, &second) && first.has_type && second.has_type &&
         tf::DeviceNameUtils::AreCompatibleDevNames(first, second);
}

std::string DeviceOf(const tf::Node& node) {
  return node.assigned_device_name().empty() ? node.requested_device()
                                             : node.assigned_device_name();
}

// The functions that a graph's nodes call, and which these call.
tf::FunctionLibraryDefinition Reachable(const tf::Node& node,
                                        const tf::FunctionLibraryDefinition& functions) {
  tf::GraphDef only;
  *only.add_node() = node.def();
  return functions.ReachableDefinitions(only);
}

// Whether a function's graph has to do with XPU and has loops, itself or by what it calls.
bool MayHaveLoopsOnXpu(const tf::GraphOptimizationPassOptions& options) {
  const tf::Device* device = options.default_function_device;
  bool on_xpu = device != nullptr && device->device_type() == kDeviceType;
  bool has_loop = false;
  const auto look = [&](const std::string& op, const std::string& on) {
    on_xpu = on_xpu || IsOn(kDeviceType, on);
    has_loop = has_loop || IsLoop(op);
  };
  bool calls = false;
  for (const tf::Node* node : (*options.graph)->op_nodes()) {
    look(node->type_string(), DeviceOf(*node));
    calls = calls || tf::IsFunctionCall(*options.flib_def, *node);
  }
  if (!calls || (on_xpu && has_loop)) return on_xpu && has_loop;
  const tf::FunctionLibraryDefinition reachable =
      options.flib_def->ReachableDefinitions(**options.graph);
  for (const std::string& name : reachable.ListFunctionNames()) {
    for (const tf::NodeDef& node : reachable.Find(name)->node_def()) look(node.op(), node.device());
  }
  return on_xpu && has_loop;
}

// Puts the called functions into the graph, as TensorFlow will do when it lowers the loops.
absl::Status InlineCalls(const tf::GraphOptimizationPassOptions& options) {
  if (options.session_options == nullptr ||
      !options.session_options->config.graph_options().optimizer_options().do_function_inlining()) {
    return absl::OkStatus();
  }
  tf::Graph& graph = **options.graph;
  // New nodes get the next numbers, so that calls in what was called are met too.
  for (int id = tf::Graph::kSinkId + 1; id < graph.num_node_ids(); ++id) {
    tf::Node* node = graph.FindNodeId(id);
    if (node == nullptr || !tf::IsFunctionCall(*options.flib_def, *node)) continue;
    TF_RETURN_IF_ERROR(tf::RewriteFunctionCallNode(node, &graph, *options.flib_def,
                                                   /*keep_caller_fetchable=*/false));
  }
  tf::FixupSourceAndSinkEdges(&graph);
  return absl::OkStatus();
}

// Says of nodes why they cannot be in a program.
class Judge {
 public:
  Judge(const tf::GraphOptimizationPassOptions& options)
      : functions_(*options.flib_def),
        default_on_xpu_(options.default_function_device != nullptr &&
                        options.default_function_device->device_type() == kDeviceType),
        default_device_(default_on_xpu_ ? options.default_function_device->name() : ""),
        runtime_(nullptr, tf::Env::Default(), /*config=*/nullptr, TF_GRAPH_DEF_VERSION,
                 options.flib_def, tf::OptimizerOptions()),
        checker_(Filter(), tf::DeviceType(kCompilationDevice)),
        shapes_((*options.graph)->versions(), (*options.graph)->op_registry()) {
    tf::XlaOpRegistry::RegisterCompilationKernels();
    shapes_.set_require_shape_inference_fns(false);
    std::vector<tf::Node*> order;
    tf::GetReversePostOrder(**options.graph, &order);
    for (const tf::Node* node : order) {
      // Unknown shapes are not needed, or the loop stays unchanged.
      if (node->IsSource() || node->IsSink()) continue;
      const absl::Status status = shapes_.AddNode(node);
      if (!status.ok()) VLOG(2) << "tripont: the shape of " << node->name() << ": " << status;
    }
  }

  // Where a loop would run: the name of an XPU, or nothing.
  std::string DeviceOfLoop(const tf::Node& loop) const {
    if (!loop.requested_device().empty()) {
      return IsOn(kDeviceType, loop.requested_device()) ? loop.requested_device() : std::string();
    }
    // A variable takes the loop to its own device.
    for (const tf::Edge* edge : loop.in_edges()) {
      if (!edge->IsControlEdge() && loop.input_type(edge->dst_input()) == tf::DT_RESOURCE) {
        const std::string device = DeviceOf(*edge->src());
        return IsOn(kDeviceType, device) ? device : std::string();
      }
    }
    return default_device_;
  }

  // Why a node cannot be in a program on `device`; null if it can.
  const char* Objection(const tf::Node& node, const std::string& device) {
    if (!node.requested_device().empty() ? !Same(node.requested_device(), device)
                                         : !node.assigned_device_name().empty()) {
      return "it is on another device";
    }
    for (const tf::Edge* edge : node.in_edges()) {
      // A loop gives back the variables that it uses, and will be in the same program.
      if (!edge->IsControlEdge() && node.input_type(edge->dst_input()) == tf::DT_RESOURCE &&
          !IsLoop(edge->src()->type_string()) && !Same(DeviceOf(*edge->src()), device)) {
        return "its variables are on another device";
      }
    }
    const auto [known, added] = objections_.emplace(&node, nullptr);
    if (added) known->second = ObjectionAnywhere(node);
    return known->second;
  }

  tf::FunctionLibraryRuntime* runtime() {
    return runtime_.GetFLR(tf::ProcessFunctionLibraryRuntime::kDefaultFLRDevice);
  }

 private:
  // Everything but what reports something or draws random numbers.
  static tf::RecursiveCompilabilityChecker::OperationFilter Filter() {
    tf::RecursiveCompilabilityChecker::OperationFilter filter;
    filter.allow_resource_ops_in_called_functions = true;
    filter.allow_ops_producing_or_consuming_variant = true;
    filter.allow_slow_ops = true;
    filter.allow_inaccurate_ops = true;
    filter.allow_string_consts = false;
    filter.allow_collective_reduce_v2 = false;
    filter.allow_where_op = false;
    filter.allow_unique_op = false;
    return filter;
  }

  // Why a node cannot be in a program, wherever that runs.
  const char* ObjectionAnywhere(const tf::Node& node) {
    const std::string& op = node.type_string();
    if (!node.IsOp() || node.IsArg() || node.IsRetval() || node.IsControlFlow()) {
      return "it is not an op";
    }
    if (node.attrs().Find(kOpByOp) != nullptr) return "it is to run op by op";
    if (!IsPlain(op, functions_)) return "it has effects or a meaning that programs do not have";
    if (IndexesList(op)) return "it uses a list outside of a loop";
    if (!checker_.IsCompilableNode(node, runtime())) return "it cannot be compiled";
    if (!IsCallOfFunction(op)) return nullptr;
    if (IsLoop(op) && !StaysInLists(node, functions_, shapes_)) {
      return "an index of a list may be out of range, or its size is not known";
    }
    const tf::FunctionLibraryDefinition called = Reachable(node, functions_);
    for (const std::string& name : called.ListFunctionNames()) {
      for (const tf::NodeDef& inner : called.Find(name)->node_def()) {
        if (!inner.device().empty() && !IsOn(kDeviceType, inner.device())) {
          return "a part of it is on another device";
        }
        if (!IsPlain(inner.op(), functions_)) {
          return "a part of it has effects or a meaning that programs do not have";
        }
        if (!IsLoop(op) && IndexesList(inner.op())) return "it uses a list outside of a loop";
      }
    }
    return nullptr;
  }

  const tf::FunctionLibraryDefinition& functions_;
  const bool default_on_xpu_;
  const std::string default_device_;
  tf::ProcessFunctionLibraryRuntime runtime_;
  const tf::RecursiveCompilabilityChecker checker_;
  tf::ShapeRefiner shapes_;
  std::map<const tf::Node*, const char*> objections_;
};

using Nodes = std::set<tf::Node*, tf::NodeComparatorID>;

// The programs of a graph: sets of nodes, no node in two.
class Programs {
 public:
  explicit Programs(Judge& judge) : judge_(judge) {}

  // Makes a program of a loop, with all that must be in it, if that can be done.
  void Add(tf::Node* loop) {
    if (program_of_.contains(loop)) return;
    const std::string device = judge_.DeviceOfLoop(*loop);
    if (device.empty()) return;
    Nodes program;
    std::vector<tf::Node*> more = {loop};
    while (!more.empty()) {
      for (tf::Node* node : more) {
        if (!TakeIn(node, device, &program)) return;
      }
      more = Between(program);
    }
    for (tf::Node* node : program) program_of_[node] = loop;
    programs_[loop] = std::move(program);
    devices_[loop] = device;
    std::erase_if(programs_,
                  [&](const auto& entry) { return program_of_.at(entry.first) != entry.first; });
  }

  // Programs by one of their loops.
  const std::map<tf::Node*, Nodes, tf::NodeComparatorID>& all() const { return programs_; }
  const std::string& device(tf::Node* loop) const { return devices_.at(loop); }

 private:
  // Takes a node into a program, and all that makes its lists and uses them or the variables that it
  // gives back; and the program that it is in. False if that cannot be.
  bool TakeIn(tf::Node* node, const std::string& device, Nodes* program) {
    std::vector<tf::Node*> more = {node};
    while (!more.empty()) {
      tf::Node* next = more.back();
      more.pop_back();
      if (!program->insert(next).second) continue;
      if (const char* objection = judge_.Objection(*next, device); objection != nullptr) {
        VLOG(1) << "tripont: a loop runs op by op because of " << next->type_string() << " "
                << next->name() << ": " << objection;
        return false;
      }
      if (const auto other = program_of_.find(next); other != program_of_.end()) {
        const Nodes& members = programs_.at(other->second);
        more.insert(more.end(), members.begin(), members.end());
      }
      for (const tf::Edge* edge : next->in_edges()) {
        if (!edge->IsControlEdge() && next->input_type(edge->dst_input()) == tf::DT_VARIANT) {
          more.push_back(edge->src());
        }
      }
      for (const tf::Edge* edge : next->out_edges()) {
        if (edge->IsControlEdge()) continue;
        const tf::DataType type = next->output_type(edge->src_output());
        if (type == tf::DT_VARIANT || type == tf::DT_RESOURCE) more.push_back(edge->dst());
      }
    }
    return true;
  }

  // The nodes outside of a program that need it and that it needs. Another program is one node.
  std::vector<tf::Node*> Between(const Nodes& program) const {
    const Nodes after = Reach(program, [](tf::Node* node, std::vector<tf::Node*>* next) {
      for (const tf::Edge* edge : node->out_edges()) next->push_back(edge->dst());
    });
    const Nodes before = Reach(program, [](tf::Node* node, std::vector<tf::Node*>* next) {
      for (const tf::Edge* edge : node->in_edges()) next->push_back(edge->src());
    });
    std::vector<tf::Node*> between;
    std::set_intersection(after.begin(), after.end(), before.begin(), before.end(),
                          std::back_inserter(between), tf::NodeComparatorID());
    std::erase_if(between, [&](tf::Node* node) { return program.contains(node); });
    return between;
  }

  template <typename Next>
  Nodes Reach(const Nodes& from, Next next) const {
    Nodes seen;
    std::vector<tf::Node*> stack;
    for (tf::Node* node : from) next(node, &stack);
    while (!stack.empty()) {
      tf::Node* node = stack.back();
      stack.pop_back();
      if (node->IsSource() || node->IsSink() || from.contains(node) || !seen.insert(node).second) {
        continue;
      }
      next(node, &stack);
      if (const auto other = program_of_.find(node); other != program_of_.end()) {
        const Nodes& members = programs_.at(other->second);
        stack.insert(stack.end(), members.begin(), members.end());
      }
    }
    return seen;
  }

  Judge& judge_;
  std::map<tf::Node*, tf::Node*> program_of_;
  std::map<tf::Node*, Nodes, tf::NodeComparatorID> programs_;
  std::map<tf::Node*, std::string> devices_;
};

// The names of programs are those of what TensorFlow's cache of compiled functions holds.
std::string NewName() {
  static std::atomic<int64_t> made = 0;
  return absl::StrCat("tripont_loop_", made.fetch_add(1));
}

// Constants that a program uses are constants in it.
void TakeConstants(tf::Graph* graph, const Nodes& program, const std::string& name) {
  std::map<const tf::Node*, tf::Node*> copies;
  for (tf::Node* node : program) {
    const std::vector<const tf::Edge*> edges(node->in_edges().begin(), node->in_edges().end());
    for (const tf::Edge* edge : edges) {
      tf::Node* constant = edge->src();
      if (edge->IsControlEdge() || !constant->IsConstant() || program.contains(constant)) continue;
      tf::Node*& copy = copies[constant];
      if (copy == nullptr) {
        copy = graph->CopyNode(constant);
        copy->set_name(graph->NewName(constant->name()));
        copy->AddAttr(kProgram, name);
      }
      const int output = edge->src_output();
      const int input = edge->dst_input();
      graph->RemoveEdge(edge);
      graph->AddEdge(copy, output, node, input);
    }
  }
}

// Puts the arguments of a program into the order that _XlaCompile wants: those that must be
// constants when it is compiled, others, variables.
absl::Status SortArguments(tf::FunctionLibraryRuntime* runtime, tf::Graph* program,
                           std::vector<int>* permutation, tf::NodeDef* call) {
  const size_t count = permutation->size();
  std::vector<bool> constant(count);
  TF_RETURN_IF_ERROR(tf::BackwardsConstAnalysis(*program, &constant, nullptr, runtime));
  std::vector<tf::Node*> arguments(count);
  for (tf::Node* node : program->op_nodes()) {
    if (!node->IsArg()) continue;
    int index = -1;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "index", &index));
    if (index < 0 || static_cast<size_t>(index) >= count) {
      return absl::InternalError("tripont: an argument of a loop has no place");
    }
    arguments[static_cast<size_t>(index)] = node;
  }
  std::array<std::vector<size_t>, 3> kinds;
  for (size_t i = 0; i < count; ++i) {
    const bool variable =
        arguments[i] != nullptr && arguments[i]->output_type(0) == tf::DT_RESOURCE;
    kinds[constant[i] ? 0 : variable ? 2 : 1].push_back(i);
  }
  int position = 0;
  for (const std::vector<size_t>& kind : kinds) {
    for (const size_t i : kind) {
      (*permutation)[i] = position;
      if (arguments[i] != nullptr) arguments[i]->AddAttr("index", position);
      ++position;
    }
  }
  tf::AddNodeAttr(tf::kXlaCompiledKernelAttr, true, call);
  tf::AddNodeAttr(tf::kXlaHasReferenceVarsAttr, false, call);
  tf::AddNodeAttr(tf::kXlaNumConstantArgsAttr, static_cast<int>(kinds[0].size()), call);
  tf::AddNodeAttr(tf::kXlaNumResourceArgsAttr, static_cast<int>(kinds[2].size()), call);
  return absl::OkStatus();
}

// Adds an op that does nothing, after `node` and where that is.
absl::Status AddNoOp(tf::Graph* graph, const std::string& name, tf::Node* node) {
  tf::NodeDef definition;
  definition.set_name(name);
  definition.set_op("NoOp");
  definition.set_device(node->requested_device());
  absl::Status status;
  tf::Node* added = graph->AddNode(std::move(definition), &status);
  TF_RETURN_IF_ERROR(status);
  graph->AddControlEdge(node, added);
  graph->AddControlEdge(added, graph->sink_node());
  return absl::OkStatus();
}

// Makes the node anew, for the function of its name that the library has now: a node keeps a pointer
// to its function's signature, which ReplaceFunction frees.
absl::Status Renew(tf::Graph* graph, tf::Node* old, tf::Node** renewed) {
  absl::Status status;
  tf::Node* const node = graph->AddNode(old->def(), &status);
  TF_RETURN_IF_ERROR(status);
  for (const tf::Edge* edge : old->in_edges()) {
    graph->AddEdge(edge->src(), edge->src_output(), node, edge->dst_input());
  }
  for (const tf::Edge* edge : old->out_edges()) {
    graph->AddEdge(node, edge->src_output(), edge->dst(), edge->dst_input());
  }
  graph->RemoveNode(old);
  *renewed = node;
  return absl::OkStatus();
}

// Makes each program a function and a call of it.
absl::Status Encapsulate(const tf::GraphOptimizationPassOptions& options, const Programs& programs,
                         tf::FunctionLibraryRuntime* runtime) {
  std::map<std::string, std::string> devices;
  std::map<std::string, std::vector<std::string>> stateful;
  for (const auto& [loop, program] : programs.all()) {
    const std::string name = NewName();
    std::vector<std::string>& names = stateful[name];
    devices[name] = programs.device(loop);
    for (tf::Node* node : program) {
      node->AddAttr(kProgram, name);
      if (IsLoop(node->type_string())) node->AddAttr(kOpByOp, true);
      if (node->op_def().is_stateful()) names.push_back(node->name());
    }
    TakeConstants(options.graph->get(), program, name);
  }
  std::unique_ptr<tf::Graph> made;
  TF_RETURN_IF_ERROR(tf::EncapsulateSubgraphsInFunctions(
      kProgram, **options.graph,
      [runtime](const std::vector<tf::OutputTensor>&, std::unique_ptr<tf::Graph>* program,
                std::vector<int>* inputs, std::vector<int>*,
                tf::NodeDef* call) { return SortArguments(runtime, program->get(), inputs, call); },
      /*reuse_existing_functions=*/false, &made, options.flib_def));
  for (const auto& [name, device] : devices) {
    tf::FunctionDef function = *options.flib_def->Find(name);
    // TensorFlow would put it back into the graph, or make another one of it for its arguments.
    (*function.mutable_attr())["_noinline"].set_b(true);
    (*function.mutable_attr())["_nospecialize"].set_b(true);
    TF_RETURN_IF_ERROR(options.flib_def->ReplaceFunction(name, function));
  }
  std::vector<tf::Node*> calls;
  for (tf::Node* node : made->op_nodes()) {
    if (devices.contains(node->type_string())) calls.push_back(node);
  }
  for (tf::Node* call : calls) {
    tf::Node* node = nullptr;
    TF_RETURN_IF_ERROR(Renew(made.get(), call, &node));
    node->set_requested_device(devices.at(node->type_string()));
    // A function names those of its ops that must have run when it returns.
    for (const std::string& name : stateful.at(node->type_string())) {
      TF_RETURN_IF_ERROR(AddNoOp(made.get(), name, node));
    }
  }
  *options.graph = std::move(made);
  return absl::OkStatus();
}

bool HasControlFlow(const tf::Graph& graph) {
  for (const tf::Node* node : graph.op_nodes()) {
    if (node->IsControlFlow()) return true;
  }
  return false;
}

class Compile : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.graph == nullptr || options.flib_def == nullptr || !options.is_function_graph ||
        !MayHaveLoopsOnXpu(options)) {
      return absl::OkStatus();
    }
    TF_RETURN_IF_ERROR(InlineCalls(options));
    // A value of a branch that is not taken would keep all of a program from running.
    if (HasControlFlow(**options.graph)) return absl::OkStatus();
    TF_RETURN_IF_ERROR(KnowListSizes(options.graph->get(), options.flib_def));
    Judge judge(options);
    Programs programs(judge);
    for (tf::Node* node : (*options.graph)->op_nodes()) {
      if (IsLoop(node->type_string())) programs.Add(node);
    }
    if (programs.all().empty()) return absl::OkStatus();
    return Encapsulate(options, programs, judge.runtime());
  }
};

// TensorFlow's kernel of _XlaCompile. An error of it, for instance that a shape inside of a loop is
// not a constant, means here that there is no program for these arguments: the function is called
// instead, and reports what is wrong if anything is.
class CompileProgram : public KernelOf<> {
 public:
  explicit CompileProgram(tf::OpKernelConstruction* construction)
      : KernelOf(construction, tf::DEVICE_DEFAULT) {
    OP_REQUIRES_OK(construction, construction->GetAttr("must_compile", &must_compile_));
  }

  void Compute(tf::OpKernelContext* context) override {
    if (must_compile_) return kernel_->Compute(context);
    if (failed_) return SetNoProgram(context);
    std::vector<tf::TensorValue> inputs;
    inputs.reserve(static_cast<size_t>(context->num_inputs()));
    for (int i = 0; i < context->num_inputs(); ++i) {
      inputs.emplace_back(const_cast<tf::Tensor*>(&context->input(i)));
    }
    tf::AllocatorAttributes on_host;
    on_host.set_on_host(true);
    const std::vector<tf::AllocatorAttributes> attributes(
        static_cast<size_t>(context->num_outputs()), on_host);
    tf::OpKernelContext::Params parameters;
    parameters.step_id = context->step_id();
    parameters.device = context->device();
    parameters.op_kernel = kernel_.get();
    parameters.inputs = inputs;
    parameters.output_attr_array = attributes.data();
    parameters.op_device_context = context->op_device_context();
    parameters.resource_manager = context->resource_manager();
    parameters.function_library = context->function_library();
    parameters.session_metadata = context->session_metadata();
    parameters.cancellation_manager = context->cancellation_manager();
    parameters.runner = context->runner();
    tf::OpKernelContext trial(&parameters, context->num_outputs());
    kernel_->Compute(&trial);
    if (trial.status().ok()) {
      for (int i = 0; i < context->num_outputs(); ++i) {
        context->set_output(i, *trial.mutable_output(i));
      }
      return;
    }
    VLOG(1) << "tripont: " << name() << " runs op by op: " << trial.status();
    failed_ = true;
    SetNoProgram(context);
  }

 private:
  static void SetNoProgram(tf::OpKernelContext* context) {
    tf::Tensor key(tf::cpu_allocator(), tf::DT_STRING, tf::TensorShape({}));
    tf::Tensor compiled(tf::cpu_allocator(), tf::DT_BOOL, tf::TensorShape({}));
    compiled.scalar<bool>()() = false;
    context->set_output(0, key);
    context->set_output(1, compiled);
  }

  bool must_compile_ = false;
  std::atomic<bool> failed_ = false;  // it is not tried again
};

}  // namespace

void CompileLoops() {
  // Before the loops are lowered, which is number 10.
  tf::OptimizationPassRegistry::Global()->Register(tf::OptimizationPassRegistry::PRE_PLACEMENT, 9,
                                                   std::make_unique<Compile>());
}

void RegisterProgramCompiler() {
  RegisterKernel<CompileProgram>(tf::KernelDefBuilder("_XlaCompile")
                                     .Device(kDeviceType)
                                     .HostMemory("constants")
                                     .HostMemory("key")
                                     .HostMemory("compilation_successful")
                                     .HostMemory("resources")
                                     .Build(),
                                 "TripontCompileProgram");
}

}  // namespace tripont::tensorflow
