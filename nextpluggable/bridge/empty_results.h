// Results without elements, of ops whose kernels in TensorFlow's bridge cannot make them.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_EMPTY_RESULTS_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_EMPTY_RESULTS_H_

#include <vector>

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tripont::tensorflow {

// Sets the outputs and says true, if the op is one of those and no output has an element, or all are sums
// of nothing. Svd is one where it has no singular value, and its vectors, where there are any, are
// identity matrices. `shapes`: what the op's shape function gave, which has no entry for an output that it
// does not know.
bool SetEmptyResults(::tensorflow::XlaOpKernelContext* context,
                     const std::vector<::tensorflow::PartialTensorShape>& shapes);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_EMPTY_RESULTS_H_
