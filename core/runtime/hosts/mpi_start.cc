#include "core/runtime/hosts/mpi_start.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "core/runtime/hosts/pmi_server.h"
#include "core/runtime/hosts/scoped_environment.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// Until which MPI has started in all processes, if none of them is late.
constexpr std::chrono::milliseconds kStartSpin{20};
constexpr std::chrono::milliseconds kStartPause{5};
// Between two looks at what could end the wait for MPI_Init_thread, beside its return.
constexpr std::chrono::milliseconds kInitialisationPause{100};

// "(vector,(machine,1,processes),...)" in the order of the processes: PMI's way of saying who
// shares memory with whom.
std::string ProcessMapping(const std::vector<ProcessInfo>& processes) {
  std::map<std::string, int> numbers;
  std::string mapping = "(vector";
  for (size_t i = 0; i < processes.size();) {
    const int number =
        numbers.try_emplace(processes[i].machine, static_cast<int>(numbers.size())).first->second;
    size_t end = i;
    while (end < processes.size() && processes[end].machine == processes[i].machine) ++end;
    mapping += StrCat(",(", number, ",1,", end - i, ")");
    i = end;
  }
  return mapping + ")";
}

// MPICH leaves the file of its shared memory behind unless it is finalised, which a process that
// died would keep it from. All processes have it open, so nobody needs the name.
void RemoveSharedMemoryFiles() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t start = line.find("/dev/shm/mpich_shm_");
    if (start == std::string::npos) continue;
    const std::string path = line.substr(start);
    if (path.find(' ') == std::string::npos) unlink(path.c_str());
  }
}

// Why the start of MPI does not come to its end after `waited`, in `call`; OK if it may yet.
// `request`: what the coordinator's store is asked meanwhile, if anything.
Status CheckProgress(const MpiStart& start, std::string_view call,
                     std::chrono::steady_clock::duration waited, std::string_view request = "") {
  const ProcessInfo& self = start.processes[static_cast<size_t>(start.process)];
  for (size_t process = 0; process < start.processes.size(); ++process) {
    if (IsGone(self, start.processes[process])) {
      return Unavailable(NameOf(start.processes, static_cast<int>(process)),
                         " has ended or died while MPI started (", call, ")");
    }
  }
  if (waited <= start.timeout) return OkStatus();
  return DeadlineExceeded(
      "MPI has not started in all ", start.processes.size(), " processes of the job after ",
      std::chrono::duration_cast<std::chrono::seconds>(waited).count(), " s (",
      NameOf(start.processes, start.process), " waits in ", call,
      request.empty() ? "" : StrCat(" for the coordinator's store, and ", request),
      "; TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in seconds)");
}

// A call of MPI_Init_thread, which the thread that makes it and the one that waits for it own
// together: it may never return.
struct Initialisation {
  std::unique_ptr<PmiServer> server;
  std::mutex mutex;
  std::condition_variable has_returned;
  std::optional<int> code;  // once it has returned
  int level = 0;
};

// Begins the call on a thread of its own.
Status Begin(const MpiApi& mpi, const std::shared_ptr<Initialisation>& call) {
  try {
    std::thread([&mpi, call] {
      pthread_setname_np(pthread_self(), "tripont-mpi");
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they are for the program's threads
      int level = 0;
      const int code = mpi.init_thread(nullptr, nullptr, kMpiThreadMultiple, &level);
      const std::lock_guard<std::mutex> lock(call->mutex);
      call->level = level;
      call->code = code;
      call->has_returned.notify_all();
    }).detach();
  } catch (const std::exception& error) {
    return ResourceExhausted("there is no thread on which MPI could start: ", error.what());
  }
  return OkStatus();
}

// The thread level that the call has come to.
StatusOr<int> Await(const MpiStart& start, Initialisation& call) {
  constexpr std::string_view kCall = "MPI_Init_thread";
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(call.mutex);
  while (!call.has_returned.wait_for(lock, kInitialisationPause,
                                     [&] { return call.code.has_value(); })) {
    Status status = call.server->status();
    if (!status.ok()) {
      status = status.WithPrefix(StrCat("the coordinator's store has failed while MPI started in ",
                                        NameOf(start.processes, start.process), ", which ",
                                        call.server->request()));
    } else {
      status = CheckProgress(start, kCall, std::chrono::steady_clock::now() - begin,
                             call.server->request());
    }
    if (status.ok()) continue;
    call.server->FallSilent();
    // Not now: other processes of this machine may be about to open them.
    (void)std::atexit(RemoveSharedMemoryFiles);
    return status;
  }
  TRIPONT_RETURN_IF_ERROR(start.mpi->Check(*call.code, kCall));
  return call.level;
}

// The thread level of MPI, which this process initialises unless somebody else did.
StatusOr<int> Initialise(const MpiStart& start) {
  const MpiApi& mpi = *start.mpi;
  int level = 0;
  int is_initialised = 0;
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.initialized(&is_initialised), "MPI_Initialized"));
  if (is_initialised != 0) {  // by mpi4py, for example
    TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.query_thread(&level), "MPI_Query_thread"));
    return level;
  }
  const auto call = std::make_shared<Initialisation>();
  const int num_processes = static_cast<int>(start.processes.size());
  TRIPONT_ASSIGN_OR_RETURN(call->server,
                           PmiServer::Start(start.store, {start.process, num_processes, start.job,
                                                          ProcessMapping(start.processes)}));
  ScopedEnvironment environment;
  for (const char* const name : {"PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMIX_NAMESPACE"})
    environment.Unset(name);
  environment.Set("PMI_FD", StrCat(call->server->descriptor()));
  environment.Set("PMI_RANK", StrCat(start.process));
  environment.Set("PMI_SIZE", StrCat(num_processes));
  if (OnOneMachine(start.processes)) {
    // Nothing listens on a network, whatever other programs of the user's shall do.
    environment.Set("UCX_TLS", "self,posix,sysv,cma");
    environment.Set("FI_TCP_IFACE", "lo");
  } else if (!start.interface.empty()) {
    environment.Set("UCX_NET_DEVICES", start.interface);
    environment.Set("FI_TCP_IFACE", start.interface);
  }
  TRIPONT_RETURN_IF_ERROR(Begin(mpi, call));
  return Await(start, *call);
}

// Waits until what `call` has begun with all processes is done: UNAVAILABLE if one of this
// machine's is gone, DEADLINE_EXCEEDED after the time limit.
Status AwaitAllProcesses(const MpiStart& start, MpiHandle request, std::string_view call) {
  const MpiApi& mpi = *start.mpi;
  const auto begin = std::chrono::steady_clock::now();
  while (true) {
    int done = 0;
    TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.test(&request, &done, nullptr), call));
    if (done != 0) return OkStatus();
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited < kStartSpin) {
      sched_yield();
      continue;
    }
    TRIPONT_RETURN_IF_ERROR(CheckProgress(start, call, waited));
    std::this_thread::sleep_for(kStartPause);
  }
}

}  // namespace

Status CheckMpi(const std::vector<ProcessInfo>& processes, const ProcessInfo& self) {
  const int num_processes = static_cast<int>(processes.size());
  const auto name = [&](int process) { return NameOf(processes, process); };
  for (int process = 0; process < num_processes; ++process) {
    const ProcessInfo& info = processes[static_cast<size_t>(process)];
    if (info.mpi.empty()) return Unavailable(name(process), " has no MPI: ", info.mpi_error);
  }
  for (int process = 1; process < num_processes; ++process) {
    const ProcessInfo& info = processes[static_cast<size_t>(process)];
    if (info.mpi != processes[0].mpi) {
      return FailedPrecondition(name(process), " has ", info.mpi, ", but ", name(0), " has ",
                                processes[0].mpi, ": all processes of a job need the same MPI");
    }
    if (info.mpi_runs != processes[0].mpi_runs) {
      return FailedPrecondition("MPI was initialised before the job began in ",
                                name(info.mpi_runs ? process : 0), ", but not in ",
                                name(info.mpi_runs ? 0 : process));
    }
  }
  if (OnOneMachine(processes) || self.mpi_runs) return OkStatus();
  for (int process = 0; process < num_processes; ++process) {
    const ProcessInfo& info = processes[static_cast<size_t>(process)];
    if (!info.network_error.empty()) {
      return FailedPrecondition("the job's processes are on several machines, and ", name(process),
                                " has no network for MPI: ", info.network_error);
    }
  }
  return OkStatus();
}

StatusOr<MpiWorld> StartMpi(const MpiStart& start) {
  const MpiApi& mpi = *start.mpi;
  const int num_processes = static_cast<int>(start.processes.size());
  TRIPONT_ASSIGN_OR_RETURN(const int level, Initialise(start));
  MpiWorld world;
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.comm_set_errhandler(kMpiCommWorld, kMpiErrorsReturn),
                                    "MPI_Comm_set_errhandler"));
  if (level < kMpiThreadMultiple) {
    return FailedPrecondition("MPI was initialised with thread level ", level,
                              ", but MPI_THREAD_MULTIPLE (", kMpiThreadMultiple, ") is needed");
  }
  int rank = 0;
  int size = 0;
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.comm_rank(kMpiCommWorld, &rank), "MPI_Comm_rank"));
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.comm_size(kMpiCommWorld, &size), "MPI_Comm_size"));
  if (rank != start.process || size != num_processes) {
    return FailedPrecondition("MPI knows this process as ", rank, " of ", size,
                              ", but the job knows it as ", start.process, " of ", num_processes);
  }
  MpiHandle request = kMpiRequestNull;
  TRIPONT_RETURN_IF_ERROR(
      mpi.Check(mpi.comm_idup(kMpiCommWorld, &world.communicator, &request), "MPI_Comm_idup"));
  TRIPONT_RETURN_IF_ERROR(AwaitAllProcesses(start, request, "MPI_Comm_idup"));
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.comm_set_errhandler(world.communicator, kMpiErrorsReturn),
                                    "MPI_Comm_set_errhandler"));
  const int* upper_bound = nullptr;
  int has_bound = 0;
  if (mpi.comm_get_attr(kMpiCommWorld, kMpiTagUpperBound, &upper_bound, &has_bound) ==
          kMpiSuccess &&
      has_bound != 0) {
    world.largest_tag = *upper_bound;
  }
  TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.ibarrier(world.communicator, &request), "MPI_Ibarrier"));
  TRIPONT_RETURN_IF_ERROR(AwaitAllProcesses(start, request, "MPI_Ibarrier"));
  RemoveSharedMemoryFiles();
  return world;
}

}  // namespace tripont::hosts
