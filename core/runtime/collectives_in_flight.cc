#include "core/runtime/collectives_in_flight.h"

#include <unistd.h>

#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/parallel.h"
#include "core/runtime/strings.h"

namespace tripont {

Wire::Wire(int device) : stream(StrCat("tripont-wire-", device), Stream::Idle::kSleeps) {}

Status CollectivesInFlight::Begin(int64_t meeting, std::function<Status()> work) {
  bool is_new = false;
  try {
    const auto entry = flights_.try_emplace(meeting);
    is_new = entry.second;
    if (!is_new) return Internal("collective ", meeting, " has begun already");
    Flight& flight = entry.first->second;
    wire_.stream.Enqueue(
        [this, &flight, work = std::move(work)] { Land(flight, Guarded("a collective", work)); },
        [this, &flight](const Status& status) {
          // The child of a fork has forgotten the flight (Forget), and may have ended its execution.
          if (!InForkedChild()) Land(flight, status);
        });
  } catch (...) {
    if (is_new) flights_.erase(meeting);  // nobody would ever land it
    return StatusOfException("beginning a collective");
  }
  return OkStatus();
}

void CollectivesInFlight::Land(Flight& flight, const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  flight.status = status;
  flight.done = true;
  // While the lock is held: the execution may end, and this object with it, as soon as it is free.
  landed_.notify_all();
}

Status CollectivesInFlight::Await(int64_t meeting) {
  const auto found = flights_.find(meeting);
  if (found == flights_.end()) return OkStatus();
  if (InForkedChild()) return Forget();
  Flight& flight = found->second;
  Status status;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!flight.done) {
      wire_.waiting.fetch_add(1, std::memory_order_relaxed);
      landed_.wait(lock, [&] { return flight.done; });
      wire_.waiting.fetch_sub(1, std::memory_order_relaxed);
    }
    status = std::move(flight.status);
  }
  flights_.erase(found);
  return status;
}

Status CollectivesInFlight::Forget() {
  // Left behind, not destroyed, and without the mutex: the parent's wire may have been in the middle of landing one.
  [[maybe_unused]] auto* const parents = new std::map<int64_t, Flight>(std::move(flights_));
  flights_.clear();  // NOLINT(clang-analyzer-cplusplus.NewDeleteLeaks): left behind
  return FailedPrecondition("process ", getpid(),
                            " was forked while a collective was in flight: it cannot take part in "
                            "programs that span processes");
}

Status CollectivesInFlight::AwaitAll() {
  Status first;
  while (!flights_.empty()) {
    const Status status = Await(flights_.begin()->first);
    if (first.ok()) first = status;
  }
  return first;
}

}  // namespace tripont
