// When each thunk ran: for `tripont explain` and for the profilers of frameworks.
//
// A profiler is registered for the whole process. While none is, an execution pays one load of an
// atomic variable for it, and its thunks nothing. While one is, every thunk of every execution that
// starts is timed; on a device with a queue the host waits for each thunk, so that the times are
// the thunk's own and not those of enqueuing it (and the whole takes longer).
#ifndef TRIPONT_CORE_RUNTIME_PROFILE_H_
#define TRIPONT_CORE_RUNTIME_PROFILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// One run of one thunk.
struct ThunkEvent {
  const Artifact* artifact;  // the program; valid during Record only
  int32_t thunk;             // its number in the artifact: depth first, a loop's condition before
                             // its body, from 0
  int32_t debug;             // into artifact->debug; -1: none
  int64_t start_ns;          // ProfileClockNs()
  int64_t end_ns;
};

// What takes the events. Implementations are thread-safe and must not throw.
class TRIPONT_EXPORT ThunkProfiler {
 public:
  virtual ~ThunkProfiler() = default;
  // Called on the thread that runs the execution, after each thunk: a loop's own event comes after
  // those of its iterations.
  virtual void Record(const ThunkEvent& event) noexcept = 0;
};

// Nanoseconds of a clock that never goes back (std::chrono::steady_clock).
TRIPONT_EXPORT int64_t ProfileClockNs();

// From now on, executions that start report to `profiler`. FAILED_PRECONDITION if another one is
// active.
TRIPONT_EXPORT Status StartProfiling(std::shared_ptr<ThunkProfiler> profiler);

// Executions that start later report to nobody; those that run hold on to the profiler until they
// end. FAILED_PRECONDITION if `profiler` is not the active one.
TRIPONT_EXPORT Status StopProfiling(const ThunkProfiler* profiler);

namespace internal {
TRIPONT_EXPORT extern std::atomic<bool> profiling;
TRIPONT_EXPORT std::shared_ptr<ThunkProfiler> LockedActiveProfiler();
}  // namespace internal

// The active profiler, null if there is none.
inline std::shared_ptr<ThunkProfiler> ActiveProfiler() {
  if (!internal::profiling.load(std::memory_order_acquire)) return nullptr;
  return internal::LockedActiveProfiler();
}

// A profiler that keeps the events. Thread-safe.
class TRIPONT_EXPORT ThunkLog : public ThunkProfiler {
 public:
  struct Entry {
    std::string program;  // the artifact's name
    int32_t thunk;
    int32_t debug;
    int64_t start_ns;
    int64_t end_ns;
  };

  // Keeps the first `limit` events.
  explicit ThunkLog(size_t limit = 1 << 20) : limit_(limit) {}

  void Record(const ThunkEvent& event) noexcept override;
  // Everything so far, and how many events were not kept. The log is empty afterwards.
  std::vector<Entry> Take(int64_t* dropped);

 private:
  const size_t limit_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  int64_t dropped_ = 0;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_PROFILE_H_
