#include "core/runtime/profile.h"

#include <chrono>
#include <exception>
#include <utility>

namespace tripont {
namespace {

// Guards the pointer; never destroyed, because threads may still run when the process ends.
struct Active {
  std::mutex mutex;
  std::shared_ptr<Profiler> profiler;
};

Active& TheActive() {
  static auto* const active = new Active;
  return *active;
}

}  // namespace

namespace internal {

std::atomic<bool> profiling{false};

std::shared_ptr<Profiler> LockedActiveProfiler() {
  Active& active = TheActive();
  const std::lock_guard<std::mutex> lock(active.mutex);
  return active.profiler;
}

}  // namespace internal

int64_t ProfileClockNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Status StartProfiling(std::shared_ptr<Profiler> profiler) {
  if (profiler == nullptr) return InvalidArgument("no profiler to start");
  Active& active = TheActive();
  const std::lock_guard<std::mutex> lock(active.mutex);
  if (active.profiler != nullptr) {
    return FailedPrecondition("a profile is being taken already: only one at a time");
  }
  active.profiler = std::move(profiler);
  internal::profiling.store(true, std::memory_order_release);
  return OkStatus();
}

Status StopProfiling(const Profiler* profiler) {
  Active& active = TheActive();
  const std::lock_guard<std::mutex> lock(active.mutex);
  if (profiler == nullptr || active.profiler.get() != profiler) {
    return FailedPrecondition("no such profile is being taken");
  }
  internal::profiling.store(false, std::memory_order_release);
  active.profiler = nullptr;
  return OkStatus();
}

void ThunkLog::RecordThunk(const ThunkEvent& event) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.size() >= limit_) {
    ++dropped_;
    return;
  }
  try {
    entries_.push_back(
        {event.artifact->name, event.thunk, event.debug, event.start_ns, event.end_ns});
  } catch (const std::exception&) {  // no memory for more
    ++dropped_;
  }
}

std::vector<ThunkLog::Entry> ThunkLog::Take(int64_t* dropped) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (dropped != nullptr) *dropped = dropped_;
  dropped_ = 0;
  return std::exchange(entries_, {});
}

}  // namespace tripont
