#include "core/runtime/compile_worker_pool.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/runtime/file_descriptor.h"
#include "core/runtime/interrupt.h"
#include "core/runtime/logging.h"

namespace tripont {
namespace {

// Workers that a compile tries before it fails, if they are killed before they read the program,
// and if they crash. Memory that ran out may be free a moment later; a crash mostly comes again.
constexpr int kMostKilled = 5;
constexpr int kMostCrashed = 2;
// After the second one that died; doubled after each further one.
constexpr std::chrono::milliseconds kFirstPause{200};

// How often compiles were ended (EndCompiles): those that see it change do not go on.
std::atomic<int64_t> times_ended{0};

Status CompileEnded() { return Cancelled("the compile was ended, as the program ends"); }

}  // namespace

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
  const FileDescriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  // Without a descriptor for it: look again and again.
  const bool has_event = event.get() >= 0;
  if (has_event) state.waiters.push_back(event.get());
  lock.unlock();
  int64_t wait = has_event ? -1 : kWorkerPollMilliseconds;
  if (until.has_value()) {
    const int64_t left = std::max<int64_t>(0, ceil<milliseconds>(*until - Clock::now()).count());
    wait = wait < 0 ? left : std::min(wait, left);
  }
  pollfd fd = {event.get(), POLLIN, 0};
  const int ready = poll(&fd, has_event ? 1 : 0, static_cast<int>(WithSignalPoll(wait)));
  const bool interrupted = ready <= 0 && InterruptedBySignal();
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
  state.watched = true;
  try {
    std::thread([&state, idle = idle_] { EndIdleWorkers(state, idle); }).detach();
  } catch (const std::exception&) {
    state.watched = false;  // no thread: the next compile tries again
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

void CompileWorkerPool::Prestart(const WorkerInterpreter& wanted) {
  StatusOr<std::string> python = WorkerInterpreter::FindPython(wanted.python);
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
  TRIPONT_ASSIGN_OR_RETURN(std::string python, WorkerInterpreter::FindPython(wanted.python));
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
