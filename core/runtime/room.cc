#include "core/runtime/room.h"

#include <pthread.h>
#include <sys/mman.h>

#include <latch>
#include <memory>
#include <new>

namespace tripont {

bool HasRoom(size_t bytes) noexcept {
  // Writable, as `ulimit -d` counts no other mapping; no page of it is used.
  void* const mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return false;
  munmap(mapping, bytes);
  return true;
}

int StartableThreads(int most, size_t stack) noexcept {
  const std::unique_ptr<pthread_t[]> threads(new (std::nothrow)
                                                 pthread_t[static_cast<size_t>(most)]);
  if (threads == nullptr) return 0;
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_setstacksize(&attributes, stack);
  std::latch end(1);
  const auto wait = [](void* latch) -> void* {
    static_cast<std::latch*>(latch)->wait();
    return nullptr;
  };
  int started = 0;
  while (started < most && pthread_create(&threads[started], &attributes, wait, &end) == 0)
    ++started;
  end.count_down();
  for (int i = 0; i < started; ++i) pthread_join(threads[i], nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace tripont
