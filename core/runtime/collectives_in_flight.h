// The collectives of one execution that run while it computes.
//
// Each device has a thread for them, its wire (Device::wire), which does one after the other: so the
// order in which an execution begins them is the order in which they meet those of other processes.
#ifndef TRIPONT_CORE_RUNTIME_COLLECTIVES_IN_FLIGHT_H_
#define TRIPONT_CORE_RUNTIME_COLLECTIVES_IN_FLIGHT_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/runtime/stream.h"

namespace tripont {

// The thread of a device that exchanges arrays with other processes. Thread-safe.
struct Wire {
  explicit Wire(int device);
  Stream stream;
  // Executions that wait for it. While there are none, what it does may take its time: it leaves the
  // core to those who compute.
  std::atomic<int> waiting{0};
};

// Used by the thread of one execution; the wire's thread only runs what Begin is given.
class TRIPONT_EXPORT CollectivesInFlight {
 public:
  explicit CollectivesInFlight(Wire& wire) : wire_(wire) {}
  ~CollectivesInFlight() { (void)AwaitAll(); }
  CollectivesInFlight(const CollectivesInFlight&) = delete;
  CollectivesInFlight& operator=(const CollectivesInFlight&) = delete;

  // Has `work` done by the wire, after what was begun before. What it refers to must stay until it is awaited.
  // INTERNAL if the collective with this number is in flight, RESOURCE_EXHAUSTED if there is no memory for it.
  Status Begin(int64_t meeting, std::function<Status()> work);
  // Waits for it, and gives what `work` returned; at once if it is not in flight. In the child of a fork, which does
  // not have the wire's thread, FAILED_PRECONDITION at once if anything is in flight.
  Status Await(int64_t meeting);
  // Waits for all; the first error. They may be such as wait for other devices, so that a failed
  // execution must say that it has failed before it calls this (Launch::Fail).
  Status AwaitAll();
  bool empty() const { return flights_.empty(); }

 private:
  struct Flight {
    bool done = false;
    Status status;
  };
  void Land(Flight& flight, const Status& status);
  // In the child of a fork: leaves all flights to the parent, and says so.
  Status Forget();

  Wire& wire_;
  std::mutex mutex_;
  std::condition_variable landed_;
  std::map<int64_t, Flight>
      flights_;  // by meeting; the map is the execution's, its values are guarded
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_COLLECTIVES_IN_FLIGHT_H_
