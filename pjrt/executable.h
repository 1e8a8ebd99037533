// PJRT_Executable and PJRT_LoadedExecutable: handles on a tripont::Executable.
#ifndef TRIPONT_PJRT_EXECUTABLE_H_
#define TRIPONT_PJRT_EXECUTABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/executable.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/layouts.h"
#include "pjrt/named_values.h"
#include "pjrt/optimized_program.h"
#include "pjrt/shardings.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Everything that is asked of an executable, computed once when it is made: frameworks ask for all
// of it at every compile. Immutable. Shared by the handles of one executable.
struct ExecutableInfo {
  // `outline`: whoever asks for the optimised program gets its outline.
  ExecutableInfo(Ref<Executable> executable, std::string compile_options, bool outline);

  const Ref<Executable> executable;
  const std::string compile_options;  // the serialized CompileOptionsProto it was compiled with
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_dims;  // of all outputs, one after the other
  std::vector<size_t> output_ranks;
  std::vector<const char*> output_memory_kinds;
  std::vector<size_t> output_memory_kind_sizes;
  std::vector<MemoryKind> output_memories;
  std::vector<Layout*> output_layouts;  // none is null
  // Null for row-major arrays; empty if all are.
  std::vector<Layout*> parameter_layouts;
  std::vector<Layout*> result_layouts;
  NamedValues costs;
  OptimizedProgram optimized_program;
  Shardings parameter_shardings;
  Shardings output_shardings;

  size_t num_outputs() const { return output_types.size(); }
};

// A loaded executable for `client`, made from one that Executable::Load gave and the options that
// it is to run with.
StatusOr<PJRT_LoadedExecutable*> LoadExecutable(PJRT_Client* client, Ref<Executable> executable,
                                                std::string compile_options);

}  // namespace tripont::pjrt

struct PJRT_Executable {
  std::shared_ptr<const tripont::pjrt::ExecutableInfo> info;
};

struct PJRT_LoadedExecutable {
  PJRT_Client* client = nullptr;
  std::shared_ptr<const tripont::pjrt::ExecutableInfo> info;
  // Runs on any one device, which the caller names at every execution: no devices and no assignment
  // of its own.
  bool portable = false;
  // The devices below were given when it was compiled; without, they are a default and a call may
  // name any other.
  bool assigned = false;
  tripont::pjrt::DeviceAssignment device_assignment;
  // Those of this process, in the order of the assignment, and which participant each of them is:
  // its position there.
  std::vector<PJRT_Device*> devices;
  std::vector<int64_t> participants;
  // For a program with collectives: how executions on its devices find one another.
  std::shared_ptr<tripont::LaunchSeries> launches;
  // The runtime's executable itself goes with the handle: another thread may be about to run it.
  std::atomic<bool> deleted{false};
};

#endif  // TRIPONT_PJRT_EXECUTABLE_H_
