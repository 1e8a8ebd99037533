// What the nodes of a loop's graphs compute, and of what: the graph that the loop is in, and its body.
#ifndef TRIPONT_NEXTPLUGGABLE_LOOP_GRAPHS_H_
#define TRIPONT_NEXTPLUGGABLE_LOOP_GRAPHS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tensorflow/core/common_runtime/function_body.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {

// An output of a node. Does not own the node.
struct GraphValue {
  const ::tensorflow::Node* node = nullptr;
  int output = 0;

  bool operator==(const GraphValue& other) const = default;
};

// What an input of a node is, without the Identity ops on the way; no node if there is none.
GraphValue InputOf(const ::tensorflow::Node& node, int input);

// The number that a value is, if it is a constant integer.
std::optional<int64_t> ConstantOf(const GraphValue& value);

bool Is(const GraphValue& value, std::string_view op);

// Which argument of a function a value in its body is; -1 for other values.
int ArgumentOf(const GraphValue& value);

// A function that a loop calls, "body" or "cond", as a graph; null if it is not known.
std::unique_ptr<::tensorflow::FunctionBody> BodyOf(
    const ::tensorflow::Node& loop, const std::string& attribute,
    const ::tensorflow::FunctionLibraryDefinition& functions);

// What a loop's body makes of an argument.
GraphValue After(const ::tensorflow::FunctionBody& body, int argument);

// Whether an argument, a list, has as many elements after an iteration: it is the same list with other
// elements, or a sum of it and of other lists, which must have as many.
bool KeepsSize(const ::tensorflow::FunctionBody& body, int argument);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_LOOP_GRAPHS_H_
