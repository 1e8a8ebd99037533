// What the processes of a job know of one another: told once, when they join.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_PROCESS_INFO_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_PROCESS_INFO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/status.h"

namespace tripont::hosts {

// What a process tells the others of itself.
struct ProcessInfo {
  int first_device = 0;  // id
  int num_devices = 0;
  std::string device_kind;
  std::string name;     // of its machine, for people
  std::string machine;  // equal if two processes share memory and see each other's process numbers
  int64_t pid = 0;
  int64_t start_time = 0;     // of the process, so that a later one of the same number is another
  std::string mpi;            // the version of its MPI; empty if it has none
  std::string mpi_error;      // why
  bool mpi_runs = false;      // somebody else initialised it (mpi4py)
  std::string network_error;  // why MPI may not listen on a network; empty if it may
};

// What this process tells of itself, but for its devices, its MPI and its network.
ProcessInfo ThisProcess();

// The line that tells another process, and what `process` has told with it: an error if that runs
// another version of tripont.
std::string Serialize(const ProcessInfo& info);
StatusOr<ProcessInfo> ParseProcessInfo(int process, std::string_view line);

// "process 1 (node7, pid 4711)"
std::string NameOf(const std::vector<ProcessInfo>& processes, int process);

// Whether they all share memory.
bool OnOneMachine(const std::vector<ProcessInfo>& processes);

// Whether a process that can be seen from `self`'s machine is not there any more.
bool IsGone(const ProcessInfo& self, const ProcessInfo& process);

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_PROCESS_INFO_H_
