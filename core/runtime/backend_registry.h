// The registry of backends: which kinds of devices there are, by name.
//
// A folder of core/runtime/backends is one: its function `const BackendRegistration&
// Registration()`, in the namespace of the folder's name, is called by the build's list of those
// folders. A shared library that the option `backends` (TRIPONT_BACKENDS) names brings another
// through the same RegisterBackend. The compiler's side of a backend is the target of the same name
// (core/compiler/targets).
#ifndef TRIPONT_CORE_RUNTIME_BACKEND_REGISTRY_H_
#define TRIPONT_CORE_RUNTIME_BACKEND_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/schema/backend_abi.h"

namespace tripont {

// What there is to know of a device that a client could use.
struct DeviceFacts {
  using Value = std::variant<bool, int64_t, std::string, std::vector<int64_t>>;
  std::string description;                            // "AMD EPYC 9654 (opencl:cpu)"
  std::vector<std::pair<std::string, Value>> values;  // in the order in which people read them
};

// A kind of device. Functions are called with no lock held, possibly by several threads; `python`
// is the interpreter whose environment may hold the devices' runtime.
struct BackendRegistration {
  // The value of TRIPONT_DEVICE that means it, and the name of the compiler's target.
  std::string name;
  // For people: "SYCL".
  std::string title;
  // What may follow the name after a colon, to choose among the devices.
  std::vector<std::string> choices;
  // Choices for tests, of which errors and help do not tell.
  std::vector<std::string> hidden_choices;
  // The compiler's option for which device code is made, and the name that it had before, if any.
  std::string device_option;
  std::string old_device_option;
  // The format of the kernels of users that Backend::LoadUserKernel takes: "SPIR-V"; or none.
  std::string kernel_format;
  // The command that installs the devices' runtime; empty if it needs none.
  std::string install;

  // The backend of the devices that `choice` means; empty: those that suit best. Called once.
  // NOT_FOUND without such a device (with what there is), UNAVAILABLE without their runtime.
  StatusOr<Backend*> (*make)(std::string_view choice, const std::string& python) = nullptr;
  // The choice that is tried when the user asks for nothing, if `may_be_default` says that it is
  // worth a try (cheaply: opens no library). Null: never.
  std::string default_choice;
  bool (*may_be_default)(const std::string& python) = nullptr;
  // All devices. UNAVAILABLE without their runtime. Null: there is nothing to tell.
  StatusOr<std::vector<DeviceFacts>> (*list)(const std::string& python) = nullptr;
  // The numbers of the devices that a choice means, among those that `list` told of. NOT_FOUND
  // without such a device. Null: all of them.
  StatusOr<std::vector<size_t>> (*choose)(std::string_view choice,
                                          std::span<const DeviceFacts> devices) = nullptr;
};

// Adds a backend. INVALID_ARGUMENT for a name that is not a word or is taken, or if there is no
// `make`. Thread-safe.
TRIPONT_EXPORT Status RegisterBackend(BackendRegistration registration);

// Opens the shared libraries `paths` (separated by colons) that were not opened yet, and registers
// the backend of each: a library has the C functions
//
//   const char* tripont_backend_version();         // tripont::Version() of its build
//   int tripont_backend_abi();                     // tripont::kBackendAbi of its build
//   tripont::Status* tripont_register_backend();   // null, or a new Status; called once
//
// UNAVAILABLE if a library cannot be opened, FAILED_PRECONDITION if it was built for another
// version of tripont. A library that could not be registered gives its error again. Thread-safe.
TRIPONT_EXPORT Status LoadBackends(std::string_view paths);

// All of them, in the order of their registration, "host" first. They live as long as the process.
// Thread-safe.
TRIPONT_EXPORT std::vector<const BackendRegistration*> RegisteredBackends();

// The backend of that name; null if there is none. Thread-safe.
TRIPONT_EXPORT const BackendRegistration* FindBackend(std::string_view name);

// OK if the value of TRIPONT_DEVICE is empty or means a backend; else INVALID_ARGUMENT with what it
// can be.
Status CheckDeviceChoice(std::string_view device);

// The backend that a value of TRIPONT_DEVICE means. Empty: the first that may be the default and
// has the device for it, else the host's. The errors of BackendRegistration::make.
StatusOr<Backend*> MakeBackend(std::string_view device, const std::string& python);

// The host's: this process's CPU. Made at the first call.
TRIPONT_EXPORT Backend& HostBackend();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_BACKEND_REGISTRY_H_
