// Collectives: how the devices of one program meet.
//
// A program for several devices (replicas x partitions) is launched once on each. Its participants
// are numbered replica * num_partitions + partition; participant i runs on the i-th device of the
// device assignment. The n-th launches of all participants belong together: they are one Launch,
// and an all-reduce, all-gather, ... in the program is a meeting of some of its participants.
// Whoever comes last does the work of all, with all threads of the process, while the others wait;
// so there is one order of arithmetic, and no thread of a parallel loop ever waits for another
// device.
//
// A participant that fails, or cannot be launched, fails its launch: those who wait for it, and
// those who come later, get its error. One that never comes is given up after
// TRIPONT_COLLECTIVE_TIMEOUT, with an error that names the collective and who is missing.
//
// In a job of several processes (hosts/job.h) a participant may be of another one. A launch is then
// one of each process, and the last of a process's own participants does the work of all of them
// with the other processes (hosts/exchange.h).
#ifndef TRIPONT_CORE_RUNTIME_COLLECTIVES_H_
#define TRIPONT_CORE_RUNTIME_COLLECTIVES_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/status.h"

namespace tripont {

class Device;
namespace hosts {
class Job;
}

// Where the participants of a program are.
struct TRIPONT_EXPORT Placement {
  std::vector<int> devices;         // id of each participant's device
  hosts::Job* job = nullptr;        // null if all are of this process
  std::vector<int> processes = {};  // of each participant, if there is a job
  uint64_t program = 0;             // a number of the program that is the same in all processes
  // All collectives of the program, a line each (Executable::collectives), if there is a job.
  std::shared_ptr<const std::string> collectives = nullptr;

  bool IsLocal(int64_t participant) const;
  size_t NumLocal() const;
};

// One run of a program on all its devices. Thread-safe.
class TRIPONT_EXPORT Launch : public RefCounted<Launch> {
 public:
  // program: its name, for messages; number: which launch of the program it is, for messages;
  // timeout_seconds: 0 waits for ever.
  Launch(std::string program, Placement placement, int64_t number, int64_t timeout_seconds)
      : program_(std::move(program)),
        placement_(std::move(placement)),
        number_(number),
        timeout_seconds_(timeout_seconds) {}

  // What a participant brings to a meeting: where its operands and results are. Read by the one who
  // does the work, while the participant waits.
  struct Contribution {
    void* const* operands = nullptr;
    void* const* results = nullptr;
  };
  // Does the work of all; contributions in the order of the members, those of other processes
  // empty.
  using Work = std::function<Status(std::span<const Contribution>)>;

  // Waits until all `members` (participants) of this process have come to this meeting, then `work` is done once,
  // and all of them get its status. meeting: what they agree on, the same number for the same
  // collective; it can be used again at once (a loop). name: for messages. position: of the caller
  // in `members`. device: the caller's, whose stream takes any number of tasks while it waits.
  // Called on the device's stream only, never inside a parallel loop.
  Status Meet(int64_t meeting, std::string_view name, std::span<const int64_t> members,
              size_t position, Device* device, const Contribution& contribution, const Work& work);

  // The launch failed for participant `participant`, for good: everybody gets `status`, with the
  // device named. The first failure is the one that counts.
  void Fail(int64_t participant, const Status& status) noexcept;

  const std::string& program() const { return program_; }
  const Placement& placement() const { return placement_; }
  int64_t timeout_seconds() const { return timeout_seconds_; }

 private:
  friend class RefCounted<Launch>;
  ~Launch() = default;

  struct Meeting {
    std::condition_variable changed;
    std::vector<Contribution> contributions;
    std::vector<bool> arrived;
    size_t missing = 0;
    bool working = false;  // everybody is there
    bool done = false;
    Status status;
  };
  Status Wait(std::unique_lock<std::mutex>& lock, Meeting& meeting, std::string_view name,
              std::span<const int64_t> members);
  std::string Missing(const Meeting& meeting, std::span<const int64_t> members) const;

  const std::string program_;
  const Placement placement_;
  const int64_t number_;
  const int64_t timeout_seconds_;
  std::mutex mutex_;
  // By meeting and first member. An entry is there from the first arrival to the last.
  std::map<std::pair<int64_t, int64_t>, std::shared_ptr<Meeting>> meetings_;
  Status failure_;
};

// The launches of one program, or of several that have the same collectives (and, in a job of
// several processes, one name), on one list of devices. Thread-safe.
class TRIPONT_EXPORT LaunchSeries {
 public:
  LaunchSeries(std::string program, Placement placement, int64_t timeout_seconds)
      : program_(std::move(program)),
        placement_(std::move(placement)),
        timeout_seconds_(timeout_seconds),
        taken_(placement_.devices.size(), 0) {}

  // The series of programs with these collectives (Executable::collectives) on these devices: one
  // in the process, because a framework may give each device a program of its own: TensorFlow does,
  // under different names. In a job the name belongs to it too, apart from the number at its end
  // ("f" of "f.46"), which PyTorch/XLA counts in each process. job: the client's, null if it has
  // none; clients of both kinds can be in one process, and the same ids mean other devices to them.
  // devices: id of each participant's device.
  static std::shared_ptr<LaunchSeries> Get(hosts::Job* job, const std::string& collectives,
                                           const std::string& program,
                                           const std::vector<int>& devices,
                                           int64_t timeout_seconds);

  // The next launch of `participant`, which is of this process: its n-th call gives the same launch as the n-th call of each
  // other participant.
  Ref<Launch> Next(int64_t participant);

 private:
  const std::string program_;
  const Placement placement_;
  const int64_t timeout_seconds_;
  std::mutex mutex_;
  std::vector<int64_t> taken_;  // launches given to each participant
  struct Open {
    Ref<Launch> launch;
    size_t missing;  // participants that have not taken it yet
  };
  std::map<int64_t, Open> open_;
};

// What one device is in a launch. Given to an execution; null or absent for programs for one
// device of a client that is not of a job.
struct Participation {
  int64_t participant = 0;
  int64_t replica = 0;
  int64_t partition = 0;
  bool is_alone = false;  // the program is for one device
  int device = -1;        // its id in its client's job, if there is one; else -1
  Ref<Launch> launch;     // null if the program has no collectives
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_COLLECTIVES_H_
