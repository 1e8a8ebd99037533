// From TensorFlow's tensors to the PJRT buffers behind them, and between the two kinds of errors.
#ifndef TRIPONT_NEXTPLUGGABLE_TENSOR_BUFFERS_H_
#define TRIPONT_NEXTPLUGGABLE_TENSOR_BUFFERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nextpluggable/pjrt.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/tf_status.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

// TensorFlow declares these in headers that include MLIR's, which the wheel does not hold.
namespace xla {
class PjRtCApiClient;
}
namespace tensorflow {
// The buffer stays the tensor's.
absl::StatusOr<PJRT_Buffer*> GetPjRtCBufferFromTensor(const Tensor* tensor);
// The buffer becomes the tensor's, which must have been allocated for the device.
absl::Status SetPjRtCBufferToTensor(PJRT_Buffer* c_buffer, xla::PjRtCApiClient* c_api_client,
                                    Tensor* tensor);
absl::StatusOr<xla::PjRtCApiClient*> GetPjRtCApiClient(const DeviceType& device_type);
}  // namespace tensorflow

namespace tripont::tensorflow {

// TF_OpKernelContext is TensorFlow's name for it in C.
inline ::tensorflow::OpKernelContext* Unwrap(TF_OpKernelContext* context) {
  return reinterpret_cast<::tensorflow::OpKernelContext*>(context);
}

inline void SetStatus(const absl::Status& from, TF_Status* to) {
  TF_SetStatus(to, static_cast<TF_Code>(from.code()), std::string(from.message()).c_str());
}

// The error as TensorFlow's status; it is destroyed.
inline absl::Status TakeError(PJRT_Error* error) {
  std::string message;
  const int code = TakeError(error, &message);
  return absl::Status(static_cast<absl::StatusCode>(code), message);
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_TENSOR_BUFFERS_H_
