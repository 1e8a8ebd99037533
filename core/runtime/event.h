// Event: something that will have happened, or failed.
//
// Reference counted. Pending at first; SetReady or SetError decides it once and for ever (the first
// call wins). Work that is already done needs no event of its own: a null Ref<Event> means "ready"
// wherever a definition event is passed, and Event::AlwaysReady() is one shared object for callers
// that need a pointer.
#ifndef TRIPONT_CORE_RUNTIME_EVENT_H_
#define TRIPONT_CORE_RUNTIME_EVENT_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "core/runtime/export.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/status.h"

namespace tripont {

// All functions may be called from any thread.
class TRIPONT_EXPORT Event : public RefCounted<Event> {
 public:
  using Callback = std::function<void(const Status&)>;

  Event() = default;  // pending
  // An event that failed from the start.
  static Ref<Event> Failed(Status status);
  // The shared event that is ready; never pending, never freed.
  static Event* AlwaysReady();

  // Decided (ready or failed)? Never blocks.
  bool IsReady() const { return callbacks_.load(std::memory_order_acquire) == Decided(); }
  // OK while pending and when ready, the error when failed.
  Status status() const { return IsReady() ? status_ : Status(); }
  // Blocks until decided; returns status().
  Status Await() const;
  // Calls `callback` with status() once decided: at once on this thread if it is already, else on
  // the thread that decides. Callbacks must not block; they run in the order in which they were
  // added.
  void OnReady(Callback callback);

  // A caller of the program that decides this event begins to wait for it: the first one's time, of
  // ProfileClockNs, is kept while the event is pending.
  void NoteCallerWaits();
  // That time; 0: nobody waits.
  int64_t caller_waits_since() const { return caller_waits_since_.load(std::memory_order_relaxed); }

  // Called, in the child of a fork, before an event is waited for that is still pending. Set once,
  // by the core.
  static void SetForkHook(void (*hook)());

  // The caller holds a reference until these return.
  void SetReady() noexcept { Decide(Status()); }
  void SetError(Status status) noexcept { Decide(std::move(status)); }

 private:
  friend class RefCounted<Event>;
  ~Event();

  struct Node {
    Node* next;
    Callback callback;
  };
  // Lock-free, so that no lock can be left behind by another thread when the process forks.
  static Node* Decided() { return reinterpret_cast<Node*>(uintptr_t{1}); }
  void Decide(Status status) noexcept;

  std::atomic<Node*> callbacks_{nullptr};  // a list, newest first; Decided() at the end
  std::atomic<uint32_t> claimed_{0};       // 1 once somebody is deciding
  mutable std::atomic<uint32_t> waiters_{0};
  std::atomic<uint32_t> decided_{0};  // what Await sleeps on
  std::atomic<int64_t> caller_waits_since_{0};
  Status status_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_EVENT_H_
