// The functions behind tripont/tensorflow_kernel.h: from TensorFlow's tensors to the memory of PJRT
// buffers.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/arrays.h"
#include "nextpluggable/host_view.h"
#include "nextpluggable/include/tripont/tensorflow_kernel.h"
#include "nextpluggable/tensor_buffers.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf = tensorflow;

// tsl::mutex, whose name is deprecated.
using VariableMutex = decltype(std::declval<tf::Var>().mu());

// The variables of one kernel, locked.
struct TripontVariables {
  std::vector<tf::core::RefCountPtr<tf::Var>> variables;
  std::vector<VariableMutex> locked;

  ~TripontVariables() {
    for (auto mutex = locked.rbegin(); mutex != locked.rend(); ++mutex) (*mutex)->unlock();
  }
};

namespace tripont::tensorflow {
namespace {

constexpr std::pair<tf::DataType, PJRT_Buffer_Type> kBufferTypes[] = {
    {tf::DT_BOOL, PJRT_Buffer_Type_PRED},      {tf::DT_INT8, PJRT_Buffer_Type_S8},
    {tf::DT_INT16, PJRT_Buffer_Type_S16},      {tf::DT_INT32, PJRT_Buffer_Type_S32},
    {tf::DT_INT64, PJRT_Buffer_Type_S64},      {tf::DT_UINT8, PJRT_Buffer_Type_U8},
    {tf::DT_UINT16, PJRT_Buffer_Type_U16},     {tf::DT_UINT32, PJRT_Buffer_Type_U32},
    {tf::DT_UINT64, PJRT_Buffer_Type_U64},     {tf::DT_HALF, PJRT_Buffer_Type_F16},
    {tf::DT_BFLOAT16, PJRT_Buffer_Type_BF16},  {tf::DT_FLOAT, PJRT_Buffer_Type_F32},
    {tf::DT_DOUBLE, PJRT_Buffer_Type_F64},     {tf::DT_COMPLEX64, PJRT_Buffer_Type_C64},
    {tf::DT_COMPLEX128, PJRT_Buffer_Type_C128}};

absl::StatusOr<PJRT_Buffer_Type> BufferType(tf::DataType dtype) {
  for (const auto& [from, to] : kBufferTypes) {
    if (from == dtype) return to;
  }
  return absl::UnimplementedError("a hand-written kernel cannot use tensors of type " +
                                  tf::DataTypeString(dtype) + " in device memory");
}

absl::Status FillArray(const tf::Tensor& tensor, void* data, TripontArray* array) {
  if (tensor.dims() > TRIPONT_MAX_RANK) {
    return absl::UnimplementedError("a hand-written kernel cannot use a tensor of rank " +
                                    std::to_string(tensor.dims()) + ": the most is " +
                                    std::to_string(TRIPONT_MAX_RANK));
  }
  array->data = data;
  array->size = tensor.NumElements();
  array->rank = tensor.dims();
  for (int i = 0; i < tensor.dims(); ++i) array->dimensions[i] = tensor.dim_size(i);
  array->dtype = static_cast<TF_DataType>(tensor.dtype());
  return absl::OkStatus();
}

// The device array of a tensor, to be read.
absl::Status ReadArray(const tf::Tensor& tensor, TripontArray* array) {
  // TensorFlow does not transfer tensors without elements: they may have no buffer.
  if (tensor.NumElements() == 0) return FillArray(tensor, nullptr, array);
  TF_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, tf::GetPjRtCBufferFromTensor(&tensor));
  void* data = nullptr;
  if (PJRT_Error* error = Core().await_read(buffer, &data)) return TakeError(error);
  return FillArray(tensor, data, array);
}

// Puts a fresh buffer into `tensor`, which TensorFlow has allocated for the device.
absl::Status NewArray(tf::OpKernelContext* context, tf::Tensor* tensor, TripontArray* array) {
  TF_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, BufferType(tensor->dtype()));
  TF_ASSIGN_OR_RETURN(xla::PjRtCApiClient * client,
                      tf::GetPjRtCApiClient(tf::DeviceType(kDeviceType)));
  // Fills the dimensions in.
  TF_RETURN_IF_ERROR(FillArray(*tensor, nullptr, array));
  const int ordinal = context->device()->parsed_name().id;
  auto create = PjrtArguments<PJRT_Client_CreateUninitializedBuffer_Args>();
  create.client = TheClient();
  create.shape_dims = array->dimensions;
  create.shape_num_dims = static_cast<size_t>(array->rank);
  create.shape_element_type = type;
  create.device = TheDevice(ordinal);
  if (create.device == nullptr) {
    return absl::InternalError("there is no device XPU:" + std::to_string(ordinal));
  }
  if (PJRT_Error* error = Pjrt()->PJRT_Client_CreateUninitializedBuffer(&create)) {
    return TakeError(error);
  }
  if (PJRT_Error* error = Core().await_read(create.buffer, &array->data)) return TakeError(error);
  return tf::SetPjRtCBufferToTensor(create.buffer, client, tensor);
}

absl::Status Input(tf::OpKernelContext* context, int index, TripontArray* array) {
  if (index < 0 || index >= context->num_inputs()) {
    return absl::InvalidArgumentError("there is no input " + std::to_string(index));
  }
  const tf::Tensor& tensor = context->input(index);
  if (context->input_memory_type(index) == tf::HOST_MEMORY) {
    return FillArray(tensor, tensor.data(), array);
  }
  return ReadArray(tensor, array);
}

absl::Status Output(tf::OpKernelContext* context, int index, TF_DataType dtype,
                    const int64_t* dimensions, int rank, TripontArray* array) {
  if (index < 0 || index >= context->num_outputs()) {
    return absl::InvalidArgumentError("there is no output " + std::to_string(index));
  }
  const auto expected = context->expected_output_dtype(index);
  if (static_cast<tf::DataType>(dtype) != expected) {
    return absl::InvalidArgumentError("output " + std::to_string(index) + " has type " +
                                      tf::DataTypeString(expected) + ", and the kernel makes " +
                                      tf::DataTypeString(static_cast<tf::DataType>(dtype)));
  }
  tf::TensorShape shape;
  TF_RETURN_IF_ERROR(
      tf::TensorShape::BuildTensorShape(absl::MakeConstSpan(dimensions, rank), &shape));
  tf::Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(index, shape, &tensor));
  if (context->output_memory_type(index) == tf::HOST_MEMORY) {
    return FillArray(*tensor, tensor->data(), array);
  }
  return NewArray(context, tensor, array);
}

// The variable's array, to be written: its own buffer if nobody else has it, else a copy that
// becomes its own.
absl::Status WritableArray(tf::OpKernelContext* context, tf::Var* variable, TripontArray* array) {
  tf::Tensor* tensor = variable->tensor();
  if (!variable->is_initialized) {
    return absl::FailedPreconditionError("a variable that the op updates has no value yet");
  }
  if (tensor->NumElements() == 0) return FillArray(*tensor, nullptr, array);
  TF_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, tf::GetPjRtCBufferFromTensor(tensor));
  void* data = nullptr;
  if (tensor->RefCountIsOne()) {
    PJRT_Error* error = Core().await_write(buffer, &data);
    if (error == nullptr) return FillArray(*tensor, data, array);
    // Memory that can be seen from outside is copied; any other error is one.
    const absl::Status status = TakeError(error);
    if (status.code() != absl::StatusCode::kFailedPrecondition) return status;
  }
  if (PJRT_Error* error = Core().await_read(buffer, &data)) return TakeError(error);
  tf::Tensor copy;
  TF_RETURN_IF_ERROR(context->allocate_temp(tensor->dtype(), tensor->shape(), &copy));
  TF_RETURN_IF_ERROR(NewArray(context, &copy, array));
  const size_t bytes = static_cast<size_t>(array->size) * tf::DataTypeSize(tensor->dtype());
  if (bytes != 0) std::memcpy(array->data, data, bytes);
  *tensor = std::move(copy);
  return absl::OkStatus();
}

// Waits for the event, which may be null, and destroys it.
absl::Status Await(PJRT_Event* event) {
  if (event == nullptr) return absl::OkStatus();
  auto await = PjrtArguments<PJRT_Event_Await_Args>();
  await.event = event;
  absl::Status status;
  if (PJRT_Error* error = Pjrt()->PJRT_Event_Await(&await)) status = TakeError(error);
  auto destroy = PjrtArguments<PJRT_Event_Destroy_Args>();
  destroy.event = event;
  if (PJRT_Error* error = Pjrt()->PJRT_Event_Destroy(&destroy)) status.Update(TakeError(error));
  return status;
}

}  // namespace

absl::Status LockVariables(tf::OpKernelContext* context, const std::vector<int>& inputs,
                           TripontArray* arrays, LockedVariables* locked) {
  auto result = std::make_unique<TripontVariables>();
  std::vector<VariableMutex> mutexes;
  for (const int input : inputs) {
    if (input < 0 || input >= context->num_inputs() ||
        context->input_dtype(input) != tf::DT_RESOURCE) {
      return absl::InvalidArgumentError("input " + std::to_string(input) + " is not a variable");
    }
    tf::core::RefCountPtr<tf::Var> variable;
    TF_RETURN_IF_ERROR(tf::LookupResource(context, tf::HandleFromInput(context, input), &variable));
    mutexes.push_back(variable->mu());
    result->variables.push_back(std::move(variable));
  }
  // In the order of their addresses, as all of TensorFlow does, so that kernels never wait for each
  // other in a circle.
  std::sort(mutexes.begin(), mutexes.end());
  if (std::adjacent_find(mutexes.begin(), mutexes.end()) != mutexes.end()) {
    return absl::InvalidArgumentError("the op is given the same variable twice");
  }
  for (VariableMutex mutex : mutexes) {
    mutex->lock();
    result->locked.push_back(mutex);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    TF_RETURN_IF_ERROR(WritableArray(context, result->variables[i].get(), &arrays[i]));
  }
  locked->reset(result.release());
  return absl::OkStatus();
}

absl::Status OnHost(const tf::Tensor& tensor, tf::Tensor* on_host) {
  if (tensor.NumElements() == 0) {
    *on_host = tf::Tensor(tensor.dtype(), tensor.shape());
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, tf::GetPjRtCBufferFromTensor(&tensor));
  void* data = nullptr;
  PJRT_Error* const error = Core().await_read(buffer, &data);
  if (error == nullptr) {
    const tf::core::RefCountPtr<tf::TensorBuffer> view(
        new HostView(tensor, data, tensor.TotalBytes()));
    *on_host = tf::Tensor(tensor.dtype(), tensor.shape(), view.get());
    return absl::OkStatus();
  }
  absl::Status status = TakeError(error);
  if (status.code() != absl::StatusCode::kUnimplemented) return status;
  *on_host = tf::Tensor(tensor.dtype(), tensor.shape());
  auto copy = PjrtArguments<PJRT_Buffer_ToHostBuffer_Args>();
  copy.src = buffer;
  copy.dst = on_host->data();
  copy.dst_size = on_host->TotalBytes();
  if (PJRT_Error* failed = Pjrt()->PJRT_Buffer_ToHostBuffer(&copy)) return TakeError(failed);
  return Await(copy.event);
}

absl::Status SetOutput(tf::OpKernelContext* context, int index, const tf::Tensor& value) {
  tf::Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(index, value.shape(), &tensor));
  TF_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, BufferType(value.dtype()));
  TF_ASSIGN_OR_RETURN(xla::PjRtCApiClient * client,
                      tf::GetPjRtCApiClient(tf::DeviceType(kDeviceType)));
  const auto dimensions = value.shape().dim_sizes();
  auto create = PjrtArguments<PJRT_Client_BufferFromHostBuffer_Args>();
  create.client = TheClient();
  create.data = value.data();
  create.type = type;
  create.dims = dimensions.data();
  create.num_dims = dimensions.size();
  create.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  create.device = TheDevice(context->device()->parsed_name().id);
  if (PJRT_Error* error = Pjrt()->PJRT_Client_BufferFromHostBuffer(&create)) {
    return TakeError(error);
  }
  TF_RETURN_IF_ERROR(Await(create.done_with_host_buffer));
  return tf::SetPjRtCBufferToTensor(create.buffer, client, tensor);
}

}  // namespace tripont::tensorflow

namespace adapter = tripont::tensorflow;

void tripont_kernel_input(TF_OpKernelContext* context, int index, TripontArray* array,
                          TF_Status* status) {
  adapter::SetStatus(adapter::Input(adapter::Unwrap(context), index, array), status);
}

void tripont_kernel_output(TF_OpKernelContext* context, int index, TF_DataType dtype,
                           const int64_t* dimensions, int rank, TripontArray* array,
                           TF_Status* status) {
  adapter::SetStatus(
      adapter::Output(adapter::Unwrap(context), index, dtype, dimensions, rank, array), status);
}

TripontVariables* tripont_kernel_lock_variables(TF_OpKernelContext* context, const int* inputs,
                                                int count, TripontArray* arrays,
                                                TF_Status* status) {
  adapter::LockedVariables variables;
  adapter::SetStatus(adapter::LockVariables(adapter::Unwrap(context), {inputs, inputs + count},
                                            arrays, &variables),
                     status);
  return variables.release();
}

void tripont_kernel_unlock_variables(TripontVariables* variables) { delete variables; }

void tripont_kernel_parallel_for(int64_t count, int64_t grain,
                                 void (*body)(void* argument, int64_t begin, int64_t end),
                                 void* argument) {
  adapter::Core().parallel_for(count, grain, body, argument);
}
