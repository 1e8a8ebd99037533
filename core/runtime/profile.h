// When programs, their thunks, compiles and transfers ran: for `tripont explain` and for the
// profilers of frameworks.
//
// A profiler is registered for the whole process. While none is, a compile and a transfer pay one
// load of an atomic variable each for it, an execution two, and thunks nothing. While one is, every
// thunk of every execution that starts is timed; on a device with a queue the host waits for each
// thunk, so that the times are the thunk's own and not those of enqueuing it (and the whole takes
// longer).
#ifndef TRIPONT_CORE_RUNTIME_PROFILE_H_
#define TRIPONT_CORE_RUNTIME_PROFILE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// One run of one thunk. Times, here and below, are those of ProfileClockNs().
struct ThunkEvent {
  const Artifact* artifact;  // the program; valid during the call only
  int64_t program;           // number of the loaded program: no two of a process have the same
  int32_t thunk;             // its number in the artifact: depth first, a loop's condition before
                             // its body, from 0
  int32_t debug;             // into artifact->debug; -1: none
  schema::ThunkKind kind;
  int32_t device;  // the device's id
  int64_t start_ns;
  int64_t end_ns;
};

// One run of one program on one device, from its first thunk to its last.
struct ExecutionEvent {
  const Artifact* artifact;  // as above
  int64_t program;
  int32_t device;
  uint64_t caller;  // what the framework's profiler calls the place that asked for it; 0: unknown
  int64_t start_ns;
  int64_t end_ns;
};

// Something that the runtime did on the thread that reports it: see HostActivity. Their names:
inline constexpr std::string_view kCompileActivity = "Tripont::Compile";
inline constexpr std::string_view kHostToDevice = "Tripont::HostToDevice";
inline constexpr std::string_view kDeviceToHost = "Tripont::DeviceToHost";
inline constexpr std::string_view kDeviceToDevice = "Tripont::DeviceToDevice";
struct HostEvent {
  std::string_view name;   // what, a literal
  std::string_view about;  // what with; valid during the call only
  int64_t bytes;           // that were moved; -1: does not apply
  uint64_t caller;         // as above
  int64_t start_ns;
  int64_t end_ns;
};

// What takes the events. Implementations are thread-safe.
class TRIPONT_EXPORT Profiler {
 public:
  virtual ~Profiler() = default;
  // Called on the thread that runs the execution, after each thunk: a loop's own event comes after
  // those of its iterations.
  virtual void RecordThunk(const ThunkEvent& event) noexcept = 0;
  // Called on the same thread, after all thunks; not if one failed.
  virtual void RecordExecution(const ExecutionEvent& event) noexcept = 0;
  virtual void RecordHost(const HostEvent& event) noexcept = 0;
};

// Nanoseconds of a clock that never goes back (std::chrono::steady_clock).
TRIPONT_EXPORT int64_t ProfileClockNs();

// From now on, executions that start report to `profiler`. FAILED_PRECONDITION if another one is
// active.
TRIPONT_EXPORT Status StartProfiling(std::shared_ptr<Profiler> profiler);

// Executions that start later report to nobody; those that run hold on to the profiler until they
// end. FAILED_PRECONDITION if `profiler` is not the active one.
TRIPONT_EXPORT Status StopProfiling(const Profiler* profiler);

namespace internal {
TRIPONT_EXPORT extern std::atomic<bool> profiling;
TRIPONT_EXPORT std::shared_ptr<Profiler> LockedActiveProfiler();
}  // namespace internal

inline bool IsProfiling() { return internal::profiling.load(std::memory_order_relaxed); }

// The active profiler, null if there is none.
inline std::shared_ptr<Profiler> ActiveProfiler() {
  if (!internal::profiling.load(std::memory_order_acquire)) return nullptr;
  return internal::LockedActiveProfiler();
}

// Reports the time from its construction to its destruction as an event of the calling thread.
class TRIPONT_EXPORT HostActivity {
 public:
  // name: a literal.
  explicit HostActivity(std::string_view name, int64_t bytes = -1)
      : profiler_(ActiveProfiler()), name_(name), bytes_(bytes) {
    if (profiler_ != nullptr) [[unlikely]] {
      start_ns_ = ProfileClockNs();
    }
  }
  ~HostActivity() {
    if (profiler_ != nullptr) [[unlikely]] {
      profiler_->RecordHost({name_, about_, bytes_, caller_, start_ns_, ProfileClockNs()});
    }
  }
  HostActivity(const HostActivity&) = delete;
  HostActivity& operator=(const HostActivity&) = delete;
  // Whether anybody listens: what About is given may be costly to make.
  bool IsRecorded() const { return profiler_ != nullptr; }
  void About(std::string about) { about_ = std::move(about); }
  void Caller(uint64_t caller) { caller_ = caller; }

 private:
  const std::shared_ptr<Profiler> profiler_;
  const std::string_view name_;
  const int64_t bytes_;
  uint64_t caller_ = 0;
  int64_t start_ns_ = 0;
  std::string about_;
};

// A profiler that keeps the events of thunks. Thread-safe.
class TRIPONT_EXPORT ThunkLog : public Profiler {
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

  void RecordThunk(const ThunkEvent& event) noexcept override;
  void RecordExecution(const ExecutionEvent&) noexcept override {}
  void RecordHost(const HostEvent&) noexcept override {}
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
