// Sizes of lists that gradients of loops make.
#ifndef TRIPONT_NEXTPLUGGABLE_LOOP_LIST_SIZES_H_
#define TRIPONT_NEXTPLUGGABLE_LOOP_LIST_SIZES_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/function.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {

// The gradient of a loop that reads a list makes, in each iteration, a list of as many elements for the
// gradient of the element that was read. TensorFlow takes its size from a list of numbers that the
// loop itself has filled, and XLA cannot know them when it compiles. They are all the length of the list
// that was read, and the gradient has another list of that length in its state, the sum of those that it
// makes. In each loop of `graph` that is such a gradient, the size becomes the length of that list: the
// loop gets a new body, which is added to `functions`. It gives the same results wherever it runs.
absl::Status KnowListSizes(::tensorflow::Graph* graph,
                           ::tensorflow::FunctionLibraryDefinition* functions);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_LOOP_LIST_SIZES_H_
