#include "core/runtime/hosts/job.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "core/runtime/checksum.h"
#include "core/runtime/hosts/pmi_server.h"
#include "core/runtime/hosts/scoped_environment.h"
#include "core/runtime/logging.h"
#include "core/runtime/spin.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

constexpr int kQuestionTag = 1;
constexpr int kAnswerTag = 2;
constexpr int kFirstChannelTag = 16;
// A wait that takes longer than this asks the processes that it waits for how they are, again and
// again after this time.
constexpr int64_t kAskAfterMs = 1000;
// A process that did not answer for this long is taken for dead.
constexpr int64_t kDeadAfterMs = 8000;
constexpr int64_t kWarnAfterMs = 20000;
// A thread that looks every few milliseconds and did not for this long was stopped (Ctrl-Z, a
// debugger, a machine that slept), and the other processes probably with it.
constexpr int64_t kWasStoppedMs = 2000;
// A few of the exchanges that follow one another in a training step, and little beside the step.
constexpr std::chrono::microseconds kPatientSpin{200};
// Until which MPI has started in all processes, if none of them is late.
constexpr std::chrono::milliseconds kStartSpin{20};
constexpr std::chrono::milliseconds kIdlePause{50};
constexpr std::chrono::milliseconds kBusyPause{5};

std::atomic<Job*> current{nullptr};

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "st_dev:st_ino" of a file; empty if there is none.
std::string Identity(const char* path) {
  struct stat info = {};
  if (stat(path, &info) != 0) return "";
  return StrCat(info.st_dev, ":", info.st_ino);
}

// Field 22 of /proc/PID/stat, which stands after the name in parentheses; 0 if there is no such
// process, or only what its parent has not collected yet.
int64_t StartTime(int64_t pid) {
  const std::string line = ReadLine(StrCat("/proc/", pid, "/stat"));
  const size_t end = line.rfind(')');
  if (end == std::string::npos) return 0;
  std::istringstream rest(line.substr(end + 1));
  std::string state;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  std::string field;
  for (int i = 4; i < 22; ++i) rest >> field;
  int64_t time = 0;
  rest >> time;
  return time;
}

// For a process that runs another program to say which: it says so as soon as it finds that out, but
// its machine may be busy.
constexpr std::chrono::seconds kDifferenceTimeout{10};

std::string RandomName() {
  std::random_device random;
  std::ostringstream name;
  name << "tripont-" << std::hex;
  for (int i = 0; i < 4; ++i) name << random();
  return std::move(name).str();
}

// Without what would end a field or a line of the texts below.
std::string Plain(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

constexpr size_t kMaxReason = 1000;

// Without the middle of what is longer than kMaxReason: it begins with where it happened, and ends
// with what happened (a Python traceback), perhaps in words that quote those of other processes.
std::string Shortened(const std::string& reason) {
  if (reason.size() <= kMaxReason) return reason;
  // Between characters of UTF-8, not within one.
  const auto within = [&](size_t at) { return (static_cast<uint8_t>(reason[at]) & 0xC0) == 0x80; };
  size_t begin = kMaxReason * 2 / 5;
  size_t end = reason.size() - kMaxReason * 3 / 5;
  while (begin > 0 && within(begin)) --begin;
  while (end + 1 < reason.size() && within(end)) ++end;
  return StrCat(reason.substr(0, begin), " ... ", reason.substr(end));
}

std::optional<int64_t> ToNumber(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// How long an interface that was just set up may take until it carries messages.
constexpr std::chrono::seconds kInterfaceWait{5};

// What MPI would lack on a network interface; empty if it has all. MPI itself leaves such an interface
// out, and then ends the process because it reaches no other machine.
std::string WhatIsMissing(const char* interface) {
  if (if_nametoindex(interface) == 0) return "this machine has no network interface of that name";
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";  // the system does not tell; MPI will
  bool is_running = false;
  bool has_address = false;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (std::string_view(one->ifa_name) != interface) continue;
    constexpr unsigned kRunning = IFF_UP | IFF_RUNNING;
    is_running = is_running || (one->ifa_flags & kRunning) == kRunning;
    const int family = one->ifa_addr == nullptr ? AF_UNSPEC : one->ifa_addr->sa_family;
    has_address = has_address || family == AF_INET || family == AF_INET6;
  }
  freeifaddrs(all);
  if (!is_running) return "this network interface is down or has no carrier";
  if (!has_address) return "this network interface has no IP address";
  return "";
}

// Why MPI has no network to listen on, which the user has to choose; empty if it has. Waits for an
// interface that is coming up: the system tells that a cable carries a moment after it does.
std::string NetworkError(const std::string& interface) {
  const auto check = [](std::string_view variable, const char* name) -> std::string {
    const auto start = std::chrono::steady_clock::now();
    std::string missing = WhatIsMissing(name);
    while (!missing.empty() && if_nametoindex(name) != 0 &&
           std::chrono::steady_clock::now() - start < kInterfaceWait) {
      std::this_thread::sleep_for(kIdlePause);
      missing = WhatIsMissing(name);
    }
    return missing.empty() ? "" : StrCat(variable, "=", name, ", but ", missing);
  };
  if (!interface.empty()) return check("TRIPONT_HOSTS_INTERFACE", interface.c_str());
  // UCX's devices are not only the system's: "mlx5_0:1".
  if (std::getenv("UCX_NET_DEVICES") != nullptr) return "";
  if (const char* const name = std::getenv("FI_TCP_IFACE"); name != nullptr)
    return check("FI_TCP_IFACE", name);
  return "set TRIPONT_HOSTS_INTERFACE to the network interface that MPI shall listen on, for "
         "example eth0 (messages on it are neither encrypted nor authenticated: docs/hosts.md)";
}

constexpr int kTopologyVersion = 2;

std::string Serialize(const ProcessInfo& info) {
  return StrCat(kTopologyVersion, "\t", info.num_devices, "\t", Plain(info.device_kind), "\t",
                Plain(info.name), "\t", Plain(info.machine), "\t", info.pid, "\t", info.start_time,
                "\t", Plain(info.mpi), "\t", Plain(info.mpi_error), "\t", info.mpi_runs ? 1 : 0,
                "\t", Plain(info.network_error));
}

StatusOr<ProcessInfo> Parse(int process, std::string_view text) {
  const std::vector<std::string> fields = Split(text, '\t');
  const std::optional<int64_t> version = ToNumber(fields[0]);
  if (version != kTopologyVersion || fields.size() != 11) {
    return FailedPrecondition("process ", process,
                              " runs another version of tripont: all processes of a job need the "
                              "same one");
  }
  ProcessInfo info;
  const std::optional<int64_t> num_devices = ToNumber(fields[1]);
  if (!num_devices || *num_devices < 1 || *num_devices > 256)
    return Internal("process ", process, " has ", fields[1], " devices");
  info.num_devices = static_cast<int>(*num_devices);
  info.device_kind = fields[2];
  info.name = fields[3];
  info.machine = fields[4];
  info.pid = ToNumber(fields[5]).value_or(0);
  info.start_time = ToNumber(fields[6]).value_or(0);
  info.mpi = fields[7];
  info.mpi_error = fields[8];
  info.mpi_runs = fields[9] == "1";
  info.network_error = fields[10];
  return info;
}

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

}  // namespace

// ---------------------------------------------------------------------------------------------------------------
// Joining

Job::Job(Settings settings)
    : process_(settings.process),
      timeout_seconds_(settings.timeout_seconds),
      interface_(std::move(settings.interface)),
      stores_({std::move(settings.store)}),
      processes_(static_cast<size_t>(settings.num_processes)) {
  std::array<char, 256> name{};
  (void)gethostname(name.data(), name.size() - 1);
  self_.num_devices = settings.num_devices;
  self_.device_kind = std::move(settings.device_kind);
  self_.name = name.data();
  self_.machine = StrCat(ReadLine("/proc/sys/kernel/random/boot_id"), " ", Identity("/dev/shm"),
                         " ", Identity("/proc/self/ns/pid"));
  self_.pid = getpid();
  self_.start_time = StartTime(self_.pid);
  if (const StatusOr<const MpiApi*> mpi = LoadMpi(); mpi.ok()) {
    mpi_ = *mpi;
    self_.mpi = mpi_->version;
    int runs = 0;
    self_.mpi_runs = mpi_->initialized(&runs) == kMpiSuccess && runs != 0;
  } else {
    self_.mpi_error = mpi.status().message();
  }
  self_.network_error = NetworkError(interface_);
}

Job* Job::Current() { return current.load(std::memory_order_acquire); }

StatusOr<std::shared_ptr<KeyValueStore>> Job::store() {
  const std::lock_guard<std::mutex> lock(store_mutex_);
  if (stores_.empty()) return Cancelled("the client that joined the job has been destroyed");
  return stores_.back();
}

void Job::Forget(const std::shared_ptr<KeyValueStore>& store) {
  {
    const std::lock_guard<std::mutex> lock(store_mutex_);
    std::erase(stores_, store);
  }
  store->Close();
}

std::chrono::milliseconds Job::timeout() const {
  // The store takes an `int` of milliseconds: for ever is 20 days.
  const int64_t seconds = timeout_seconds_ == 0 ? 20 * 86400 : timeout_seconds_;
  return std::chrono::seconds(std::min<int64_t>(seconds, 20 * 86400));
}

StatusOr<Job*> Job::Join(Settings settings) {
  static auto* const mutex = new std::mutex;  // as long as the process
  if (const Job* const job = Current(); job != nullptr)
    TRIPONT_RETURN_IF_ERROR(job->CheckNotForked());
  const std::lock_guard<std::mutex> lock(*mutex);
  if (Job* const job = Current(); job != nullptr) {
    if (settings.process != job->process_ || settings.num_processes != job->num_processes() ||
        settings.num_devices != job->self_.num_devices) {
      return FailedPrecondition("this is process ", job->process_, " of ", job->num_processes(),
                                " with ", job->self_.num_devices,
                                " devices already, so it cannot become process ", settings.process,
                                " of ", settings.num_processes, " with ", settings.num_devices);
    }
    const std::lock_guard<std::mutex> store_lock(job->store_mutex_);
    job->stores_.push_back(std::move(settings.store));
    return job;
  }
  std::unique_ptr<Job> job(new Job(std::move(settings)));
  TRIPONT_RETURN_IF_ERROR(job->ExchangeTopology());
  job->StartMpi();
  Job* const joined = job.release();
  current.store(joined, std::memory_order_release);
  return joined;
}

// Process 0 gathers what the others tell of themselves, and they get it from there in one piece:
// as many messages as there are processes.
Status Job::ExchangeTopology() {
  TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
  const auto missing = [&](int process, const Status& status) {
    return Status(status.code(),
                  StrCat("process ", process, " of ", num_processes(),
                         " has not joined the job (TRIPONT_COLLECTIVE_TIMEOUT sets how long to "
                         "wait for it, in seconds: ",
                         timeout_seconds_, "): ", status.message()));
  };
  // What has been put cannot be put again, and the others may have read it.
  const auto put = [&](const std::string& key, const std::string& value) {
    const Status status = store->Put(key, value);
    if (status.code() != StatusCode::kAlreadyExists) return status;
    return FailedPrecondition("process ", process_, " of ", num_processes(),
                              " has tried to join this job before, without success: start the job "
                              "anew, all its processes and its coordinator (",
                              status.message(), ")");
  };
  std::string all;
  if (process_ == 0) {
    all = RandomName();
    for (int process = 0; process < num_processes(); ++process) {
      if (process == 0) {
        all += "\n" + Serialize(self_);
        continue;
      }
      StatusOr<std::string> text = store->Get(StrCat("tripont/process/", process), timeout());
      if (!text.ok()) return missing(process, text.status());
      all += "\n" + *text;
    }
    TRIPONT_RETURN_IF_ERROR(put("tripont/job", all));
  } else {
    TRIPONT_RETURN_IF_ERROR(put(StrCat("tripont/process/", process_), Serialize(self_)));
    StatusOr<std::string> text = store->Get("tripont/job", timeout());
    if (!text.ok()) return missing(0, text.status()).WithPrefix("or one of the others");
    all = *text;
  }
  const std::vector<std::string> lines = Split(all, '\n');
  if (lines.size() != processes_.size() + 1) {
    return FailedPrecondition("the job has ", lines.size() - 1, " processes, but `num_nodes` is ",
                              processes_.size());
  }
  name_ = lines[0];
  int next = 0;
  for (int process = 0; process < num_processes(); ++process) {
    TRIPONT_ASSIGN_OR_RETURN(processes_[static_cast<size_t>(process)],
                             Parse(process, lines[static_cast<size_t>(process) + 1]));
    processes_[static_cast<size_t>(process)].first_device = next;
    next += processes_[static_cast<size_t>(process)].num_devices;
  }
  return OkStatus();
}

int Job::ProcessOf(int device) const {
  const auto after = std::upper_bound(
      processes_.begin(), processes_.end(), device,
      [](int id, const ProcessInfo& process) { return id < process.first_device; });
  return static_cast<int>(after - processes_.begin()) - 1;
}

std::string Job::NameOf(int process) const {
  const ProcessInfo& info = processes_[static_cast<size_t>(process)];
  return StrCat("process ", process, " (", info.name, ", pid ", info.pid, ")");
}

std::string Job::DevicesOf(int process, std::span<const int> devices) const {
  std::vector<std::string> names;
  for (const int device : devices) {
    if (ProcessOf(device) == process) names.push_back(StrCat("xpu:", device));
  }
  return StrJoin(names, ", ");
}

// ---------------------------------------------------------------------------------------------------------------
// MPI

void Job::StartMpi() {
  if (num_processes() == 1) {
    mpi_status_ = FailedPrecondition("a job of one process needs no MPI");
    return;
  }
  mpi_status_ = CheckMpi();
  if (mpi_status_.ok()) mpi_status_ = InitialiseMpi();
  if (!mpi_status_.ok()) {
    TRIPONT_LOG(kWarning, "programs cannot span processes: ", mpi_status_.message());
    return;
  }
  SetPatientSpin(kPatientSpin);
  watcher_ = std::thread([this] { Watch(); });
  // MPI's own threads and memory go in the destructors of its libraries, which come after this.
  std::atexit([] {
    if (Job* const job = Current(); job != nullptr) job->EndWithProcess();
  });
}

bool Job::OnOneMachine() const {
  return std::all_of(processes_.begin(), processes_.end(), [&](const ProcessInfo& process) {
    return process.machine == processes_[0].machine;
  });
}

// Whether MPI can start, from what all processes have told: all of them find the same, so that none
// waits in MPI's initialisation for one that has refused.
Status Job::CheckMpi() const {
  for (int process = 0; process < num_processes(); ++process) {
    const ProcessInfo& info = processes_[static_cast<size_t>(process)];
    if (info.mpi.empty()) return Unavailable(NameOf(process), " has no MPI: ", info.mpi_error);
  }
  for (int process = 1; process < num_processes(); ++process) {
    const ProcessInfo& info = processes_[static_cast<size_t>(process)];
    if (info.mpi != processes_[0].mpi) {
      return FailedPrecondition(NameOf(process), " has ", info.mpi, ", but ", NameOf(0), " has ",
                                processes_[0].mpi, ": all processes of a job need the same MPI");
    }
    if (info.mpi_runs != processes_[0].mpi_runs) {
      return FailedPrecondition("MPI was initialised before the job began in ",
                                NameOf(info.mpi_runs ? process : 0), ", but not in ",
                                NameOf(info.mpi_runs ? 0 : process));
    }
  }
  if (OnOneMachine() || self_.mpi_runs) return OkStatus();
  for (int process = 0; process < num_processes(); ++process) {
    const ProcessInfo& info = processes_[static_cast<size_t>(process)];
    if (!info.network_error.empty()) {
      return FailedPrecondition("the job's processes are on several machines, and ",
                                NameOf(process), " has no network for MPI: ", info.network_error);
    }
  }
  return OkStatus();
}

void Job::EndWithProcess() {
  if (!CheckNotForked().ok()) return;  // the thread is the parent's
  use_of_mpi_.store(UseOfMpi::kOver, std::memory_order_release);
  if (watcher_.joinable()) watcher_.join();
}

Status Job::InitialiseMpi() {
  int is_initialised = 0;
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->initialized(&is_initialised), "MPI_Initialized"));
  int level = 0;
  if (is_initialised != 0) {  // by mpi4py, for example
    TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->query_thread(&level), "MPI_Query_thread"));
  } else {
    TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
    TRIPONT_ASSIGN_OR_RETURN(
        const std::unique_ptr<PmiServer> server,
        PmiServer::Start(store.get(), {process_, num_processes(), name_, ProcessMapping(processes_),
                                       timeout()}));
    ScopedEnvironment environment;
    for (const char* const name : {"PMI_PORT", "PMI_ID", "PMI_SPAWNED", "PMIX_NAMESPACE"})
      environment.Unset(name);
    environment.Set("PMI_FD", StrCat(server->descriptor()));
    environment.Set("PMI_RANK", StrCat(process_));
    environment.Set("PMI_SIZE", StrCat(num_processes()));
    if (OnOneMachine()) {
      // Nothing listens on a network, whatever other programs of the user's shall do.
      environment.Set("UCX_TLS", "self,posix,sysv,cma");
      environment.Set("FI_TCP_IFACE", "lo");
    } else if (!interface_.empty()) {
      environment.Set("UCX_NET_DEVICES", interface_);
      environment.Set("FI_TCP_IFACE", interface_);
    }
    TRIPONT_RETURN_IF_ERROR(mpi_->Check(
        mpi_->init_thread(nullptr, nullptr, kMpiThreadMultiple, &level), "MPI_Init_thread"));
  }
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->comm_set_errhandler(kMpiCommWorld, kMpiErrorsReturn),
                                      "MPI_Comm_set_errhandler"));
  if (level < kMpiThreadMultiple) {
    return FailedPrecondition("MPI was initialised with thread level ", level,
                              ", but MPI_THREAD_MULTIPLE (", kMpiThreadMultiple, ") is needed");
  }
  int rank = 0;
  int size = 0;
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->comm_rank(kMpiCommWorld, &rank), "MPI_Comm_rank"));
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->comm_size(kMpiCommWorld, &size), "MPI_Comm_size"));
  if (rank != process_ || size != num_processes()) {
    return FailedPrecondition("MPI knows this process as ", rank, " of ", size,
                              ", but the job knows it as ", process_, " of ", num_processes());
  }
  MpiHandle request = kMpiRequestNull;
  TRIPONT_RETURN_IF_ERROR(
      mpi_->Check(mpi_->comm_idup(kMpiCommWorld, &communicator_, &request), "MPI_Comm_idup"));
  TRIPONT_RETURN_IF_ERROR(AwaitAllProcesses(request, "MPI_Comm_idup"));
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->comm_set_errhandler(communicator_, kMpiErrorsReturn),
                                      "MPI_Comm_set_errhandler"));
  const int* upper_bound = nullptr;
  int has_bound = 0;
  if (mpi_->comm_get_attr(kMpiCommWorld, kMpiTagUpperBound, &upper_bound, &has_bound) ==
          kMpiSuccess &&
      has_bound != 0) {
    largest_tag_ = *upper_bound;
  }
  TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->ibarrier(communicator_, &request), "MPI_Ibarrier"));
  TRIPONT_RETURN_IF_ERROR(AwaitAllProcesses(request, "MPI_Ibarrier"));
  RemoveSharedMemoryFiles();
  return OkStatus();
}

Status Job::AwaitAllProcesses(MpiHandle request, std::string_view call) const {
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    int done = 0;
    TRIPONT_RETURN_IF_ERROR(mpi_->Check(mpi_->test(&request, &done, nullptr), call));
    if (done != 0) return OkStatus();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited < kStartSpin) {
      sched_yield();
      continue;
    }
    for (int process = 0; process < num_processes(); ++process) {
      if (IsGone(process))
        return Unavailable(NameOf(process), " has ended or died while MPI started (", call, ")");
    }
    if (waited > timeout()) {
      return DeadlineExceeded(
          "MPI has not started in all ", num_processes(), " processes of the job after ",
          std::chrono::duration_cast<std::chrono::seconds>(waited).count(), " s (", call,
          "; TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in seconds)");
    }
    std::this_thread::sleep_for(kBusyPause);
  }
}

// ---------------------------------------------------------------------------------------------------------------
// Channels

StatusOr<Channel*> Job::GetChannel(ChannelUse use, const std::vector<int>& devices,
                                   const std::string& what, int64_t timeout_seconds) {
  if (!mpi_status_.ok()) return mpi_status_.WithPrefix(what);
  TRIPONT_RETURN_IF_ERROR(MayCallMpi());
  const int first = ProcessOf(devices[0]);
  int number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = channels_.find({use, devices});
    if (found != channels_.end()) return found->second.get();
    if (first == process_) number = channels_named_++;
  }
  // Each process names the channels whose first device is its own, from a range of tags that is
  // its own.
  const int range = (largest_tag_ - kFirstChannelTag) / num_processes();
  if (number >= range) {
    return ResourceExhausted("MPI has ", largest_tag_,
                             " tags, too few for the groups of devices "
                             "of this program and ",
                             num_processes(), " processes");
  }
  Sha256 hash;
  for (const int device : devices) hash.UpdateField(StrCat(device));
  const std::string key =
      StrCat("tripont/channel/", name_, "/", static_cast<char>(use), "/", hash.FinishHex());
  int64_t tag = kFirstChannelTag + int64_t{first} * range + number;
  if (first == process_) {
    TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
    TRIPONT_RETURN_IF_ERROR(store->Put(key, StrCat(tag)));
  } else {
    Wait wait(this, use, devices, {first}, 0, what, timeout_seconds);
    while (true) {
      TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
      StatusOr<std::string> text = store->Get(key, std::chrono::milliseconds(kAskAfterMs));
      if (text.ok()) {
        tag = ToNumber(*text).value_or(0);
        break;
      }
      if (wait.has_failed()) return wait.status();
      TRIPONT_RETURN_IF_ERROR(MayCallMpi());
      if (text.status().code() == StatusCode::kCancelled) {
        const StatusOr<std::shared_ptr<KeyValueStore>> now = this->store();
        if (!now.ok() || *now == store) return text.status().WithPrefix(what);
      }
      // The store may be gone, with the process that keeps it: the wait finds out.
      if (text.status().code() != StatusCode::kDeadlineExceeded)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (tag < kFirstChannelTag || tag > largest_tag_) {
    return Internal(what, ": the coordinator's store has the tag ", tag, " for ",
                    StrJoin(devices, ", "), ", but MPI's tags go from ", kFirstChannelTag, " to ",
                    largest_tag_);
  }
  auto channel = std::make_unique<Channel>();
  channel->use = use;
  channel->devices = devices;
  channel->tag = static_cast<int>(tag);
  for (const int device : devices) {
    const int process = ProcessOf(device);
    if (process != process_) channel->processes.push_back(process);
  }
  std::sort(channel->processes.begin(), channel->processes.end());
  channel->processes.erase(std::unique(channel->processes.begin(), channel->processes.end()),
                           channel->processes.end());
  const std::lock_guard<std::mutex> lock(mutex_);
  return channels_.emplace(std::pair(use, devices), std::move(channel)).first->second.get();
}

// ---------------------------------------------------------------------------------------------------------------
// Waits

Job::Wait::Wait(Job* job, ChannelUse use, const std::vector<int>& devices,
                std::vector<int> processes, uint64_t sequence, std::string what,
                int64_t timeout_seconds)
    : job_(job),
      use_(use),
      devices_(devices),
      sequence_(sequence),
      what_(std::move(what)),
      timeout_seconds_(timeout_seconds),
      started_ms_(NowMs()) {
  for (const int process : processes) awaited_.push_back({process});
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  number_ = ++job_->waits_begun_;
  position_ = job_->waits_.insert(job_->waits_.end(), this);
  // Nobody watches over waits any more.
  if (job_->use_of_mpi_ == UseOfMpi::kAbandoned) job_->Fail(*this, job_->broken_);
}

Job::Wait::~Wait() {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  job_->waits_.erase(position_);
}

void Job::Wait::Heard(int process) {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  std::erase_if(awaited_, [&](const Awaited& one) { return one.process == process; });
}

Status Job::Wait::status() const {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  return status_;
}

void Job::Fail(Wait& wait, Status status) {
  if (!wait.status_.ok()) return;
  if (broken_.ok()) broken_ = status;
  wait.status_ = std::move(status);
  wait.failed_.store(true, std::memory_order_release);
}

void Job::Break(const Status& status) {
  if (!CheckNotForked().ok())
    return;  // before the lock, which a thread of the parent may have held
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.ok()) broken_ = status;
}

void Job::BreakMoreClearly(const Status& status, const Status& clearer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.message() == status.message()) broken_ = clearer;
}

Status Job::broken() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

std::string Job::KeyOfCollectives(int process, uint64_t identity) const {
  return StrCat("tripont/collectives/", name_, "/", process, "/", identity);
}

void Job::TellCollectives(uint64_t identity, const std::string& collectives) {
  const StatusOr<std::shared_ptr<KeyValueStore>> store = this->store();
  // An error if they are told already: another thread was here, or the program before.
  if (store.ok()) (void)(*store)->Put(KeyOfCollectives(process_, identity), collectives);
}

std::string Job::FirstDifference(const std::string& collectives, int process,
                                 uint64_t its_identity) {
  const StatusOr<std::shared_ptr<KeyValueStore>> store = this->store();
  if (!store.ok()) return "";
  const StatusOr<std::string> others =
      (*store)->Get(KeyOfCollectives(process, its_identity), kDifferenceTimeout);
  if (!others.ok()) return "";
  const std::vector<std::string> here = Split(collectives, '\n');
  const std::vector<std::string> there = Split(*others, '\n');
  size_t line = 0;
  while (line < here.size() && line < there.size() && here[line] == there[line]) ++line;
  if (line == here.size() || line == there.size()) return "";
  // The line behind the last collective is empty.
  const auto quoted = [](const std::string& text) {
    return text.empty() ? "none is left" : Shortened(text);
  };
  return StrCat("; the first collective in which their programs differ is here: ",
                quoted(here[line]), "; there: ", quoted(there[line]));
}

Status Job::CheckNotForked() const {
  if (getpid() == self_.pid) [[likely]]
    return OkStatus();
  return FailedPrecondition("process ", getpid(), " was forked from ", NameOf(process_),
                            " of a job: it cannot take part in programs that span processes");
}

void Job::AbandonMpi(const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.ok()) broken_ = status;
  UseOfMpi use = UseOfMpi::kCalled;  // if the process exits already, that counts
  use_of_mpi_.compare_exchange_strong(use, UseOfMpi::kAbandoned);
  for (Wait* const wait : waits_) Fail(*wait, broken_);
}

Status Job::WhyNotMpi() const {
  while (use_of_mpi_.load(std::memory_order_acquire) == UseOfMpi::kOver)
    std::this_thread::sleep_for(std::chrono::hours(1));
  return broken();
}

// ---------------------------------------------------------------------------------------------------------------
// The job's thread

void Job::Watch() {
  while (use_of_mpi_.load(std::memory_order_acquire) == UseOfMpi::kCalled) {
    AnswerQuestions();
    ReadAnswers();
    LookAfterWaits();
    std::erase_if(outgoing_, [&](Outgoing& message) {
      int done = 0;
      MpiStatus status;
      (void)mpi_->test(&message.request, &done, &status);
      return done != 0;
    });
    bool busy = !outgoing_.empty();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const Wait* wait : waits_) busy = busy || NowMs() - wait->started_ms_ > kAskAfterMs / 2;
    }
    std::this_thread::sleep_for(busy ? kBusyPause : kIdlePause);
  }
}

void Job::Send(int process, int tag, std::string text) {
  Outgoing& message = outgoing_.emplace_back();
  message.text = std::move(text);
  (void)mpi_->isend(message.text.data(), static_cast<int64_t>(message.text.size()), kMpiByte,
                    process, tag, communicator_, &message.request);
}

namespace {

// Sizes of what a question and an answer tell: enough for a person, and little enough to be sent at
// once.
constexpr size_t kMaxWhat = 300;
constexpr size_t kMaxDevicesInQuestion = 256;
constexpr size_t kLongestMessage = 4096;

// The next message with `tag` that is there, and whose it is.
std::optional<std::pair<int, std::string>> TakeMessage(const MpiApi& mpi, MpiHandle communicator,
                                                       int tag) {
  int is_there = 0;
  MpiStatus status = {};
  if (mpi.iprobe(kMpiAnySource, tag, communicator, &is_there, &status) != kMpiSuccess ||
      is_there == 0) {
    return std::nullopt;
  }
  int size = 0;
  if (mpi.get_count(&status, kMpiByte, &size) != kMpiSuccess || size < 0) return std::nullopt;
  // To receive it might take the sender's help, and so as long as the sender likes.
  if (static_cast<size_t>(size) > kLongestMessage) return std::nullopt;
  std::string text(static_cast<size_t>(size), '\0');
  const int source = status.source;
  if (mpi.recv(text.data(), size, kMpiByte, source, tag, communicator, &status) != kMpiSuccess)
    return std::nullopt;
  return std::pair(source, std::move(text));
}

}  // namespace

// A question: "NUMBER\tSEQUENCE\tUSE\tWHAT\tDEVICE DEVICE ...". Its answer: "NUMBER\t" and then nothing,
// if the asker shall wait on, or why what it waits for will not come.
void Job::AnswerQuestions() {
  while (auto question = TakeMessage(*mpi_, communicator_, kQuestionTag)) {
    const std::string number = question->second.substr(0, question->second.find('\t'));
    Send(question->first, kAnswerTag,
         StrCat(number, "\t", Shortened(AnswerTo(question->first, question->second))));
  }
}

std::string Job::AnswerTo(int asker, std::string_view question) {
  const std::vector<std::string> fields = Split(question, '\t');
  if (fields.size() != 5 || fields[2].size() != 1) return "";
  const auto sequence = static_cast<uint64_t>(ToNumber(fields[1]).value_or(0));
  const auto use = static_cast<ChannelUse>(fields[2][0]);
  std::vector<int> devices;
  for (const std::string& id : Split(fields[4], ' '))
    devices.push_back(static_cast<int>(ToNumber(id).value_or(-1)));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto channel = channels_.find({use, devices});
  if (channel != channels_.end() && sequence > 0 && channel->second->sequence >= sequence) {
    const uint64_t failed = channel->second->failed;
    if (failed == 0 || sequence < failed) return "";  // what it waits for is on its way
  }
  if (!broken_.ok()) return Plain(StrCat("it has failed: ", broken_.message()));
  // A transfer keeps no device from its collectives.
  if (use != ChannelUse::kCollectives) return "";
  // All of the asker's devices in the group wait for ours. If one of ours waits for one of the
  // asker's in another collective, neither will ever come.
  const auto in_question = [&](int device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  };
  for (const Wait* wait : waits_) {
    if (wait->use_ != use || wait->devices_ == devices ||
        NowMs() - wait->started_ms_ < kAskAfterMs / 2)
      continue;
    bool has_ours = false;
    bool has_theirs = false;
    for (const int device : wait->devices_) {
      if (!in_question(device)) continue;
      has_ours = has_ours || ProcessOf(device) == process_;
      has_theirs = has_theirs || ProcessOf(device) == asker;
    }
    if (has_ours && has_theirs) {
      return Plain(StrCat("it runs another program: ", DevicesOf(process_, wait->devices_),
                          " waits in ", wait->what_));
    }
  }
  return "";
}

void Job::ReadAnswers() {
  while (auto answer = TakeMessage(*mpi_, communicator_, kAnswerTag)) {
    const auto& [source, text] = *answer;
    const size_t tab = text.find('\t');
    if (tab == std::string::npos) continue;
    const std::optional<int64_t> number = ToNumber(std::string_view(text).substr(0, tab));
    const std::string_view reason = std::string_view(text).substr(tab + 1);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Wait* const wait : waits_) {
      if (static_cast<int64_t>(wait->number_) != number) continue;
      for (Wait::Awaited& awaited : wait->awaited_) {
        if (awaited.process != source) continue;
        awaited.first_question_ms = 0;
        if (!reason.empty()) {
          Fail(*wait,
               FailedPrecondition(DevicesOf(process_, wait->devices_), " waits in ", wait->what_,
                                  " for ", DevicesOf(source, wait->devices_), " of ",
                                  NameOf(source), ", which will not come: ", reason));
        }
      }
    }
  }
}

// Whether a process that can be seen from here is not there any more.
bool Job::IsGone(int process) const {
  const ProcessInfo& info = processes_[static_cast<size_t>(process)];
  return info.machine == self_.machine && info.start_time != 0 &&
         StartTime(info.pid) != info.start_time;
}

void Job::LookAfterWaits() {
  const int64_t now = NowMs();
  const int64_t stopped = last_look_ms_ == 0 ? 0 : now - last_look_ms_;
  last_look_ms_ = now;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Wait* const wait : waits_) {
    if (stopped > kWasStoppedMs) {  // nobody could answer, and nobody is late by it
      wait->started_ms_ = std::min(now, wait->started_ms_ + stopped);
      for (Wait::Awaited& awaited : wait->awaited_) {
        if (awaited.first_question_ms != 0) awaited.first_question_ms = now;
      }
    }
    const int64_t waited = now - wait->started_ms_;
    if (waited < kAskAfterMs || wait->failed_ || wait->awaited_.empty()) continue;
    const auto text = [&](int process) {
      return StrCat(DevicesOf(process_, wait->devices_), " waits in ", wait->what_, " for ",
                    DevicesOf(process, wait->devices_), " of ", NameOf(process));
    };
    if (wait->timeout_seconds_ > 0 && waited > wait->timeout_seconds_ * 1000) {
      Fail(*wait, DeadlineExceeded(text(wait->awaited_[0].process), ", which has not come for ",
                                   waited / 1000,
                                   " s; every process must run the same programs in the same order "
                                   "(TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in "
                                   "seconds)"));
      continue;
    }
    if (waited > kWarnAfterMs && !wait->warned_) {
      wait->warned_ = true;
      TRIPONT_LOG(kWarning, text(wait->awaited_[0].process), " since ", waited / 1000, " s");
    }
    for (Wait::Awaited& awaited : wait->awaited_) {
      if (now - awaited.last_question_ms < kAskAfterMs) continue;
      if (IsGone(awaited.process)) {
        Fail(*wait, Unavailable(text(awaited.process), ", which has ended or died"));
        break;
      }
      if (awaited.first_question_ms != 0 && now - awaited.first_question_ms > kDeadAfterMs) {
        Fail(*wait, Unavailable(text(awaited.process), ", which did not answer for ",
                                kDeadAfterMs / 1000, " s: it has died, or the network is broken"));
        break;
      }
      awaited.last_question_ms = now;
      // One open question is enough: the next follows its answer.
      if (awaited.first_question_ms != 0) continue;
      awaited.first_question_ms = now;
      std::span<const int> devices = wait->devices_;
      if (devices.size() > kMaxDevicesInQuestion) devices = {};
      Send(awaited.process, kQuestionTag,
           StrCat(wait->number_, "\t", wait->sequence_, "\t", static_cast<char>(wait->use_), "\t",
                  Plain(wait->what_.substr(0, kMaxWhat)), "\t", StrJoin(devices, " ")));
    }
  }
}

}  // namespace tripont::hosts
