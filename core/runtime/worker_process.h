// The process of a compile worker: the interpreter that it runs on, its start, and its end.
//
// A worker imports nothing from the working folder (it is started with -P). If it runs on the
// interpreter of this process, it has that one's flags and finds the packages that this process
// finds; tripont/helper_process.py does the same for the other helpers. It is in a process group of
// its own, where a terminal's signals do not reach it, and ignores what this process ignores. A
// worker ends by itself when this process ends, however it ends: the socket closes then.
#ifndef TRIPONT_CORE_RUNTIME_WORKER_PROCESS_H_
#define TRIPONT_CORE_RUNTIME_WORKER_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "core/runtime/export.h"
#include "core/runtime/file_descriptor.h"
#include "core/runtime/status.h"

namespace tripont {

// How often to look at what a kernel without the descriptor for it cannot wait for.
inline constexpr int kWorkerPollMilliseconds = 200;

// What workers are started with.
struct WorkerInterpreter {
  std::string python;       // its path; as an option it may be a name, or ""
  std::string python_path;  // folders, separated by colons, to look for modules in first

  // Whether a worker that was started with this can compile for a client that wants `wanted`. Workers
  // on the interpreter of this process serve all its clients, whose module paths differ only by when
  // or by which framework they were asked for: all frameworks share a worker and its machine code.
  bool Serves(const WorkerInterpreter& wanted) const;
  // The interpreter used for option `python`: itself, or python3 found on PATH. NOT_FOUND if there
  // is none.
  TRIPONT_EXPORT static StatusOr<std::string> FindPython(const std::string& python);
};

// Whether this process is a compile worker, or was started by one. The variable TRIPONT_IN_WORKER
// says it, with the process that started the worker: one that was left in some environment means
// nothing.
TRIPONT_EXPORT bool InCompileWorker();

// How the process of a worker ended.
struct WorkerEnd {
  static constexpr int kUnknown = -1;  // where the program reaps all children itself

  bool by_itself = false;  // it was not killed from here, as it did not end for long
  int wait_status = kUnknown;

  std::string Describe() const;  // "ended with exit code 1", for example
  bool IsUnknown() const { return by_itself && wait_status == kUnknown; }
  bool IsSignalled() const;
  bool IsCrash() const;  // a signal that a process brings on itself
  // What a user can do about it; empty unless the signal is SIGKILL.
  std::string AdviceOnKill() const;
  // What a user can do about a worker of `python` that was not ready yet and had written `output`.
  std::string AdviceOnStart(const std::string& python, std::string_view output) const;
};

// Owns the process and this end of the socket to it. Used by one thread at a time.
class WorkerProcess {
 public:
  WorkerProcess() = default;
  ~WorkerProcess();  // closes the socket and reaps the process in the background
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // UNAVAILABLE if it cannot be started. Does not wait for the worker to be ready.
  Status Start(const WorkerInterpreter& interpreter);
  pid_t pid() const { return pid_; }  // -1 once it has been reaped
  int socket() const { return socket_.get(); }
  // Can be read when the process has ended; -1 if the kernel has no pidfd.
  int pid_fd() const { return pid_fd_.get(); }
  bool HasEnded() const;
  // The last lines that it wrote to stderr before it was ready.
  std::string LastLines() const;
  void ForgetLines() { startup_ = FileDescriptor(); }
  void Kill();
  // Closes the socket, whereupon a worker ends, and waits for that; kills it if it takes long.
  WorkerEnd End();
  // In the child of a fork: closes the copy of the socket; the process is not ours to wait for.
  void ForgetAfterFork();

 private:
  pid_t pid_ = -1;
  FileDescriptor socket_;
  FileDescriptor pid_fd_;
  FileDescriptor startup_;  // what the worker wrote to stderr before it was ready
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_WORKER_PROCESS_H_
