#include "core/runtime/hosts/job.h"

#include <algorithm>
#include <cstdlib>
#include <random>
#include <sstream>
#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/hosts/mpi_start.h"
#include "core/runtime/hosts/network_interface.h"
#include "core/runtime/hosts/text.h"
#include "core/runtime/logging.h"
#include "core/runtime/spin.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

// A few of the exchanges that follow one another in a training step, and little beside the step.
constexpr std::chrono::microseconds kPatientSpin{200};

std::atomic<Job*> current{nullptr};

std::string RandomName() {
  std::random_device random;
  std::ostringstream name;
  name << "tripont-" << std::hex;
  for (int i = 0; i < 4; ++i) name << random();
  return std::move(name).str();
}

}  // namespace

Job::Job(Settings settings)
    : process_(settings.process),
      timeout_seconds_(settings.timeout_seconds),
      interface_(std::move(settings.interface)),
      stores_({std::move(settings.store)}),
      processes_(static_cast<size_t>(settings.num_processes)) {
  self_ = ThisProcess();
  self_.num_devices = settings.num_devices;
  self_.device_kind = std::move(settings.device_kind);
  if (const StatusOr<const MpiApi*> mpi = LoadMpi(); mpi.ok()) {
    mpi_ = *mpi;
    self_.mpi = mpi_->version;
    int runs = 0;
    self_.mpi_runs = mpi_->initialized(&runs) == kMpiSuccess && runs != 0;
  } else {
    self_.mpi_error = mpi.status().message();
  }
  if (mpi_ != nullptr && processes_.size() > 1) StartWatcher();
  self_.network_error = NetworkError(interface_);
}

Job::~Job() { EndWatcher(); }

// It is asked for before the processes tell of themselves, so that all of them hear where it cannot be had.
void Job::StartWatcher() {
  const Status status = Guarded("there is no thread that could watch over what it waits for", [&] {
    watcher_ = std::thread([this] {
      watching_.wait(Watching::kNotYet, std::memory_order_acquire);
      if (watching_.load(std::memory_order_acquire) == Watching::kBegun) Watch();
    });
  });
  if (status.ok()) return;
  self_.mpi.clear();
  self_.mpi_error = status.message();
}

void Job::BeginWatching() {
  watching_.store(Watching::kBegun, std::memory_order_release);
  watching_.notify_all();
}

void Job::EndWatcher() {
  if (!watcher_.joinable()) return;
  watching_.store(Watching::kEnded, std::memory_order_release);
  watching_.notify_all();
  watcher_.join();
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
  constexpr int64_t kForEver = int64_t{20} * 86400;
  const int64_t seconds = timeout_seconds_ == 0 ? kForEver : timeout_seconds_;
  return std::chrono::seconds(std::min(seconds, kForEver));
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
    Status status = store->Put(key, value);
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
                             ParseProcessInfo(process, lines[static_cast<size_t>(process) + 1]));
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

std::string Job::NameOf(int process) const { return hosts::NameOf(processes_, process); }

std::string Job::DevicesOf(int process, std::span<const int> devices) const {
  std::vector<std::string> names;
  for (const int device : devices) {
    if (ProcessOf(device) == process) names.push_back(StrCat("xpu:", device));
  }
  return StrJoin(names, ", ");
}

void Job::StartMpi() {
  if (num_processes() == 1) {
    mpi_status_ = FailedPrecondition("a job of one process needs no MPI");
    return;
  }
  mpi_status_ = InitialiseMpi();
  if (!mpi_status_.ok()) {
    EndWatcher();
    TRIPONT_LOG(kWarning, "programs cannot span processes: ", mpi_status_.message());
    return;
  }
  SetPatientSpin(kPatientSpin);
  BeginWatching();
  // MPI's own threads and memory go in the destructors of its libraries, which come after this.
  (void)std::atexit([] {
    if (Job* const job = Current(); job != nullptr) job->EndWithProcess();
  });
}

void Job::EndWithProcess() {
  if (!CheckNotForked().ok()) return;  // the thread is the parent's
  use_of_mpi_.store(UseOfMpi::kOver, std::memory_order_release);
  if (watcher_.joinable()) watcher_.join();
}

Status Job::InitialiseMpi() {
  TRIPONT_RETURN_IF_ERROR(CheckMpi(processes_, self_));
  TRIPONT_ASSIGN_OR_RETURN(std::shared_ptr<KeyValueStore> store, this->store());
  TRIPONT_ASSIGN_OR_RETURN(const MpiWorld world,
                           hosts::StartMpi({mpi_, process_, processes_, name_, interface_,
                                            std::move(store), timeout()}));
  communicator_ = world.communicator;
  largest_tag_ = world.largest_tag;
  return OkStatus();
}

}  // namespace tripont::hosts
