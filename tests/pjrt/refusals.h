// What refuses memory and threads, and arrays and errors of the PJRT C API for programs that see what becomes of them.
#ifndef TRIPONT_TESTS_PJRT_REFUSALS_H_
#define TRIPONT_TESTS_PJRT_REFUSALS_H_
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

// What the thread that calls does on its own behalf while memory is refused is paused.
thread_local bool is_caller = false;
thread_local bool is_paused = false;
enum class What { kAllocationsOfCaller, kAllocationsOfOthers, kThreads };
What what_is_refused = What::kAllocationsOfCaller;
bool refuse_all = false;
std::atomic<bool> is_refusing{false};
std::atomic<int64_t> left{0};  // allocations until one is refused
std::atomic<int64_t> refused{0};

bool IsRefused(What what) {
  if (!is_refusing || is_paused || what != what_is_refused) return false;
  const int64_t before = left--;
  if (before > 0 || (before < 0 && !refuse_all)) return false;
  ++refused;
  return true;
}

bool IsAllocationRefused() {
  return IsRefused(is_caller ? What::kAllocationsOfCaller : What::kAllocationsOfOthers);
}

void* Allocate(size_t size, size_t alignment) {
  if (IsAllocationRefused()) return nullptr;
  size = size == 0 ? 1 : size;
  if (alignment == 0) return std::malloc(size);
  void* memory = nullptr;
  return posix_memalign(&memory, alignment, size) == 0 ? memory : nullptr;
}

void* AllocateOrThrow(size_t size, size_t alignment = 0) {
  if (void* const memory = Allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

extern "C" void* aligned_alloc(size_t alignment, size_t size) { return Allocate(size, alignment); }

extern "C" void* mmap(void* wanted, size_t size, int protection, int flags, int file,
                      off_t offset) {
  if (file < 0 && IsAllocationRefused()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address
  return reinterpret_cast<void*>(syscall(SYS_mmap, wanted, size, protection, flags, file, offset));
}

// At most `left` threads live at once: each gives its place back when its function returns.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) noexcept {
  static auto* const real =
      reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  if (!is_refusing || what_is_refused != What::kThreads)
    return real(thread, attributes, run, argument);
  if (left-- <= 0) {
    ++left;
    ++refused;
    return EAGAIN;
  }
  struct Work {
    void* (*run)(void*);
    void* argument;
  };
  const auto counted = [](void* data) -> void* {
    const std::unique_ptr<Work> work(static_cast<Work*>(data));
    void* const result = work->run(work->argument);
    ++left;
    return result;
  };
  auto work = std::make_unique<Work>(Work{run, argument});
  const int error = real(thread, attributes, counted, work.get());
  if (error == 0) {
    (void)work.release();
  } else {
    ++left;
  }
  return error;
}

// The library's allocations are these too. (Not inlined: GCC would find that what new gives is freed by free.)
[[gnu::noinline]] void* operator new(size_t size) { return AllocateOrThrow(size); }
[[gnu::noinline]] void* operator new[](size_t size) { return AllocateOrThrow(size); }
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t to) {
  return AllocateOrThrow(size, size_t(to));
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t to) {
  return AllocateOrThrow(size, size_t(to));
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 0);
}
[[gnu::noinline]] void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 0);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

const PJRT_Api* api = nullptr;
int64_t now_refused = -1;  // which allocation, for messages

[[noreturn]] void Fail(const std::string& what) {
  is_refusing = false;
  std::printf("allocation %lld refused: %s\n", static_cast<long long>(now_refused), what.c_str());
  (void)std::fflush(stdout);
  std::_Exit(1);
}

// Refuses memory while it lives.
class Refusal {
 public:
  explicit Refusal(int64_t after) {
    left = after;
    refused = 0;
    is_refusing = true;
  }
  ~Refusal() { is_refusing = false; }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;
};

// Nothing is refused to this thread while it lives.
class Pause {
 public:
  ~Pause() { is_paused = before_; }

 private:
  const bool before_ = std::exchange(is_paused, true);
};

#define ARGS(name, variable)     \
  PJRT_##name##_Args variable{}; \
  variable.struct_size = PJRT_##name##_Args_STRUCT_SIZE

std::string last_error;

// Whether a call succeeded; its error has a message, and is freed.
bool Succeeds(PJRT_Error* error) {
  if (error == nullptr) return true;
  const Pause pause;
  ARGS(Error_Message, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  if (message.message_size == 0) Fail("an error without a message");
  if (is_caller) last_error.assign(message.message, message.message_size);
  ARGS(Error_GetCode, code);
  code.error = error;
  Succeeds(api->PJRT_Error_GetCode(&code));
  ARGS(Error_Destroy, destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  return false;
}

void Check(PJRT_Error* error) {
  if (!Succeeds(error)) Fail("a call failed that needs nothing: " + last_error);
}

struct Plugin {
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
};
Plugin plugin;

using Array = std::vector<float>;
using Dims = std::vector<int64_t>;

int64_t Size(const Dims& dims) {
  int64_t size = 1;
  for (const int64_t dim : dims) size *= dim;
  return size;
}

Array Numbers(int64_t size, int64_t seed) {
  Array array(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    array[static_cast<size_t>(i)] = static_cast<float>((i * 7 + seed * 3) % 11 - 5);
  return array;
}

// False if it failed.
bool Await(PJRT_Event* event) {
  ARGS(Event_Await, await);
  await.event = event;
  const bool ready = Succeeds(api->PJRT_Event_Await(&await));
  ARGS(Event_Destroy, destroy);
  destroy.event = event;
  Check(api->PJRT_Event_Destroy(&destroy));
  return ready;
}

void Destroy(PJRT_Buffer* buffer) {
  ARGS(Buffer_Destroy, destroy);
  destroy.buffer = buffer;
  Check(api->PJRT_Buffer_Destroy(&destroy));
}

// Null if it failed. The caller keeps `array` until the buffer is destroyed.
PJRT_Buffer* TryMake(const Array& array, const Dims& dims, PJRT_HostBufferSemantics semantics,
                     size_t device = 0) {
  ARGS(Client_BufferFromHostBuffer, make);
  make.client = plugin.client;
  make.data = array.data();
  make.type = PJRT_Buffer_Type_F32;
  make.dims = dims.data();
  make.num_dims = dims.size();
  make.device = plugin.devices[device];
  make.host_buffer_semantics = semantics;
  if (!Succeeds(api->PJRT_Client_BufferFromHostBuffer(&make))) return nullptr;
  ARGS(Event_Destroy, destroy);
  destroy.event = make.done_with_host_buffer;
  Check(api->PJRT_Event_Destroy(&destroy));
  return make.buffer;
}

PJRT_Buffer* Make(const Array& array, const Dims& dims, size_t device = 0) {
  const Pause pause;
  PJRT_Buffer* const buffer =
      TryMake(array, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall, device);
  if (buffer == nullptr) Fail("no array can be made");
  return buffer;
}

bool IsDeleted(PJRT_Buffer* buffer) {
  ARGS(Buffer_IsDeleted, deleted);
  deleted.buffer = buffer;
  Check(api->PJRT_Buffer_IsDeleted(&deleted));
  return deleted.is_deleted;
}

// Reads into `bytes`; false if that or the array's making failed.
bool Read(PJRT_Buffer* buffer, std::string& bytes) {
  ARGS(Buffer_ToHostBuffer, read);
  read.src = buffer;
  {
    const Pause pause;
    Check(api->PJRT_Buffer_ToHostBuffer(&read));
    bytes.assign(read.dst_size, '?');
  }
  read.dst = bytes.data();
  if (!Succeeds(api->PJRT_Buffer_ToHostBuffer(&read))) return false;
  const Pause pause;
  return Await(read.event);
}

std::string BytesOf(const Array& array) {
  const Pause pause;
  return {reinterpret_cast<const char*>(array.data()), array.size() * sizeof(float)};
}

void CheckIs(PJRT_Buffer* buffer, const std::string& expected, const char* what) {
  const Pause pause;
  std::string bytes;
  if (!Read(buffer, bytes)) Fail(std::string(what) + " cannot be read");
  if (bytes != expected) Fail(std::string(what) + " has other numbers");
}

// The results of one kind of work by the order in which it is read; what they were at first.
class Expectation {
 public:
  void Is(size_t number, const std::string& bytes) {
    const Pause pause;
    if (number == expected_.size()) expected_.push_back(bytes);
    if (bytes != expected_[number]) Fail("result " + std::to_string(number) + " has other numbers");
  }

  // Of all bits.
  uint64_t Number() const {
    uint64_t number = 0;
    for (const std::string& bytes : expected_)
      number = number * 31 + std::hash<std::string>()(bytes);
    return number;
  }

 private:
  std::vector<std::string> expected_;
};

// Callbacks that were asked for, and those that have come.
std::atomic<int64_t> asked{0};
std::atomic<int64_t> called{0};

void AskWhenReady(PJRT_Buffer* buffer) {
  ARGS(Buffer_ReadyEvent, ready);
  ready.buffer = buffer;
  if (!Succeeds(api->PJRT_Buffer_ReadyEvent(&ready))) return;
  ARGS(Event_OnReady, on_ready);
  on_ready.event = ready.event;
  on_ready.callback = [](PJRT_Error* error, void*) {
    Succeeds(error);
    ++called;
  };
  if (Succeeds(api->PJRT_Event_OnReady(&on_ready))) ++asked;
  const Pause pause;
  Await(ready.event);
}

}  // namespace

#endif  // TRIPONT_TESTS_PJRT_REFUSALS_H_
