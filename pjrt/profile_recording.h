// ProfileRecording: the profiler (core/runtime/profile.h) that keeps what frameworks want to see.
#ifndef TRIPONT_PJRT_PROFILE_RECORDING_H_
#define TRIPONT_PJRT_PROFILE_RECORDING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/artifact.h"
#include "core/runtime/profile.h"

namespace tripont::pjrt {

// What a recording holds. Times are nanoseconds of ProfileClockNs().
struct RecordedProfile {
  struct Program {
    uint64_t id = 0;  // programs that were loaded from the same artifact have the same
    std::string name;
    std::vector<schema::DebugInfo> debug;
    std::string module;  // HloModuleProto; empty if it was not asked for
  };
  struct Execution {
    size_t program;  // into programs
    int32_t device;
    uint64_t caller;  // ExecutionEvent::caller
    int64_t start_ns;
    int64_t end_ns;
  };
  struct Thunk {
    size_t program;
    int32_t device;
    int32_t debug;  // into the program's debug; -1: none
    schema::ThunkKind kind;
    int64_t start_ns;
    int64_t end_ns;
  };
  struct Thread {
    int64_t id = 0;  // as the frameworks' profilers number it
    std::string name;
  };
  struct HostActivity {
    size_t thread;  // into threads
    std::string_view name;
    std::string about;
    int64_t bytes;  // -1: does not apply
    uint64_t caller;
    int64_t start_ns;
    int64_t end_ns;
  };

  std::vector<Program> programs;
  std::vector<Execution> executions;
  std::vector<Thunk> thunks;
  std::vector<Thread> threads;
  std::vector<HostActivity> host;
  int64_t dropped = 0;          // events for which there was no room
  int64_t start_ns = 0;         // when the recording was made
  int64_t epoch_offset_ns = 0;  // what makes times those since 1970
};

// What to record.
struct ProfileOptions {
  bool device = true;    // executions and thunks
  bool host = true;      // compiles and transfers
  bool programs = true;  // the optimised HLO of what ran
};

// Thread-safe.
class ProfileRecording : public Profiler {
 public:
  // Keeps the first `limit` events.
  explicit ProfileRecording(const ProfileOptions& options, size_t limit = 2 << 20);

  void RecordThunk(const ThunkEvent& event) noexcept override;
  void RecordExecution(const ExecutionEvent& event) noexcept override;
  void RecordHost(const HostEvent& event) noexcept override;

  // Everything so far. The recording keeps no more after that.
  RecordedProfile Take();

 private:
  // Calls `add` under the lock if there is room for one more event.
  template <typename Add>
  void Record(Add add) noexcept;
  size_t Program(const Artifact& artifact, int64_t number);
  size_t CurrentThread();

  const ProfileOptions options_;
  std::mutex mutex_;
  size_t room_;
  RecordedProfile profile_;
  std::map<int64_t, size_t> programs_;  // by number
  std::map<int64_t, size_t> threads_;   // by id
};

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_PROFILE_RECORDING_H_
