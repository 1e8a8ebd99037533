#include "pjrt/key_value.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <string>

#include "core/runtime/logging.h"
#include "pjrt/call.h"

namespace tripont::pjrt {
namespace {

// How long the destruction of a client waits for a call of its store that does not return.
constexpr std::chrono::seconds kCloseLimit{5};

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
    const Call call(*this);
    if (!call.may_begin) return ClosedError();
    TRIPONT_RETURN_IF_ERROR(TakeError(get_(&args)));
    if (args.value == nullptr && args.value_size != 0)
      return Internal("the key-value store gave no value and no error");
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
    const Call call(*this);
    if (!call.may_begin) return ClosedError();
    return TakeError(put_(&args));
  }

  // The process would hang in its end if it waited for ever for a coordinator that does not answer.
  void Close() override {
    std::unique_lock<std::mutex> lock(mutex_);
    closed_ = true;
    if (!none_runs_.wait_for(lock, kCloseLimit, [this] { return num_calls_ == 0; })) {
      TRIPONT_LOG(kWarning, "a call of the job's key-value store has not returned ",
                  kCloseLimit.count(),
                  " s after its client's destruction began, and is left alone");
    }
  }

 private:
  // A call of one of the functions, if the store is open.
  struct Call {
    explicit Call(CallersStore& the_store) : store(the_store) {
      const std::lock_guard<std::mutex> lock(store.mutex_);
      may_begin = !store.closed_;
      ++store.num_calls_;
    }
    ~Call() {
      const std::lock_guard<std::mutex> lock(store.mutex_);
      if (--store.num_calls_ == 0) store.none_runs_.notify_all();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    CallersStore& store;
    bool may_begin = false;
  };

  static Status ClosedError() {
    return Cancelled("the client that brought the key-value store has been destroyed");
  }

  std::mutex mutex_;
  std::condition_variable none_runs_;
  int num_calls_ = 0;    // that run; with the mutex
  bool closed_ = false;  // with the mutex
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
