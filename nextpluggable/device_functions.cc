#include "nextpluggable/device_functions.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "nextpluggable/xla_shape.h"

// Nothing of this device is asynchronous behind TensorFlow's back but PJRT's buffers, which carry
// their own events.
struct TFNPD_DeviceEvent {};

struct TFNPD_DeviceAllocator {
  int device_ordinal;
};

struct TFNPD_DeviceContext {
  int device_ordinal;
};

namespace tripont::tensorflow {
namespace {

TFNPD_DeviceEvent* NewDeviceEvent() { return new TFNPD_DeviceEvent(); }

void DeviceEventAwait(TFNPD_DeviceEvent*, TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

bool DeviceEventIsReady(TFNPD_DeviceEvent*) { return true; }

void DeviceEventAndThen(TFNPD_DeviceEvent*, void (*callback)(void*), void* argument) {
  callback(argument);
}

void DeviceEventDelete(TFNPD_DeviceEvent* event) { delete event; }

TFNPD_DeviceAllocator* DeviceAllocatorCreate(int device_ordinal) {
  return new TFNPD_DeviceAllocator{device_ordinal};
}

void* DeviceAllocateRaw(TFNPD_DeviceAllocator*, size_t alignment, size_t num_bytes) {
  alignment = std::max(alignment, alignof(std::max_align_t));
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, num_bytes) == 0 ? memory : nullptr;
}

void DeviceDeallocateRaw(TFNPD_DeviceAllocator*, void* memory) { std::free(memory); }

TF_StringView DeviceAllocatorName(TFNPD_DeviceAllocator*) {
  static constexpr char kName[] = "tripont";
  return TF_StringView{kName, sizeof(kName) - 1};
}

bool DeviceAllocatorAllocatesOpaqueHandle(TFNPD_DeviceAllocator*) { return false; }

void DeviceAllocatorDelete(TFNPD_DeviceAllocator* allocator) { delete allocator; }

TFNPD_DeviceContext* DeviceContextCreate(int device_ordinal) {
  return new TFNPD_DeviceContext{device_ordinal};
}

void DeviceContextDelete(TFNPD_DeviceContext* context) { delete context; }

void SetUnimplemented(const char* function, TF_Status* status) {
  const std::string message =
      std::string(function) + " is not implemented by tripont: its tensors are moved through PJRT";
  TF_SetStatus(status, TF_UNIMPLEMENTED, message.c_str());
}

TFNPD_DeviceEvent* DeviceTensorToHostTensor(TFNPD_DeviceContext*, const TF_Tensor*, TF_Tensor*,
                                            TF_Status* status) {
  SetUnimplemented("TFNPD_DeviceTensorToHostTensor", status);
  return NewDeviceEvent();
}

TFNPD_DeviceEvent* HostTensorToDeviceTensor(TFNPD_DeviceContext*, const TF_Tensor*, TF_Tensor*,
                                            TF_Status* status) {
  SetUnimplemented("TFNPD_HostTensorToDeviceTensor", status);
  return NewDeviceEvent();
}

// Has neither tensors nor a status to answer with.
TFNPD_DeviceEvent* SameDeviceTensorCopy(TFNPD_DeviceContext*) { return NewDeviceEvent(); }

PJRT_Buffer* SameDevicePjRtBufferCopy(PJRT_Buffer*, PJRT_Client*, TF_Status* status) {
  SetUnimplemented("TFNPD_SameDevicePjRtBufferCopy", status);
  return nullptr;
}

// The device's arrays are dense and row-major, which is what TensorFlow asks for anyway.
void XlaShapeToDeviceShapeRepresentation(XLA_Shape* shape, int /*data_type*/,
                                         bool /*use_fast_memory*/,
                                         XLA_LayoutPreference /*layout_preference*/,
                                         XLA_Shape* device_shape, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  CopyShape(*shape, device_shape);
}

int32_t NoDevices(TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  return 0;
}

void InitNothing(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

}  // namespace

TFNPD_Api DeviceFunctions() {
  TFNPD_Api api{};
  api.struct_size = TFNPD_Api_STRUCT_SIZE;
  api.TFNPD_NewDeviceEvent = NewDeviceEvent;
  api.TFNPD_DeviceEventAwait = DeviceEventAwait;
  api.TFNPD_DeviceEventIsReady = DeviceEventIsReady;
  api.TFNPD_DeviceEventAndThen = DeviceEventAndThen;
  api.TFNPD_DeviceEventDelete = DeviceEventDelete;
  api.TFNPD_DeviceAllocatorCreate = DeviceAllocatorCreate;
  api.TFNPD_DeviceAllocateRaw = DeviceAllocateRaw;
  api.TFNPD_DeviceDeallocateRaw = DeviceDeallocateRaw;
  api.TFNPD_DeviceAllocatorName = DeviceAllocatorName;
  api.TFNPD_DeviceAllocatorAllocatesOpaqueHandle = DeviceAllocatorAllocatesOpaqueHandle;
  api.TFNPD_DeviceAllocatorDelete = DeviceAllocatorDelete;
  api.TFNPD_DeviceContextCreate = DeviceContextCreate;
  api.TFNPD_DeviceContextDelete = DeviceContextDelete;
  api.TFNPD_DeviceTensorToHostTensor = DeviceTensorToHostTensor;
  api.TFNPD_HostTensorToDeviceTensor = HostTensorToDeviceTensor;
  api.TFNPD_SameDeviceTensorCopy = SameDeviceTensorCopy;
  api.TFNPD_SameDevicePjRtBufferCopy = SameDevicePjRtBufferCopy;
  api.TFNPD_XlaShapeToDeviceShapeRepresentation = XlaShapeToDeviceShapeRepresentation;
  api.TFNPD_GetDeviceCount = NoDevices;
  api.TFNPD_InitPluginInternalDeviceStates = InitNothing;
  return api;
}

}  // namespace tripont::tensorflow
