// Making buffers: from host arrays, as views of foreign memory, uninitialised, or failed from the
// start.

#include <memory>
#include <optional>
#include <utility>

#include "core/runtime/exchange.h"
#include "core/runtime/strided_copy.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/event.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"
#include "pjrt/types.h"

namespace tripont::pjrt {
namespace {

// Smaller arrays are copied even when the caller allows an alias: the copy costs less than keeping
// the caller's memory alive and telling it later.
constexpr size_t kMinAliasBytes = size_t{16} << 10;

// The element type of the array: its size in memory, whatever its width in bits (one byte for S4
// and the like, on both sides of the API).
int64_t ElementSize(const Shape& shape) { return static_cast<int64_t>(ByteWidth(shape.type)); }

}  // namespace

Status Client_BufferFromHostBuffer(PJRT_Client_BufferFromHostBuffer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory,
                           TargetMemory(args.client, args.memory, args.device));
  TRIPONT_ASSIGN_OR_RETURN(Shape shape, MakeShape(args.type, args.dims, args.num_dims));
  const size_t size = shape.ByteSize().value();
  TRIPONT_ASSIGN_OR_RETURN(Layout* const layout,
                           DeviceLayout(args.device_layout, shape.dimensions, ElementSize(shape)));
  if (args.num_byte_strides != 0 && args.num_byte_strides != args.num_dims) {
    return InvalidArgument("a host array of ", args.num_dims, " dimensions with ",
                           args.num_byte_strides, " byte strides");
  }
  if (args.num_byte_strides != 0 && args.byte_strides == nullptr)
    return InvalidArgument("`byte_strides` is null, but there are ", args.num_byte_strides);
  if (args.data == nullptr && size != 0)
    return InvalidArgument("`data` is null for an array ", shape);
  std::span<const int64_t> strides(args.byte_strides, args.num_byte_strides);
  std::vector<int64_t> in_memory;
  if (layout != nullptr) {
    std::vector<int64_t> row_major;
    if (strides.empty()) {
      TRIPONT_ASSIGN_OR_RETURN(row_major,
                               HostStrides(nullptr, shape.dimensions, ElementSize(shape)));
      strides = row_major;
    }
    in_memory = InMemoryOrder(strides, *layout);
    strides = in_memory;
    shape.dimensions = Dimensions(InMemoryOrder(shape.dimensions, *layout));
  }
  if (!strides.empty() && IsDense(strides, shape.dimensions, ElementSize(shape))) strides = {};

  if (strides.empty() && layout == nullptr) {
    if (Ref<Buffer> share = exchange::TakeOffer(args.data, shape, memory->memory)) {
      args.buffer = new PJRT_Buffer(std::move(share), memory);
      args.done_with_host_buffer = ToHandle(nullptr);
      return OkStatus();
    }
  }
  // JAX says kImmutableZeroCopy in two cases and leaves no mark by which to tell them apart: for
  // jax.device_put, which may alias the caller's array by contract, and for host arrays that are
  // arguments of a compiled function, whose caller has promised nothing.
  const int semantics = NumberOf(args.host_buffer_semantics);
  const bool may_alias = semantics == PJRT_HostBufferSemantics_kImmutableZeroCopy ||
                         semantics == PJRT_HostBufferSemantics_kMutableZeroCopy;
  if (may_alias && strides.empty() && size >= kMinAliasBytes &&
      Buffer::CanViewInPlace(memory->memory, args.data)) {
    Ref<Event> done = MakeRef<Event>();
    TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer,
                             Buffer::Borrow(memory->memory, shape, const_cast<void*>(args.data),
                                            [done] { done->SetReady(); }));
    args.buffer = new PJRT_Buffer(std::move(buffer), memory, layout);
    args.done_with_host_buffer = ToHandle(std::move(done));
    return OkStatus();
  }
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer,
                           Buffer::FromHost(memory->memory, shape, args.data, strides));
  args.buffer = new PJRT_Buffer(std::move(buffer), memory, layout);
  args.done_with_host_buffer = ToHandle(nullptr);
  return OkStatus();
}

Status Client_CreateViewOfDeviceBuffer(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory,
                           TargetMemory(args.client, args.memory, args.device));
  TRIPONT_ASSIGN_OR_RETURN(const Shape shape,
                           MakeShape(args.element_type, args.dims, args.num_dims));
  const size_t size = shape.ByteSize().value();
  if (args.device_buffer_ptr == nullptr && size != 0)
    return InvalidArgument("`device_buffer_ptr` is null for ", shape);
  std::function<void()> on_delete = [] {};
  if (args.on_delete_callback != nullptr) {
    on_delete = [callback = args.on_delete_callback, data = args.device_buffer_ptr,
                 user_arg = args.on_delete_callback_arg] { callback(data, user_arg); };
  }
  const bool row_major = CheckDeviceLayout(args.layout, shape.dimensions, ElementSize(shape)).ok();
  // Made first: an error means that the callback is not called.
  auto handle = std::make_unique<PJRT_Buffer>(shape, memory, nullptr);
  Ref<Buffer> buffer;
  if (row_major) {
    buffer = exchange::TakeOffer(args.device_buffer_ptr, shape, memory->memory);
  }
  if (buffer) {
    on_delete();
  } else if (row_major && size != 0 &&
             Buffer::CanViewInPlace(memory->memory, args.device_buffer_ptr)) {
    TRIPONT_ASSIGN_OR_RETURN(
        buffer,
        Buffer::FromExternal(memory->memory, shape, args.device_buffer_ptr, std::move(on_delete)));
  } else {
    // Kernels need dense row-major arrays that start at a multiple of 64 bytes; anything else
    // becomes a copy.
    TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> strides,
                             HostStrides(args.layout, shape.dimensions, ElementSize(shape)));
    TRIPONT_ASSIGN_OR_RETURN(
        buffer, Buffer::FromHost(memory->memory, shape, args.device_buffer_ptr, strides));
    on_delete();
  }
  handle->buffer = std::move(buffer);
  args.buffer = handle.release();
  return OkStatus();
}

Status Client_CreateUninitializedBuffer(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory,
                           TargetMemory(args.client, args.memory, args.device));
  TRIPONT_ASSIGN_OR_RETURN(
      const Shape shape, MakeShape(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  TRIPONT_RETURN_IF_ERROR(
      CheckDeviceLayout(args.shape_layout, shape.dimensions, ElementSize(shape)));
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer, Buffer::Allocate(memory->memory, shape));
  args.buffer = new PJRT_Buffer(std::move(buffer), memory);
  return OkStatus();
}

Status Client_CreateErrorBuffer(PJRT_Client_CreateErrorBuffer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory, TargetMemory(args.client, args.memory, nullptr));
  TRIPONT_ASSIGN_OR_RETURN(
      const Shape shape, MakeShape(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  const Status status = ToStatus(args.error_code, args.error_message, args.error_message_size);
  if (status.ok()) return InvalidArgument("PJRT_Client_CreateErrorBuffer: `error_code` is OK");
  args.buffer = new PJRT_Buffer(Buffer::Failed(memory->memory, shape, status), memory);
  return OkStatus();
}

}  // namespace tripont::pjrt
