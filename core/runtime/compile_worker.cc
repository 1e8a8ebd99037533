#include "core/runtime/compile_worker.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "core/runtime/client.h"
#include "core/runtime/installation.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/logging.h"
#include "core/runtime/record_reader.h"
#include "core/runtime/record_writer.h"
#include "core/schema/messages.h"

namespace tripont {
namespace {

constexpr uint64_t kLargestHello = 4096;
constexpr uint64_t kLargestMessage = uint64_t{1} << 40;
constexpr uint64_t kPiece = uint64_t{1} << 20;  // of a message, that is read at a time
// A message begins with its number and the size of the fields that follow.
constexpr size_t kFrameSize = sizeof(uint32_t) + sizeof(uint64_t);

// The message that `fields` hold, which own its large values. False if they are not such a message.
template <typename Message>
bool Parse(std::string_view fields, Message& message) {
  RecordReader reader(fields, "message");
  reader.ReadFields(message, Message::Fields());
  return reader.Finish().ok();
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

// How the packages that the worker's compiler is built on differ from those beside this library, as
// far as these are known: such as "built on llvmlite-0.47.0, not llvmlite-0.50.0"; empty if they do
// not. `packages`: such as "llvmlite-0.47.0 jaxlib-0.10.2".
std::string PackageDifference(std::string_view packages) {
  const std::vector<std::string>& own = CompilerPackages();
  while (!packages.empty()) {
    const size_t space = std::min(packages.find(' '), packages.size());
    const std::string_view package = packages.substr(0, space);
    packages.remove_prefix(std::min(space + 1, packages.size()));
    const std::string_view prefix = package.substr(0, package.find('-') + 1);
    std::string_view known;
    bool same = false;
    for (const std::string& candidate : own) {
      if (candidate.starts_with(prefix)) known = candidate;
      same = same || candidate == package;
    }
    if (!known.empty() && !same) return StrCat("built on ", package, ", not ", known);
  }
  return {};
}

}  // namespace

StatusOr<std::unique_ptr<CompileWorker>> CompileWorker::Start(
    const WorkerInterpreter& interpreter) {
  std::unique_ptr<CompileWorker> worker(new CompileWorker);
  worker->python_ = interpreter.python;
  TRIPONT_RETURN_IF_ERROR(worker->process_.Start(interpreter));
  return worker;
}

void CompileWorker::ForgetAfterFork() {
  process_.ForgetAfterFork();
  usable_ = false;
}

Status CompileWorker::Died() {
  usable_ = false;
  const pid_t pid = process_.pid();
  const WorkerEnd end = process_.End();  // a worker that only closed its socket ends now
  const std::string how = end.Describe();
  const std::string output = ready_ ? "" : process_.LastLines();
  if (accepted_) {
    death_ = Death::kOfProgram;
    return Internal("the compile worker (process ", pid, ") ", how,
                    " while it compiled this program; the next compile starts a new one",
                    end.AdviceOnKill());
  }
  if (end.IsSignalled()) {
    death_ = end.IsCrash() ? Death::kOfCrash : Death::kOfKill;
  } else if (end.IsUnknown() && output.empty()) {
    death_ = Death::kOfKill;  // a Python that cannot start says why
  } else {
    death_ = ready_ ? Death::kOfCrash : Death::kOfStart;
  }
  if (ready_) {
    return Unavailable("the compile worker (process ", pid, ") ", how,
                       " before it read the program", end.AdviceOnKill());
  }
  const char* const line = output.empty() ? "" : "\n";
  return Unavailable("the compile worker (", python_, ", module tripont.core.compiler.worker) ",
                     how, " before it was ready", output.empty() ? "" : ":", line, output, line,
                     end.AdviceOnStart(python_, output));
}

Status CompileWorker::End(Status why) {
  usable_ = false;
  process_.Kill();  // it may be stopped, and would not see that its socket is closed
  return why;
}

bool CompileWorker::EndedWhileIdle() const {
  // Only a worker that has been ready: the reason why one could not start is worth telling.
  if (!ready_) return false;
  pollfd fd = {process_.socket(), POLLIN, 0};
  if (poll(&fd, 1, 0) > 0) return true;  // closed, or it says something that nobody asked for
  pollfd process = {process_.pid_fd(), POLLIN, 0};
  return process_.pid_fd() >= 0 && poll(&process, 1, 0) > 0;
}

Status CompileWorker::TimeLimitPassed() {
  const std::string output = ready_ ? "" : process_.LastLines();
  const std::string written =
      output.empty() ? "" : StrCat("; the last that the worker wrote:\n", output);
  if (deadline_.has_value() && *deadline_ <= Clock::now()) {
    return End(DeadlineExceeded("the program was not compiled within ", time_limit_,
                                " s (option compile_timeout, TRIPONT_COMPILE_TIMEOUT)",
                                ready_ ? "" : "; its worker was still starting", written));
  }
  return End(DeadlineExceeded(
      "the compile worker (", python_, ", process ", process_.pid(), ") was not ready within ",
      start_limit_, " s (option worker_start_timeout, TRIPONT_WORKER_START_TIMEOUT)", written));
}

Status CompileWorker::AwaitSocket(short event) {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  while (true) {
    int64_t wait = process_.pid_fd() >= 0 ? -1 : kWorkerPollMilliseconds;
    for (const std::optional<Clock::time_point>& limit : {deadline_, ready_by_}) {
      if (!limit.has_value()) continue;
      const int64_t left = ceil<milliseconds>(*limit - Clock::now()).count();
      if (left <= 0) return TimeLimitPassed();
      wait = std::min<int64_t>(wait < 0 ? left : std::min(wait, left), 1 << 30);
    }
    // The socket alone does not tell of the worker's death if a forked process holds a copy of its
    // end.
    pollfd fds[2] = {{process_.socket(), event, 0}, {process_.pid_fd(), POLLIN, 0}};
    const int ready =
        poll(fds, process_.pid_fd() >= 0 ? 2 : 1, static_cast<int>(WithSignalPoll(wait)));
    if (ready < 0 && errno != EINTR) return Died();
    if (ready <= 0 && InterruptedBySignal()) {
      return End(Cancelled("the compile was interrupted by a signal"));
    }
    if (ready < 0) continue;
    if (fds[0].revents != 0) return OkStatus();
    if (ready > 0 || (process_.pid_fd() < 0 && process_.HasEnded())) return Died();
  }
}

template <typename Message>
Status CompileWorker::Send(const Message& message) {
  return SendBytes(Framed(message));
}

Status CompileWorker::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent =
        send(process_.socket(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
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
    return End(ResourceExhausted("the compile worker (process ", process_.pid(),
                                 ") sends a message of ", size,
                                 " bytes, for which there is no memory"));
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
    const ssize_t received = recv(process_.socket(), to, size, MSG_DONTWAIT);
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
  const std::string difference =
      hello.sources == own ? PackageDifference(hello.packages) : "its source files are others";
  same_compiler_ = own.empty() || difference.empty();
  if (!same_compiler_) {
    static std::atomic<bool> warned{false};
    const LogLevel level = warned.exchange(true) ? LogLevel::kInfo : LogLevel::kWarning;
    if (LogEnabled(level)) {
      LogLine(level,
              StrCat("the compiler of ", python_, " (process ", process_.pid(),
                     ") is not the one that this process knows, or it was changed since then (",
                     difference, "): its programs are not kept in the cache"));
    }
  }
  ready_ = true;
  ready_by_.reset();
  process_.ForgetLines();
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
    send(process_.socket(), wanted.data(), wanted.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    TRIPONT_RETURN_IF_ERROR(AwaitHello());
  }
  schema::Request asked;
  asked.format = request.format;
  asked.program = request.program;
  asked.compile_options = request.compile_options;
  asked.options.assign(request.options.begin(), request.options.end());
  for (const auto& [name, partitioner] : request.partitioners)
    asked.partitioners.push_back({name, partitioner->side_effects_may_be_replicated});
  asked.code = {schema::Bytes(request.code.path), static_cast<uint64_t>(request.code.size_limit),
                request.code.is_shared};
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

}  // namespace tripont
