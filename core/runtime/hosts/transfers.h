// Transfers: arrays that one process sends to a device of another.
//
// The source and the target agree on a key for each array. Those from one device to another follow
// one another, on a thread of their own, so that transfers in both directions do not wait for each
// other.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_TRANSFERS_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_TRANSFERS_H_

#include <cstdint>

#include "core/runtime/buffer.h"
#include "core/runtime/event.h"
#include "core/runtime/hosts/job.h"
#include "core/runtime/ref_counted.h"

namespace tripont::hosts {

// source, target: ids of devices, of which one is of this process.
struct Route {
  Job* job = nullptr;
  int source = 0;
  int target = 0;
  int64_t timeout_seconds = 0;  // for the other process to come; 0: for ever
};

// Sends what is in `buffer`, once it is there. The event says when its memory is no longer read.
Ref<Event> SendBuffer(const Route& route, int64_t key, const Ref<Buffer>& buffer);

// Receives into `buffer`, which nobody has read from, and decides `definition`, its event.
void ReceiveBuffer(const Route& route, int64_t key, const Ref<Buffer>& buffer,
                   const Ref<Event>& definition);

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_TRANSFERS_H_
