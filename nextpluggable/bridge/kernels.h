// The kernels of TensorFlow's compiler bridge (tf2xla) for XLA_XPU_JIT, where they are not simply
// TensorFlow's own.
//
// In a compiled function an array may have a size that depends on values (tf.where, boolean_mask,
// tf.unique). XLA gives it the shape of the most that it can hold, its bound, and its size is
// get-dimension-size. Many of the bridge's kernels ask only for the shape, and so take the bound
// for the size: x[-2:] is the end of the bound, where nothing is, and tf.roll turns what is not
// there into what is. Nobody can tell from the program that comes out. So here every kernel of the
// bridge is asked first: one that is given such an array must be listed as right (rules.cc), or
// have a rule of ours that makes it so, or the function is refused with the op's name.
#ifndef TRIPONT_NEXTPLUGGABLE_BRIDGE_KERNELS_H_
#define TRIPONT_NEXTPLUGGABLE_BRIDGE_KERNELS_H_

#include <string_view>
#include <vector>

#include "tensorflow/core/framework/op_kernel.h"

namespace tripont::tensorflow {

// A kernel of an op that the bridge does not have.
struct OwnKernel {
  std::string_view op;
  ::tensorflow::OpKernel* (*make)(::tensorflow::OpKernelConstruction* construction);
};

// variables.cc
std::vector<OwnKernel> OwnKernels();

// Puts the above between the bridge and its kernels, for XLA_XPU_JIT alone. To be called once, when
// the plugin is loaded: after TensorFlow's kernels have been registered, and before the bridge is
// used for the first time.
void RegisterBridgeKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_BRIDGE_KERNELS_H_
