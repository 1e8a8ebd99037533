// The start of MPI in a process of a job, together with all the others.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_MPI_START_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_MPI_START_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/hosts/key_value.h"
#include "core/runtime/hosts/mpi_api.h"
#include "core/runtime/hosts/process_info.h"
#include "core/runtime/status.h"

namespace tripont::hosts {

// Of MPI, once it has started. Lives as long as the process: MPI is never finalised.
struct MpiWorld {
  MpiHandle communicator = nullptr;  // the job's own, of all its processes
  int largest_tag = 0;
};

struct MpiStart {
  const MpiApi* mpi = nullptr;
  int process = 0;
  std::vector<ProcessInfo> processes;  // of the job
  std::string job;                     // its name
  std::string interface;               // of the network, between machines
  std::shared_ptr<KeyValueStore> store;
  std::chrono::milliseconds timeout{};  // for the others to start theirs
};

// Whether MPI can start, from what all processes have told: all of them find the same, so that none
// waits in MPI's initialisation for one that has refused.
// `self`: what this process has told.
Status CheckMpi(const std::vector<ProcessInfo>& processes, const ProcessInfo& self);

// Starts MPI, or uses one that runs, which every process of the job must do at the same time.
// Called once, by one thread: it changes the process's environment meanwhile (ScopedEnvironment).
// UNAVAILABLE if a process of this machine is gone or the store is, DEADLINE_EXCEEDED after the
// timeout. MPI_Init_thread cannot be interrupted: it runs on a thread of its own, which stays in it
// after such an error until the process ends. MPI must not be called then.
StatusOr<MpiWorld> StartMpi(const MpiStart& start);

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_MPI_START_H_
