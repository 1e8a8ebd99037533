// Descriptions of devices, with or without the devices themselves.
#ifndef TRIPONT_PJRT_TOPOLOGY_H_
#define TRIPONT_PJRT_TOPOLOGY_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/named_values.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// Immutable after construction. Owned by its topology.
struct PJRT_DeviceDescription {
  int id = 0;
  int process_index = 0;
  std::string kind;  // "Intel XPU (host, AMD EPYC ...)": what jax.devices()[0].device_kind shows
  std::string debug_string;  // "xpu:0 (...)"
  std::string to_string;     // "XpuDevice(id=0)"
  tripont::pjrt::NamedValues attributes;
};

// Immutable after construction. Owned by the client (PJRT_Client_TopologyDescription) or by whoever
// made it.
struct PJRT_TopologyDescription {
  std::string platform_version;
  std::string device_kind;
  // What the compiler is told when it compiles for this topology: target, cpu, device. Empty:
  // for the devices of this process.
  std::map<std::string, std::string> compiler_options;
  // Options of the runtime for compiling without a client: python, compiler_fingerprint.
  std::map<std::string, std::string> runtime_options;
  std::vector<std::unique_ptr<PJRT_DeviceDescription>> devices;
  std::vector<PJRT_DeviceDescription*> device_pointers;
  tripont::pjrt::NamedValues attributes;
};

namespace tripont::pjrt {

// The name of the platform, as frameworks know it.
inline constexpr std::string_view kPlatformName = "xpu";

// "tripont 0.1.0", and the fingerprint of the compiler if it is known: what
// jax.devices()[0].client.platform_version shows. It is part of the key of JAX's persistent cache,
// so it must change when the compiler does.
std::string PlatformVersion(std::string_view compiler_fingerprint);

// `num_devices` devices of this kind, with ids 0, 1, ... `compiler_options`: as above; without
// "target" among them the devices are of `target`.
std::unique_ptr<PJRT_TopologyDescription> MakeTopology(
    std::string_view platform_version, std::string_view target, std::string_view device_kind,
    int num_devices, std::map<std::string, std::string> compiler_options = {});

// Makes the description that of a device of `process`, of this kind, in a job of several processes.
void AssignToProcess(PJRT_DeviceDescription& device, int process, std::string_view device_kind);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_TOPOLOGY_H_
