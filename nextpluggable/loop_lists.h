// Whether a loop's reads and writes of lists of tensors are within range.
#ifndef TRIPONT_NEXTPLUGGABLE_LOOP_LISTS_H_
#define TRIPONT_NEXTPLUGGABLE_LOOP_LISTS_H_

#include "tensorflow/core/common_runtime/shape_refiner.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {

// Whether each index of TensorListGetItem and TensorListSetItem in the body of `loop`, a While op, is
// known to be within its list. That is known of
// * a counter that starts at a constant that is not negative, goes up by one, and is less than a
//   limit by the loop's condition, where every list has as many elements as the limit: the limit is
//   the size that the list was made with, or that of the first dimension of what it was made of,
// * a constant, if the list's size is one,
// * an index that the body takes from a list, as gradients do: it is one that the loop before used.
// Lists that the body makes must have sizes that are constants, or lengths of lists of the loop's state
// that keep them. `shapes` has the nodes before the loop. Functions that the body calls must not have such
// ops.
bool StaysInLists(const ::tensorflow::Node& loop,
                  const ::tensorflow::FunctionLibraryDefinition& functions,
                  const ::tensorflow::ShapeRefiner& shapes);

// Whether an op reads or writes an element of a list, or several, by an index.
bool IndexesList(const std::string& op);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_LOOP_LISTS_H_
