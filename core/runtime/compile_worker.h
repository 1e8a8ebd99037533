// The runtime's side of the compile workers: helper processes that run
// tripont.core.compiler.worker.
//
// A worker imports nothing from the working folder (it is started with -P). If it runs on the
// interpreter of this process, it has that one's flags and finds the packages that this process
// finds; tripont/helper_process.py does the same for the other helpers.
//
// A worker compiles one program at a time and is kept warm. The pool starts the first one in the
// background when a client is created (it imports the compiler when it is wanted, or half a second
// later) and further ones when all are busy; workers that nobody has asked for a while end. A worker that dies fails the compile that it was doing, with an error that
// names the signal or exit code, and the next compile starts a new one. One that is killed before
// it has read the program is replaced, up to four times in a row with growing pauses, and one that
// crashes there once; a worker that says why it cannot start is not. Ctrl-C while the main
// thread of a Python program waits for a worker ends the compile (core/runtime/interrupt.h); so
// does a time limit. The worker itself is in a process group of its own, where a terminal's signals
// do not reach it, and ignores what this process ignores. Workers end by themselves when this
// process ends, however it ends. In the child of a fork the parent's workers are forgotten, and the
// child starts its own. core/schema/messages.py defines what is said.
#ifndef TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_
#define TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/partitioners.h"
#include "core/runtime/status.h"

namespace tripont {

struct CompileRequest {
  std::string_view format;  // "mlir", "hlo"; "artifact": only dumped, and answered with nothing
  std::string_view program;
  std::string_view compile_options;  // serialized CompileOptionsProto
  std::map<std::string, std::string> options;
  Partitioners partitioners;  // that the worker may ask
  int64_t time_limit = 0;     // seconds that workers may take, their start included; 0: no limit
  int64_t start_limit = 0;    // seconds until a worker must be ready; 0: no limit
};

struct CompiledProgram {
  std::string artifact;
  // Whether the worker's compiler is the one beside this library, as far as both can tell. An
  // artifact of another one is not to be kept under this one's name.
  bool same_compiler = true;
};

// What workers are started with.
struct WorkerInterpreter {
  std::string python;       // its path; as an option it may be a name, or "" (FindPython)
  std::string python_path;  // folders, separated by colons, to look for modules in first

  // Whether a worker that was started with this can compile for a client that wants `wanted`. Workers
  // on the interpreter of this process serve all its clients, whose module paths differ only by when
  // or by which framework they were asked for: all frameworks share a worker and its machine code.
  bool Serves(const WorkerInterpreter& wanted) const;
};

// Whether this process is a compile worker, or was started by one. The variable TRIPONT_IN_WORKER
// says it, with the process that started the worker: one that was left in some environment means
// nothing.
TRIPONT_EXPORT bool InCompileWorker();

struct CompileWorkerCounters {
  int64_t started = 0;   // processes
  int64_t alive = 0;     // as far as we know
  int64_t compiles = 0;  // requests answered, with an artifact or an error
  int64_t reused = 0;    // of these, programs whose machine code an earlier one had brought
  int64_t deaths = 0;    // workers that died while they were needed
};

// One process and the socket to it. Used by one thread at a time.
class CompileWorker {
 public:
  // Answers what the worker asks of a partitioner while it compiles.
  using AnswerFunction = std::function<StatusOr<std::vector<std::string>>(
      const Partitioner& partitioner, PartitioningQuestion question,
      std::span<const std::string> parts)>;

  using Clock = std::chrono::steady_clock;

  // How a worker died, and so whether another one would fare better.
  enum class Death : char {
    kNone,       // it lives, or was ended from here
    kOfProgram,  // it had read the program
    kOfStart,    // before it was ready, for a reason that it wrote or that its exit code tells
    kOfCrash,    // before it read the program, of something that it did
    kOfKill,     // before it read the program, by somebody else's signal
  };

  // Starts the process; does not wait for it to be ready. UNAVAILABLE if it cannot be started.
  static StatusOr<std::unique_ptr<CompileWorker>> Start(const WorkerInterpreter& interpreter);
  ~CompileWorker();  // closes the socket and reaps the process in the background

  // The program; or the compiler's error with its code. Or UNAVAILABLE if the worker could not
  // start (with the last lines it wrote to stderr), died before it read the program or belongs to
  // another version, INTERNAL if it died later, DEADLINE_EXCEEDED after the time limit (which began
  // at `begin`) or that of the start, CANCELLED if a signal interrupted the wait; after these
  // usable() is false. If an exception leaves this, the worker cannot be used again.
  StatusOr<CompiledProgram> Compile(const CompileRequest& request, const AnswerFunction& answer,
                                    Clock::time_point begin);
  bool usable() const { return usable_; }
  Death death() const { return death_; }
  // Whether the last artifact holds machine code that the worker had already.
  bool reused() const { return reused_; }
  // Whether the process ended between two compiles.
  bool EndedWhileIdle() const;
  pid_t pid() const { return pid_; }
  // In the child of a fork: closes the copy of the socket; the process is not ours to wait for.
  void ForgetAfterFork();

 private:
  CompileWorker() = default;
  Status AwaitHello();
  template <typename Message>
  Status Send(const Message& message);
  Status SendBytes(std::string_view bytes);
  Status ReceiveBytes(void* data, size_t size);
  // A message: its number, and its fields as they were sent.
  struct Received {
    uint32_t number = 0;
    std::string fields;
  };
  // The next message. One of more than `largest` bytes is not read, and has the number 0.
  StatusOr<Received> Receive(uint64_t largest);
  // Waits until the socket can be read (POLLIN) or written (POLLOUT); an error after which the
  // worker is not usable if it died, the time limit passed, or a signal interrupted the wait.
  Status AwaitSocket(short event);
  bool HasEnded() const;
  // Sends the answer to the question with these fields, which may be an error; the status is that
  // of talking to the worker.
  Status Answer(std::string_view question, const Partitioners& partitioners,
                const AnswerFunction& answer);
  Status Died();
  Status TimeLimitPassed();
  Status End(Status why);  // kills the process

  pid_t pid_ = -1;
  int socket_ = -1;
  int pid_fd_ = -1;      // -1 if the kernel has no pidfd
  int startup_fd_ = -1;  // what the worker wrote to stderr before it was ready
  bool ready_ = false;
  bool usable_ = true;
  Death death_ = Death::kNone;
  bool accepted_ = false;  // it had read the last request
  bool reused_ = false;
  bool same_compiler_ = true;
  std::optional<Clock::time_point> deadline_;
  int64_t time_limit_ = 0;
  std::optional<Clock::time_point> ready_by_;  // nothing once it is ready
  int64_t start_limit_ = 0;
  std::string python_;
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
  // The interpreter used for option `python`: itself, or python3 found on PATH. NOT_FOUND if there
  // is none.
  static StatusOr<std::string> FindPython(const std::string& python);

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

#endif  // TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_
