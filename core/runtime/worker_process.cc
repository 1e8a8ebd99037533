#include "core/runtime/worker_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/environment.h"
#include "core/runtime/installation.h"
#include "core/runtime/logging.h"
#include "core/runtime/strings.h"

namespace tripont {
namespace {

constexpr char kInWorker[] = "TRIPONT_IN_WORKER";
// Descriptors of the worker; core/compiler/worker.py closes everything above.
constexpr int kWorkerSocket = 3;
constexpr int kWorkerStderr = 4;
// The first descriptor that neither a standard stream (of a process that closed its own) nor a worker has.
constexpr int kFirstFree = 10;

// The worker's program. Takes two arguments, both of which may be empty: the module path to put
// before the interpreter's own, and a folder to put last (tripont/helper_process.py does the same).
// It puts its imports, which take 0.4 seconds of the CPU, off until it is wanted, or for half a
// second: that long belongs to the program itself if all its compiled programs are in the cache, and
// to the start of a job of several processes. (1 is POLLIN; 3 is kWorkerSocket.) What it imports
// stays, so the garbage collector would look at all of it again and again; `worker.main` lets it run.
constexpr char kWorkerProgram[] =
    "import gc, select, sys; wanted = select.poll(); wanted.register(3, 1); wanted.poll(500); "
    "gc.disable(); "
    "given = [p for p in sys.argv.pop(1).split(':') if p]; last = sys.argv.pop(1); "
    "sys.path[:] = given + [p for p in sys.path if p not in given]; "
    "sys.path += [last] if last and last not in sys.path else []; "
    "from tripont.core.compiler import worker; sys.exit(worker.main(sys.argv[1:]))";

// The package that Python did not find, by what it wrote; empty if it does not say so.
std::string MissingPackage(std::string_view output) {
  constexpr std::string_view kMissing = "No module named '";
  const size_t found = output.rfind(kMissing);
  if (found == std::string_view::npos) return "";
  const std::string_view name = output.substr(found + kMissing.size());
  return std::string(name.substr(0, name.find_first_of(".'")));
}

// Waits for the process to end, for at most `milliseconds`. False: it still runs. `wait_status`:
// WorkerEnd::kUnknown if the program reaps all children itself.
bool Reap(pid_t pid, int milliseconds, int* wait_status) {
  for (int waited = 0;; waited += 5) {
    const pid_t reaped = waitpid(pid, wait_status, WNOHANG);
    if (reaped == pid) return true;
    if (reaped < 0 && errno == ECHILD) {
      *wait_status = WorkerEnd::kUnknown;
      return true;
    }
    if (waited >= milliseconds) return false;
    usleep(5000);
  }
}

void KillAndReap(pid_t pid, int milliseconds) {
  if (pid <= 0) return;  // kill() would take these for process groups
  kill(pid, SIGKILL);
  int ignored = 0;
  Reap(pid, milliseconds, &ignored);
}

// The process that started `pid`; 0 if that is not known.
pid_t ParentOf(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // "pid (name) state parent ...": the name may hold anything.
  const size_t end = line.rfind(") ");
  if (end == std::string::npos || line.size() < end + 5) return 0;
  const std::string_view rest = std::string_view(line).substr(end + 4);
  return static_cast<pid_t>(ToNumber(rest.substr(0, rest.find(' '))).value_or(0));
}

bool IsInterpreter(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

// The environment of a worker of this process.
std::vector<std::string> VariablesOfWorker() {
  // The worker must not start workers itself, should its imports load this library, and an MPI that
  // starts meanwhile in this process is not the worker's (PMI_FD).
  const std::string in_worker = StrCat(kInWorker, "=");
  // NumPy's BLAS starts a thread for each core, which spins for a while. The compiler asks it for
  // products of a few constants, whose bits should not depend on the number of cores either.
  constexpr std::string_view kThreadsOfBlas = "OPENBLAS_NUM_THREADS=";
  std::vector<std::string> variables = CopyEnvironment([&](std::string_view variable) {
    return !variable.starts_with(in_worker) && !variable.starts_with("PMI_") &&
           !variable.starts_with(kThreadsOfBlas);
  });
  variables.push_back(StrCat(kThreadsOfBlas, 1));
  variables.push_back(StrCat(in_worker, getpid()));
  return variables;
}

// The command line of a worker.
std::vector<std::string> WordsOfWorker(const WorkerInterpreter& interpreter) {
  std::vector<std::string> words = {interpreter.python};
  const bool own = interpreter.python == DefaultInterpreter();
  if (own) {
    for (std::string& flag : RunningInterpreterFlags()) words.push_back(std::move(flag));
  }
  words.insert(words.end(),
               {"-P", "-c", kWorkerProgram, interpreter.python_path, own ? PackageFolder() : "",
                std::to_string(kWorkerSocket), std::to_string(kWorkerStderr)});
  return words;
}

// `texts` as a list that ends with null, which posix_spawn takes; they own the memory.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Starts a worker that has these descriptors; the error, or 0.
int Spawn(std::vector<std::string> words, std::vector<std::string> variables, int socket,
          int startup, int user_stderr, pid_t* pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, startup, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, startup, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, user_stderr, kWorkerStderr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Signals that this process ignores (SIGHUP under nohup) stay ignored. Not SIGCHLD: a process
  // that ignores it cannot wait for its children. SIGINT is blocked until the worker ignores it.
  sigset_t blocked;
  sigset_t reset;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigemptyset(&reset);
  sigaddset(&reset, SIGCHLD);
  posix_spawnattr_setsigmask(&attributes, &blocked);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error = posix_spawn(pid, words[0].c_str(), &actions, &attributes,
                                Pointers(words).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

bool InCompileWorker() {
  const char* const value = std::getenv(kInWorker);
  if (value == nullptr) return false;
  const std::optional<int64_t> runtime = ToNumber(value);
  constexpr int kGenerations = 8;  // the interpreter may be started by scripts
  pid_t ancestor = getppid();
  for (int i = 0; i < kGenerations && ancestor > 1; ++i, ancestor = ParentOf(ancestor)) {
    if (ancestor == runtime) return true;
  }
  return false;
}

bool WorkerInterpreter::Serves(const WorkerInterpreter& wanted) const {
  return python == wanted.python &&
         (python_path == wanted.python_path || python == DefaultInterpreter());
}

StatusOr<std::string> WorkerInterpreter::FindPython(const std::string& python) {
  if (python.find('/') != std::string::npos) {
    if (IsInterpreter(python)) return python;
    return NotFound("the Python interpreter ", python,
                    " (option python or TRIPONT_PYTHON) cannot be executed");
  }
  const std::vector<std::string> names = python.empty()
                                             ? std::vector<std::string>{"python3", "python"}
                                             : std::vector<std::string>{python};
  const char* const path = std::getenv("PATH");
  for (const std::string& name : names) {
    std::string_view rest = path == nullptr ? "/usr/local/bin:/usr/bin:/bin" : path;
    while (true) {
      const size_t colon = rest.find(':');
      // Folders relative to the working folder, which an empty part names too, are not looked into.
      const std::string candidate = StrCat(rest.substr(0, colon), "/", name);
      if (rest.starts_with('/') && IsInterpreter(candidate)) return candidate;
      if (colon == std::string_view::npos) break;
      rest.remove_prefix(colon + 1);
    }
  }
  return NotFound("no ", names[0],
                  " on PATH to compile with; option python or TRIPONT_PYTHON names an interpreter");
}

std::string WorkerEnd::Describe() const {
  if (!by_itself) return "stopped talking";
  if (IsSignalled()) {
    const int number = WTERMSIG(wait_status);
    const char* const text = strsignal(number);
    return StrCat("was killed by signal ", number, " (", text == nullptr ? "?" : text, ")");
  }
  if (!IsUnknown() && WIFEXITED(wait_status)) {
    return StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  }
  return "ended";
}

bool WorkerEnd::IsSignalled() const { return wait_status != kUnknown && WIFSIGNALED(wait_status); }

bool WorkerEnd::IsCrash() const {
  constexpr int kCrashes[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU};
  return IsSignalled() && std::find(std::begin(kCrashes), std::end(kCrashes),
                                    WTERMSIG(wait_status)) != std::end(kCrashes);
}

std::string WorkerEnd::AdviceOnKill() const {
  if (!IsSignalled() || WTERMSIG(wait_status) != SIGKILL) return "";
  return "; most often the kernel's out-of-memory killer or a container's limit of memory does "
         "that (`dmesg` or the container's log shows it): leave more memory free";
}

std::string WorkerEnd::AdviceOnStart(const std::string& python, std::string_view output) const {
  if (IsSignalled()) {
    if (!IsCrash()) return AdviceOnKill();
    return StrCat(" (`", python, " -c 'import tripont.core.compiler.compile'` shows whether one ",
                  "of the compiler's packages crashes)");
  }
  const std::string missing = MissingPackage(output);
  if (missing.empty() || missing == "tripont") {
    return " (the interpreter must have tripont installed; option python or TRIPONT_PYTHON chooses "
           "it)";
  }
  return StrCat(" (the interpreter has no package ", missing, ", which `", python,
                " -m pip install ", missing, "` adds; option python or TRIPONT_PYTHON chooses ",
                "another interpreter)");
}

Status WorkerProcess::Start(const WorkerInterpreter& interpreter) {
  const auto failed = [&](std::string_view what, int error) {
    return Unavailable("cannot start the compile worker with ", interpreter.python, ": ", what,
                       ": ", std::strerror(error));
  };
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return failed("socketpair", errno);
  FileDescriptor ours(sockets[0]);
  FileDescriptor theirs(sockets[1]);
  FileDescriptor startup(memfd_create("tripont-worker-stderr", MFD_CLOEXEC));
  const int duplicate = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  FileDescriptor user_stderr(duplicate >= 0 ? duplicate : open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (FileDescriptor* const descriptor : {&ours, &theirs, &startup, &user_stderr}) {
    if (!descriptor->MoveUp(kFirstFree)) return failed("no file descriptor", errno);
  }
  const int error = Spawn(WordsOfWorker(interpreter), VariablesOfWorker(), theirs.get(),
                          startup.get(), user_stderr.get(), &pid_);
  if (error != 0) {
    pid_ = -1;
    return failed("posix_spawn", error);
  }
  socket_ = std::move(ours);
  startup_ = std::move(startup);
#ifdef SYS_pidfd_open
  pid_fd_ = FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pid_fd_.MoveUp(kFirstFree);
#endif
  TRIPONT_LOG(kInfo, "compile worker ", pid_, " started with ", interpreter.python);
  return OkStatus();
}

WorkerProcess::~WorkerProcess() {
  socket_ = FileDescriptor();
  if (pid_ < 0) return;
  // The closed socket ends the worker within milliseconds; do not leave a zombie behind, and do not
  // wait here either.
  int ignored = 0;
  if (Reap(pid_, 0, &ignored)) return;
  try {
    std::thread([pid = pid_] {
      int wait_status = 0;
      if (!Reap(pid, 2000, &wait_status)) KillAndReap(pid, 2000);
    }).detach();
  } catch (const std::exception&) {  // no thread, or no memory for one
    KillAndReap(pid_, 1000);
  }
}

bool WorkerProcess::HasEnded() const {
  if (kill(pid_, 0) != 0) return true;
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

std::string WorkerProcess::LastLines() const {
  constexpr int kLines = 6;
  const off_t size = lseek(startup_.get(), 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - 4096);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - begin)), '\0');
  const ssize_t count = pread(startup_.get(), text.data(), text.size(), begin);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t from = text.size();
  for (int i = 0; i < kLines && from != std::string::npos && from > 0; ++i)
    from = text.rfind('\n', from - 1);
  return from == std::string::npos ? text : text.substr(from == 0 ? 0 : from + 1);
}

void WorkerProcess::Kill() {
  if (pid_ > 0) kill(pid_, SIGKILL);
}

WorkerEnd WorkerProcess::End() {
  socket_ = FileDescriptor();
  WorkerEnd end;
  end.by_itself = Reap(pid_, 2000, &end.wait_status);
  if (!end.by_itself) KillAndReap(pid_, 2000);
  pid_ = -1;
  return end;
}

void WorkerProcess::ForgetAfterFork() {
  socket_ = FileDescriptor();
  pid_fd_ = FileDescriptor();
  startup_ = FileDescriptor();
  pid_ = -1;
}

}  // namespace tripont
