#include "nextpluggable/exchange.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "nextpluggable/adapter.h"
#include "nextpluggable/include/tripont/tensorflow_kernel.h"
#include "nextpluggable/tensor_buffers.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

constexpr char kExport[] = "TripontExport";
constexpr char kImport[] = "TripontImport";

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

// The memory of a device buffer as TensorFlow's host memory. TensorFlow never writes to memory that
// a tensor does not own.
class HostView : public tf::TensorBuffer {
 public:
  HostView(OwnedBuffer buffer, void* data, size_t size)
      : tf::TensorBuffer(data), buffer_(std::move(buffer)), size_(size) {}
  size_t size() const override { return size_; }
  tf::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tf::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<int64_t>(size_));
    proto->set_allocator_name("tripont");
  }
  bool OwnsMemory() const override { return false; }

 private:
  OwnedBuffer buffer_;
  size_t size_;
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

absl::Status Export(tf::OpKernelContext* context) {
  TF_ASSIGN_OR_RETURN(PJRT_Buffer * buffer, tf::GetPjRtCBufferFromTensor(&context->input(0)));
  // The core notes the buffer whose address this is (core/runtime/exchange.h).
  auto ask = PjrtArguments<PJRT_Buffer_UnsafePointer_Args>();
  ask.buffer = buffer;
  if (PJRT_Error* error = Pjrt()->PJRT_Buffer_UnsafePointer(&ask)) return TakeError(error);
  return absl::OkStatus();
}

absl::Status Import(tf::OpKernelContext* context) {
  const int ordinal = context->device()->parsed_name().id;
  const int64_t ticket = context->input(0).scalar<int64_t>()();
  PJRT_Buffer* handle = nullptr;
  if (PJRT_Error* error = Core().collect(ticket, TheDevice(ordinal), &handle)) {
    return TakeError(error);
  }
  OwnedBuffer buffer(handle);
  TF_ASSIGN_OR_RETURN(const tf::TensorShape shape, ShapeOf(buffer.get()));
  const tf::DataType dtype = context->expected_output_dtype(0);
  if (context->output_memory_type(0) == tf::HOST_MEMORY) {
    void* data = nullptr;
    if (PJRT_Error* error = Core().await_read(buffer.get(), &data)) return TakeError(error);
    const size_t size = static_cast<size_t>(shape.num_elements()) * tf::DataTypeSize(dtype);
    const tf::core::RefCountPtr<HostView> view(new HostView(std::move(buffer), data, size));
    context->set_output(0, tf::Tensor(dtype, shape, view.get()));
    return absl::OkStatus();
  }
  TF_ASSIGN_OR_RETURN(xla::PjRtCApiClient * client,
                      tf::GetPjRtCApiClient(tf::DeviceType(kDeviceType)));
  tf::Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(context->allocate_output(0, shape, &output));
  return tf::SetPjRtCBufferToTensor(buffer.release(), client, output);
}

template <absl::Status (*kCompute)(tf::OpKernelContext*)>
class ExchangeKernel : public tf::OpKernel {
 public:
  using tf::OpKernel::OpKernel;
  void Compute(tf::OpKernelContext* context) override {
    OP_REQUIRES_OK(context, kCompute(context));
  }
};

// A kernel for the device, by its definition; the C API cannot name all element types.
template <absl::Status (*kCompute)(tf::OpKernelContext*)>
void RegisterExchangeKernel(const char* op, const std::vector<const char*>& in_host_memory,
                            const std::vector<tf::DataType>& types) {
  auto* definition = new tf::KernelDef;  // the registrar's
  definition->set_op(op);
  definition->set_device_type(kDeviceType);
  for (const char* argument : in_host_memory) definition->add_host_memory_arg(argument);
  if (!types.empty()) {
    auto* constraint = definition->add_constraint();
    constraint->set_name("T");
    for (const tf::DataType type : types) {
      constraint->mutable_allowed_values()->mutable_list()->add_type(type);
    }
  }
  tf::kernel_factory::OpKernelRegistrar(
      definition, "TripontExchange", [](tf::OpKernelConstruction* construction) -> tf::OpKernel* {
        return new ExchangeKernel<kCompute>(construction);
      });
}

void RegisterOrSay(const Op& op) {
  const std::string error = RegisterOp(op);
  if (error.empty()) return;
  std::fprintf(stderr, "tripont: no op %s: %s\n", op.name.c_str(), error.c_str());
}

}  // namespace

void RegisterExchange() {
  RegisterOrSay({.name = kExport,
                 .inputs = {"x: T"},
                 .outputs = {},
                 .attributes = {"T: type"},
                 .stateful = true});
  RegisterOrSay({.name = kImport,
                 .inputs = {"ticket: int64"},
                 .outputs = {"y: T"},
                 .attributes = {"T: type"},
                 .stateful = true});
  RegisterExchangeKernel<Export>(kExport, {}, {});
  RegisterExchangeKernel<Import>(kImport, {"ticket"},
                                 {tf::DT_BOOL,
                                  tf::DT_INT8,
                                  tf::DT_INT16,
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
                                  tf::DT_UINT4});
  RegisterExchangeKernel<Import>(kImport, {"ticket", "y"}, {tf::DT_INT32});
}

}  // namespace tripont::tensorflow
