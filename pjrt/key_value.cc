#include "pjrt/key_value.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "pjrt/call.h"

namespace tripont::pjrt {
namespace {

// How a callback makes an error: the API wants one of ours.
PJRT_Error* CallbackError(PJRT_Error_Code code, const char* message, size_t message_size) {
  return new PJRT_Error{ToStatus(code, message, message_size)};
}

// The status of a callback's answer, whose error it frees.
Status TakeError(PJRT_Error* error) {
  if (error == nullptr) return OkStatus();
  const std::unique_ptr<PJRT_Error> owned(error);
  return owned->status.ok() ? Internal("the key-value store failed without a reason")
                            : owned->status;
}

class CallersStore final : public hosts::KeyValueStore {
 public:
  explicit CallersStore(const PJRT_Client_Create_Args& args)
      : get_(args.kv_get_callback),
        get_argument_(args.kv_get_user_arg),
        put_(args.kv_put_callback),
        put_argument_(args.kv_put_user_arg) {}

  StatusOr<std::string> Get(std::string_view key, std::chrono::milliseconds timeout) override {
    PJRT_CallbackError make_error = &CallbackError;
    PJRT_KeyValueGetCallback_Args args{};
    args.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
    args.key = key.data();
    args.key_size = key.size();
    args.timeout_in_ms =
        static_cast<int>(std::min<int64_t>(timeout.count(), std::numeric_limits<int>::max()));
    args.callback_error = &make_error;
    args.user_arg = get_argument_;
    const std::shared_lock<std::shared_mutex> call(calls_);
    if (closed_) return ClosedError();
    TRIPONT_RETURN_IF_ERROR(TakeError(get_(&args)));
    std::string value(args.value, args.value_size);
    if (args.value_deleter_callback != nullptr) args.value_deleter_callback(args.value);
    return value;
  }

  Status Put(std::string_view key, std::string_view value) override {
    PJRT_CallbackError make_error = &CallbackError;
    PJRT_KeyValuePutCallback_Args args{};
    args.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
    args.key = key.data();
    args.key_size = key.size();
    args.value = value.data();
    args.value_size = value.size();
    args.callback_error = &make_error;
    args.user_arg = put_argument_;
    const std::shared_lock<std::shared_mutex> call(calls_);
    if (closed_) return ClosedError();
    return TakeError(put_(&args));
  }

  void Close() override {
    const std::unique_lock<std::shared_mutex> none_runs(calls_);
    closed_ = true;
  }

 private:
  static Status ClosedError() {
    return Cancelled("the client that brought the key-value store has been destroyed");
  }

  std::shared_mutex calls_;  // shared by the calls that run
  bool closed_ = false;
  const PJRT_KeyValueGetCallback get_;
  void* const get_argument_;
  const PJRT_KeyValuePutCallback put_;
  void* const put_argument_;
};

}  // namespace

std::shared_ptr<hosts::KeyValueStore> MakeKeyValueStore(const PJRT_Client_Create_Args& args) {
  if (args.kv_get_callback == nullptr || args.kv_put_callback == nullptr) return nullptr;
  return std::make_shared<CallersStore>(args);
}

}  // namespace tripont::pjrt
