#include "nextpluggable/loop_list_sizes.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/loop_graphs.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/node_def_util.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr std::string_view kLength = "tripont_length";

bool IsLoopNode(const tf::Node& node) {
  return node.type_string() == "While" || node.type_string() == "StatelessWhile";
}

// Which state of `loop` is a list whose length is all that the loop puts into its state `lengths`, an
// empty list before the loop; -1 if there is none.
int ListWhoseLengthIsPushed(const tf::Node& loop, int lengths,
                            const tf::FunctionLibraryDefinition& functions) {
  const GraphValue before = InputOf(loop, lengths);
  if (!Is(before, "EmptyTensorList")) return -1;
  const std::unique_ptr<tf::FunctionBody> body = BodyOf(loop, "body", functions);
  if (body == nullptr) return -1;
  const GraphValue after = After(*body, lengths);
  if (!Is(after, "TensorListPushBack") || ArgumentOf(InputOf(*after.node, 0)) != lengths) return -1;
  const GraphValue length = InputOf(*after.node, 1);
  if (!Is(length, "TensorListLength")) return -1;
  const int list = ArgumentOf(InputOf(*length.node, 0));
  return list >= 0 && KeepsSize(*body, list) ? list : -1;
}

// One loop that may be a gradient.
class GradientLoop {
 public:
  GradientLoop(const tf::Node& node, const tf::FunctionLibraryDefinition& functions)
      : node_(node), functions_(functions), body_(BodyOf(node, "body", functions)) {}

  // The state that is a list with the length that `popped` always is; -1 if there is none.
  int StateOfLength(const GraphValue& popped) const {
    if (!Is(popped, "TensorListPopBack") || popped.output != 1) return -1;
    const int lengths = ArgumentOf(InputOf(*popped.node, 0));
    if (lengths < 0) return -1;
    // Nothing but taking elements away may happen to the list of lengths.
    const GraphValue rest = After(*body_, lengths);
    if (ArgumentOf(rest) != lengths && rest != GraphValue{popped.node, 0}) return -1;
    const GraphValue pushed = InputOf(node_, lengths);
    if (pushed.node == nullptr || !IsLoopNode(*pushed.node)) return -1;
    const int list = ListWhoseLengthIsPushed(*pushed.node, pushed.output, functions_);
    if (list < 0) return -1;
    for (int state = 0; state < node_.num_inputs(); ++state) {
      const GraphValue zeros = InputOf(node_, state);
      if (!Is(zeros, "ZerosLike")) continue;
      const GraphValue like = InputOf(*zeros.node, 0);
      if ((like == GraphValue{pushed.node, list} || like == InputOf(*pushed.node, list)) &&
          KeepsSize(*body_, state)) {
        return state;
      }
    }
    return -1;
  }

  // The body with the sizes that are known taken from the loop's state; nothing if there are none.
  std::optional<tf::FunctionDef> BodyWithSizes() const {
    if (body_ == nullptr) return std::nullopt;
    std::optional<tf::FunctionDef> changed;
    for (const tf::Node* node : body_->graph->op_nodes()) {
      if (node->type_string() != "TensorListReserve") continue;
      const int state = StateOfLength(InputOf(*node, 1));
      if (state < 0) continue;
      tf::NameAttrList called;
      if (!tf::GetNodeAttr(node_.attrs(), "body", &called).ok()) return std::nullopt;
      if (!changed) changed = *functions_.Find(called.name());
      TakeLength(node->name(), state, &*changed);
    }
    return changed;
  }

 private:
  static void TakeLength(const std::string& reserve, int state, tf::FunctionDef* function) {
    const std::string name = absl::StrCat(reserve, "/", kLength);
    tf::NodeDef* length = nullptr;
    for (tf::NodeDef& node : *function->mutable_node_def()) {
      if (node.name() != reserve || node.input_size() < 2) continue;
      node.set_input(1, absl::StrCat(name, ":length:0"));
      length = function->add_node_def();  // `node` is not used after this
      break;
    }
    if (length == nullptr) return;
    length->set_name(name);
    length->set_op("TensorListLength");
    length->add_input(function->signature().input_arg(state).name());
  }

  const tf::Node& node_;
  const tf::FunctionLibraryDefinition& functions_;
  const std::unique_ptr<tf::FunctionBody> body_;
};

}  // namespace

absl::Status KnowListSizes(tf::Graph* graph, tf::FunctionLibraryDefinition* functions) {
  for (tf::Node* node : graph->op_nodes()) {
    if (!IsLoopNode(*node)) continue;
    std::optional<tf::FunctionDef> changed = GradientLoop(*node, *functions).BodyWithSizes();
    if (!changed) continue;
    tf::NameAttrList called;
    TF_RETURN_IF_ERROR(tf::GetNodeAttr(node->attrs(), "body", &called));
    called.set_name(functions->UniqueFunctionName(absl::StrCat(called.name(), "_", kLength, "_")));
    changed->mutable_signature()->set_name(called.name());
    TF_RETURN_IF_ERROR(functions->AddFunctionDef(*changed));
    node->ClearAttr("body");
    node->AddAttr("body", called);
  }
  return absl::OkStatus();
}

}  // namespace tripont::tensorflow
