#include "core/runtime/thread.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

namespace tripont {
namespace {

// The calling thread's stack: the addresses from `low` to `high`; none if they cannot be had.
struct Stack {
  uintptr_t low = 0;
  uintptr_t high = 0;
};

Stack StackOfThisThread() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
  void* low = nullptr;
  size_t size = 0;
  const bool known = pthread_attr_getstack(&attributes, &low, &size) == 0;
  pthread_attr_destroy(&attributes);
  if (!known) return {};
  return {reinterpret_cast<uintptr_t>(low), reinterpret_cast<uintptr_t>(low) + size};
}

void* RunAndDelete(void* function) {
  const std::unique_ptr<std::function<void()>> run(static_cast<std::function<void()>*>(function));
  (*run)();
  return nullptr;
}

}  // namespace

size_t StackLeft() {
  // Asked once: the first thread's stack is found in a file of the kernel's.
  thread_local const Stack stack = StackOfThisThread();
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  return stack.low <= here && here < stack.high ? here - stack.low : 0;
}

void Thread::Start(std::function<void()> run) {
  if (joinable_) std::terminate();
  auto function = std::make_unique<std::function<void()>>(std::move(run));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  size_t size = 0;  // what the process gives its threads
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_setstacksize(&attributes, std::max(size, kStack));
  const int error = pthread_create(&thread_, &attributes, &RunAndDelete, function.get());
  pthread_attr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category());
  [[maybe_unused]] const auto* const given = function.release();
  joinable_ = true;
}

Thread::~Thread() {
  if (joinable_) std::terminate();
}

void Thread::join() {
  pthread_join(thread_, nullptr);
  joinable_ = false;
}

}  // namespace tripont
