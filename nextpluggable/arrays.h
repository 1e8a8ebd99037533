// Between tensors in device memory and tensors in host memory, for kernels that need the latter.
#ifndef TRIPONT_NEXTPLUGGABLE_ARRAYS_H_
#define TRIPONT_NEXTPLUGGABLE_ARRAYS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {

// Waits for the content of `tensor`, whose memory is the device's, and gives it in host memory: the
// same memory where the host sees it, which the new tensor keeps, or else a copy.
absl::Status OnHost(const ::tensorflow::Tensor& tensor, ::tensorflow::Tensor* on_host);

// Sets the output `index`, in device memory, to a copy of `value`, which is in host memory.
absl::Status SetOutput(::tensorflow::OpKernelContext* context, int index,
                       const ::tensorflow::Tensor& value);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_ARRAYS_H_
