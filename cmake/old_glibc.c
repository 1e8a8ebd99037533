// Functions that objects compiled against a new glibc, and GCC's static libstdc++, call, and that glibc 2.28 lacks. Linked
// into the libraries of the portable wheel (link_portable.py), where they are hidden.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

// Says that std::shared_ptr may count without atomic instructions (glibc 2.32). Never, then.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Since glibc 2.30; std::condition_variable::wait_for calls it. An older one waits for the same time by the wall clock, so
// that a wait ends late if that is set back.
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition,
                                                                 pthread_mutex_t* mutex,
                                                                 clockid_t clock,
                                                                 const struct timespec* until) {
  typedef int (*Function)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const struct timespec*);
  const Function function = (Function)dlsym(RTLD_NEXT, "pthread_cond_clockwait");
  if (function != NULL) return function(condition, mutex, clock, until);
  struct timespec now, wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return EINVAL;
  wall.tv_sec += until->tv_sec - now.tv_sec;
  wall.tv_nsec += until->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) {
    wall.tv_nsec += 1000000000;
    --wall.tv_sec;
  } else if (wall.tv_nsec >= 1000000000) {
    wall.tv_nsec -= 1000000000;
    ++wall.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &wall);
}

// Since glibc 2.36; std::random_device calls it.
__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) abort();
  return number;
}
