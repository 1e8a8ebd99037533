// The compile workers of this process: which of them compiles a program, and when one starts or ends.
//
// Workers are kept warm. The pool starts the first one in the background when a client is created
// (it imports the compiler when it is wanted, or half a second later) and further ones when all are
// busy; workers that nobody has asked for a while end. After a worker that died, the next compile
// starts a new one. One that is killed before it has read the program is replaced, up to four times
// in a row with growing pauses, and one that crashes there once; a worker that says why it cannot
// start is not. In the child of a fork the parent's workers are forgotten, and the child starts its
// own.
#ifndef TRIPONT_CORE_RUNTIME_COMPILE_WORKER_POOL_H_
#define TRIPONT_CORE_RUNTIME_COMPILE_WORKER_POOL_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/runtime/compile_worker.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/runtime/worker_process.h"

namespace tripont {

struct CompileWorkerCounters {
  int64_t started = 0;   // processes
  int64_t alive = 0;     // as far as we know
  int64_t compiles = 0;  // requests answered, with an artifact or an error
  int64_t reused = 0;    // of these, programs whose machine code an earlier one had brought
  int64_t deaths = 0;    // workers that died while they were needed
};

// Thread-safe.
class TRIPONT_EXPORT CompileWorkerPool {
 public:
  // idle_seconds: after how long a worker that nobody asks ends; 0: never.
  CompileWorkerPool(int64_t max_workers, int64_t idle_seconds);

  // Starts a worker on a background thread if there is none; errors show at the first compile.
  void Prestart(const WorkerInterpreter& wanted);
  // Compiles on an idle worker of that interpreter, on a new one, or waits for one.
  StatusOr<CompiledProgram> Compile(const WorkerInterpreter& wanted, const CompileRequest& request);
  // Ends what is being compiled, with an error for whoever waits for it. For the end of the
  // program: a caller that was interrupted may have left a compile behind, and its framework waits
  // for that before the process ends.
  void EndCompiles();
  CompileWorkerCounters counters() const;
  // Processes of the workers, for tests and `tripont doctor`.
  std::vector<pid_t> pids() const;

  void LockForFork() { state_->mutex.lock(); }
  void UnlockInParent() { state_->mutex.unlock(); }
  void ResetInChild();

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    WorkerInterpreter interpreter;
    std::unique_ptr<CompileWorker> worker;
    pid_t pid = -1;
    bool busy = false;
    Clock::time_point idle_since;
  };
  struct State {
    std::mutex mutex;
    std::vector<std::unique_ptr<Slot>> slots;
    // eventfds of the threads that wait for a slot. They are written to whenever that may have
    // become possible; a condition variable would sleep through signals.
    std::vector<int> waiters;
    CompileWorkerCounters counters;
    // Workers that wait for an answer of this process: the function that gives it may compile, so
    // there may be that many more workers.
    int64_t waiting = 0;
    bool watched = false;                   // by a thread that ends idle workers
    std::condition_variable slots_changed;  // for that thread

    void WakeWaiters();  // with the mutex
  };
  class Claim;
  class Waiting;

  // Waits until a slot may be free, or until that time. CANCELLED if a signal interrupts the wait.
  static Status AwaitChange(State& state, std::unique_lock<std::mutex>& lock,
                            std::optional<Clock::time_point> until);
  // The steps of Compile, which give up when compiles are ended (`ended`: how often they were when
  // it began). A slot that is free, or a new one.
  StatusOr<Slot*> AwaitSlot(const WorkerInterpreter& interpreter,
                            std::unique_lock<std::mutex>& lock, int64_t ended);
  // Compiles in the slot, which is the caller's, with as many workers as it takes.
  static StatusOr<CompiledProgram> CompileIn(State& state, Slot& slot,
                                             const CompileRequest& request, int64_t ended);
  static Status StartWorker(State& state, Slot& slot, int64_t ended);
  static void ForgetWorker(State& state, Slot& slot);
  static Status Pause(State& state, std::chrono::milliseconds pause, int64_t ended);
  // Has idle workers ended from now on. With the mutex.
  void Watch(State& state);
  static void EndIdleWorkers(State& state, std::chrono::seconds idle);

  const int64_t max_workers_;
  const std::chrono::seconds idle_;
  // Never destroyed while anybody may use it: pools live as long as the process.
  std::unique_ptr<State> state_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_COMPILE_WORKER_POOL_H_
