#include "core/runtime/collectives.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <tuple>

#include "core/runtime/checksum.h"
#include "core/runtime/device.h"
#include "core/runtime/exceptions.h"
#include "core/runtime/hosts/job.h"
#include "core/runtime/logging.h"
#include "core/runtime/strings.h"

namespace tripont {
namespace {

// "all-reduce of program f"; less where there is no memory for that.
std::string NameInProgram(std::string_view name, std::string_view program) noexcept {
  try {
    return StrCat(name, " of program ", program);
  } catch (...) {
    return "a collective";  // short enough to lie in the object
  }
}

// Waiting longer than this is worth a line in the log.
constexpr std::chrono::seconds kWarnAfter{20};

// "SyncTensorsGraph" of "SyncTensorsGraph.46": PyTorch/XLA gives each process a program of its own,
// in whose name XLA puts a number.
std::string_view NameWithoutNumber(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0) return name;
  const std::string_view number = name.substr(dot + 1);
  return number.find_first_not_of("0123456789") == std::string_view::npos ? name.substr(0, dot)
                                                                          : name;
}

// A device that waits for another takes any number of tasks meanwhile: one thread that launches the
// program device by device must come to the next one.
class WaitingForDevices {
 public:
  explicit WaitingForDevices(Device* device) : device_(device) {
    if (device_ != nullptr) device_->stream().SetUnbounded(true);
  }
  ~WaitingForDevices() {
    if (device_ != nullptr) device_->stream().SetUnbounded(false);
  }
  WaitingForDevices(const WaitingForDevices&) = delete;
  WaitingForDevices& operator=(const WaitingForDevices&) = delete;

 private:
  Device* const device_;
};

}  // namespace

bool Placement::IsLocal(int64_t participant) const {
  return job == nullptr || processes[static_cast<size_t>(participant)] == job->process();
}

size_t Placement::NumLocal() const {
  if (job == nullptr) return devices.size();
  return static_cast<size_t>(std::count(processes.begin(), processes.end(), job->process()));
}

Status Launch::Meet(int64_t meeting, std::string_view name, std::span<const int64_t> members,
                    size_t position, Device* device, const Contribution& contribution,
                    const Work& work) {
  if (members.size() == 1) return work({&contribution, 1});
  const std::pair<int64_t, int64_t> key(meeting, members[0]);
  std::unique_lock<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  auto found = meetings_.find(key);
  if (found == meetings_.end()) {
    // Entered when it is complete: others look at all that is there.
    auto made = std::make_shared<Meeting>();
    made->contributions.resize(members.size());
    made->arrived.resize(members.size());
    made->missing = members.size();
    if (placement_.job != nullptr) {
      made->missing =
          static_cast<size_t>(std::count_if(members.begin(), members.end(), [&](int64_t member) {
            return placement_.IsLocal(member);
          }));
    }
    found = meetings_.emplace(key, std::move(made)).first;
  }
  const std::shared_ptr<Meeting> mine = found->second;
  mine->contributions[position] = contribution;
  mine->arrived[position] = true;
  if (--mine->missing > 0) {
    lock.unlock();
    const WaitingForDevices waiting(device);
    lock.lock();
    return Wait(lock, *mine, name, members);
  }
  // The next round may begin with whoever leaves first.
  meetings_.erase(key);
  mine->working = true;
  lock.unlock();
  // Whatever comes of the work, the others must hear of it: they wait without a limit.
  Status status;
  try {
    status = work(mine->contributions);
  } catch (...) {
    status = StatusOfException(NameInProgram(name, program_));
  }
  // The other processes count on every collective of a launch.
  if (!status.ok() && placement_.job != nullptr) placement_.job->Break(status);
  lock.lock();
  mine->status = status;
  mine->done = true;
  lock.unlock();
  mine->changed.notify_all();
  return status;
}

Status Launch::Wait(std::unique_lock<std::mutex>& lock, Meeting& meeting, std::string_view name,
                    std::span<const int64_t> members) {
  const auto start = std::chrono::steady_clock::now();
  const std::chrono::seconds timeout(timeout_seconds_);
  bool warned = false;
  while (!meeting.done) {
    if (!meeting.working && !failure_.ok()) return failure_;
    if (meeting.working || (timeout_seconds_ == 0 && warned)) {
      meeting.changed.wait(lock);
      continue;
    }
    const auto until = timeout_seconds_ == 0 || (!warned && kWarnAfter < timeout)
                           ? start + kWarnAfter
                           : start + timeout;
    if (meeting.changed.wait_until(lock, until) != std::cv_status::timeout) continue;
    if (meeting.done || meeting.working || !failure_.ok()) continue;
    const auto waited =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start)
            .count();
    const std::string text = StrCat(name, " of program ", program_, " (launch ", number_,
                                    ") has waited ", waited, " s for ", Missing(meeting, members));
    if (timeout_seconds_ == 0 || waited < timeout_seconds_) {
      warned = true;
      TRIPONT_LOG(kWarning, text);
      continue;
    }
    failure_ = DeadlineExceeded(
        text,
        "; every device of a program must be launched, in the same order of programs "
        "(TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in seconds)");
    for (const auto& [key, other] : meetings_) other->changed.notify_all();
    return failure_;
  }
  return meeting.status;
}

std::string Launch::Missing(const Meeting& meeting, std::span<const int64_t> members) const {
  std::vector<std::string> missing;
  std::vector<std::string> arrived;
  for (size_t i = 0; i < members.size(); ++i) {
    if (!placement_.IsLocal(members[i])) continue;
    (meeting.arrived[i] ? arrived : missing)
        .push_back(StrCat("xpu:", placement_.devices[static_cast<size_t>(members[i])]));
  }
  return StrCat(StrJoin(missing, ", "), " (", StrJoin(arrived, ", "),
                arrived.size() == 1 ? " is" : " are", " there)");
}

void Launch::Fail(int64_t participant, const Status& status) noexcept {
  // In the child of a fork nobody waits for it, and a thread of the parent, its wire's, may have held the lock.
  if (placement_.job != nullptr && !placement_.job->CheckNotForked().ok()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = status;
  // And where, if there is memory for that.
  (void)Guarded("telling of a failure", [&] {
    failure_ = status.WithPrefix(StrCat("program ", program_, " failed on device xpu:",
                                        placement_.devices[static_cast<size_t>(participant)]));
  });
  (void)Guarded("telling other processes of a failure", [&] {
    if (placement_.job != nullptr) placement_.job->Break(failure_);
  });
  for (const auto& [key, meeting] : meetings_) meeting->changed.notify_all();
}

std::shared_ptr<LaunchSeries> LaunchSeries::Get(hosts::Job* job, const std::string& collectives,
                                                const std::string& program,
                                                const std::vector<int>& devices,
                                                int64_t timeout_seconds) {
  // With other processes the name belongs to it: placement.program, on which all of them must agree, is made of
  // it, and which of two programs with the same collectives comes first is each process's own affair. Within one
  // process it does not: TensorFlow compiles a function for each replica, and names each of them otherwise.
  using Key = std::tuple<hosts::Job*, std::string, std::string, std::vector<int>>;
  static auto* const mutex = new std::mutex;  // as long as the process
  static auto* const all = new std::map<Key, std::weak_ptr<LaunchSeries>>;
  const std::lock_guard<std::mutex> lock(*mutex);
  std::erase_if(*all, [](const auto& entry) { return entry.second.expired(); });
  const std::string name(job == nullptr ? std::string_view() : NameWithoutNumber(program));
  std::weak_ptr<LaunchSeries>& entry = (*all)[Key(job, name, collectives, devices)];
  std::shared_ptr<LaunchSeries> series = entry.lock();
  if (series == nullptr) {
    Placement placement{devices};
    if (job != nullptr) {
      for (const int device : devices) placement.processes.push_back(job->ProcessOf(device));
      Sha256 hash;
      hash.UpdateField(name);
      hash.UpdateField(collectives);
      for (const int device : devices) hash.UpdateField(StrCat(device));
      const std::array<uint8_t, 32> digest = hash.Finish();
      std::memcpy(&placement.program, digest.data(), sizeof(placement.program));
      for (const int process : placement.processes) {
        if (process != job->process()) placement.job = job;
      }
      placement.collectives = std::make_shared<const std::string>(collectives);
    }
    series = std::make_shared<LaunchSeries>(program, std::move(placement), timeout_seconds);
    entry = series;
  }
  return series;
}

Ref<Launch> LaunchSeries::Next(int64_t participant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // What throws comes before anything is changed: who could not take a launch has not taken it.
  int64_t& taken = taken_[static_cast<size_t>(participant)];
  auto entry = open_.find(taken);
  if (entry == open_.end()) {
    Open made{MakeRef<Launch>(program_, placement_, taken, timeout_seconds_),
              placement_.NumLocal()};
    entry = open_.emplace(taken, std::move(made)).first;
  }
  ++taken;
  Ref<Launch> launch = entry->second.launch;
  if (--entry->second.missing == 0) open_.erase(entry);
  return launch;
}

}  // namespace tripont
