// PJRT_Event: a share of a tripont::Event, handed to the caller as an opaque pointer.
#ifndef TRIPONT_PJRT_EVENT_H_
#define TRIPONT_PJRT_EVENT_H_

#include <utility>

#include "core/runtime/event.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

inline Event* FromHandle(PJRT_Event* event) { return reinterpret_cast<Event*>(event); }

// A handle for the caller, who frees it with PJRT_Event_Destroy. Null means an event that is ready.
// The shared ready event is handed out uncounted: results of small programs cost no allocation and
// no atomic.
inline PJRT_Event* ToHandle(Ref<Event> event) {
  if (!event) return reinterpret_cast<PJRT_Event*>(Event::AlwaysReady());
  return reinterpret_cast<PJRT_Event*>(event.Leak());
}

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_EVENT_H_
