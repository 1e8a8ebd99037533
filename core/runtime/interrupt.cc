#include "core/runtime/interrupt.h"

#include <dlfcn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace tripont {
namespace {

// Functions of Python's stable ABI.
struct Python {
  int (*is_initialized)();                   // Py_IsInitialized
  int (*acquire)();                          // PyGILState_Ensure
  void (*release)(int);                      // PyGILState_Release
  int (*run_handlers)();                     // PyErr_CheckSignals
  void (*fetch)(void**, void**, void**);     // PyErr_Fetch
  void (*restore)(void*, void*, void*);      // PyErr_Restore
  int (*call_later)(int (*)(void*), void*);  // Py_AddPendingCall

  bool IsRunning() const {
    return is_initialized != nullptr && acquire != nullptr && release != nullptr &&
           run_handlers != nullptr && fetch != nullptr && restore != nullptr &&
           call_later != nullptr && is_initialized() != 0;
  }
};

template <typename Function>
void Find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

const Python& ThePython() {
  static const Python python = [] {
    Python found{};
    Find("Py_IsInitialized", found.is_initialized);
    Find("PyGILState_Ensure", found.acquire);
    Find("PyGILState_Release", found.release);
    Find("PyErr_CheckSignals", found.run_handlers);
    Find("PyErr_Fetch", found.fetch);
    Find("PyErr_Restore", found.restore);
    Find("Py_AddPendingCall", found.call_later);
    return found;
  }();
  return python;
}

struct Exception {
  void* type = nullptr;
  void* value = nullptr;
  void* traceback = nullptr;
};

// What a handler raised. Python's lock guards it.
Exception kept;
std::atomic<bool> is_kept{false};  // the same, for those without the lock

bool OnMainThread() { return syscall(SYS_gettid) == getpid(); }

// Keeps Python's current error, and has it raised later.
void Keep(const Python& python) {
  Exception now;
  python.fetch(&now.type, &now.value, &now.traceback);
  std::swap(kept, now);
  is_kept = true;
  python.restore(now.type, now.value, now.traceback);
  python.restore(nullptr, nullptr, nullptr);  // drops an older one
  python.call_later([](void*) { return RaiseInterrupt() ? -1 : 0; }, nullptr);
}

}  // namespace

bool InterruptedBySignal() {
  if (!OnMainThread()) return false;
  const Python& python = ThePython();
  if (!python.IsRunning()) return false;
  const int lock = python.acquire();
  Exception before;  // of a caller that holds the lock, and handles an error
  python.fetch(&before.type, &before.value, &before.traceback);
  const bool raised = python.run_handlers() != 0;
  if (raised) Keep(python);
  python.restore(before.type, before.value, before.traceback);
  python.release(lock);
  return raised;
}

int64_t WithSignalPoll(int64_t wait) {
  constexpr int64_t kMost = 100;
  if (!OnMainThread() || !ThePython().IsRunning()) return wait;
  return wait < 0 ? kMost : std::min(wait, kMost);
}

bool KeepInterrupt() {
  if (!OnMainThread() || !ThePython().IsRunning()) return false;
  Keep(ThePython());
  return true;
}

bool InterruptIsKept() { return is_kept && OnMainThread(); }

bool RaiseInterrupt() {
  if (!OnMainThread() || kept.type == nullptr) return false;
  const Exception raised = std::exchange(kept, Exception{});
  is_kept = false;
  ThePython().restore(raised.type, raised.value, raised.traceback);
  return true;
}

}  // namespace tripont
