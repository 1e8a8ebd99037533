// Functions of PJRT_Device and PJRT_Memory.

#include "core/runtime/exceptions.h"
#include "pjrt/call.h"
#include "pjrt/client.h"
#include "pjrt/device_memory.h"
#include "pjrt/functions.h"

namespace tripont::pjrt {
namespace {

// INVALID_ARGUMENT for a device of another process, of which this one knows the description alone.
Status CheckAddressable(const PJRT_Device& device) {
  if (device.is_addressable()) return OkStatus();
  return InvalidArgument("device ", device.description->debug_string, " is of process ",
                         device.description->process_index);
}

Status ResetPeakMemory(PJRT_Device* device) {
  if (device == nullptr) return InvalidArgument("the device is null");
  TRIPONT_RETURN_IF_ERROR(CheckAddressable(*device));
  device->device->ResetPeakMemory(MemoryKind::kDevice);
  return OkStatus();
}

}  // namespace

TRIPONT_PJRT_GIVES(Device_GetDescription, device_description, args.device->description)
TRIPONT_PJRT_GIVES(Device_IsAddressable, is_addressable, args.device->is_addressable())

Status Device_LocalHardwareId(PJRT_Device_LocalHardwareId_Args& args) {
  // The API has no other way to say that it is not known here.
  args.local_hardware_id = -1;
  if (!args.device->is_addressable()) return OkStatus();
  args.local_hardware_id = args.device->device->id();
  return OkStatus();
}

Status Device_AddressableMemories(PJRT_Device_AddressableMemories_Args& args) {
  args.memories = args.device->memory_pointers.data();
  args.num_memories = args.device->is_addressable() ? args.device->memory_pointers.size() : 0;
  return OkStatus();
}

Status Device_DefaultMemory(PJRT_Device_DefaultMemory_Args& args) {
  TRIPONT_RETURN_IF_ERROR(CheckAddressable(*args.device));
  args.memory = args.device->default_memory();
  return OkStatus();
}

// Statistics of the memory of kind `device`, where arrays live unless a program says otherwise.
Status Device_MemoryStats(PJRT_Device_MemoryStats_Args& args) {
  TRIPONT_RETURN_IF_ERROR(CheckAddressable(*args.device));
  const AllocatorStats stats = args.device->device->memory_stats(MemoryKind::kDevice);
  args.bytes_in_use = stats.bytes_in_use;
#define TRIPONT_SET(field, value) \
  args.field = value;             \
  args.field##_is_set = true;
  TRIPONT_SET(peak_bytes_in_use, stats.peak_bytes_in_use)
  TRIPONT_SET(num_allocs, stats.num_allocs)
  TRIPONT_SET(largest_alloc_size, stats.largest_alloc_size)
  TRIPONT_SET(bytes_limit, stats.bytes_limit)
  TRIPONT_SET(bytes_reserved, stats.bytes_reserved)
  TRIPONT_SET(pool_bytes, stats.bytes_reserved)
#undef TRIPONT_SET
  args.peak_bytes_reserved_is_set = false;
  args.bytes_reservable_limit_is_set = false;
  args.largest_free_block_bytes_is_set = false;
  args.peak_pool_bytes_is_set = false;
  return OkStatus();
}

// No tracker is installed: a null event is what the API has for that.
TRIPONT_PJRT_GIVES(Device_CreateAsyncTrackingEvent, event, nullptr)

Status AsyncTrackingEvent_Destroy(PJRT_AsyncTrackingEvent_Destroy_Args&) { return OkStatus(); }

TRIPONT_PJRT_GIVES(Memory_Id, id, args.memory->id)

Status Memory_Kind(PJRT_Memory_Kind_Args& args) {
  const std::string_view kind = args.memory->memory->kind_name();
  return Lend(kind, args.kind, args.kind_size);
}

TRIPONT_PJRT_GIVES(Memory_Kind_Id, kind_id, static_cast<int>(args.memory->memory->kind()))
TRIPONT_PJRT_LENDS(Memory_DebugString, debug_string, debug_string_size, args.memory->debug_string)
TRIPONT_PJRT_LENDS(Memory_ToString, to_string, to_string_size, args.memory->debug_string)

Status Memory_AddressableByDevices(PJRT_Memory_AddressableByDevices_Args& args) {
  args.devices = &args.memory->device;
  args.num_devices = 1;
  return OkStatus();
}

}  // namespace tripont::pjrt

PJRT_Error* tripont_device_reset_peak_memory(PJRT_Device* device) {
  return tripont::pjrt::ToError(tripont::Guarded(
      "resetting the peak of memory", [device] { return tripont::pjrt::ResetPeakMemory(device); }));
}
