// Functions of PJRT_Buffer. Making buffers is in buffer_creation.cc.

#include "pjrt/buffer.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/exceptions.h"
#include "core/runtime/exchange.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"
#include "core/runtime/strided_copy.h"
#include "pjrt/call.h"
#include "pjrt/event.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"
#include "pjrt/types.h"

namespace tripont::pjrt {
namespace {

// What an error of a copy begins with.
constexpr std::string_view kCopyingToHost = "copying an array to the host";

int64_t ElementSize(const PJRT_Buffer& buffer) {
  return static_cast<int64_t>(ByteWidth(buffer.buffer->shape().type));
}

// The address of the content, for callers that read it themselves. They ask for it only when the
// buffer is ready.
StatusOr<void*> Address(const PJRT_Buffer& buffer, const char* function) {
  Buffer& array = *buffer.buffer;
  if (array.IsDeleted()) {
    return InvalidArgument(function, ": the buffer ", array.shape(), " was ",
                           array.IsDonated() ? "donated" : "deleted");
  }
  // Who takes buffers over from one framework to another knows row-major ones.
  if (buffer.layout == nullptr) exchange::Observe(array);
  if (array.IsDeferred()) TRIPONT_RETURN_IF_ERROR(array.Acquire().status());
  return array.data();
}

// Byte strides of the host array that `layout` describes, in the order of the buffer's memory;
// empty if it lies there in that order too. Checks that an array of `size` bytes has room for them.
StatusOr<std::vector<int64_t>> DestinationStrides(const PJRT_Buffer& buffer,
                                                  const PJRT_Buffer_MemoryLayout* layout,
                                                  size_t size) {
  if (layout == nullptr && buffer.layout == nullptr) return std::vector<int64_t>();
  const std::span<const int64_t> dims = buffer.dims();
  const int64_t element_size = ElementSize(buffer);
  TRIPONT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, HostStrides(layout, dims, element_size));
  std::vector<int64_t> in_memory =
      buffer.layout == nullptr ? strides : InMemoryOrder(strides, *buffer.layout);
  if (IsDense(in_memory, buffer.buffer->shape().dimensions, element_size))
    return std::vector<int64_t>();
  if (buffer.buffer->byte_size() == 0) return std::vector<int64_t>();
  uint64_t end = element_size;
  for (size_t i = 0; i < dims.size(); ++i) {
    uint64_t extent;
    if (strides[i] < 0 ||
        __builtin_mul_overflow(static_cast<uint64_t>(dims[i] - 1), strides[i], &extent) ||
        __builtin_add_overflow(end, extent, &end)) {
      return InvalidArgument("host layout: byte stride ", strides[i], " of dimension ", i,
                             " is not possible");
    }
  }
  if (end > size) {
    return InvalidArgument("the host layout of ", buffer.buffer->shape(), " needs ", end,
                           " bytes, but `dst_size` is ", size);
  }
  return in_memory;
}

// A transfer that waits for its destination: PJRT_Buffer_CopyRawToHostFuture.
struct PendingRawCopy {
  Hold source;  // the buffer may be deleted before the destination comes
  size_t offset;
  size_t size;
  Ref<Event> done;
};

Status CopyRaw(const PendingRawCopy& pending, void* destination) {
  const HostActivity activity(kDeviceToHost, static_cast<int64_t>(pending.size));
  ParallelCopy(destination, static_cast<const char*>(pending.source.data()) + pending.offset,
               pending.size);
  return OkStatus();
}

Status NoDestination(size_t size) {
  return InvalidArgument("`dst` is null, but ", size, " bytes are to be copied to it");
}

Status BeginRawCopy(const PJRT_Buffer_CopyRawToHostFuture_Callback_Args& args) {
  std::shared_ptr<PendingRawCopy> pending(static_cast<PendingRawCopy*>(args.callback_data));
  TRIPONT_RETURN_IF_ERROR(ToStatus(args.error_code, args.error_message, args.error_message_size));
  if (args.dst == nullptr && pending->size != 0) return NoDestination(pending->size);
  Event* definition = pending->source.buffer()->definition_event();
  definition->OnReady([pending = std::move(pending), destination = args.dst](const Status& made) {
    const Status status =
        made.ok() ? Guarded(kCopyingToHost, [&] { return CopyRaw(*pending, destination); }) : made;
    status.ok() ? pending->done->SetReady() : pending->done->SetError(status);
  });
  return OkStatus();
}

// Called by the framework, which cannot be told of an error but by the event.
void StartRawCopy(PJRT_Buffer_CopyRawToHostFuture_Callback_Args* args) {
  if (args == nullptr) return;
  const Ref<Event> done = static_cast<PendingRawCopy*>(args->callback_data)->done;
  const Status status = Guarded(kCopyingToHost, [args] { return BeginRawCopy(*args); });
  if (!status.ok()) done->SetError(status);
}

Status CheckRange(const PJRT_Buffer& buffer, int64_t offset, int64_t size) {
  const auto bytes = static_cast<int64_t>(buffer.buffer->byte_size());
  if (offset < 0 || size < 0 || offset > bytes || size > bytes - offset) {
    return InvalidArgument("bytes [", offset, ", ", offset, " + ", size,
                           ") do not lie in a buffer of ", bytes, " bytes (",
                           buffer.buffer->shape(), ")");
  }
  return OkStatus();
}

StatusOr<PJRT_Buffer*> CopyTo(const PJRT_Buffer& source, PJRT_Memory* destination) {
  if (destination->client != source.memory->client) {
    return InvalidArgument("cannot copy to ", destination->debug_string,
                           ": it belongs to another client");
  }
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> copy, source.buffer->CopyToMemory(destination->memory));
  return new PJRT_Buffer(std::move(copy), destination, source.layout);
}

}  // namespace

Status Buffer_Destroy(PJRT_Buffer_Destroy_Args& args) {
  if (args.buffer == nullptr) return OkStatus();
  args.buffer->buffer->Delete();
  delete args.buffer;
  return OkStatus();
}

Status Buffer_ElementType(PJRT_Buffer_ElementType_Args& args) {
  SetBufferType(args.buffer->buffer->shape().type, args.type);
  return OkStatus();
}
TRIPONT_PJRT_LENDS(Buffer_Dimensions, dims, num_dims, args.buffer->dims())

// All dimensions are static: nothing is padded.
TRIPONT_PJRT_LENDS(Buffer_UnpaddedDimensions, unpadded_dims, num_dims, args.buffer->dims())

Status Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
  return OkStatus();
}

Status Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  const PJRT_Buffer& buffer = *args.buffer;
  const size_t rank = buffer.dims().size();
  PJRT_Buffer_MemoryLayout& layout = args.layout;
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.extension_start = nullptr;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.extension_start = nullptr;
  layout.tiled.minor_to_major =
      buffer.layout == nullptr ? RowMajorMinorToMajor(rank) : buffer.layout->minor_to_major.data();
  layout.tiled.minor_to_major_size = rank;
  layout.tiled.tile_dims = nullptr;
  layout.tiled.tile_dim_sizes = nullptr;
  layout.tiled.num_tiles = 0;
  return OkStatus();
}

TRIPONT_PJRT_GIVES(Buffer_OnDeviceSizeInBytes, on_device_size_in_bytes,
                   args.buffer->buffer->byte_size())
TRIPONT_PJRT_GIVES(Buffer_Device, device, args.buffer->memory->device)
TRIPONT_PJRT_GIVES(Buffer_Memory, memory, args.buffer->memory)

Status Buffer_Delete(PJRT_Buffer_Delete_Args& args) {
  args.buffer->buffer->Delete();
  return OkStatus();
}

TRIPONT_PJRT_GIVES(Buffer_IsDeleted, is_deleted, args.buffer->buffer->IsDeleted())

Status Buffer_IsOnCpu(PJRT_Buffer_IsOnCpu_Args& args) {
  args.is_on_cpu = true;  // JAX then reads results in place instead of copying them
  return OkStatus();
}

Status Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args& args) {
  const Buffer& buffer = *args.buffer->buffer;
  if (buffer.IsDeleted()) {
    args.event = ToHandle(Event::Failed(InvalidArgument("the buffer ", buffer.shape(), " was ",
                                                        buffer.IsDonated() ? "donated" : "deleted",
                                                        "; it is never ready")));
  } else if (buffer.IsReady()) {
    args.event = ToHandle(nullptr);
  } else {
    // Whoever only starts programs hears of their ends by PJRT_LoadedExecutable_Execute's events.
    buffer.definition_event()->NoteCallerWaits();
    args.event = ToHandle(Ref<Event>(buffer.definition_event()));
  }
  return OkStatus();
}

Status Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args& args) {
  Buffer& buffer = *args.src->buffer;
  if (args.dst == nullptr) {
    args.dst_size = buffer.byte_size();
    args.event = ToHandle(nullptr);
    return OkStatus();
  }
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> strides,
                           DestinationStrides(*args.src, args.host_layout, args.dst_size));
  TRIPONT_ASSIGN_OR_RETURN(Ref<Event> done, buffer.CopyToHost(args.dst, args.dst_size, strides));
  args.event = ToHandle(std::move(done));
  return OkStatus();
}

Status Buffer_CopyRawToHost(PJRT_Buffer_CopyRawToHost_Args& args) {
  TRIPONT_RETURN_IF_ERROR(CheckRange(*args.buffer, args.offset, args.transfer_size));
  if (args.dst == nullptr && args.transfer_size != 0)
    return NoDestination(static_cast<size_t>(args.transfer_size));
  TRIPONT_ASSIGN_OR_RETURN(Ref<Event> done, args.buffer->buffer->CopyRawToHost(
                                                args.dst, args.offset, args.transfer_size));
  args.event = ToHandle(std::move(done));
  return OkStatus();
}

Status Buffer_CopyRawToHostFuture(PJRT_Buffer_CopyRawToHostFuture_Args& args) {
  TRIPONT_RETURN_IF_ERROR(CheckRange(*args.buffer, args.offset, args.transfer_size));
  TRIPONT_ASSIGN_OR_RETURN(Hold source, args.buffer->buffer->Acquire());
  Ref<Event> done = MakeRef<Event>();
  args.callback_data = new PendingRawCopy{std::move(source), static_cast<size_t>(args.offset),
                                          static_cast<size_t>(args.transfer_size), done};
  args.future_ready_callback = StartRawCopy;
  args.event = ToHandle(std::move(done));
  return OkStatus();
}

Status Buffer_CopyToDevice(PJRT_Buffer_CopyToDevice_Args& args) {
  if (args.dst_device == nullptr)
    return InvalidArgument("PJRT_Buffer_CopyToDevice: `dst_device` is null");
  TRIPONT_ASSIGN_OR_RETURN(args.dst_buffer,
                           CopyTo(*args.buffer, args.dst_device->default_memory()));
  return OkStatus();
}

Status Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args& args) {
  if (args.dst_memory == nullptr)
    return InvalidArgument("PJRT_Buffer_CopyToMemory: `dst_memory` is null");
  TRIPONT_ASSIGN_OR_RETURN(args.dst_buffer, CopyTo(*args.buffer, args.dst_memory));
  return OkStatus();
}

Status Buffer_UnsafePointer(PJRT_Buffer_UnsafePointer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(void* const address, Address(*args.buffer, "PJRT_Buffer_UnsafePointer"));
  args.buffer_pointer = reinterpret_cast<uintptr_t>(address);
  return OkStatus();
}

Status Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(args.device_memory_ptr,
                           Address(*args.buffer, "PJRT_Buffer_OpaqueDeviceMemoryDataPointer"));
  return OkStatus();
}

Status Buffer_IncreaseExternalReferenceCount(
    PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  return args.buffer->buffer->AddExternalReference();
}

Status Buffer_DecreaseExternalReferenceCount(
    PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  return args.buffer->buffer->DropExternalReference();
}

}  // namespace tripont::pjrt
