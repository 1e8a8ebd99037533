// PJRT_AsyncHostToDeviceTransferManager: buffers that exist before their content, which arrives in
// pieces.
//
// Device memory is host memory, so a piece is copied while the caller waits; what is asynchronous
// is that programs may be given the buffers before all pieces are there.

#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/exceptions.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"
#include "core/runtime/strided_copy.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"
#include "pjrt/event.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"
#include "pjrt/types.h"

namespace tripont::pjrt {

// One buffer of a manager.
struct PendingBuffer {
  Ref<Buffer> buffer;
  Ref<Event> definition;  // decided when all content is there, or never will be
  Hold hold;  // keeps the memory while pieces may arrive, even if the buffer is deleted meanwhile
  size_t byte_size = 0;
  bool retrieved = false;
  bool last_piece_seen = false;
  bool decided = false;
  int copying = 0;  // pieces that are being copied now, by other threads
};

}  // namespace tripont::pjrt

struct PJRT_AsyncHostToDeviceTransferManager {
  PJRT_Memory* memory = nullptr;
  std::mutex mutex;  // guards `buffers`' fields; not held during copies
  std::vector<tripont::pjrt::PendingBuffer> buffers;
};

namespace tripont::pjrt {
namespace {

// What an error of a copy begins with.
constexpr std::string_view kCopyingPiece = "copying a piece of an array to the device";

StatusOr<PendingBuffer*> Find(PJRT_AsyncHostToDeviceTransferManager* manager, int index) {
  if (index < 0 || static_cast<size_t>(index) >= manager->buffers.size()) {
    return InvalidArgument("buffer_index ", index, ": the transfer manager has ",
                           manager->buffers.size(), " buffers");
  }
  return &manager->buffers[index];
}

// With the manager's mutex held. The event's callbacks run after it is released: the caller decides
// `event`.
Ref<Event> MarkDecided(PendingBuffer& pending) {
  pending.decided = true;
  pending.hold.Release();
  return pending.definition;
}

// Begins to copy a piece: from here until EndPiece the buffer is not finished by another thread.
Status BeginPiece(PJRT_AsyncHostToDeviceTransferManager* manager, PendingBuffer& pending,
                  int index) {
  const std::lock_guard<std::mutex> lock(manager->mutex);
  if (pending.decided || pending.last_piece_seen) {
    return FailedPrecondition("buffer ", index, " (", pending.buffer->shape(),
                              ") of the transfer manager is complete");
  }
  ++pending.copying;
  return OkStatus();
}

void EndPiece(PJRT_AsyncHostToDeviceTransferManager* manager, PendingBuffer& pending,
              bool is_last) {
  Ref<Event> ready;
  {
    const std::lock_guard<std::mutex> lock(manager->mutex);
    --pending.copying;
    pending.last_piece_seen = pending.last_piece_seen || is_last;
    if (pending.decided && pending.copying == 0) pending.hold.Release();  // see SetBufferError
    if (pending.last_piece_seen && pending.copying == 0 && !pending.decided)
      ready = MarkDecided(pending);
  }
  if (ready) ready->SetReady();
}

}  // namespace

Status Client_CreateBuffersForAsyncHostToDevice(
    PJRT_Client_CreateBuffersForAsyncHostToDevice_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PJRT_Memory * memory, TargetMemory(args.client, args.memory, nullptr));
  if (args.num_device_layouts != 0 && args.num_device_layouts != args.num_shape_specs) {
    return InvalidArgument(args.num_shape_specs, " shapes with ", args.num_device_layouts,
                           " device layouts");
  }
  if (args.num_shape_specs != 0 && args.shape_specs == nullptr)
    return InvalidArgument("`shape_specs` is null, but there are ", args.num_shape_specs);
  if (args.num_device_layouts != 0 && args.device_layouts == nullptr)
    return InvalidArgument("`device_layouts` is null, but there are ", args.num_device_layouts);
  auto manager = std::make_unique<PJRT_AsyncHostToDeviceTransferManager>();
  manager->memory = memory;
  for (size_t i = 0; i < args.num_shape_specs; ++i) {
    const PJRT_ShapeSpec& spec = args.shape_specs[i];
    TRIPONT_ASSIGN_OR_RETURN(const Shape shape,
                             MakeShape(spec.element_type, spec.dims, spec.num_dims));
    if (args.num_device_layouts != 0) {
      TRIPONT_RETURN_IF_ERROR(
          CheckDeviceLayout(args.device_layouts[i], shape.dimensions, ByteWidth(shape.type)));
    }
    PendingBuffer pending;
    pending.definition = MakeRef<Event>();
    TRIPONT_ASSIGN_OR_RETURN(pending.buffer,
                             Buffer::Allocate(memory->memory, shape, pending.definition));
    TRIPONT_ASSIGN_OR_RETURN(pending.hold, pending.buffer->Acquire());
    pending.byte_size = pending.buffer->byte_size();
    manager->buffers.push_back(std::move(pending));
  }
  args.transfer_manager = manager.release();
  return OkStatus();
}

Status AsyncHostToDeviceTransferManager_Destroy(
    PJRT_AsyncHostToDeviceTransferManager_Destroy_Args& args) {
  const std::unique_ptr<PJRT_AsyncHostToDeviceTransferManager> manager(args.transfer_manager);
  if (manager == nullptr) return OkStatus();
  for (PendingBuffer& pending : manager->buffers) {
    if (!pending.decided) {
      MarkDecided(pending)->SetError(
          Cancelled("the transfer manager was destroyed before all of the buffer ",
                    pending.buffer->shape(), " arrived"));
    }
  }
  return OkStatus();
}

Status AsyncHostToDeviceTransferManager_TransferData(
    PJRT_AsyncHostToDeviceTransferManager_TransferData_Args& args) {
  PJRT_AsyncHostToDeviceTransferManager* manager = args.transfer_manager;
  TRIPONT_ASSIGN_OR_RETURN(PendingBuffer * pending, Find(manager, args.buffer_index));
  const auto byte_size = static_cast<int64_t>(pending->byte_size);
  if (args.offset < 0 || args.transfer_size < 0 || args.offset > byte_size ||
      args.transfer_size > byte_size - args.offset ||
      (args.data == nullptr && args.transfer_size > 0)) {
    return InvalidArgument("bytes [", args.offset, ", ", args.offset, " + ", args.transfer_size,
                           ") do not lie in buffer ", args.buffer_index, " of ", byte_size,
                           " bytes, or `data` is null");
  }
  TRIPONT_RETURN_IF_ERROR(BeginPiece(manager, *pending, args.buffer_index));
  const Status copied = Guarded(kCopyingPiece, [&] {
    const HostActivity activity(kHostToDevice, args.transfer_size);
    ParallelCopy(static_cast<char*>(pending->hold.data()) + args.offset, args.data,
                 args.transfer_size);
    return OkStatus();
  });
  // A piece that has not come may be sent again.
  EndPiece(manager, *pending, copied.ok() && args.is_last_transfer);
  TRIPONT_RETURN_IF_ERROR(copied);
  args.done_with_h2d_transfer = ToHandle(nullptr);
  return OkStatus();
}

Status AsyncHostToDeviceTransferManager_TransferLiteral(
    PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args& args) {
  PJRT_AsyncHostToDeviceTransferManager* manager = args.transfer_manager;
  TRIPONT_ASSIGN_OR_RETURN(PendingBuffer * pending, Find(manager, args.buffer_index));
  TRIPONT_ASSIGN_OR_RETURN(
      const Shape shape, MakeShape(args.shape_element_type, args.shape_dims, args.shape_num_dims));
  if (!(shape == pending->buffer->shape())) {
    return InvalidArgument("a literal ", shape, " for buffer ", args.buffer_index, ", which is ",
                           pending->buffer->shape());
  }
  if (args.data == nullptr && pending->byte_size > 0)
    return InvalidArgument("`data` is null for a literal ", shape);
  const auto element_size = static_cast<int64_t>(ByteWidth(shape.type));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> source,
                           HostStrides(args.shape_layout, shape.dimensions, element_size));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> destination,
                           HostStrides(nullptr, shape.dimensions, element_size));
  TRIPONT_RETURN_IF_ERROR(BeginPiece(manager, *pending, args.buffer_index));
  const Status copied = Guarded(kCopyingPiece, [&] {
    if (pending->byte_size == 0) return OkStatus();
    const HostActivity activity(kHostToDevice, static_cast<int64_t>(pending->byte_size));
    StridedCopy(pending->hold.data(), destination, args.data, source, shape.dimensions,
                element_size);
    return OkStatus();
  });
  EndPiece(manager, *pending, /*is_last=*/copied.ok());
  TRIPONT_RETURN_IF_ERROR(copied);
  args.done_with_h2d_transfer = ToHandle(nullptr);
  return OkStatus();
}

Status AsyncHostToDeviceTransferManager_RetrieveBuffer(
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args& args) {
  PJRT_AsyncHostToDeviceTransferManager* manager = args.transfer_manager;
  TRIPONT_ASSIGN_OR_RETURN(PendingBuffer * pending, Find(manager, args.buffer_index));
  const std::lock_guard<std::mutex> lock(manager->mutex);
  if (pending->retrieved) {
    return FailedPrecondition("buffer ", args.buffer_index,
                              " of the transfer manager was retrieved already");
  }
  args.buffer_out = new PJRT_Buffer(pending->buffer, manager->memory);
  pending->retrieved = true;
  return OkStatus();
}

TRIPONT_PJRT_GIVES(AsyncHostToDeviceTransferManager_Device, device_out,
                   args.transfer_manager->memory->device)
TRIPONT_PJRT_GIVES(AsyncHostToDeviceTransferManager_BufferCount, buffer_count,
                   args.transfer_manager->buffers.size())

Status AsyncHostToDeviceTransferManager_BufferSize(
    PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(PendingBuffer * pending, Find(args.transfer_manager, args.buffer_index));
  args.buffer_size = pending->byte_size;
  return OkStatus();
}

Status AsyncHostToDeviceTransferManager_SetBufferError(
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args& args) {
  PJRT_AsyncHostToDeviceTransferManager* manager = args.transfer_manager;
  TRIPONT_ASSIGN_OR_RETURN(PendingBuffer * pending, Find(manager, args.buffer_index));
  Status error = ToStatus(args.error_code, args.error_message, args.error_message_size);
  if (error.ok())
    return InvalidArgument(
        "PJRT_AsyncHostToDeviceTransferManager_SetBufferError: `error_code` is OK");
  Ref<Event> definition;
  {
    const std::lock_guard<std::mutex> lock(manager->mutex);
    if (pending->decided) {
      return FailedPrecondition("buffer ", args.buffer_index,
                                " of the transfer manager is complete");
    }
    pending->decided = true;
    definition = pending->definition;
    // A piece that is on its way keeps the memory until it ends.
    if (pending->copying == 0) pending->hold.Release();
  }
  definition->SetError(std::move(error));
  return OkStatus();
}

// Metadata is for other runtimes' schedulers.
Status AsyncHostToDeviceTransferManager_AddMetadata(
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args&) {
  return OkStatus();
}

}  // namespace tripont::pjrt
