#include "nextpluggable/eager_tensors.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "nextpluggable/host_view.h"
#include "nextpluggable/tensor_buffers.h"
#include "tensorflow/c/eager/tfe_context_internal.h"
#include "tensorflow/c/eager/tfe_tensorhandle_internal.h"
#include "tensorflow/core/common_runtime/eager/context.h"
#include "tensorflow/core/common_runtime/eager/tensor_handle.h"
#include "tensorflow/core/framework/tensor_shape.h"

// Python's, as far as TensorFlow's functions name it.
struct _object;

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The element types that the kernels of XPU take. TensorFlow has more, which XLA lacks.
constexpr std::array kTypes = {tf::DT_BOOL,
                               tf::DT_INT8,
                               tf::DT_INT16,
                               tf::DT_INT32,
                               tf::DT_INT64,
                               tf::DT_UINT8,
                               tf::DT_UINT16,
                               tf::DT_UINT32,
                               tf::DT_UINT64,
                               tf::DT_HALF,
                               tf::DT_BFLOAT16,
                               tf::DT_FLOAT,
                               tf::DT_DOUBLE,
                               tf::DT_COMPLEX64,
                               tf::DT_COMPLEX128,
                               tf::DT_FLOAT8_E5M2,
                               tf::DT_FLOAT8_E4M3FN,
                               tf::DT_FLOAT8_E4M3FNUZ,
                               tf::DT_FLOAT8_E4M3B11FNUZ,
                               tf::DT_FLOAT8_E5M2FNUZ,
                               tf::DT_INT4,
                               tf::DT_UINT4};

// TensorFlow's functions between tensor handles and Python's objects. They are in the library of
// its Python modules, which nobody links with, so that they are looked up.
struct PythonFunctions {
  TFE_TensorHandle* (*handle_of)(const _object* tensor) = nullptr;
  _object* (*tensor_of)(TFE_TensorHandle* handle, bool is_packed) = nullptr;

  static const PythonFunctions& Get() {
    static const PythonFunctions functions = [] {
      PythonFunctions found;
      // Loaded already, by the modules that the caller's tensors come from.
      void* library = dlopen("lib_pywrap_tensorflow_common.so", RTLD_LAZY | RTLD_NOLOAD);
      if (library == nullptr) return found;
      found.handle_of =
          reinterpret_cast<decltype(handle_of)>(dlsym(library, "_Z18EagerTensor_HandlePK7_object"));
      found.tensor_of = reinterpret_cast<decltype(tensor_of)>(
          dlsym(library, "_Z21EagerTensorFromHandleP16TFE_TensorHandleb"));
      return found;
    }();
    return functions;
  }
};

absl::Status NoSuchFunction() {
  return absl::UnimplementedError(
      "this build of TensorFlow shows no functions that give and take eager tensors");
}

// A handle of ours, destroyed where nobody takes it.
class OwnedBuffer {
 public:
  explicit OwnedBuffer(PJRT_Buffer* buffer) : buffer_(buffer) {}
  OwnedBuffer(OwnedBuffer&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  OwnedBuffer& operator=(OwnedBuffer&&) = delete;
  ~OwnedBuffer() {
    if (buffer_ == nullptr) return;
    auto destroy = PjrtArguments<PJRT_Buffer_Destroy_Args>();
    destroy.buffer = buffer_;
    std::string ignored;
    if (PJRT_Error* error = Pjrt()->PJRT_Buffer_Destroy(&destroy)) TakeError(error, &ignored);
  }
  PJRT_Buffer* get() const { return buffer_; }
  PJRT_Buffer* release() { return std::exchange(buffer_, nullptr); }

 private:
  PJRT_Buffer* buffer_;
};

absl::StatusOr<tf::TensorShape> ShapeOf(PJRT_Buffer* buffer) {
  auto get = PjrtArguments<PJRT_Buffer_Dimensions_Args>();
  get.buffer = buffer;
  if (PJRT_Error* error = Pjrt()->PJRT_Buffer_Dimensions(&get)) return TakeError(error);
  tf::TensorShape shape;
  TF_RETURN_IF_ERROR(
      tf::TensorShape::BuildTensorShape(absl::MakeConstSpan(get.dims, get.num_dims), &shape));
  return shape;
}

absl::Status Export(const _object* object) {
  const PythonFunctions& python = PythonFunctions::Get();
  if (python.handle_of == nullptr) return NoSuchFunction();
  auto* const handle = tf::TensorHandleFromInterface(tf::unwrap(python.handle_of(object)));
  if (!tf::TensorHandle::classof(handle)) {
    return absl::InvalidArgumentError("the tensor belongs to a device that combines others");
  }
  const tf::Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(handle->Tensor(&tensor));
  TF_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, tf::GetPjRtCBufferFromTensor(tensor));
  // The core notes the buffer whose address this is (core/runtime/exchange.h).
  auto ask = PjrtArguments<PJRT_Buffer_UnsafePointer_Args>();
  ask.buffer = buffer;
  if (PJRT_Error* error = Pjrt()->PJRT_Buffer_UnsafePointer(&ask)) return TakeError(error);
  return absl::OkStatus();
}

absl::StatusOr<tf::Tensor> TensorOnHost(OwnedBuffer buffer, const tf::TensorShape& shape,
                                        tf::DataType dtype) {
  void* data = nullptr;
  if (PJRT_Error* error = Core().await_read(buffer.get(), &data)) return TakeError(error);
  const size_t size = static_cast<size_t>(shape.num_elements()) * tf::DataTypeSize(dtype);
  const tf::core::RefCountPtr<tf::TensorBuffer> view(new HostView(std::move(buffer), data, size));
  return tf::Tensor(dtype, shape, view.get());
}

absl::StatusOr<tf::Tensor> TensorOnDevice(OwnedBuffer buffer, const tf::TensorShape& shape,
                                          tf::DataType dtype, tf::Device* device) {
  // TensorFlow's client is there as long as the process.
  TF_ASSIGN_OR_RETURN(xla::PjRtCApiClient * client,
                      tf::GetPjRtCApiClient(tf::DeviceType(kDeviceType)));
  // The device's allocator gives a place for a buffer, and no memory.
  tf::Tensor tensor(device->GetAllocator(tf::AllocatorAttributes()), dtype, shape);
  TF_RETURN_IF_ERROR(tf::SetPjRtCBufferToTensor(buffer.release(), client, &tensor));
  return tensor;
}

absl::StatusOr<TFE_TensorHandle*> Import(TFE_Context* wrapped, int64_t ticket, tf::DataType dtype,
                                         int ordinal) {
  PJRT_Buffer* collected = nullptr;
  if (PJRT_Error* error = Core().collect(ticket, TheDevice(ordinal), &collected)) {
    return TakeError(error);
  }
  OwnedBuffer buffer(collected);
  if (std::find(kTypes.begin(), kTypes.end(), dtype) == kTypes.end()) {
    return absl::InvalidArgumentError(tf::DataTypeString(dtype) + " is not a type of XPU's arrays");
  }
  tf::EagerContext* const context = tf::ContextFromInterface(tf::unwrap(wrapped));
  const std::string name = "/job:localhost/replica:0/task:0/device:XPU:" + std::to_string(ordinal);
  tf::Device* device = nullptr;
  TF_RETURN_IF_ERROR(context->FindDeviceFromName(name.c_str(), &device));
  TF_ASSIGN_OR_RETURN(const tf::TensorShape shape, ShapeOf(buffer.get()));
  const bool on_host = dtype == tf::DT_INT32;
  TF_ASSIGN_OR_RETURN(tf::Tensor tensor,
                      on_host ? TensorOnHost(std::move(buffer), shape, dtype)
                              : TensorOnDevice(std::move(buffer), shape, dtype, device));
  // As after an op of the device: null is the host.
  return tf::wrap(tf::TensorHandle::CreateLocalHandle(
      std::move(tensor), on_host ? nullptr : device, device, /*resource_device=*/nullptr, context));
}

char* Message(const absl::Status& status) {
  return status.ok() ? nullptr : strdup(std::string(status.message()).c_str());
}

}  // namespace
}  // namespace tripont::tensorflow

char* tripont_tensorflow_export(void* tensor) {
  using namespace tripont::tensorflow;
  return Message(Export(static_cast<const _object*>(tensor)));
}

char* tripont_tensorflow_import(void* context, int64_t ticket, int dtype, int ordinal,
                                void** handle) {
  using namespace tripont::tensorflow;
  absl::StatusOr<TFE_TensorHandle*> made =
      Import(static_cast<TFE_Context*>(context), ticket, static_cast<tf::DataType>(dtype), ordinal);
  if (!made.ok()) return Message(made.status());
  *handle = *made;
  return nullptr;
}

char* tripont_tensorflow_wrap(void* handle, void** tensor) {
  using namespace tripont::tensorflow;
  auto* const wrapped = static_cast<TFE_TensorHandle*>(handle);
  const PythonFunctions& python = PythonFunctions::Get();
  if (python.tensor_of == nullptr) {
    tf::unwrap(wrapped)->Unref();
    return Message(NoSuchFunction());
  }
  *tensor = python.tensor_of(wrapped, /*is_packed=*/false);
  return nullptr;
}
