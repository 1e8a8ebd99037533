#include "core/runtime/compile_worker.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "core/runtime/installation.h"
#include "core/runtime/logging.h"

extern char** environ;

namespace tripont {
namespace {

constexpr uint32_t kHello = 0x49485054;
constexpr uint32_t kRequest = 0x51525054;
constexpr uint32_t kAccepted = 0x41525054;
constexpr uint32_t kResponse = 0x53525054;
constexpr uint32_t kQuestion = 0x55515054;
constexpr uint32_t kAnswer = 0x4E415054;
constexpr uint32_t kProtocolVersion = 3;
constexpr std::string_view kReused = "reused";
constexpr uint64_t kLargestArtifact = uint64_t{1} << 40;
constexpr uint64_t kLargestQuestion = uint64_t{1} << 30;
// Descriptors of the worker; core/compiler/worker.py closes everything above.
constexpr int kWorkerSocket = 3;
constexpr int kWorkerStderr = 4;
// Where the kernel has no pidfd, how often to look whether the worker lives.
constexpr int kPollMilliseconds = 200;

void CloseIfOpen(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

void Append(std::string& out, const void* data, size_t size) {
  out.append(static_cast<const char*>(data), size);
}
void AppendU32(std::string& out, uint32_t value) { Append(out, &value, sizeof(value)); }
void AppendU64(std::string& out, uint64_t value) { Append(out, &value, sizeof(value)); }
void AppendBytes32(std::string& out, std::string_view bytes) {
  AppendU32(out, static_cast<uint32_t>(bytes.size()));
  out.append(bytes);
}
void AppendBytes64(std::string& out, std::string_view bytes) {
  AppendU64(out, bytes.size());
  out.append(bytes);
}

// Reads the fields of a question. A field that is not all there is empty or 0, and whole() false.
class QuestionReader {
 public:
  explicit QuestionReader(std::string_view rest) : rest_(rest) {}

  uint32_t U32() { return Number<uint32_t>(); }
  std::string Bytes32() { return std::string(Take(Number<uint32_t>())); }
  std::string Bytes64() { return std::string(Take(Number<uint64_t>())); }
  bool whole() const { return whole_; }

 private:
  template <typename T>
  T Number() {
    T number = 0;
    const std::string_view bytes = Take(sizeof(T));
    if (whole_) std::memcpy(&number, bytes.data(), sizeof(T));
    return number;
  }
  std::string_view Take(uint64_t size) {
    if (size > rest_.size()) {
      whole_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  bool whole_ = true;
};

// The worker's program. Takes two arguments, both of which may be empty: the module path to put
// before the interpreter's own, and a folder to put last (tripont/helper_process.py does the same).
constexpr char kWorkerProgram[] =
    "import sys; given = [p for p in sys.argv.pop(1).split(':') if p]; last = sys.argv.pop(1); "
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

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    const char* const text = strsignal(number);
    return StrCat("was killed by signal ", number, " (", text == nullptr ? "?" : text, ")");
  }
  if (WIFEXITED(wait_status)) return StrCat("ended with exit code ", WEXITSTATUS(wait_status));
  return "ended";
}

// Waits for the process to end, for at most `milliseconds`. False: it still runs.
bool Reap(pid_t pid, int milliseconds, std::string* how) {
  for (int waited = 0;; waited += 5) {
    int wait_status = 0;
    const pid_t reaped = waitpid(pid, &wait_status, WNOHANG);
    if (reaped == pid) {
      *how = DescribeExit(wait_status);
      return true;
    }
    if (reaped < 0 && errno == ECHILD) {  // the program reaps all children itself
      *how = "ended";
      return true;
    }
    if (waited >= milliseconds) return false;
    usleep(5000);
  }
}

}  // namespace

// ------------------------------------------------------------------------------------------------------
// CompileWorker

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
  worker->socket_ = sockets[0];
  int theirs = sockets[1];
  worker->startup_fd_ = memfd_create("tripont-worker-stderr", MFD_CLOEXEC);
  int user_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  if (user_stderr < 0) user_stderr = open("/dev/null", O_WRONLY | O_CLOEXEC);
  // The descriptors must not be the numbers that they are moved to in the worker.
  int moved = fcntl(theirs, F_DUPFD_CLOEXEC, 10);
  close(theirs);
  theirs = moved;
  if (theirs < 0 || user_stderr < 0 || worker->startup_fd_ < 0) {
    const int error = errno;
    CloseIfOpen(theirs);
    CloseIfOpen(user_stderr);
    return failed("no file descriptor", error);
  }
  const int startup = fcntl(worker->startup_fd_, F_DUPFD_CLOEXEC, 10);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, startup, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, startup, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, theirs, kWorkerSocket);
  posix_spawn_file_actions_adddup2(&actions, user_stderr, kWorkerStderr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  // The worker must not start workers itself, should its imports load this library.
  std::vector<char*> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "TRIPONT_IN_WORKER=", 18) != 0) environment.push_back(*entry);
  }
  std::string in_worker = "TRIPONT_IN_WORKER=1";
  environment.push_back(in_worker.data());
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
  const int error = posix_spawn(&worker->pid_, python.c_str(), &actions, &attributes,
                                arguments.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(theirs);
  close(user_stderr);
  if (startup >= 0) close(startup);
  if (error != 0) {
    worker->pid_ = -1;
    return failed("posix_spawn", error);
  }
#ifdef SYS_pidfd_open
  worker->pid_fd_ = static_cast<int>(syscall(SYS_pidfd_open, worker->pid_, 0));
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
  std::string how;
  if (Reap(pid_, 0, &how)) return;
  try {
    std::thread([pid = pid_] {
      std::string ignored;
      if (!Reap(pid, 2000, &ignored)) {
        kill(pid, SIGKILL);
        Reap(pid, 2000, &ignored);
      }
    }).detach();
  } catch (const std::system_error&) {
    kill(pid_, SIGKILL);
    Reap(pid_, 1000, &how);
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
  std::string how;
  if (!Reap(pid_, 2000, &how)) {
    kill(pid_, SIGKILL);
    how = "stopped talking";
    std::string ignored;
    Reap(pid_, 2000, &ignored);
  }
  const pid_t pid = pid_;
  pid_ = -1;
  if (ready_) {
    return Internal("the compile worker (process ", pid, ") ", how,
                    " while it compiled this program; the next compile starts a new one");
  }
  const std::string output = LastLines(startup_fd_, 6);
  return Unavailable(
      "the compile worker (", python_, ", module tripont.core.compiler.worker) ", how,
      " before it was ready", output.empty() ? "" : ":\n", output, output.empty() ? "" : "\n",
      " (the interpreter must have tripont installed; option python or TRIPONT_PYTHON chooses it)");
}

bool CompileWorker::EndedWhileIdle() const {
  // Only a worker that has been ready: the reason why one could not start is worth telling.
  if (!ready_) return false;
  pollfd fd = {socket_, POLLIN, 0};
  if (poll(&fd, 1, 0) > 0) return true;  // closed, or it says something that nobody asked for
  pollfd process = {pid_fd_, POLLIN, 0};
  return pid_fd_ >= 0 && poll(&process, 1, 0) > 0;
}

Status CompileWorker::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Died();
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return OkStatus();
}

Status CompileWorker::Receive(void* data, size_t size) {
  auto* to = static_cast<char*>(data);
  while (size > 0) {
    // The socket alone does not tell of the worker's death if a forked process holds a copy of its
    // end.
    pollfd fds[2] = {{socket_, POLLIN, 0}, {pid_fd_, POLLIN, 0}};
    const int ready = poll(fds, pid_fd_ >= 0 ? 2 : 1, pid_fd_ >= 0 ? -1 : kPollMilliseconds);
    if (ready < 0) {
      if (errno == EINTR) continue;
      return Died();
    }
    if (fds[0].revents == 0) {
      if (ready > 0) return Died();
      if (kill(pid_, 0) != 0) return Died();
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
          info.si_pid != 0) {
        return Died();
      }
      continue;
    }
    const ssize_t received = recv(socket_, to, size, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return Died();
    to += received;
    size -= static_cast<size_t>(received);
  }
  return OkStatus();
}

Status CompileWorker::AwaitHello() {
  uint32_t hello[3];
  TRIPONT_RETURN_IF_ERROR(Receive(hello, sizeof(hello)));
  if (hello[0] != kHello || hello[1] != kProtocolVersion || hello[2] > 1024) {
    usable_ = false;
    return Unavailable("the compile worker of ", python_, " speaks another protocol (version ",
                       hello[1], ", expected ", kProtocolVersion,
                       "): another version of tripont is installed there");
  }
  std::string version(hello[2], '\0');
  TRIPONT_RETURN_IF_ERROR(Receive(version.data(), version.size()));
  ready_ = true;
  CloseIfOpen(startup_fd_);
  return OkStatus();
}

Status CompileWorker::Answer(const Partitioners& partitioners, const AnswerFunction& answer) {
  uint64_t size = 0;
  TRIPONT_RETURN_IF_ERROR(Receive(&size, sizeof(size)));
  if (size > kLargestQuestion) {
    usable_ = false;
    return Internal("the compile worker announced a question of ", size, " bytes");
  }
  std::string body(size, '\0');
  TRIPONT_RETURN_IF_ERROR(Receive(body.data(), body.size()));
  QuestionReader reader(body);
  const std::string name = reader.Bytes32();
  const auto question = static_cast<PartitioningQuestion>(reader.U32());
  std::vector<std::string> parts;
  for (uint32_t count = reader.U32(); count > 0 && reader.whole(); --count)
    parts.push_back(reader.Bytes64());
  const auto partitioner = partitioners.find(name);
  if (!reader.whole() || partitioner == partitioners.end()) {
    usable_ = false;
    return Internal("the compile worker asked something else than a question about partitioning");
  }
  const StatusOr<std::vector<std::string>> answered = answer(*partitioner->second, question, parts);
  const std::vector<std::string> none;
  const std::vector<std::string>& results = answered.ok() ? *answered : none;
  std::string reply;
  AppendU32(reply, static_cast<uint32_t>(answered.status().code()));
  AppendBytes32(reply, answered.status().message());
  AppendU32(reply, static_cast<uint32_t>(results.size()));
  for (const std::string& result : results) AppendBytes64(reply, result);
  std::string header;
  AppendU32(header, kAnswer);
  AppendU64(header, reply.size());
  TRIPONT_RETURN_IF_ERROR(Send(header));
  return Send(reply);
}

StatusOr<std::string> CompileWorker::Compile(const CompileRequest& request,
                                             const AnswerFunction& answer) {
  reused_ = false;
  accepted_ = false;
  if (!ready_) TRIPONT_RETURN_IF_ERROR(AwaitHello());
  std::string body;
  AppendBytes32(body, request.format);
  AppendBytes64(body, request.program);
  AppendBytes64(body, request.compile_options);
  AppendU32(body, static_cast<uint32_t>(request.options.size()));
  for (const auto& [key, value] : request.options) {
    AppendBytes32(body, key);
    AppendBytes32(body, value);
  }
  AppendU32(body, static_cast<uint32_t>(request.partitioners.size()));
  for (const auto& [name, partitioner] : request.partitioners) {
    AppendBytes32(body, name);
    AppendU32(body, partitioner->side_effects_may_be_replicated ? 1 : 0);
  }
  std::string header;
  AppendU32(header, kRequest);
  AppendU64(header, body.size());
  TRIPONT_RETURN_IF_ERROR(Send(header));
  TRIPONT_RETURN_IF_ERROR(Send(body));

  uint32_t accepted = 0;
  TRIPONT_RETURN_IF_ERROR(Receive(&accepted, sizeof(accepted)));
  accepted_ = true;
  uint32_t what = 0;
  TRIPONT_RETURN_IF_ERROR(Receive(&what, sizeof(what)));
  while (accepted == kAccepted && what == kQuestion) {
    TRIPONT_RETURN_IF_ERROR(Answer(request.partitioners, answer));
    TRIPONT_RETURN_IF_ERROR(Receive(&what, sizeof(what)));
  }
  if (accepted != kAccepted || what != kResponse) {
    usable_ = false;
    return Internal("the compile worker answered with something else than a response");
  }
  uint32_t response[2];
  TRIPONT_RETURN_IF_ERROR(Receive(response, sizeof(response)));
  std::string message(response[1], '\0');
  TRIPONT_RETURN_IF_ERROR(Receive(message.data(), message.size()));
  uint64_t size = 0;
  TRIPONT_RETURN_IF_ERROR(Receive(&size, sizeof(size)));
  if (size > kLargestArtifact) {
    usable_ = false;
    return Internal("the compile worker announced an artifact of ", size, " bytes");
  }
  std::string artifact(size, '\0');
  TRIPONT_RETURN_IF_ERROR(Receive(artifact.data(), artifact.size()));
  if (response[0] != 0)
    return Status(StatusCodeFromInt(static_cast<int>(response[0])), std::move(message));
  reused_ = message == kReused;
  return artifact;
}

// --------------------------------------------------------------------------------------------------
// CompileWorkerPool

CompileWorkerPool::CompileWorkerPool(int64_t max_workers)
    : max_workers_(max_workers), state_(std::make_unique<State>()) {}

StatusOr<std::string> CompileWorkerPool::FindPython(const std::string& python) {
  if (python.find('/') != std::string::npos) {
    if (access(python.c_str(), X_OK) == 0) return python;
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
      const std::string candidate =
          StrCat(colon == 0 || rest.empty() ? "." : rest.substr(0, colon), "/", name);
      if (access(candidate.c_str(), X_OK) == 0) return candidate;
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
    if (slot->interpreter == interpreter) return;
  }
  // posix_spawn takes about a millisecond; the worker's imports go on while the caller does
  // something else.
  StatusOr<std::unique_ptr<CompileWorker>> worker = CompileWorker::Start(interpreter);
  if (!worker.ok()) return;
  auto slot = std::make_unique<Slot>();
  slot->interpreter = interpreter;
  slot->worker = std::move(worker).value();
  slot->pid = slot->worker->pid();
  state_->slots.push_back(std::move(slot));
  ++state_->counters.started;
}

StatusOr<std::string> CompileWorkerPool::Compile(const WorkerInterpreter& wanted,
                                                 const CompileRequest& request) {
  TRIPONT_ASSIGN_OR_RETURN(std::string python, FindPython(wanted.python));
  const WorkerInterpreter interpreter{std::move(python), wanted.python_path};
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  Slot* slot = nullptr;
  while (slot == nullptr) {
    for (const std::unique_ptr<Slot>& candidate : state.slots) {
      if (!candidate->busy && candidate->interpreter == interpreter) slot = candidate.get();
    }
    if (slot != nullptr) break;
    if (static_cast<int64_t>(state.slots.size()) >= max_workers_ + state.waiting) {
      // An idle worker of another interpreter makes room.
      const auto idle = std::find_if(state.slots.begin(), state.slots.end(),
                                     [](const auto& s) { return !s->busy; });
      if (idle == state.slots.end()) {
        state.idle.wait(lock);
        continue;
      }
      state.slots.erase(idle);
    }
    slot = state.slots.emplace_back(std::make_unique<Slot>()).get();
    slot->interpreter = interpreter;
  }
  slot->busy = true;
  lock.unlock();

  const auto answer = [&state](const Partitioner& partitioner, PartitioningQuestion question,
                               std::span<const std::string> parts) {
    const auto waits = [&state](int64_t change) {
      const std::lock_guard<std::mutex> relock(state.mutex);
      state.waiting += change;
    };
    waits(1);
    state.idle.notify_all();
    StatusOr<std::vector<std::string>> answered = partitioner.answer(question, parts);
    waits(-1);
    return answered;
  };
  StatusOr<std::string> result = Internal("not compiled");
  // A worker that died while it was idle (killed, out of memory) is no reason to fail a compile. It
  // shows before the request is sent, or, where the process was just about to end, after that.
  const bool was_idle = slot->worker != nullptr;
  bool ended_while_idle = was_idle && slot->worker->EndedWhileIdle();
  if (was_idle && !ended_while_idle) {
    const bool was_ready = slot->worker->ready();
    result = slot->worker->Compile(request, answer);
    ended_while_idle = was_ready && !slot->worker->usable() && !slot->worker->accepted();
  }
  if (ended_while_idle) {
    TRIPONT_LOG(kInfo, "compile worker ", slot->pid,
                " ended while it was idle; starting a new one");
    slot->worker.reset();
  }
  if (slot->worker == nullptr) {
    StatusOr<std::unique_ptr<CompileWorker>> started = CompileWorker::Start(interpreter);
    if (started.ok()) {
      slot->worker = std::move(started).value();
      {
        const std::lock_guard<std::mutex> relock(state.mutex);
        slot->pid = slot->worker->pid();
        ++state.counters.started;
      }
      result = slot->worker->Compile(request, answer);
    } else {
      result = started.status();
    }
  }

  std::unique_ptr<Slot> dead;
  lock.lock();
  ++state.counters.compiles;
  if (slot->worker != nullptr && slot->worker->reused()) ++state.counters.reused;
  slot->busy = false;
  if (slot->worker == nullptr || !slot->worker->usable()) {
    ++state.counters.deaths;
    const auto found = std::find_if(state.slots.begin(), state.slots.end(),
                                    [&](const auto& s) { return s.get() == slot; });
    if (found != state.slots.end()) {
      dead = std::move(*found);
      state.slots.erase(found);
    }
  }
  lock.unlock();
  state.idle.notify_one();
  return result;
}

CompileWorkerCounters CompileWorkerPool::counters() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  CompileWorkerCounters counters = state_->counters;
  counters.alive = static_cast<int64_t>(state_->slots.size());
  return counters;
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
  state_ = std::make_unique<State>();
}

}  // namespace tripont
