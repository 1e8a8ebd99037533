// Kernels whose tensors stay in host memory: what TensorFlow itself reads on the host.

#include "nextpluggable/kernels/kernels.h"
#include "tensorflow/c/kernels.h"

namespace tripont::tensorflow {
namespace {

void PassThrough(void*, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* tensor = nullptr;
  TF_GetInput(context, 0, &tensor, status);
  if (TF_GetCode(status) == TF_OK) TF_SetOutput(context, 0, tensor, status);
  if (TF_GetCode(status) != TF_OK) TF_OpKernelContext_Failure(context, status);
  if (tensor != nullptr) TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
}

}  // namespace

void RegisterHostMemoryKernels() {
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder =
      TF_NewKernelBuilder("_EagerConst", kDeviceType, nullptr, PassThrough, nullptr);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_INT32, status);
  TF_KernelBuilder_HostMemory(builder, "input");
  TF_KernelBuilder_HostMemory(builder, "output");
  TF_KernelBuilder_Priority(builder, 2);
  TF_RegisterKernelBuilder("TripontEagerConst", builder, status);
  TF_DeleteStatus(status);
}

}  // namespace tripont::tensorflow
