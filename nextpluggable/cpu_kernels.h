// The CPU's kernels, run for ops on XPU.
#ifndef TRIPONT_NEXTPLUGGABLE_CPU_KERNELS_H_
#define TRIPONT_NEXTPLUGGABLE_CPU_KERNELS_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {

// The CPU device beside that of `context`.
absl::Status FindCpu(::tensorflow::OpKernelContext* context, ::tensorflow::Device** cpu);

// Runs `kernel`, one of the CPU's, on `inputs`, which are in host memory, in a context of the CPU
// device beside that of `context`: what the kernel allocates is host memory. `outputs` are its
// results, with an empty place for one that the kernel does not make.
absl::Status RunOnCpu(::tensorflow::OpKernelContext* context, ::tensorflow::OpKernel* kernel,
                      std::vector<::tensorflow::Tensor> inputs,
                      std::vector<::tensorflow::Tensor>* outputs);

// Registers for XPU the CPU's kernels of ops that XLA translates with another meaning than the CPU
// and GPUs have, or not at all:
//
//   CheckNumerics                 XLA drops it
//   MatrixInverse, MatrixSolve    XLA makes NaN of a singular matrix, which they have to refuse, and
//                                 is several times slower
//   TridiagonalSolve              XLA's kernel does not pivot
//   RandomUniform, Multinomial,   XLA ignores the seed; a kernel has a generator of its own, which
//   RandomShuffle, ...            starts from its node's seeds
//   StatelessParameterized-       XLA draws other numbers
//   TruncatedNormal
//
// In functions with jit_compile=True they are XLA's all the same (TridiagonalSolve: refused). An
// op reads its arguments where they are, and its results are copied to the device.
void RegisterCpuKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_CPU_KERNELS_H_
