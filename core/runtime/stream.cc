#include "core/runtime/stream.h"

#include <pthread.h>

#include <exception>
#include <new>
#include <utility>

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
void RunTask(StreamTask& task) {
  Status status;
  try {
    return task.Run();
  } catch (const std::bad_alloc&) {
    status = ResourceExhausted("out of host memory while a device was computing");
  } catch (const std::exception& exception) {
    status = Internal("an exception while a device was computing: ", exception.what());
  }
  task.Abandon(status);
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

void Stream::Enqueue(std::unique_ptr<StreamTask> task) {
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  if (!OnStreamThread()) {
    state.room.wait(lock, [&] { return state.queue.size() < kMaxPending || state.unbounded > 0; });
  }
  if (!state.thread.joinable()) {
    // A thread that cannot be started (the limit of processes is reached) must not lose the work:
    // do it here.
    try {
      state.thread.Start([this] { Loop(); });
    } catch (const std::system_error& error) {
      TRIPONT_LOG(kWarning, "cannot start the thread of ", name_, " (", error.what(),
                  "): running on the caller's");
      lock.unlock();
      RunTask(*task);
      return;
    }
  }
  state.queue.push_back(std::move(task));  // first: without memory for it the counters stay
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

void Stream::Loop() {
  current_stream = this;
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  State& state = *state_;
  std::unique_lock<std::mutex> lock(state.mutex);
  while (true) {
    if (state.queue.empty() && !state.stop) {
      if (idle_ == Idle::kLooks) {
        lock.unlock();
        (void)SpinUntil([this] { return pending_.load(std::memory_order_relaxed) != 0; }, kSpins);
        lock.lock();
      }
      state.sleeping = true;
      state.work.wait(lock, [&] { return !state.queue.empty() || state.stop; });
      state.sleeping = false;
    }
    if (state.queue.empty()) return;
    std::unique_ptr<StreamTask> task = std::move(state.queue.front());
    state.queue.pop_front();
    state.running = task.get();
    const bool was_full = state.queue.size() + 1 >= kMaxPending;
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
  for (std::unique_ptr<StreamTask>& task : parents->queue) abandoned_.push_back(task.release());
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
