#include "pjrt/event.h"

#include "pjrt/call.h"
#include "pjrt/functions.h"

namespace tripont::pjrt {

Status Event_Destroy(PJRT_Event_Destroy_Args& args) {
  if (args.event == nullptr || FromHandle(args.event) == Event::AlwaysReady()) return OkStatus();
  Ref<Event>::Adopt(FromHandle(args.event));  // dropped here
  return OkStatus();
}

TRIPONT_PJRT_GIVES(Event_IsReady, is_ready, FromHandle(args.event)->IsReady())

Status Event_Error(PJRT_Event_Error_Args& args) {
  Event* event = FromHandle(args.event);
  if (!event->IsReady()) {
    return FailedPrecondition(
        "PJRT_Event_Error: the event is not ready yet; call PJRT_Event_Await first");
  }
  return event->status();
}

Status Event_Await(PJRT_Event_Await_Args& args) { return FromHandle(args.event)->Await(); }

Status Event_OnReady(PJRT_Event_OnReady_Args& args) {
  if (args.callback == nullptr) return InvalidArgument("PJRT_Event_OnReady: `callback` is null");
  Event* event = FromHandle(args.event);
  if (event->IsReady()) {  // spares the common case a std::function
    args.callback(ToError(event->status()), args.user_arg);
    return OkStatus();
  }
  event->OnReady([callback = args.callback, user_arg = args.user_arg](const Status& status) {
    callback(ToError(status), user_arg);
  });
  return OkStatus();
}

Status Event_Create(PJRT_Event_Create_Args& args) {
  args.event = ToHandle(MakeRef<Event>());
  return OkStatus();
}

Status Event_Set(PJRT_Event_Set_Args& args) {
  // A callback, or another thread that waits for the event, may destroy it while it is being set.
  const Ref<Event> event(FromHandle(args.event));
  if (event->IsReady()) return FailedPrecondition("PJRT_Event_Set: the event is set already");
  Status status = ToStatus(args.error_code, args.error_message, args.error_message_size);
  if (status.ok()) {
    event->SetReady();
  } else {
    event->SetError(std::move(status));
  }
  return OkStatus();
}

}  // namespace tripont::pjrt
