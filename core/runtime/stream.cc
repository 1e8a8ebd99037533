#include "core/runtime/stream.h"

#include <pthread.h>

#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/logging.h"
#include "core/runtime/parallel.h"
#include "core/runtime/spin.h"

namespace tripont {
namespace {

// How long the thread looks for more work before it sleeps: waking it up costs the next caller
// several microseconds.
constexpr int kSpins = 2000;

class FunctionTask : public StreamTask {
 public:
  FunctionTask(std::function<void()> run, std::function<void(const Status&)> abandon)
      : run_(std::move(run)), abandon_(std::move(abandon)) {}
  void Run() override { run_(); }
  void Abandon(const Status& status) override {
    if (abandon_) abandon_(status);
  }

 private:
  std::function<void()> run_;
  std::function<void(const Status&)> abandon_;
};

// An exception (no memory, mostly) is the error of the task's results, and not the end of the
// process.
void RunTask(StreamTask& task) noexcept {
  const Status status = Guarded("while a device was computing", [&] { task.Run(); });
  if (!status.ok()) task.Abandon(status);
}

thread_local const Stream* current_stream = nullptr;

}  // namespace

Stream::Stream(std::string name, Idle idle)
    : name_(std::move(name)), idle_(idle), state_(std::make_unique<State>()) {}

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
  }
  state_->work.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

bool Stream::OnStreamThread() const { return current_stream == this; }

bool Stream::OnAnyStreamThread() { return current_stream != nullptr; }

void Stream::Enqueue(std::function<void()> run, std::function<void(const Status&)> abandon) {
  Enqueue(std::make_unique<FunctionTask>(std::move(run), std::move(abandon)));
}

Status Stream::StartThread() {
  return Guarded("cannot start the thread of a device",
                 [&] { state_->thread.Start([this] { Loop(); }); });
}

Status Stream::EnsureThread() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->thread.joinable()) return OkStatus();
  const Status status = StartThread();
  if (status.ok()) return status;
  return ResourceExhausted(
      status.message(),
      ", and on the caller's thread it could wait for ever (ulimit -u, ulimit -v)");
}

void Stream::Enqueue(std::unique_ptr<StreamTask> task) noexcept {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  if (!OnStreamThread()) {
    state.room.wait(lock, [&] { return state.queued < kMaxPending || state.unbounded > 0; });
  }
  // Nothing is lost if it cannot be started (the limit of processes is reached, there is no memory).
  if (const Status status = state.thread.joinable() ? OkStatus() : StartThread(); !status.ok()) {
    LogText(LogLevel::kWarning, status.message(), ": its work is done on the caller's thread");
    lock.unlock();
    RunTask(*task);
    return;
  }
  StreamTask* const added = task.get();
  (state.first == nullptr ? state.first : state.last->next_) = std::move(task);
  state.last = added;
  ++state.queued;
  pending_.fetch_add(1, std::memory_order_release);
  busy_.fetch_add(1, std::memory_order_release);
  const bool wake = state.sleeping;
  lock.unlock();
  if (wake) state.work.notify_one();
}

void Stream::SetUnbounded(bool unbounded) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->unbounded += unbounded ? 1 : -1;
  }
  if (unbounded) state_->room.notify_all();
}

void Stream::FinishWork() {
  if (!OnStreamThread() || work_is_over_) return;
  work_is_over_ = true;
  busy_.fetch_sub(1, std::memory_order_release);
}

void Stream::Synchronize() {
  if (pending_.load(std::memory_order_acquire) == 0) return;
  std::mutex mutex;
  std::condition_variable reached;
  bool done = false;
  const auto finish = [&] {
    FinishWork();
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    reached.notify_all();
  };
  Enqueue(finish);  // in the child of a fork nobody waits here
  std::unique_lock<std::mutex> lock(mutex);
  reached.wait(lock, [&] { return done; });
}

std::unique_ptr<StreamTask> Stream::TakeFirst(State& state) {
  std::unique_ptr<StreamTask> task = std::move(state.first);
  state.first = std::move(task->next_);
  --state.queued;
  return task;
}

void Stream::Loop() {
  current_stream = this;
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  while (true) {
    if (state.first == nullptr && !state.stop) {
      if (idle_ == Idle::kLooks) {
        lock.unlock();
        (void)SpinUntil([this] { return pending_.load(std::memory_order_relaxed) != 0; }, kSpins);
        lock.lock();
      }
      state.sleeping = true;
      state.work.wait(lock, [&] { return state.first != nullptr || state.stop; });
      state.sleeping = false;
    }
    if (state.first == nullptr) return;
    std::unique_ptr<StreamTask> task = TakeFirst(state);
    state.running = task.get();
    const bool was_full = state.queued + 1 >= kMaxPending;
    lock.unlock();
    if (was_full) state.room.notify_all();
    work_is_over_ = false;
    RunTask(*task);
    if (state_.get() != &state) {
      // The task forked, and this is the child: the queue is another one now, and nobody else waits
      // for this thread.
      [[maybe_unused]] StreamTask* const kept = task.release();
      return;
    }
    FinishWork();
    lock.lock();
    state.running = nullptr;
    lock.unlock();
    task.reset();
    pending_.fetch_sub(1, std::memory_order_release);
    lock.lock();
  }
}

void Stream::ResetInChild() {
  // The thread, the mutex with its waiters and the condition variables are the parent's: leave them
  // behind.
  State* const parents = state_.release();
  state_ = std::make_unique<State>();
  if (current_stream == this) {
    // fork() was called by a task of this stream: the thread lives on in the child, inside that
    // task, and ends with it.
    current_stream = nullptr;
  } else if (parents->running != nullptr) {
    abandoned_.push_back(parents->running);
  }
  while (parents->first != nullptr) abandoned_.push_back(TakeFirst(*parents).release());
  pending_.store(0, std::memory_order_relaxed);
  busy_.store(0, std::memory_order_relaxed);
}

void Stream::AbandonInChild() {
  const Status status = FailedPrecondition(
      "this process was forked while the result was being computed: it exists in the parent "
      "process only");
  for (StreamTask* task : std::exchange(abandoned_, {})) task->Abandon(status);
}

}  // namespace tripont
