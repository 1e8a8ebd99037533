// Between tensors in device memory and tensors in host memory, for kernels that need the latter.
#ifndef TRIPONT_NEXTPLUGGABLE_ARRAYS_H_
#define TRIPONT_NEXTPLUGGABLE_ARRAYS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "nextpluggable/include/tripont/tensorflow_kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {

// Waits for the content of `tensor`, whose memory is the device's, and gives it in host memory: the
// same memory where the host sees it, which the new tensor keeps, or else a copy.
absl::Status OnHost(const ::tensorflow::Tensor& tensor, ::tensorflow::Tensor* on_host);

// Sets the output `index`, in device memory, to a copy of `value`, which is in host memory.
absl::Status SetOutput(::tensorflow::OpKernelContext* context, int index,
                       const ::tensorflow::Tensor& value);

struct UnlockVariables {
  void operator()(TripontVariables* variables) const { tripont_kernel_unlock_variables(variables); }
};
using LockedVariables = std::unique_ptr<TripontVariables, UnlockVariables>;

// Locks the variables that the inputs `inputs` of `context` name until `locked` is gone. `arrays`
// are their arrays, one for each, to be written: a variable's own memory if nobody else has it, or
// else a copy that becomes its own.
absl::Status LockVariables(::tensorflow::OpKernelContext* context, const std::vector<int>& inputs,
                           TripontArray* arrays, LockedVariables* locked);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_ARRAYS_H_
