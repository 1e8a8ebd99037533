// WaitHistory: whether those who call a program wait for its results at once.
//
// A program that its caller waits for may as well run on the caller's thread: that spares two
// threads' waking each other, some 8 us on Zen 4. A caller that does something else meanwhile is
// better served by the stream. Which of them a caller is shows only in calls that were enqueued, so
// that after some calls that run here one is enqueued to look again.
#ifndef TRIPONT_CORE_RUNTIME_WAIT_HISTORY_H_
#define TRIPONT_CORE_RUNTIME_WAIT_HISTORY_H_

#include <atomic>
#include <cstdint>

namespace tripont {

// One for each executable. Thread-safe; what several threads note at the same time may be lost.
class WaitHistory {
 public:
  // Nanoseconds. Who waits this soon after the call loses no more time by the call's taking as long
  // as the program than it gains.
  static constexpr int64_t kSoon = 10'000;
  // Programs that take longer gain less than a hundredth, and who starts them may want to do
  // something else soon.
  static constexpr int64_t kLongest = 1'000'000;
  // Enqueued calls one after another that were waited for at once, before calls run here.
  static constexpr int32_t kSeen = 2;
  static constexpr int32_t kCallsHere = 32;

  // Whether the next call is one of those that run on their caller's thread; it is counted.
  bool TakeCallHere() {
    if (calls_here_.load(std::memory_order_relaxed) <= 0) return false;
    return calls_here_.fetch_sub(1, std::memory_order_relaxed) > 0;
  }

  // An enqueued call whose program ran for `took`, and whose caller waited for it `waited_after`
  // the call (negative: did not before the program's end).
  void Enqueued(int64_t took, int64_t waited_after) {
    const bool soon = waited_after >= 0 && waited_after < kSoon && took < kLongest;
    const int32_t seen = soon ? seen_.load(std::memory_order_relaxed) + 1 : 0;
    seen_.store(seen < kSeen ? seen : kSeen, std::memory_order_relaxed);
    calls_here_.store(seen < kSeen ? 0 : kCallsHere, std::memory_order_relaxed);
  }

  // A call that TakeCallHere let run here: programs do not always take the same time.
  void RanHere(int64_t took) {
    if (took >= kLongest) Enqueued(took, -1);
  }

 private:
  std::atomic<int32_t> seen_{0};
  std::atomic<int32_t> calls_here_{0};
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_WAIT_HISTORY_H_
