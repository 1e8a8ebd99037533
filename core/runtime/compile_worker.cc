#include "core/runtime/compile_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <thread>
#include <utility>

#include "core/runtime/client.h"
#include "core/runtime/environment.h"
#include "core/runtime/installation.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/logging.h"
#include "core/runtime/record_reader.h"
#include "core/runtime/record_writer.h"
#include "core/schema/messages.h"

namespace tripont {
namespace {

constexpr uint64_t kLargestHello = 4096;
constexpr char kInWorker[] = "TRIPONT_IN_WORKER";
constexpr uint64_t kLargestMessage = uint64_t{1} << 40;
constexpr uint64_t kPiece = uint64_t{1} << 20;  // of a message, that is read at a time
// Descriptors of the worker; core/compiler/worker.py closes everything above.
constexpr int kWorkerSocket = 3;
constexpr int kWorkerStderr = 4;
constexpr int64_t kLongestLimit = 1'000'000'000;  // seconds: 30 years
// Where the kernel has no pidfd, how often to look whether the worker lives.
constexpr int kPollMilliseconds = 200;
// Workers that a compile tries before it fails, if they are killed before they read the program,
// and if they crash. Memory that ran out may be free a moment later; a crash mostly comes again.
constexpr int kMostKilled = 5;
constexpr int kMostCrashed = 2;
// After the second one that died; doubled after each further one.
constexpr std::chrono::milliseconds kFirstPause{200};

void CloseIfOpen(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

// A descriptor, closed at the end of its scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { CloseIfOpen(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int Take() { return std::exchange(fd_, -1); }

  // Moves the descriptor to a number that is neither a standard stream's (of a process that closed
  // its own) nor one of those that the worker has it as. False, with errno, if there is none.
  bool MoveUp() {
    if (fd_ < 0) return false;
    const int moved = fcntl(fd_, F_DUPFD_CLOEXEC, kFirstFree);
    if (moved < 0) return false;
    close(std::exchange(fd_, moved));
    return true;
  }

 private:
  static constexpr int kFirstFree = 10;
  int fd_;
};

// A message begins with its number and the size of the fields that follow.
constexpr size_t kFrameSize = sizeof(uint32_t) + sizeof(uint64_t);

// The message that `fields` hold, which own its large values. False if they are not such a message.
template <typename Message>
bool Parse(std::string_view fields, Message& message) {
  RecordReader reader(fields, "message");
  reader.ReadFields(message, Message::Fields());
  return reader.Finish().ok();
}

// The worker's program. Takes two arguments, both of which may be empty: the module path to put
// before the interpreter's own, and a folder to put last (tripont/helper_process.py does the same).
// It puts its imports, which take 0.4 seconds of the CPU, off until it is wanted, or for half a
// second: that long belongs to the program itself if all its compiled programs are in the cache, and
// to the start of a job of several processes. (1 is POLLIN; 3 is kWorkerSocket.)
constexpr char kWorkerProgram[] =
    "import select, sys; wanted = select.poll(); wanted.register(3, 1); wanted.poll(500); "
    "given = [p for p in sys.argv.pop(1).split(':') if p]; last = sys.argv.pop(1); "
    "sys.path[:] = given + [p for p in sys.path if p not in given]; "
    "sys.path += [last] if last and last not in sys.path else []; "
    "from tripont.core.compiler import worker; sys.exit(worker.main(sys.argv[1:]))";

// The last lines of what the worker wrote before it was ready.
std::string LastLines(int fd, int lines) {
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - 4096);
  std::string text(static_cast<size_t>(std::max<off_t>(0, size - begin)), '\0');
  const ssize_t count = pread(fd, text.data(), text.size(), begin);
  text.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  size_t from = text.size();
  for (int i = 0; i < lines && from != std::string::npos && from > 0; ++i)
    from = text.rfind('\n', from - 1);
  return from == std::string::npos ? text : text.substr(from == 0 ? 0 : from + 1);
}

// The bytes that are sent for a message: its frame and its fields.
template <typename Message>
std::string Framed(const Message& message) {
  std::string bytes(kFrameSize, '\0');
  RecordWriter(bytes).Write(message);
  const uint32_t number = Message::kNumber;
  const uint64_t size = bytes.size() - kFrameSize;
  std::memcpy(bytes.data(), &number, sizeof(number));
  std::memcpy(bytes.data() + sizeof(number), &size, sizeof(size));
  return bytes;
}

constexpr int kUnknownEnd = -1;  // of a process, in place of its wait status

bool WasSignalled(int wait_status) {
  return wait_status != kUnknownEnd && WIFSIGNALED(wait_status);
}

std::string DescribeExit(int wait_status) {
  if (wait_status == kUnknownEnd) return "ended";
  if (WasSignalled(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* const text = strsignal(number);
    return StrCat("was killed by signal ", number, " (", text == nullptr ? "?" : text, ")");
  }
  if (WIFEXITED(wait_status)) return StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  return "ended";
}

// A signal that a process brings on itself.
bool IsCrash(int signal_number) {
  constexpr int kCrashes[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGXCPU};
  return std::find(std::begin(kCrashes), std::end(kCrashes), signal_number) != std::end(kCrashes);
}

// The package that Python did not find, by what it wrote; empty if it does not say so.
std::string MissingPackage(std::string_view output) {
  constexpr std::string_view kMissing = "No module named '";
  const size_t found = output.rfind(kMissing);
  if (found == std::string_view::npos) return "";
  const std::string_view name = output.substr(found + kMissing.size());
  return std::string(name.substr(0, name.find_first_of(".'")));
}

// What a user can do about a worker that was killed; empty unless the signal is SIGKILL.
std::string AdviceOnKill(int wait_status) {
  if (!WasSignalled(wait_status) || WTERMSIG(wait_status) != SIGKILL) return "";
  return "; most often the kernel's out-of-memory killer or a container's limit of memory does "
         "that (`dmesg` or the container's log shows it): leave more memory free";
}

// What a user can do about a worker that ended before it was ready, having written `output`.
std::string AdviceOnStart(int wait_status, const std::string& python, std::string_view output) {
  if (WasSignalled(wait_status)) {
    if (!IsCrash(WTERMSIG(wait_status))) return AdviceOnKill(wait_status);
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

// Waits for the process to end, for at most `milliseconds`. False: it still runs. `wait_status`:
// kUnknownEnd if the program reaps all children itself.
bool Reap(pid_t pid, int milliseconds, int* wait_status) {
  for (int waited = 0;; waited += 5) {
    const pid_t reaped = waitpid(pid, wait_status, WNOHANG);
    if (reaped == pid) return true;
    if (reaped < 0 && errno == ECHILD) {
      *wait_status = kUnknownEnd;
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

// Whether the worker's compiler is built on the same packages as the one beside this library, for
// those that are known here. `packages`: such as "llvmlite-0.45.1 jaxlib-0.8.0".
bool SamePackages(std::string_view packages) {
  const std::vector<std::string>& own = CompilerPackages();
  while (!packages.empty()) {
    const size_t space = std::min(packages.find(' '), packages.size());
    const std::string_view package = packages.substr(0, space);
    packages.remove_prefix(std::min(space + 1, packages.size()));
    const std::string_view prefix = package.substr(0, package.find('-') + 1);
    bool known = false;
    bool same = false;
    for (const std::string& candidate : own) {
      known = known || candidate.starts_with(prefix);
      same = same || candidate == package;
    }
    if (known && !same) return false;
  }
  return true;
}

// How often compiles were ended (EndCompiles): those that see it change do not go on.
std::atomic<int64_t> times_ended{0};

Status CompileEnded() { return Cancelled("the compile was ended, as the program ends"); }

// The process that started `pid`; 0 if that is not known.
pid_t ParentOf(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  std::string line;
  std::getline(file, line);
  // "pid (name) state parent ...": the name may hold anything.
  const size_t end = line.rfind(") ");
  return end == std::string::npos || line.size() < end + 5 ? 0 : std::atoi(&line[end + 4]);
}

bool IsInterpreter(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

bool InCompileWorker() {
  const char* const value = std::getenv(kInWorker);
  if (value == nullptr) return false;
  const pid_t runtime = std::atoi(value);
  constexpr int kGenerations = 8;  // the interpreter may be started by scripts
  pid_t ancestor = getppid();
  for (int i = 0; i < kGenerations && ancestor > 1; ++i, ancestor = ParentOf(ancestor)) {
    if (ancestor == runtime) return true;
  }
  return false;
}

// ------------------------------------------------------------------------------------------------------
// CompileWorker

bool WorkerInterpreter::Serves(const WorkerInterpreter& wanted) const {
  return python == wanted.python &&
         (python_path == wanted.python_path || python == DefaultInterpreter());
}

StatusOr<std::unique_ptr<CompileWorker>> CompileWorker::Start(
    const WorkerInterpreter& interpreter) {
  std::unique_ptr<CompileWorker> worker(new CompileWorker);
  const std::string& python = interpreter.python;
  worker->python_ = python;
  const auto failed = [&](std::string_view what, int error) {
    return Unavailable("cannot start the compile worker with ", python, ": ", what, ": ",
                       std::strerror(error));
  };
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return failed("socketpair", errno);
  Descriptor ours(sockets[0]);
  Descriptor theirs(sockets[1]);
  Descriptor startup(memfd_create("tripont-worker-stderr", MFD_CLOEXEC));
  const int duplicate = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  Descriptor user_stderr(duplicate >= 0 ? duplicate : open("/dev/null", O_WRONLY | O_CLOEXEC));
  for (Descriptor* const descriptor : {&ours, &theirs, &startup, &user_stderr}) {
    if (!descriptor->MoveUp()) return failed("no file descriptor", errno);
  }

  // The worker must not start workers itself, should its imports load this library, and an MPI that
  // starts meanwhile in this process is not the worker's (PMI_FD).
  const std::string in_worker = StrCat(kInWorker, "=");
  std::vector<std::string> variables = CopyEnvironment([&](std::string_view variable) {
    return !variable.starts_with(in_worker) && !variable.starts_with("PMI_");
  });
  variables.push_back(StrCat(in_worker, getpid()));
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::vector<std::string> words = {python};
  const bool own = python == DefaultInterpreter();
  if (own) {
    for (std::string& flag : RunningInterpreterFlags()) words.push_back(std::move(flag));
  }
  words.insert(words.end(),
               {"-P", "-c", kWorkerProgram, interpreter.python_path, own ? PackageFolder() : "",
                std::to_string(kWorkerSocket), std::to_string(kWorkerStderr)});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, startup.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, startup.get(), STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, user_stderr.get(), kWorkerStderr);
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
  const int error = posix_spawn(&worker->pid_, python.c_str(), &actions, &attributes,
                                arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    worker->pid_ = -1;
    return failed("posix_spawn", error);
  }
  worker->socket_ = ours.Take();
  worker->startup_fd_ = startup.Take();
#ifdef SYS_pidfd_open
  Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, worker->pid_, 0)));
  process.MoveUp();
  worker->pid_fd_ = process.Take();
#endif
  TRIPONT_LOG(kInfo, "compile worker ", worker->pid_, " started with ", python);
  return worker;
}

CompileWorker::~CompileWorker() {
  CloseIfOpen(socket_);
  CloseIfOpen(pid_fd_);
  CloseIfOpen(startup_fd_);
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

void CompileWorker::ForgetAfterFork() {
  CloseIfOpen(socket_);
  CloseIfOpen(pid_fd_);
  CloseIfOpen(startup_fd_);
  pid_ = -1;
  usable_ = false;
}

Status CompileWorker::Died() {
  usable_ = false;
  CloseIfOpen(socket_);  // a worker that only closed its socket ends now
  int wait_status = kUnknownEnd;
  const bool ended = Reap(pid_, 2000, &wait_status);
  if (!ended) KillAndReap(pid_, 2000);
  const pid_t pid = std::exchange(pid_, -1);
  const std::string how = ended ? DescribeExit(wait_status) : "stopped talking";
  const std::string output = ready_ ? "" : LastLines(startup_fd_, 6);
  if (accepted_) {
    death_ = Death::kOfProgram;
    return Internal("the compile worker (process ", pid, ") ", how,
                    " while it compiled this program; the next compile starts a new one",
                    AdviceOnKill(wait_status));
  }
  if (WasSignalled(wait_status)) {
    death_ = IsCrash(WTERMSIG(wait_status)) ? Death::kOfCrash : Death::kOfKill;
  } else if (ended && wait_status == kUnknownEnd && output.empty()) {
    death_ = Death::kOfKill;  // a Python that cannot start says why
  } else {
    death_ = ready_ ? Death::kOfCrash : Death::kOfStart;
  }
  if (ready_) {
    return Unavailable("the compile worker (process ", pid, ") ", how,
                       " before it read the program", AdviceOnKill(wait_status));
  }
  const char* const line = output.empty() ? "" : "\n";
  return Unavailable("the compile worker (", python_, ", module tripont.core.compiler.worker) ",
                     how, " before it was ready", output.empty() ? "" : ":", line, output, line,
                     AdviceOnStart(wait_status, python_, output));
}

Status CompileWorker::End(Status why) {
  usable_ = false;
  if (pid_ > 0)
    kill(pid_, SIGKILL);  // it may be stopped, and would not see that its socket is closed
  return why;
}

bool CompileWorker::EndedWhileIdle() const {
  // Only a worker that has been ready: the reason why one could not start is worth telling.
  if (!ready_) return false;
  pollfd fd = {socket_, POLLIN, 0};
  if (poll(&fd, 1, 0) > 0) return true;  // closed, or it says something that nobody asked for
  pollfd process = {pid_fd_, POLLIN, 0};
  return pid_fd_ >= 0 && poll(&process, 1, 0) > 0;
}

bool CompileWorker::HasEnded() const {
  if (kill(pid_, 0) != 0) return true;
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0;
}

Status CompileWorker::TimeLimitPassed() {
  const std::string output = ready_ ? "" : LastLines(startup_fd_, 6);
  const std::string written =
      output.empty() ? "" : StrCat("; the last that the worker wrote:\n", output);
  if (deadline_.has_value() && *deadline_ <= Clock::now()) {
    return End(DeadlineExceeded("the program was not compiled within ", time_limit_,
                                " s (option compile_timeout, TRIPONT_COMPILE_TIMEOUT)",
                                ready_ ? "" : "; its worker was still starting", written));
  }
  return End(DeadlineExceeded(
      "the compile worker (", python_, ", process ", pid_, ") was not ready within ", start_limit_,
      " s (option worker_start_timeout, TRIPONT_WORKER_START_TIMEOUT)", written));
}

Status CompileWorker::AwaitSocket(short event) {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  while (true) {
    int64_t wait = pid_fd_ >= 0 ? -1 : kPollMilliseconds;
    for (const std::optional<Clock::time_point>& limit : {deadline_, ready_by_}) {
      if (!limit.has_value()) continue;
      const int64_t left = ceil<milliseconds>(*limit - Clock::now()).count();
      if (left <= 0) return TimeLimitPassed();
      wait = std::min<int64_t>(wait < 0 ? left : std::min(wait, left), 1 << 30);
    }
    // The socket alone does not tell of the worker's death if a forked process holds a copy of its
    // end.
    pollfd fds[2] = {{socket_, event, 0}, {pid_fd_, POLLIN, 0}};
    const int ready = poll(fds, pid_fd_ >= 0 ? 2 : 1, static_cast<int>(wait));
    if (ready < 0 && errno != EINTR) return Died();
    if (ready < 0) {
      if (InterruptedBySignal()) return End(Cancelled("the compile was interrupted by a signal"));
      continue;
    }
    if (fds[0].revents != 0) return OkStatus();
    if (ready > 0 || (pid_fd_ < 0 && HasEnded())) return Died();
  }
}

template <typename Message>
Status CompileWorker::Send(const Message& message) {
  return SendBytes(Framed(message));
}

Status CompileWorker::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      TRIPONT_RETURN_IF_ERROR(AwaitSocket(POLLOUT));
    } else {
      return Died();
    }
  }
  return OkStatus();
}

StatusOr<CompileWorker::Received> CompileWorker::Receive(uint64_t largest) {
  Received received;
  uint64_t size = 0;
  TRIPONT_RETURN_IF_ERROR(ReceiveBytes(&received.number, sizeof(received.number)));
  TRIPONT_RETURN_IF_ERROR(ReceiveBytes(&size, sizeof(size)));
  if (size > largest) return Received{};
  // Memory is taken for all of it and used for what has come: a damaged size must not fill the machine's.
  try {
    received.fields.reserve(size);
  } catch (const std::exception&) {
    return End(ResourceExhausted("the compile worker (process ", pid_, ") sends a message of ",
                                 size, " bytes, for which there is no memory"));
  }
  while (received.fields.size() < size) {
    const size_t before = received.fields.size();
    const size_t piece = std::min<uint64_t>(size - before, kPiece);
    received.fields.resize(before + piece);
    TRIPONT_RETURN_IF_ERROR(ReceiveBytes(received.fields.data() + before, piece));
  }
  return received;
}

Status CompileWorker::ReceiveBytes(void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t received = recv(socket_, to, size, MSG_DONTWAIT);
    if (received > 0) {
      to += received;
      size -= static_cast<size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      TRIPONT_RETURN_IF_ERROR(AwaitSocket(POLLIN));
    } else {
      return Died();
    }
  }
  return OkStatus();
}

Status CompileWorker::AwaitHello() {
  TRIPONT_ASSIGN_OR_RETURN(const Received received, Receive(kLargestHello));
  schema::Hello hello;
  if (received.number != hello.kNumber || !Parse(received.fields, hello) ||
      hello.protocol_version != kProtocolVersion) {
    return End(Unavailable("the compile worker of ", python_, " does not speak version ",
                           kProtocolVersion, " of the protocol: another version of tripont is ",
                           "installed there"));
  }
  if (hello.version != Version()) {
    return End(Unavailable("the compile worker of ", python_, " is tripont ", hello.version,
                           ", and this process has loaded tripont ", Version(),
                           ": restart the process if tripont was installed anew, or let option "
                           "python or TRIPONT_PYTHON name an interpreter with that version"));
  }
  const std::string& own = CompilerSources();
  same_compiler_ = own.empty() || (hello.sources == own && SamePackages(hello.packages));
  if (!same_compiler_) {
    static std::atomic<bool> warned{false};
    const LogLevel level = warned.exchange(true) ? LogLevel::kInfo : LogLevel::kWarning;
    if (LogEnabled(level)) {
      LogLine(level,
              StrCat("the compiler of ", python_, " (process ", pid_,
                     ") is not the one that this process knows, or it was changed since then: "
                     "its programs are not kept in the cache"));
    }
  }
  ready_ = true;
  ready_by_.reset();
  CloseIfOpen(startup_fd_);
  return OkStatus();
}

Status CompileWorker::Answer(std::string_view question, const Partitioners& partitioners,
                             const AnswerFunction& answer) {
  schema::Question asked;
  const bool parsed = Parse(question, asked);
  const auto partitioner = partitioners.find(asked.partitioner);
  if (!parsed || partitioner == partitioners.end()) {
    usable_ = false;
    return Internal("the compile worker asked something else than a question about partitioning");
  }
  const std::vector<std::string> parts(asked.parts.begin(), asked.parts.end());
  const StatusOr<std::vector<std::string>> answered =
      answer(*partitioner->second, asked.question, parts);
  schema::Answer reply;
  reply.code = static_cast<uint32_t>(answered.status().code());
  reply.message = schema::Bytes(answered.status().message());
  if (answered.ok()) reply.parts.assign(answered->begin(), answered->end());
  return Send(reply);
}

StatusOr<CompiledProgram> CompileWorker::Compile(const CompileRequest& request,
                                                 const AnswerFunction& answer,
                                                 Clock::time_point begin) {
  reused_ = false;
  accepted_ = false;
  // A limit beyond the range of the clock does not limit anything.
  const auto limit = [](Clock::time_point from, int64_t seconds) {
    return seconds > 0 && seconds < kLongestLimit
               ? std::optional(from + std::chrono::seconds(seconds))
               : std::nullopt;
  };
  time_limit_ = request.time_limit;
  deadline_ = limit(begin, time_limit_);
  if (!ready_) {
    start_limit_ = request.start_limit;
    ready_by_ = limit(Clock::now(), start_limit_);
    const std::string wanted = Framed(schema::Wanted{});
    // A new socket has room for it; that the worker is gone, and why, AwaitHello finds out.
    send(socket_, wanted.data(), wanted.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    TRIPONT_RETURN_IF_ERROR(AwaitHello());
  }
  schema::Request asked;
  asked.format = request.format;
  asked.program = request.program;
  asked.compile_options = request.compile_options;
  asked.options.assign(request.options.begin(), request.options.end());
  for (const auto& [name, partitioner] : request.partitioners)
    asked.partitioners.push_back({name, partitioner->side_effects_may_be_replicated});
  TRIPONT_RETURN_IF_ERROR(Send(asked));

  const auto strange = [this] {
    usable_ = false;
    return Internal("the compile worker answered with something else than a response");
  };
  TRIPONT_ASSIGN_OR_RETURN(Received received, Receive(kLargestMessage));
  if (received.number != schema::Accepted::kNumber) return strange();
  accepted_ = true;
  while (true) {
    TRIPONT_ASSIGN_OR_RETURN(received, Receive(kLargestMessage));
    if (received.number != schema::Question::kNumber) break;
    TRIPONT_RETURN_IF_ERROR(Answer(received.fields, request.partitioners, answer));
  }
  schema::Response response;
  if (received.number != response.kNumber || !Parse(received.fields, response)) return strange();
  if (response.code != 0) {
    return Status(StatusCodeFromInt(static_cast<int>(response.code)), std::move(response.message));
  }
  reused_ = response.reused;
  // The artifact is most of the message: it is moved to the front, and there is no second copy.
  const size_t size = response.artifact.size();
  received.fields.erase(0, response.artifact.data() - received.fields.data());
  received.fields.resize(size);
  return CompiledProgram{std::move(received.fields), same_compiler_};
}

// --------------------------------------------------------------------------------------------------
// CompileWorkerPool

void CompileWorkerPool::State::WakeWaiters() {
  for (const int waiter : waiters) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(waiter, &one, sizeof(one));
  }
}

// A slot that belongs to one compile. However that ends, also by an exception, the slot is free
// afterwards; and if it did not come to its end the worker goes, which may be in the middle of a
// message.
class CompileWorkerPool::Claim {
 public:
  Claim(CompileWorkerPool& pool, State& state, Slot* slot)  // with the mutex
      : pool_(pool), state_(state), slot_(slot) {
    slot_->busy = true;
  }
  ~Claim() {
    std::unique_ptr<Slot> dead;  // destroyed without the mutex
    const std::lock_guard<std::mutex> lock(state_.mutex);
    ++state_.counters.compiles;
    CompileWorker* const worker = slot_->worker.get();
    if (worker != nullptr && worker->reused()) ++state_.counters.reused;
    slot_->busy = false;
    slot_->idle_since = Clock::now();
    if (!complete_ || worker == nullptr || !worker->usable()) {
      ++state_.counters.deaths;
      const auto found = std::find_if(state_.slots.begin(), state_.slots.end(),
                                      [&](const auto& s) { return s.get() == slot_; });
      if (found != state_.slots.end()) {
        dead = std::move(*found);
        state_.slots.erase(found);
      }
    }
    pool_.Watch(state_);
    state_.WakeWaiters();
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;
  void Complete() { complete_ = true; }

 private:
  CompileWorkerPool& pool_;
  State& state_;
  Slot* const slot_;
  bool complete_ = false;
};

// While a worker waits for an answer of this process, there may be one more.
class CompileWorkerPool::Waiting {
 public:
  explicit Waiting(State& state) : state_(state) {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    ++state_.waiting;
    state_.WakeWaiters();
  }
  ~Waiting() {
    const std::lock_guard<std::mutex> lock(state_.mutex);
    --state_.waiting;
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  State& state_;
};

CompileWorkerPool::CompileWorkerPool(int64_t max_workers, int64_t idle_seconds)
    : max_workers_(max_workers),
      idle_(std::min(idle_seconds, kLongestLimit)),
      state_(std::make_unique<State>()) {}

Status CompileWorkerPool::AwaitChange(State& state, std::unique_lock<std::mutex>& lock,
                                      std::optional<Clock::time_point> until) {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  const Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Without a descriptor for it: look again and again.
  const bool has_event = event.get() >= 0;
  if (has_event) state.waiters.push_back(event.get());
  lock.unlock();
  int64_t wait = has_event ? -1 : kPollMilliseconds;
  if (until.has_value()) {
    const int64_t left = std::max<int64_t>(0, ceil<milliseconds>(*until - Clock::now()).count());
    wait = wait < 0 ? left : std::min(wait, left);
  }
  pollfd fd = {event.get(), POLLIN, 0};
  const int ready = poll(&fd, has_event ? 1 : 0, static_cast<int>(wait));
  const bool interrupted = ready < 0 && errno == EINTR && InterruptedBySignal();
  lock.lock();
  std::erase(state.waiters, event.get());
  return interrupted ? Cancelled("the compile was interrupted by a signal") : OkStatus();
}

void CompileWorkerPool::Watch(State& state) {
  if (idle_.count() <= 0 || state.slots.empty()) return;
  if (state.watched) {
    state.slots_changed.notify_all();
    return;
  }
  try {
    std::thread([&state, idle = idle_] { EndIdleWorkers(state, idle); }).detach();
    state.watched = true;
  } catch (const std::exception&) {  // no thread: the next compile tries again
  }
}

void CompileWorkerPool::EndIdleWorkers(State& state, std::chrono::seconds idle) {
  pthread_setname_np(pthread_self(), "tripont-idle");
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);  // they are for the program's threads
  std::unique_lock<std::mutex> lock(state.mutex);
  while (!state.slots.empty()) {
    const Clock::time_point now = Clock::now();
    Clock::time_point next = Clock::time_point::max();
    std::unique_ptr<Slot> ended;
    for (auto slot = state.slots.begin(); slot != state.slots.end() && !ended; ++slot) {
      if ((*slot)->busy) continue;
      if ((*slot)->idle_since + idle <= now) {
        ended = std::move(*slot);
        state.slots.erase(slot);
        break;
      }
      next = std::min(next, (*slot)->idle_since + idle);
    }
    if (ended) {
      lock.unlock();
      TRIPONT_LOG(kInfo, "compile worker ", ended->pid, " was idle for ", idle.count(),
                  " s and ends");
      ended.reset();
      lock.lock();
    } else if (next == Clock::time_point::max()) {
      state.slots_changed.wait(lock);
    } else {
      state.slots_changed.wait_until(lock, next);
    }
  }
  state.watched = false;
}

StatusOr<std::string> CompileWorkerPool::FindPython(const std::string& python) {
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

void CompileWorkerPool::Prestart(const WorkerInterpreter& wanted) {
  StatusOr<std::string> python = FindPython(wanted.python);
  if (!python.ok()) return;
  const WorkerInterpreter interpreter{*std::move(python), wanted.python_path};
  const std::lock_guard<std::mutex> lock(state_->mutex);
  for (const std::unique_ptr<Slot>& slot : state_->slots) {
    if (slot->interpreter.Serves(interpreter)) return;
  }
  // posix_spawn takes about a millisecond; the worker's imports go on while the caller does
  // something else.
  StatusOr<std::unique_ptr<CompileWorker>> worker = CompileWorker::Start(interpreter);
  if (!worker.ok()) return;
  auto slot = std::make_unique<Slot>();
  slot->interpreter = interpreter;
  slot->worker = std::move(worker).value();
  slot->pid = slot->worker->pid();
  slot->idle_since = Clock::now();
  state_->slots.push_back(std::move(slot));
  ++state_->counters.started;
  Watch(*state_);
}

StatusOr<CompiledProgram> CompileWorkerPool::Compile(const WorkerInterpreter& wanted,
                                                     const CompileRequest& request) {
  TRIPONT_ASSIGN_OR_RETURN(std::string python, FindPython(wanted.python));
  const WorkerInterpreter interpreter{std::move(python), wanted.python_path};
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  const int64_t ended = times_ended;
  TRIPONT_ASSIGN_OR_RETURN(Slot* const slot, AwaitSlot(interpreter, lock, ended));
  Claim claim(*this, state, slot);
  lock.unlock();
  StatusOr<CompiledProgram> result = CompileIn(state, *slot, request, ended);
  claim.Complete();
  return result;
}

StatusOr<CompileWorkerPool::Slot*> CompileWorkerPool::AwaitSlot(
    const WorkerInterpreter& interpreter, std::unique_lock<std::mutex>& lock, int64_t ended) {
  State& state = *state_;
  while (true) {
    for (const std::unique_ptr<Slot>& candidate : state.slots) {
      if (!candidate->busy && candidate->interpreter.Serves(interpreter)) return candidate.get();
    }
    if (static_cast<int64_t>(state.slots.size()) >= max_workers_ + state.waiting) {
      // An idle worker of another interpreter makes room.
      const auto idle = std::find_if(state.slots.begin(), state.slots.end(),
                                     [](const auto& s) { return !s->busy; });
      if (idle == state.slots.end()) {
        TRIPONT_RETURN_IF_ERROR(AwaitChange(state, lock, std::nullopt));
        if (times_ended != ended) return CompileEnded();
        continue;
      }
      state.slots.erase(idle);
    }
    auto added = std::make_unique<Slot>();
    added->interpreter = interpreter;
    return state.slots.emplace_back(std::move(added)).get();
  }
}

StatusOr<CompiledProgram> CompileWorkerPool::CompileIn(State& state, Slot& slot,
                                                       const CompileRequest& request,
                                                       int64_t ended) {
  const auto answer = [&state](const Partitioner& partitioner, PartitioningQuestion question,
                               std::span<const std::string> parts) {
    const Waiting waiting(state);
    return partitioner.answer(question, parts);
  };
  const Clock::time_point begin = Clock::now();
  if (slot.worker != nullptr && slot.worker->EndedWhileIdle()) ForgetWorker(state, slot);
  for (int attempt = 1;; ++attempt) {
    if (slot.worker == nullptr) TRIPONT_RETURN_IF_ERROR(StartWorker(state, slot, ended));
    StatusOr<CompiledProgram> result = slot.worker->Compile(request, answer, begin);
    const CompileWorker::Death death = slot.worker->death();
    const int most = death == CompileWorker::Death::kOfKill    ? kMostKilled
                     : death == CompileWorker::Death::kOfCrash ? kMostCrashed
                                                               : 1;
    if (most == 1 || times_ended != ended) return result;
    if (attempt >= most) {
      return result.status().WithPrefix(
          StrCat(attempt, " compile workers died one after another; the last one"));
    }
    TRIPONT_LOG(kInfo, "another compile worker is tried: ", result.status().message());
    ForgetWorker(state, slot);
    if (attempt == 1) continue;
    TRIPONT_RETURN_IF_ERROR(Pause(state, kFirstPause * (1 << (attempt - 2)), ended));
  }
}

Status CompileWorkerPool::StartWorker(State& state, Slot& slot, int64_t ended) {
  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<CompileWorker> started,
                           CompileWorker::Start(slot.interpreter));
  const std::lock_guard<std::mutex> lock(state.mutex);
  slot.worker = std::move(started);
  slot.pid = slot.worker->pid();
  ++state.counters.started;
  return times_ended == ended ? OkStatus() : CompileEnded();  // before there was a process to end
}

void CompileWorkerPool::ForgetWorker(State& state, Slot& slot) {
  std::unique_ptr<CompileWorker> dead;  // destroyed without the mutex
  const std::lock_guard<std::mutex> lock(state.mutex);
  dead = std::move(slot.worker);
  slot.pid = -1;  // it may soon be another process's
}

Status CompileWorkerPool::Pause(State& state, std::chrono::milliseconds pause, int64_t ended) {
  const Clock::time_point until = Clock::now() + pause;
  std::unique_lock<std::mutex> lock(state.mutex);
  while (times_ended == ended && Clock::now() < until)
    TRIPONT_RETURN_IF_ERROR(AwaitChange(state, lock, until));
  return times_ended == ended ? OkStatus() : CompileEnded();
}

CompileWorkerCounters CompileWorkerPool::counters() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  CompileWorkerCounters counters = state_->counters;
  counters.alive = static_cast<int64_t>(state_->slots.size());
  return counters;
}

void CompileWorkerPool::EndCompiles() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  ++times_ended;
  for (const std::unique_ptr<Slot>& slot : state_->slots) {
    if (slot->busy && slot->pid > 0) kill(slot->pid, SIGKILL);
  }
  state_->WakeWaiters();
}

std::vector<pid_t> CompileWorkerPool::pids() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  std::vector<pid_t> pids;
  for (const std::unique_ptr<Slot>& slot : state_->slots) {
    if (slot->pid > 0) pids.push_back(slot->pid);
  }
  return pids;
}

void CompileWorkerPool::ResetInChild() {
  // Left behind, not destroyed: other threads of the parent may have been in the middle of using
  // it.
  State* const parents = state_.release();
  for (const std::unique_ptr<Slot>& slot : parents->slots) {
    if (slot->worker != nullptr) slot->worker->ForgetAfterFork();
  }
  for (const int waiter : parents->waiters) close(waiter);
  state_ = std::make_unique<State>();
}

}  // namespace tripont
