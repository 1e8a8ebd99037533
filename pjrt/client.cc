#include "pjrt/client.h"

#include <optional>
#include <utility>

#include "pjrt/call.h"
#include "pjrt/functions.h"
#include "pjrt/key_value.h"
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

// The options that are not for the runtime: the processes that run one program together, and whether
// the framework takes outlines of optimised programs.
struct FrameworkOptions {
  int64_t node_id = 0;
  int64_t num_nodes = 1;
  bool outlines = false;
};

// The environment's options with those of PJRT_Client_Create over them.
StatusOr<Options> ReadOptions(const PJRT_NamedValue* values, size_t count,
                              FrameworkOptions& framework) {
  TRIPONT_ASSIGN_OR_RETURN(Options options, Options::FromEnvironment());
  if (count > 0 && values == nullptr)
    return InvalidArgument("`create_options` is null, but `num_options` is ", count);
  for (size_t i = 0; i < count; ++i) {
    TRIPONT_RETURN_IF_ERROR(CheckNamedValue(values[i]));
    const std::string_view name = NameOf(values[i]);
    if (name == "node_id") {
      TRIPONT_ASSIGN_OR_RETURN(framework.node_id, ValueAsInt64(values[i]));
      continue;
    }
    if (name == "num_nodes") {
      TRIPONT_ASSIGN_OR_RETURN(framework.num_nodes, ValueAsInt64(values[i]));
      continue;
    }
    if (name == "optimized_programs") {
      const std::string value = ValueAsText(values[i]);
      if (value != "whole" && value != "outline") {
        return InvalidArgument("option 'optimized_programs' is '", value,
                               "': expected 'whole' or 'outline'");
      }
      framework.outlines = value == "outline";
      continue;
    }
    if (name == "partition_index") continue;  // JAX's, of networks that are faster within a part
    if (!IsKnownOption(name)) {
      return InvalidArgument("unknown option '", name, "' for the platform ", kPlatformName,
                             "; the known options are: ", KnownOptions());
    }
    TRIPONT_RETURN_IF_ERROR(options.Set(name, ValueAsText(values[i])));
  }
  return options;
}

// The handle of a device of this process, or of another one if `device` is null.
std::unique_ptr<PJRT_Device> MakeDevice(PJRT_Client* client, Device* device,
                                        PJRT_DeviceDescription* description) {
  auto handle = std::make_unique<PJRT_Device>();
  handle->client = client;
  handle->device = device;
  handle->description = description;
  if (device == nullptr) return handle;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) {
    PJRT_Memory& memory = handle->memories[kind];
    memory.client = client;
    memory.device = handle.get();
    memory.memory = device->memory(static_cast<MemoryKind>(kind));
    memory.id = kNumMemoryKinds * description->id + kind;
    memory.debug_string =
        StrCat(kPlatformName, ":", description->id, " ", memory.memory->kind_name());
    handle->memory_pointers[kind] = &memory;
  }
  return handle;
}

// The job that this process joins; null if it is alone. `store` becomes what the caller brings for
// it.
StatusOr<hosts::Job*> JoinJob(const PJRT_Client_Create_Args& args,
                              const FrameworkOptions& framework, const Client& client,
                              std::shared_ptr<hosts::KeyValueStore>& store) {
  constexpr int64_t kMaxProcesses = 1 << 16;
  if (framework.num_nodes < 1 || framework.num_nodes > kMaxProcesses || framework.node_id < 0 ||
      framework.node_id >= framework.num_nodes) {
    return InvalidArgument("node_id=", framework.node_id, ", num_nodes=", framework.num_nodes,
                           ": expected 1 to ", kMaxProcesses, " processes, numbered from 0");
  }
  if (framework.num_nodes == 1) return static_cast<hosts::Job*>(nullptr);
  hosts::Job::Settings settings;
  store = MakeKeyValueStore(args);
  if (store == nullptr) {
    return InvalidArgument("num_nodes=", framework.num_nodes,
                           ", but the caller gives no key-value store by which the processes could "
                           "find one another");
  }
  settings.store = store;
  settings.process = static_cast<int>(framework.node_id);
  settings.num_processes = static_cast<int>(framework.num_nodes);
  settings.num_devices = static_cast<int>(client.devices().size());
  settings.device_kind = client.devices()[0]->description();
  settings.timeout_seconds = client.options().collective_timeout;
  settings.interface = client.options().hosts_interface;
  return hosts::Job::Join(std::move(settings));
}

}  // namespace

StatusOr<PJRT_Memory*> TargetMemory(const PJRT_Client* client, PJRT_Memory* memory,
                                    PJRT_Device* device) {
  if (memory == nullptr) {
    if (device == nullptr)
      return InvalidArgument("neither `memory` nor `device` says where the buffer shall live");
    if (!device->is_addressable()) {
      return InvalidArgument("device ", device->description->debug_string, " is of process ",
                             device->description->process_index,
                             ": this process cannot put a buffer there");
    }
    memory = device->default_memory();
  }
  if (memory->client != client) {
    return InvalidArgument("memory ", memory->debug_string, " belongs to another client");
  }
  return memory;
}

Status Client_Create(PJRT_Client_Create_Args& args) {
  FrameworkOptions framework;
  TRIPONT_ASSIGN_OR_RETURN(const Options options,
                           ReadOptions(args.create_options, args.num_options, framework));
  auto client = std::make_unique<PJRT_Client>();
  client->gives_outlines = framework.outlines;
  TRIPONT_ASSIGN_OR_RETURN(client->client, Client::Create(options));
  const std::span<Device* const> devices = client->client->devices();
  if (devices.empty()) return Internal("the runtime has no device");
  TRIPONT_ASSIGN_OR_RETURN(client->job, JoinJob(args, framework, *client->client, client->store));
  const hosts::Job* const job = client->job;
  const int num_devices = job != nullptr ? job->num_devices() : static_cast<int>(devices.size());
  const int first =
      job != nullptr ? job->processes()[static_cast<size_t>(job->process())].first_device : 0;
  client->topology = MakeTopology(PlatformVersion(options.compiler_fingerprint),
                                  client->client->core().backend().target(),
                                  devices[0]->description(), num_devices);
  for (int id = 0; id < num_devices; ++id) {
    PJRT_DeviceDescription* const description =
        client->topology->device_pointers[static_cast<size_t>(id)];
    if (job != nullptr) {
      const int process = job->ProcessOf(id);
      AssignToProcess(*description, process,
                      job->processes()[static_cast<size_t>(process)].device_kind);
    }
    const int local = id - first;
    const bool is_ours = local >= 0 && local < static_cast<int>(devices.size());
    client->devices.push_back(MakeDevice(
        client.get(), is_ours ? devices[static_cast<size_t>(local)] : nullptr, description));
    PJRT_Device* const device = client->devices.back().get();
    client->device_pointers.push_back(device);
    if (!is_ours) continue;
    client->addressable_pointers.push_back(device);
    for (PJRT_Memory* memory : device->memory_pointers) client->memory_pointers.push_back(memory);
  }
  args.client = client.release();
  return OkStatus();
}

Status Client_Destroy(PJRT_Client_Destroy_Args& args) {
  delete args.client;
  return OkStatus();
}

TRIPONT_PJRT_LENDS(Client_PlatformName, platform_name, platform_name_size, kPlatformName)
TRIPONT_PJRT_GIVES(Client_ProcessIndex, process_index,
                   args.client->job != nullptr ? args.client->job->process() : 0)
TRIPONT_PJRT_LENDS(Client_PlatformVersion, platform_version, platform_version_size,
                   args.client->topology->platform_version)
TRIPONT_PJRT_LENDS(Client_Devices, devices, num_devices, args.client->device_pointers)
TRIPONT_PJRT_LENDS(Client_AddressableDevices, addressable_devices, num_addressable_devices,
                   args.client->addressable_pointers)

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
  for (PJRT_Device* device : args.client->addressable_pointers) {
    if (device->device->id() != args.local_hardware_id) continue;
    args.addressable_device = device;
    return OkStatus();
  }
  return InvalidArgument("no device with local hardware id ", args.local_hardware_id,
                         ": this client has ", args.client->addressable_pointers.size(),
                         " devices");
}

TRIPONT_PJRT_LENDS(Client_AddressableMemories, addressable_memories, num_addressable_memories,
                   args.client->memory_pointers)
TRIPONT_PJRT_GIVES(Client_TopologyDescription, topology, args.client->topology.get())

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

// The processes of a job are those that began it (hosts/job.h): there is nothing to keep up to date.
Status Client_UpdateGlobalProcessInfo(PJRT_Client_UpdateGlobalProcessInfo_Args&) {
  return OkStatus();
}

// Host memory is device memory: nothing has to be pinned for transfers.
Status Client_DmaMap(PJRT_Client_DmaMap_Args&) { return OkStatus(); }
Status Client_DmaUnmap(PJRT_Client_DmaUnmap_Args&) { return OkStatus(); }

}  // namespace tripont::pjrt
