#include "core/runtime/event.h"

#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/logging.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"
#include "core/runtime/spin.h"

namespace tripont {
namespace {

std::atomic<void (*)()> fork_hook{nullptr};

void CallForkHook() {
  if (!InForkedChild()) return;
  if (void (*const hook)() = fork_hook.load(std::memory_order_acquire)) hook();
}

// Made when the library is loaded: a destructor must not need memory.
const Status& DroppedStatus() {
  static const auto* const status = new Status(Internal("the work was dropped before it was done"));
  return *status;
}
[[maybe_unused]] const Status& dropped_made_at_start = DroppedStatus();

}  // namespace

void Event::SetForkHook(void (*hook)()) { fork_hook.store(hook, std::memory_order_release); }

Ref<Event> Event::Failed(Status status) {
  auto event = MakeRef<Event>();
  event->SetError(std::move(status));
  return event;
}

Event* Event::AlwaysReady() {
  static Event* const event = [] {
    auto* ready = new Event;
    ready->AddReference();  // for ever
    ready->SetReady();
    return ready;
  }();
  return event;
}

Event::~Event() {
  // Nobody can decide the event any more: its callbacks must still be called, once.
  if (!IsReady()) SetError(DroppedStatus());
}

Status Event::Await() const {
  // Work that is waited for is often nearly done, and falling asleep and waking up costs more than
  // a short spin.
  if (!SpinUntil([this] { return IsReady(); }, 200)) CallForkHook();
  while (!IsReady()) {
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    decided_.wait(0, std::memory_order_seq_cst);
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }
  return status_;
}

void Event::OnReady(Callback callback) {
  Node* head = callbacks_.load(std::memory_order_acquire);
  if (head == Decided()) {
    callback(status_);
    return;
  }
  CallForkHook();
  head = callbacks_.load(std::memory_order_acquire);
  auto* const node = new Node{nullptr, std::move(callback)};
  do {
    if (head == Decided()) {
      node->callback(status_);
      delete node;
      return;
    }
    node->next = head;
  } while (!callbacks_.compare_exchange_weak(head, node, std::memory_order_acq_rel,
                                             std::memory_order_acquire));
}

void Event::NoteCallerWaits() {
  if (IsReady() || caller_waits_since() != 0) return;
  int64_t nobody = 0;
  caller_waits_since_.compare_exchange_strong(nobody, ProfileClockNs(), std::memory_order_relaxed);
}

void Event::Decide(Status status) noexcept {
  if (claimed_.exchange(1, std::memory_order_acq_rel) != 0) return;
  status_ = std::move(status);
  // A waiter or a callback may drop the last outside reference while this still runs.
  Node* node = callbacks_.exchange(Decided(), std::memory_order_acq_rel);
  decided_.store(1, std::memory_order_seq_cst);
  if (waiters_.load(std::memory_order_seq_cst) != 0) decided_.notify_all();
  Node* in_order = nullptr;
  while (node != nullptr) {
    Node* const next = node->next;
    node->next = in_order;
    in_order = node;
    node = next;
  }
  while (in_order != nullptr) {
    Node* const next = in_order->next;
    const Status called =
        Guarded("a callback of an event failed", [&] { in_order->callback(status_); });
    // The others are to be called all the same.
    if (!called.ok()) LogText(LogLevel::kError, called.message(), "");
    delete in_order;
    in_order = next;
  }
}

}  // namespace tripont
