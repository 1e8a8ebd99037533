// The runtime's side of a compile worker: a helper process that runs tripont.core.compiler.worker,
// one program at a time. core/schema/messages.py defines what is said.
//
// A worker that dies fails the compile that it was doing, with an error that names the signal or exit
// code. Ctrl-C while the main thread of a Python program waits for a worker ends the compile
// (core/runtime/interrupt.h); so does a time limit. worker_process.h has the process,
// compile_worker_pool.h the workers of this process.
#ifndef TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_
#define TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/partitioners.h"
#include "core/runtime/status.h"
#include "core/runtime/worker_process.h"

namespace tripont {

// Where workers keep machine code for each other and for other processes (tripont's
// core/compiler/targets/code_store.py); nowhere if `path` is empty.
struct CodeFolder {
  std::string path;
  int64_t size_limit = 0;  // bytes
  bool is_shared = false;  // whoever may write there is trusted
};

struct CompileRequest {
  std::string_view format;  // "mlir", "hlo"; "artifact": only dumped, and answered with nothing
  std::string_view program;
  std::string_view compile_options;  // serialized CompileOptionsProto
  std::map<std::string, std::string> options;
  Partitioners partitioners;  // that the worker may ask
  CodeFolder code;
  int64_t time_limit = 0;   // seconds that workers may take, their start included; 0: no limit
  int64_t start_limit = 0;  // seconds until a worker must be ready; 0: no limit
};

struct CompiledProgram {
  std::string artifact;
  // Whether the worker's compiler is the one beside this library, as far as both can tell. An
  // artifact of another one is not to be kept under this one's name.
  bool same_compiler = true;
};

// Seconds; a longer limit does not limit anything.
inline constexpr int64_t kLongestLimit = 1'000'000'000;

// Used by one thread at a time.
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
  pid_t pid() const { return process_.pid(); }
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
  // Sends the answer to the question with these fields, which may be an error; the status is that
  // of talking to the worker.
  Status Answer(std::string_view question, const Partitioners& partitioners,
                const AnswerFunction& answer);
  Status Died();
  Status TimeLimitPassed();
  Status End(Status why);  // kills the process

  WorkerProcess process_;
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

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_COMPILE_WORKER_H_
