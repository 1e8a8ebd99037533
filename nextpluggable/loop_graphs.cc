#include "nextpluggable/loop_graphs.h"

#include <set>
#include <vector>

#include "tensorflow/core/common_runtime/function_def_utils.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {

namespace tf = ::tensorflow;

GraphValue InputOf(const tf::Node& node, int input) {
  const tf::Edge* edge = nullptr;
  const tf::Node* at = &node;
  do {
    if (!at->input_edge(input, &edge).ok()) return {};
    at = edge->src();
    input = 0;
  } while (at->IsIdentity());
  return {at, edge->src_output()};
}

std::optional<int64_t> ConstantOf(const GraphValue& value) {
  if (value.node == nullptr || !value.node->IsConstant()) return std::nullopt;
  tf::Tensor tensor;
  if (!tf::GetNodeAttr(value.node->attrs(), "value", &tensor).ok() || tensor.NumElements() != 1) {
    return std::nullopt;
  }
  if (tensor.dtype() == tf::DT_INT32) return tensor.flat<int32_t>()(0);
  if (tensor.dtype() == tf::DT_INT64) return tensor.flat<int64_t>()(0);
  return std::nullopt;
}

bool Is(const GraphValue& value, std::string_view op) {
  return value.node != nullptr && value.node->type_string() == op;
}

int ArgumentOf(const GraphValue& value) {
  int index = -1;
  if (value.node == nullptr || !value.node->IsArg()) return -1;
  return tf::GetNodeAttr(value.node->attrs(), "index", &index).ok() ? index : -1;
}

std::unique_ptr<tf::FunctionBody> BodyOf(const tf::Node& loop, const std::string& attribute,
                                         const tf::FunctionLibraryDefinition& functions) {
  tf::NameAttrList called;
  std::unique_ptr<tf::FunctionBody> body;
  if (!tf::GetNodeAttr(loop.attrs(), attribute, &called).ok()) return nullptr;
  const tf::FunctionDef* definition = functions.Find(called.name());
  if (definition == nullptr ||
      !tf::FunctionDefToBodyHelper(*definition, tf::AttrSlice(&called.attr()), &functions, &body)
           .ok()) {
    return nullptr;
  }
  return body;
}

GraphValue After(const tf::FunctionBody& body, int argument) {
  const auto& results = body.ret_nodes;
  return static_cast<size_t>(argument) < results.size()
             ? InputOf(*results[static_cast<size_t>(argument)], 0)
             : GraphValue{};
}

bool KeepsSize(const tf::FunctionBody& body, int argument) {
  std::vector<GraphValue> same = {After(body, argument)};
  std::set<const tf::Node*> seen;
  while (!same.empty()) {
    const GraphValue list = same.back();
    same.pop_back();
    if (ArgumentOf(list) == argument) return true;
    if (list.node == nullptr || !seen.insert(list.node).second) continue;
    if (Is(list, "TensorListSetItem")) same.push_back(InputOf(*list.node, 0));
    if (Is(list, "AddN")) {
      for (int i = 0; i < list.node->num_inputs(); ++i) same.push_back(InputOf(*list.node, i));
    }
  }
  return false;
}

}  // namespace tripont::tensorflow
