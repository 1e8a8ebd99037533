#include "pjrt/client.h"

#include <utility>

#include "pjrt/functions.h"
#include "pjrt/named_values.h"

namespace tripont::pjrt {
namespace {

// The names of all client options: "cache, cache_dir, ...".
std::string KnownOptions() {
  std::string names;
  for (const OptionInfo& info : Options::List()) {
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

bool IsKnownOption(std::string_view name) {
  for (const OptionInfo& info : Options::List()) {
    if (info.name == name) return true;
  }
  return false;
}

// The environment's options with those of PJRT_Client_Create over them.
StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count) {
  TRIPONT_ASSIGN_OR_RETURN(Options options, Options::FromEnvironment());
  if (count > 0 && values == nullptr)
    return InvalidArgument("`create_options` is null, but `num_options` is ", count);
  for (size_t i = 0; i < count; ++i) {
    const std::string_view name = NameOf(values[i]);
    if (!IsKnownOption(name)) {
      return InvalidArgument("unknown option '", name, "' for the platform ", kPlatformName,
                             "; the known options are: ", KnownOptions());
    }
    TRIPONT_RETURN_IF_ERROR(options.Set(name, ValueAsText(values[i])));
  }
  return options;
}

std::unique_ptr<PJRT_Device> MakeDevice(PJRT_Client* client, Device* device,
                                        PJRT_DeviceDescription* description) {
  auto handle = std::make_unique<PJRT_Device>();
  handle->client = client;
  handle->device = device;
  handle->description = description;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) {
    PJRT_Memory& memory = handle->memories[kind];
    memory.client = client;
    memory.device = handle.get();
    memory.memory = device->memory(static_cast<MemoryKind>(kind));
    memory.debug_string = StrCat(kPlatformName, ":", device->id(), " ", memory.memory->kind_name());
    handle->memory_pointers[kind] = &memory;
  }
  return handle;
}

}  // namespace

StatusOr<PJRT_Memory*> TargetMemory(const PJRT_Client* client, PJRT_Memory* memory,
                                    PJRT_Device* device) {
  if (memory == nullptr) {
    if (device == nullptr)
      return InvalidArgument("neither `memory` nor `device` says where the buffer shall live");
    memory = device->default_memory();
  }
  if (memory->client != client) {
    return InvalidArgument("memory ", memory->debug_string, " belongs to another client");
  }
  return memory;
}

Status Client_Create(PJRT_Client_Create_Args& args) {
  TRIPONT_ASSIGN_OR_RETURN(Options options, ReadOptions(args.create_options, args.num_options));
  auto client = std::make_unique<PJRT_Client>();
  TRIPONT_ASSIGN_OR_RETURN(client->client, Client::Create(options));
  const std::span<Device* const> devices = client->client->devices();
  if (devices.empty()) return Internal("the runtime has no device");
  client->topology = MakeTopology(PlatformVersion(options.compiler_fingerprint),
                                  devices[0]->description(), static_cast<int>(devices.size()));
  for (size_t i = 0; i < devices.size(); ++i) {
    client->devices.push_back(
        MakeDevice(client.get(), devices[i], client->topology->device_pointers[i]));
    client->device_pointers.push_back(client->devices.back().get());
    for (PJRT_Memory* memory : client->devices.back()->memory_pointers)
      client->memory_pointers.push_back(memory);
  }
  args.client = client.release();
  return OkStatus();
}

Status Client_Destroy(PJRT_Client_Destroy_Args& args) {
  delete args.client;
  return OkStatus();
}

Status Client_PlatformName(PJRT_Client_PlatformName_Args& args) {
  args.platform_name = kPlatformName.data();
  args.platform_name_size = kPlatformName.size();
  return OkStatus();
}

Status Client_ProcessIndex(PJRT_Client_ProcessIndex_Args& args) {
  args.process_index = 0;
  return OkStatus();
}

Status Client_PlatformVersion(PJRT_Client_PlatformVersion_Args& args) {
  args.platform_version = args.client->topology->platform_version.data();
  args.platform_version_size = args.client->topology->platform_version.size();
  return OkStatus();
}

Status Client_Devices(PJRT_Client_Devices_Args& args) {
  args.devices = args.client->device_pointers.data();
  args.num_devices = args.client->device_pointers.size();
  return OkStatus();
}

Status Client_AddressableDevices(PJRT_Client_AddressableDevices_Args& args) {
  args.addressable_devices = args.client->device_pointers.data();
  args.num_addressable_devices = args.client->device_pointers.size();
  return OkStatus();
}

Status Client_LookupDevice(PJRT_Client_LookupDevice_Args& args) {
  PJRT_Device* device = args.client->device(args.id);
  if (device == nullptr) {
    return InvalidArgument("no device ", args.id, ": this client has ", args.client->devices.size(),
                           " devices");
  }
  args.device = device;
  return OkStatus();
}

Status Client_LookupAddressableDevice(PJRT_Client_LookupAddressableDevice_Args& args) {
  PJRT_Device* device = args.client->device(args.local_hardware_id);
  if (device == nullptr) {
    return InvalidArgument("no device with local hardware id ", args.local_hardware_id,
                           ": this client has ", args.client->devices.size(), " devices");
  }
  args.addressable_device = device;
  return OkStatus();
}

Status Client_AddressableMemories(PJRT_Client_AddressableMemories_Args& args) {
  args.addressable_memories = args.client->memory_pointers.data();
  args.num_addressable_memories = args.client->memory_pointers.size();
  return OkStatus();
}

Status Client_TopologyDescription(PJRT_Client_TopologyDescription_Args& args) {
  args.topology = args.client->topology.get();
  return OkStatus();
}

Status Client_DefaultDeviceAssignment(PJRT_Client_DefaultDeviceAssignment_Args& args) {
  const auto num_devices = static_cast<int64_t>(args.client->devices.size());
  const int64_t wanted = int64_t{args.num_replicas} * args.num_partitions;
  if (args.num_replicas < 1 || args.num_partitions < 1 || wanted > num_devices) {
    return InvalidArgument("a program of ", args.num_replicas, " replicas and ",
                           args.num_partitions, " partitions on a client of ", num_devices,
                           " devices (TRIPONT_NUM_DEVICES gives a process more)");
  }
  if (args.default_assignment == nullptr ||
      static_cast<int64_t>(args.default_assignment_size) < wanted) {
    return InvalidArgument("`default_assignment` has room for ", args.default_assignment_size,
                           " devices, not ", wanted);
  }
  for (int64_t i = 0; i < wanted; ++i) args.default_assignment[i] = static_cast<int>(i);
  return OkStatus();
}

// One process has all devices: there is nothing to keep up to date.
Status Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args&) {
  return OkStatus();
}

// Host memory is device memory: nothing has to be pinned for transfers.
Status Client_DmaMap(PJRT_Client_DmaMap_Args&) { return OkStatus(); }
Status Client_DmaUnmap(PJRT_Client_DmaUnmap_Args&) { return OkStatus(); }

}  // namespace tripont::pjrt
