// Whether TensorFlow would take a kernel's arguments at all.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_SHAPE_CHECK_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_SHAPE_CHECK_H_

#include <vector>

#include "absl/status/statusor.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tripont::tensorflow {

// The shapes that the op's shape function gives for the arguments of the kernel, or its error, as the
// building of a graph would give it; no shapes where the op has no such function. No shape or value of
// an argument may depend on values.
//
// The CPU's kernels check their arguments, and those of the bridge leave that to the shape function.
// But an eager call has no graph: without this a product of matrices that do not fit gives numbers,
// and a gradient of another rank ends the process.
absl::StatusOr<std::vector<::tensorflow::PartialTensorShape>> CheckShapes(
    ::tensorflow::XlaOpKernelContext* context);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_SHAPE_CHECK_H_
