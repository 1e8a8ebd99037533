// Job: the processes that run one program together, and MPI among them.
//
// A process joins a job when a framework makes a client with `node_id`, `num_nodes` and a key-value
// store. The processes tell one another of their devices through the store, whose numbers (ids) are
// then unique over the job: those of process 0 come first. If every process has MPI, it is started
// at once.
//
// Collectives between processes go through Exchange (exchange.h). While one waits, the job's thread
// asks the processes that it waits for how they are (see Wait): a process that died, that failed,
// or that waits for us in another program becomes an error that names it. Nothing is sent while
// nobody waits.
//
// After the first such error the job is broken: the processes do not agree any more on what comes
// next, so no exchange starts again in this process. Start the job anew, from a checkpoint.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_JOB_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_JOB_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/hosts/key_value.h"
#include "core/runtime/hosts/mpi_api.h"
#include "core/runtime/hosts/process_info.h"
#include "core/runtime/status.h"

namespace tripont::hosts {

// What the messages of a channel are for: the same devices have one for each.
enum class ChannelUse : char { kCollectives = 'c', kTransfers = 't' };

// The devices of one group of a collective, or the source and the target of transfers, whose
// messages follow one another in one order.
struct Channel {
  ChannelUse use = ChannelUse::kCollectives;
  std::vector<int> devices;           // ids, in the order of the group
  std::vector<int> processes;         // where they are, without this one; ascending
  int tag = 0;                        // of its messages
  std::atomic<uint64_t> sequence{0};  // exchanges that this process has begun
  std::atomic<uint64_t> failed{0};    // the one that ended with an error here; 0: none
};

// Made once in a process, lives as long as it. Thread-safe: what may change after Join is under
// `mutex_` (waits, channels, why the job is broken) or `store_mutex_`, but for what is said to be the
// watcher's, the job's thread. Its functions are in job.cc (joining, the start of MPI),
// job_channels.cc, job_waits.cc, job_watch.cc (that thread) and job_differences.cc.
class TRIPONT_EXPORT Job {
 public:
  struct Settings {
    int process = 0;
    int num_processes = 1;
    int num_devices = 1;  // of this process
    std::string device_kind;
    std::shared_ptr<KeyValueStore> store;
    int64_t timeout_seconds = 300;  // for the others to come; 0: for ever
    std::string interface;          // of the network, between machines
  };
  ~Job();
  // Blocks until all processes have joined. The process's job, if it has one already and that has
  // the same processes and devices: the store is then the one that the job uses. FAILED_PRECONDITION
  // if not, DEADLINE_EXCEEDED with the process that did not come.
  static StatusOr<Job*> Join(Settings settings);
  // Null before Join.
  static Job* Current();
  // Closes `store`, of this job: the one that came before it is used again, if there is one.
  void Forget(const std::shared_ptr<KeyValueStore>& store);

  int process() const { return process_; }
  int num_processes() const { return static_cast<int>(processes_.size()); }
  const std::vector<ProcessInfo>& processes() const { return processes_; }
  int num_devices() const { return processes_.back().first_device + processes_.back().num_devices; }
  // The process of the device with this id, which must exist.
  int ProcessOf(int device) const;

  // OK if MPI runs; else why it does not.
  const Status& mpi_status() const { return mpi_status_; }
  const MpiApi& mpi() const { return *mpi_; }
  MpiHandle communicator() const { return communicator_; }

  // The channel of a group of devices (ids). Agrees on it with the other processes when it is asked
  // for the first time, which may block. `what` and `program`: for errors.
  StatusOr<Channel*> GetChannel(ChannelUse use, const std::vector<int>& devices,
                                const std::string& what, int64_t timeout_seconds);

  // One wait for other processes, watched by the job's thread.
  class Wait {
   public:
    // `what`: "all-reduce.1 of program jit_f". `processes`: whom it waits for. `sequence`: which
    // exchange of the channel it is. timeout_seconds: 0 waits for ever.
    Wait(Job* job, ChannelUse use, const std::vector<int>& devices,
         const std::vector<int>& processes, uint64_t sequence, std::string what,
         int64_t timeout_seconds);
    ~Wait();
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    // Nothing is awaited of `process` any more: no error names it.
    void Heard(int process);
    // Whether it cannot come to an end; then status() says why.
    bool has_failed() const { return failed_.load(std::memory_order_acquire); }
    Status status() const;

   private:
    friend class Job;
    struct Awaited {
      int process;
      int64_t first_question_ms = 0;  // since when it has not answered; 0: nothing is open
      int64_t last_question_ms = 0;
    };
    Job* const job_;
    const ChannelUse use_;
    const std::vector<int> devices_;
    const uint64_t sequence_;
    const std::string what_;
    const int64_t timeout_seconds_;
    int64_t started_ms_;  // later by the time that this process was stopped
    bool warned_ = false;
    uint64_t number_ = 0;
    std::vector<Awaited> awaited_;  // guarded by the job's mutex, as the rest
    Status status_;
    std::atomic<bool> failed_{false};
    std::list<Wait*>::iterator position_;
  };

  // No exchange begins any more; the first reason counts.
  void Break(const Status& status);
  // Why no exchange can begin; OK while they can.
  Status broken() const;
  // Says more about the reason: `clearer` takes the place of `status` if that is what counts.
  void BreakMoreClearly(const Status& status, const Status& clearer);
  // For two processes that find in a collective that they run different programs. First each tells
  // the others all collectives of its own (`collectives`, a line each; `identity` is the number of
  // the collective that it is in).
  void TellCollectives(uint64_t identity, const std::string& collectives);
  // Then it waits up to 10 seconds for those of `process`, which is in the collective
  // `its_identity`, and says which are the first that differ. Empty if the other tells nothing.
  std::string FirstDifference(const std::string& collectives, int process, uint64_t its_identity);
  // FAILED_PRECONDITION in a process that was forked from the job's: MPI is the parent's alone.
  Status CheckNotForked() const;
  // Breaks the job, and ends every wait: memory that MPI still uses may go, so that MPI must not be
  // called any more, by any thread of this process, which goes on.
  void AbandonMpi(const Status& status);
  // OK if MPI may be called; why the job is broken after AbandonMpi. Does not return while the
  // process exits: MPI is gone, and with it everything that could be waited for.
  Status MayCallMpi() const {
    if (use_of_mpi_.load(std::memory_order_acquire) == UseOfMpi::kCalled) [[likely]]
      return OkStatus();
    return WhyNotMpi();
  }

  // "process 1 (node7, pid 4711)"
  std::string NameOf(int process) const;
  // "xpu:2, xpu:3": those of `devices` that are of `process`
  std::string DevicesOf(int process, std::span<const int> devices) const;

 private:
  friend class Wait;
  // A wait that takes longer than this asks the processes that it waits for how they are, again and
  // again after this time.
  static constexpr int64_t kAskAfterMs = 1000;
  static int64_t NowMs() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  enum class UseOfMpi : char { kCalled, kAbandoned, kOver };
  enum class Watching : char { kNotYet, kBegun, kEnded };
  explicit Job(Settings settings);
  Status WhyNotMpi() const;
  void EndWithProcess();
  Status ExchangeTopology();
  void StartMpi();
  Status InitialiseMpi();
  void StartWatcher();
  // Tells it that MPI runs.
  void BeginWatching();
  // Ends a watcher that has not begun.
  void EndWatcher();
  void Watch();
  void LookOnce();
  void AnswerQuestions();
  void ReadAnswers();
  void LookAfterWaits();
  std::string AnswerTo(int asker, std::string_view question);
  void Fail(Wait& wait, Status status);
  std::chrono::milliseconds timeout() const;
  std::string KeyOfCollectives(int process, uint64_t identity) const;
  std::string KeyOfChannel(ChannelUse use, const std::vector<int>& devices) const;
  // The tag that the process of the first device has put into the store, not checked. Blocks until
  // it is there.
  StatusOr<int64_t> AwaitTag(ChannelUse use, const std::vector<int>& devices,
                             const std::string& what, int64_t timeout_seconds);
  std::unique_ptr<Channel> MakeChannel(ChannelUse use, const std::vector<int>& devices,
                                       int tag) const;
  void Send(int process, int tag, std::string text);

  const int process_;
  const int64_t timeout_seconds_;
  const std::string interface_;
  std::mutex store_mutex_;
  std::vector<std::shared_ptr<KeyValueStore>> stores_;  // of the clients that there are
  // The last; CANCELLED if there is none.
  StatusOr<std::shared_ptr<KeyValueStore>> store();
  ProcessInfo self_;
  std::string name_;  // of the job: random, from process 0
  std::vector<ProcessInfo> processes_;

  const MpiApi* mpi_ = nullptr;
  Status mpi_status_;
  MpiHandle communicator_ = nullptr;
  int largest_tag_ = 0;

  std::atomic<UseOfMpi> use_of_mpi_{UseOfMpi::kCalled};
  std::thread watcher_;
  std::atomic<Watching> watching_{Watching::kNotYet};
  int64_t last_look_ms_ = 0;  // the watcher's
  mutable std::mutex mutex_;
  Status broken_;
  std::map<std::pair<ChannelUse, std::vector<int>>, std::unique_ptr<Channel>> channels_;
  int channels_named_ = 0;  // whose first device is ours
  std::list<Wait*> waits_;
  uint64_t waits_begun_ = 0;
  struct Outgoing {
    std::string text;
    MpiHandle request = nullptr;
  };
  std::list<Outgoing> outgoing_;  // the watcher's
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_JOB_H_
