// Stream: the in-order queue of work of one device.
//
// Its thread is started with the first task and sleeps when there is nothing to do. Whoever has
// little work and finds the stream idle may do it on its own thread instead of enqueuing it (the
// executable decides: see executable.h).
#ifndef TRIPONT_CORE_RUNTIME_STREAM_H_
#define TRIPONT_CORE_RUNTIME_STREAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/runtime/thread.h"

namespace tripont {

// One piece of work. Exactly one of the two functions is called, once, then the task is destroyed.
class StreamTask {
 public:
  virtual ~StreamTask() = default;
  virtual void Run() = 0;
  // Instead of Run (or of the end of Run), if that threw an exception, and in the child of a fork,
  // where the stream's thread does not exist: must decide the task's events with `status` and do nothing else.
  virtual void Abandon(const Status& status) = 0;

 private:
  friend class Stream;
  std::unique_ptr<StreamTask> next_;  // in the queue
};

class TRIPONT_EXPORT Stream {
 public:
  // At most this many tasks wait; Enqueue blocks its caller (not the stream's own thread) when
  // there are more, so that a program that never waits for results cannot fill the memory with
  // them.
  static constexpr size_t kMaxPending = 64;

  // What its thread does when there is nothing to do: look for more for a while, which serves the next caller sooner,
  // or sleep at once, which leaves the core to others.
  enum class Idle : char { kLooks, kSleeps };
  explicit Stream(std::string name, Idle idle = Idle::kLooks);
  ~Stream();  // runs what is queued, then ends the thread
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Nothing queued, and nothing running whose work is not over.
  bool IsIdle() const { return busy_.load(std::memory_order_acquire) == 0; }
  // Called by the running task before it tells anybody that it is done: whoever hears of that finds
  // the stream idle if nothing else is queued. Does nothing on other threads.
  void FinishWork();
  // Runs `task` after everything enqueued before it. Never fails: where the stream's thread cannot
  // be started, the caller's does the work.
  void Enqueue(std::unique_ptr<StreamTask> task) noexcept;
  // The same for a function; `abandon` may be empty. Throws std::bad_alloc where there is no memory
  // for the task; then neither of them is called.
  void Enqueue(std::function<void()> run, std::function<void(const Status&)> abandon = nullptr);
  // RESOURCE_EXHAUSTED where the stream has no thread and none can be started: for tasks that wait for what the caller's
  // thread may have to do.
  Status EnsureThread();
  // Any number of tasks may wait from a call with true to its call with false, of which there may be several at a
  // time: somebody waits for another device, whose work may have to come from a thread that Enqueue would block.
  void SetUnbounded(bool unbounded);
  // Blocks until everything enqueued so far has run. Must not be called on the stream's thread.
  void Synchronize();
  // Whether the caller is this stream's thread.
  bool OnStreamThread() const;
  // Whether the caller is the thread of any stream.
  static bool OnAnyStreamThread();

  void LockForFork() { state_->mutex.lock(); }
  void UnlockInParent() { state_->mutex.unlock(); }
  // Gives the child a stream that is empty and idle. Runs no callbacks: the child may be about to
  // exec.
  void ResetInChild();
  // Decides the events of what was pending at the fork, with an error. Called when the child first
  // waits for something.
  void AbandonInChild();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable work;
    std::condition_variable room;
    // A list through the tasks, so that it takes no memory of its own.
    std::unique_ptr<StreamTask> first;
    StreamTask* last = nullptr;  // if there is a first one
    size_t queued = 0;
    StreamTask* running = nullptr;
    bool stop = false;
    int64_t unbounded = 0;  // calls of SetUnbounded with true, less those with false
    bool sleeping = false;
    Thread thread;
  };
  void Loop();
  // With the mutex held, of a stream without a thread.
  Status StartThread();
  // With the mutex held, of a queue that is not empty.
  static std::unique_ptr<StreamTask> TakeFirst(State& state);

  const std::string name_;
  const Idle idle_;
  std::atomic<int64_t> pending_{0};  // tasks that exist
  std::atomic<int64_t> busy_{0};     // those whose work is not over
  bool work_is_over_ = false;        // of the running task; the stream's thread alone uses it
  std::unique_ptr<State> state_;
  std::vector<StreamTask*> abandoned_;  // in the child of a fork: the parent's tasks; never freed
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_STREAM_H_
