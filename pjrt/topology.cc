#include "pjrt/topology.h"

#include <map>
#include <set>
#include <utility>

#include "core/runtime/backend_registry.h"
#include "core/runtime/client.h"
#include "core/runtime/options.h"
#include "pjrt/call.h"
#include "pjrt/functions.h"
#include "pjrt/wire.h"

struct PJRT_SerializedTopology {
  std::string bytes;
};

namespace tripont::pjrt {
namespace {

// A serialized topology is a PjRtTopologyDescriptionProto
// (xla/pjrt/proto/topology_description.proto), which is what XLA's client parses it as; our own
// part stands in its `platform_specific_topology`, a google.protobuf.Any.
enum TopologyField : uint32_t { kName = 2, kVersion = 3, kPlatformSpecific = 9 };
enum AnyField : uint32_t { kTypeUrl = 1, kAnyValue = 2 };
enum OurField : uint32_t { kDeviceKind = 1, kNumDevices = 2, kCompilerOption = 3, kProcess = 4 };
enum EntryField : uint32_t { kEntryKey = 1, kEntryValue = 2 };
constexpr std::string_view kOurTypeUrl = "type.googleapis.com/tripont.Topology";

constexpr int64_t kMaxTopologyDevices = 1 << 16;

// The backends of TRIPONT_BACKENDS, which a topology may be of before there is a client.
Status LoadChosenBackends() {
  TRIPONT_ASSIGN_OR_RETURN(const Options options, Options::FromEnvironment());
  return LoadBackends(options.backends);
}

// The backend of a topology's target.
StatusOr<const BackendRegistration*> BackendOf(const std::string& target) {
  if (const BackendRegistration* const backend = FindBackend(target)) return backend;
  std::vector<std::string> names;
  for (const BackendRegistration* backend : RegisteredBackends()) names.push_back(backend->name);
  return InvalidArgument("a topology of target '", target, "': the targets are ",
                         StrJoin(names, " and "));
}

// The options of the compiler that a topology can have besides its target: "cpu", which every
// target has (of its host), and those that name the device.
std::set<std::string> DeviceOptions() {
  std::set<std::string> names = {"cpu"};
  for (const BackendRegistration* backend : RegisteredBackends()) {
    names.insert(backend->device_option);
    if (!backend->old_device_option.empty()) names.insert(backend->old_device_option);
  }
  return names;
}

// "host:x86-64-v3" and "sycl:gpu,fp64": a topology's name is its target, and after a colon which
// device of it.
Status ApplyName(std::string_view name, std::map<std::string, std::string>& options) {
  const size_t colon = name.find(':');
  const std::string target(name.substr(0, colon));
  TRIPONT_ASSIGN_OR_RETURN(const BackendRegistration* const backend, BackendOf(target));
  options.insert_or_assign("target", target);
  if (colon != std::string_view::npos)
    options.insert_or_assign(backend->device_option, std::string(name.substr(colon + 1)));
  return OkStatus();
}

// Gives options of older names their present ones, and checks that they are options that a topology
// can have, with values that can be. What devices there are only the compiler knows.
Status CheckCompilerOptions(std::map<std::string, std::string>& options) {
  const auto target = options.find("target");
  TRIPONT_ASSIGN_OR_RETURN(const BackendRegistration* const backend,
                           BackendOf(target == options.end() ? "host" : target->second));
  if (const auto old = options.find(backend->old_device_option); old != options.end()) {
    options.try_emplace(backend->device_option, old->second);
    options.erase(old);
  }
  for (const auto& [name, value] : options) {
    if (name != "target" && name != "cpu" && name != backend->device_option)
      return InvalidArgument("a topology of target '", backend->name, "' has no option '", name,
                             "'");
  }
  return OkStatus();
}

// The name for people of a topology that is not this machine: "host (x86-64-v3)".
std::string KindOf(const std::map<std::string, std::string>& options) {
  std::string target = options.contains("target") ? options.at("target") : "host";
  for (const std::string& name : {FindBackend(target)->device_option, std::string("cpu")}) {
    if (options.contains(name)) return StrCat(target, " (", options.at(name), ")");
  }
  return target;
}

// The target of the devices that the process uses; before its first client, the host's.
std::string_view TargetOfThisProcess() {
  const Core* const core = Core::GetIfCreated();
  return core != nullptr ? core->backend().target() : HostBackend().target();
}

}  // namespace

std::string PlatformVersion(std::string_view compiler_fingerprint) {
  if (compiler_fingerprint.empty()) return StrCat("tripont ", Version());
  return StrCat("tripont ", Version(), " (compiler ", compiler_fingerprint, ")");
}

std::unique_ptr<PJRT_TopologyDescription> MakeTopology(
    std::string_view platform_version, std::string_view target, std::string_view device_kind,
    int num_devices, std::map<std::string, std::string> compiler_options) {
  auto topology = std::make_unique<PJRT_TopologyDescription>();
  topology->platform_version = platform_version;
  topology->device_kind = device_kind;
  if (const auto chosen = compiler_options.find("target"); chosen != compiler_options.end())
    target = chosen->second;
  for (int id = 0; id < num_devices; ++id) {
    auto device = std::make_unique<PJRT_DeviceDescription>();
    device->id = id;
    device->kind = device_kind;
    device->debug_string = StrCat(kPlatformName, ":", id, " (", device_kind, ")");
    device->to_string = StrCat("XpuDevice(id=", id, ")");
    // Strings, integers and lists of integers only: XLA's client aborts on any other type.
    device->attributes.AddString("target", target);
    topology->device_pointers.push_back(device.get());
    topology->devices.push_back(std::move(device));
  }
  topology->attributes.AddString("target", target);
  for (const auto& [name, value] : compiler_options) {
    if (name != "target") topology->attributes.AddString(name, value);
  }
  topology->compiler_options = std::move(compiler_options);
  return topology;
}

void AssignToProcess(PJRT_DeviceDescription& device, int process, std::string_view device_kind) {
  device.process_index = process;
  device.kind = device_kind;
  device.debug_string =
      StrCat(kPlatformName, ":", device.id, " (process ", process, ", ", device_kind, ")");
  device.to_string = StrCat("XpuDevice(id=", device.id, ", process=", process, ")");
}

Status TopologyDescription_Create(PJRT_TopologyDescription_Create_Args& args) {
  TRIPONT_RETURN_IF_ERROR(LoadChosenBackends());
  int64_t num_devices = 1;
  std::string device_kind;
  std::map<std::string, std::string> compiler_options, runtime_options;
  if (args.topology_name_size > 0) {
    TRIPONT_RETURN_IF_ERROR(
        ApplyName({args.topology_name, args.topology_name_size}, compiler_options));
  }
  if (args.num_options > 0 && args.create_options == nullptr) {
    return InvalidArgument("`create_options` is null, but `num_options` is ", args.num_options);
  }
  const std::set<std::string> device_options = DeviceOptions();
  for (size_t i = 0; i < args.num_options; ++i) {
    const PJRT_NamedValue& option = args.create_options[i];
    TRIPONT_RETURN_IF_ERROR(CheckNamedValue(option));
    const std::string name(NameOf(option));
    if (name == "num_devices") {
      TRIPONT_ASSIGN_OR_RETURN(num_devices, ValueAsInt64(option));
    } else if (name == "device_kind") {
      device_kind = ValueAsText(option);
    } else if (name == "target" || device_options.contains(name)) {
      compiler_options.insert_or_assign(name, ValueAsText(option));
    } else if (name == "python" || name == "python_path" || name == "compiler_fingerprint") {
      runtime_options.insert_or_assign(name, ValueAsText(option));
    } else {
      return InvalidArgument("unknown topology option '", name, "'; known are target, ",
                             StrJoin(device_options, ", "), ", num_devices, device_kind");
    }
  }
  TRIPONT_RETURN_IF_ERROR(CheckCompilerOptions(compiler_options));
  if (!compiler_options.empty()) compiler_options.try_emplace("target", "host");
  if (device_kind.empty()) {
    const Core* const core = Core::GetIfCreated();
    device_kind = compiler_options.empty() && core != nullptr && core->num_devices() > 0
                      ? core->device(0)->description()
                      : KindOf(compiler_options);
  }
  if (num_devices < 1 || num_devices > kMaxTopologyDevices) {
    return InvalidArgument("topology option num_devices=", num_devices, " is not between 1 and ",
                           kMaxTopologyDevices);
  }
  std::unique_ptr<PJRT_TopologyDescription> topology =
      MakeTopology(PlatformVersion(""), TargetOfThisProcess(), device_kind,
                   static_cast<int>(num_devices), std::move(compiler_options));
  topology->runtime_options = std::move(runtime_options);
  args.topology = topology.release();
  return OkStatus();
}

Status TopologyDescription_Destroy(PJRT_TopologyDescription_Destroy_Args& args) {
  delete args.topology;
  return OkStatus();
}

TRIPONT_PJRT_LENDS(TopologyDescription_PlatformName, platform_name, platform_name_size,
                   kPlatformName)
TRIPONT_PJRT_LENDS(TopologyDescription_PlatformVersion, platform_version, platform_version_size,
                   args.topology->platform_version)
TRIPONT_PJRT_LENDS(TopologyDescription_GetDeviceDescriptions, descriptions, num_descriptions,
                   args.topology->device_pointers)

Status TopologyDescription_Serialize(PJRT_TopologyDescription_Serialize_Args& args) {
  WireWriter ours;
  ours.Bytes(kDeviceKind, args.topology->device_kind);
  ours.Varint(kNumDevices, args.topology->devices.size());
  // Each device's process, unless all devices are of the first one.
  const auto& devices = args.topology->devices;
  if (!devices.empty() && devices.back()->process_index != 0) {
    for (const auto& device : devices)
      ours.Varint(kProcess, static_cast<uint64_t>(device->process_index));
  }
  for (const auto& [name, value] : args.topology->compiler_options) {
    WireWriter entry;
    entry.Bytes(kEntryKey, name);
    entry.Bytes(kEntryValue, value);
    ours.Bytes(kCompilerOption, entry.str());
  }
  WireWriter any;
  any.Bytes(kTypeUrl, kOurTypeUrl);
  any.Bytes(kAnyValue, ours.str());
  WireWriter topology;
  topology.Bytes(kName, kPlatformName);
  topology.Bytes(kVersion, args.topology->platform_version);
  topology.Bytes(kPlatformSpecific, any.str());
  return GiveBytes(topology.Take(), args, args.serialized_topology,
                   args.serialized_topology_deleter);
}

Status TopologyDescription_Deserialize(PJRT_TopologyDescription_Deserialize_Args& args) {
  if (args.serialized_topology == nullptr) {
    return InvalidArgument("PJRT_TopologyDescription_Deserialize: `serialized_topology` is null");
  }
  TRIPONT_RETURN_IF_ERROR(LoadChosenBackends());
  constexpr std::string_view kMessage = "topology";
  std::string_view platform_version, type_url, value, device_kind;
  int64_t num_devices = 0;
  std::vector<int64_t> processes;
  std::map<std::string, std::string> compiler_options;
  const auto read_option = [&](std::string_view entry) {
    std::string name, text;
    const Status status = ReadMessage(entry, kMessage, {{kEntryKey, &name}, {kEntryValue, &text}});
    compiler_options.insert_or_assign(name, text);
    return status;
  };
  const auto read_any = [&](std::string_view any) {
    return ReadMessage(any, kMessage, {{kTypeUrl, &type_url}, {kAnyValue, &value}});
  };
  Status status = ReadMessage({args.serialized_topology, args.serialized_topology_size}, kMessage,
                              {{kVersion, &platform_version}, {kPlatformSpecific, read_any}});
  if (status.ok()) {
    status = ReadMessage(value, kMessage,
                         {{kDeviceKind, &device_kind},
                          {kNumDevices, &num_devices},
                          {kProcess, &processes},
                          {kCompilerOption, read_option}});
  }
  if (!status.ok() || type_url != kOurTypeUrl || num_devices < 1 ||
      num_devices > kMaxTopologyDevices || std::ssize(processes) > num_devices) {
    return InvalidArgument("these ", args.serialized_topology_size,
                           " bytes are not a serialized topology of platform ", kPlatformName);
  }
  TRIPONT_RETURN_IF_ERROR(CheckCompilerOptions(compiler_options));
  std::unique_ptr<PJRT_TopologyDescription> made =
      MakeTopology(platform_version, TargetOfThisProcess(), device_kind,
                   static_cast<int>(num_devices), std::move(compiler_options));
  for (size_t i = 0; i < processes.size(); ++i)
    AssignToProcess(*made->devices[i], static_cast<int>(processes[i] & 0xFFFF), device_kind);
  args.topology = made.release();
  return OkStatus();
}

TRIPONT_PJRT_LENDS(TopologyDescription_Attributes, attributes, num_attributes,
                   args.topology->attributes)
TRIPONT_PJRT_GIVES(DeviceDescription_Id, id, args.device_description->id)
TRIPONT_PJRT_GIVES(DeviceDescription_ProcessIndex, process_index,
                   args.device_description->process_index)
TRIPONT_PJRT_LENDS(DeviceDescription_Attributes, attributes, num_attributes,
                   args.device_description->attributes)
TRIPONT_PJRT_LENDS(DeviceDescription_Kind, device_kind, device_kind_size,
                   args.device_description->kind)
TRIPONT_PJRT_LENDS(DeviceDescription_DebugString, debug_string, debug_string_size,
                   args.device_description->debug_string)
TRIPONT_PJRT_LENDS(DeviceDescription_ToString, to_string, to_string_size,
                   args.device_description->to_string)

}  // namespace tripont::pjrt
