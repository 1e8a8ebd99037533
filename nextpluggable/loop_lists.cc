#include "nextpluggable/loop_lists.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nextpluggable/loop_graphs.h"
#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

using Value = GraphValue;

// The value that is the first dimension of `array`, by tf.shape(array)[0].
bool IsFirstDimension(const Value& value, const Value& array) {
  if (!Is(value, "StridedSlice")) return false;
  const Value shape = InputOf(*value.node, 0);
  int64_t shrink = 0;
  return Is(shape, "Shape") && InputOf(*shape.node, 0) == array &&
         ConstantOf(InputOf(*value.node, 1)) == 0 &&
         tf::GetNodeAttr(value.node->attrs(), "shrink_axis_mask", &shrink).ok() && shrink == 1;
}

bool CallsIndexingFunction(const tf::Node& node, const tf::FunctionLibraryDefinition& functions) {
  tf::FunctionLibraryDefinition reachable = [&] {
    tf::GraphDef only;
    *only.add_node() = node.def();
    return functions.ReachableDefinitions(only);
  }();
  for (const std::string& name : reachable.ListFunctionNames()) {
    const tf::FunctionDef* function = reachable.Find(name);
    for (const tf::NodeDef& inner : function->node_def()) {
      if (IndexesList(inner.op())) return true;
    }
  }
  return false;
}

// A loop with its functions' graphs.
class Loop {
 public:
  Loop(const tf::Node& node, const tf::FunctionLibraryDefinition& functions,
       const tf::ShapeRefiner& shapes)
      : node_(node),
        functions_(functions),
        shapes_(shapes),
        body_(BodyOf(node, "body", functions)),
        condition_(BodyOf(node, "cond", functions)) {}

  bool StaysInLists() const {
    if (body_ == nullptr || condition_ == nullptr) return false;
    for (const tf::Node* node : body_->graph->op_nodes()) {
      const std::string& op = node->type_string();
      if (op == "TensorListGetItem" || op == "TensorListSetItem") {
        if (!IsWithin(InputOf(*node, 1), InputOf(*node, 0))) return false;
      } else if (op == "TensorListReserve") {
        // As the gradient of a loop makes for that of a list that the loop reads: XLA must know the
        // size. It knows the sizes of the loop's lists.
        const Value size = InputOf(*node, 1);
        if (!ConstantOf(size) && !IsLengthOfState(size)) return false;
      } else if (IndexesList(op) || CallsIndexingFunction(*node, functions_)) {
        return false;
      }
    }
    for (const tf::Node* node : condition_->graph->op_nodes()) {
      if (IndexesList(node->type_string()) || CallsIndexingFunction(*node, functions_)) {
        return false;
      }
    }
    return true;
  }

 private:
  // Both are values in the body.
  bool IsWithin(const Value& index, Value list) const {
    if (Is(index, "TensorListPopBack")) return true;
    while (Is(list, "TensorListSetItem")) list = InputOf(*list.node, 0);
    const int state = ArgumentOf(list);
    if (state < 0 || !KeepsSize(*body_, state)) return false;
    const Size size = SizeOf(InputOf(node_, state));
    if (const std::optional<int64_t> constant = ConstantOf(index)) {
      return *constant >= 0 && size.constant && *constant < *size.constant;
    }
    const int counter = ArgumentOf(index);
    if (counter < 0 || !CountsUp(counter)) return false;
    const std::vector<Value> limits = LimitsOf(counter);
    return std::any_of(limits.begin(), limits.end(),
                       [&](const Value& limit) { return IsAtMost(limit, size); });
  }

  bool IsLengthOfState(const Value& size) const {
    if (!Is(size, "TensorListLength")) return false;
    const int state = ArgumentOf(InputOf(*size.node, 0));
    return state >= 0 && KeepsSize(*body_, state);
  }

  bool CountsUp(int counter) const {
    const std::optional<int64_t> start = ConstantOf(InputOf(node_, counter));
    if (!start || *start < 0) return false;
    const Value next = After(*body_, counter);
    if (!Is(next, "AddV2") && !Is(next, "Add")) return false;
    const Value left = InputOf(*next.node, 0);
    const Value right = InputOf(*next.node, 1);
    return (ArgumentOf(left) == counter && ConstantOf(right) == 1) ||
           (ArgumentOf(right) == counter && ConstantOf(left) == 1);
  }

  // Values before the loop, and constants, that the counter is less than while the loop goes on.
  std::vector<Value> LimitsOf(int counter) const {
    std::vector<Value> limits;
    if (condition_->ret_nodes.size() != 1) return limits;
    std::vector<Value> all = {InputOf(*condition_->ret_nodes[0], 0)};
    while (!all.empty()) {
      const Value one = all.back();
      all.pop_back();
      if (Is(one, "LogicalAnd")) {
        all.push_back(InputOf(*one.node, 0));
        all.push_back(InputOf(*one.node, 1));
      } else if (Is(one, "Less") && ArgumentOf(InputOf(*one.node, 0)) == counter) {
        const Value limit = InputOf(*one.node, 1);
        const int argument = ArgumentOf(limit);
        if (argument < 0) {
          limits.push_back(limit);
        } else if (ArgumentOf(After(*body_, argument)) == argument) {
          limits.push_back(InputOf(node_, argument));
        }
      }
    }
    return limits;
  }

  // The number of elements of a list: a constant, a value that it was made with, the first dimension
  // of an array that it was made of. Whatever is known of it.
  struct Size {
    std::optional<int64_t> constant;
    Value value;
    Value array;
  };

  Size SizeOf(const Value& list) const {
    Size size;
    if (Is(list, "TensorListReserve")) {
      size.value = InputOf(*list.node, 1);
      size.constant = ConstantOf(size.value);
    } else if (Is(list, "TensorListFromTensor")) {
      size.array = InputOf(*list.node, 0);
      tf::shape_inference::InferenceContext* context =
          size.array.node == nullptr ? nullptr : shapes_.GetContext(size.array.node);
      if (context == nullptr) return size;
      const auto shape = context->output(size.array.output);
      if (context->RankKnown(shape) && context->Rank(shape) > 0 &&
          context->ValueKnown(context->Dim(shape, 0))) {
        size.constant = context->Value(context->Dim(shape, 0));
      }
    }
    return size;
  }

  static bool IsAtMost(const Value& limit, const Size& size) {
    const std::optional<int64_t> constant = ConstantOf(limit);
    return (constant && size.constant && *constant <= *size.constant) ||
           (limit.node != nullptr && limit == size.value) ||
           (size.array.node != nullptr && IsFirstDimension(limit, size.array));
  }

  const tf::Node& node_;
  const tf::FunctionLibraryDefinition& functions_;
  const tf::ShapeRefiner& shapes_;
  const std::unique_ptr<tf::FunctionBody> body_;
  const std::unique_ptr<tf::FunctionBody> condition_;
};

}  // namespace

bool StaysInLists(const tf::Node& loop, const tf::FunctionLibraryDefinition& functions,
                  const tf::ShapeRefiner& shapes) {
  return Loop(loop, functions, shapes).StaysInLists();
}

bool IndexesList(const std::string& op) {
  constexpr std::array<std::string_view, 8> kOps = {
      "TensorListConcat",    "TensorListConcatV2", "TensorListGather",
      "TensorListGetItem",   "TensorListResize",   "TensorListScatterIntoExistingList",
      "TensorListScatterV2", "TensorListSetItem"};
  return std::find(kOps.begin(), kOps.end(), op) != kOps.end();
}

}  // namespace tripont::tensorflow
