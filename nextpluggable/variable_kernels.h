// The CPU's kernels that update variables, run for variables on XPU.
#ifndef TRIPONT_NEXTPLUGGABLE_VARIABLE_KERNELS_H_
#define TRIPONT_NEXTPLUGGABLE_VARIABLE_KERNELS_H_

namespace tripont::tensorflow {

// Registers for XPU the CPU's kernels of ops that update variables and that XLA has no translation
// of. An op is placed where its variables are, so without these kernels such an op is refused:
//
//   ResourceSparseApplyMomentum,   updates of the rows of a variable that a gradient by
//   ResourceSparseApplyAdagrad, .. `tf.gather` names, by the optimizers of TensorFlow 1 and Keras 2
//   ResourceApplyAdamWithAmsgrad
//   ResourceCountUpTo
//   StatefulRandomBinomial,        numbers from a generator, whose state they move on
//   StatefulStandardNormal
//
// They write to the variables' memory on the device, and need one that the host sees.
void RegisterVariableKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_VARIABLE_KERNELS_H_
