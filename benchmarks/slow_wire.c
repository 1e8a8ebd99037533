// A slower network than memory: MPI's library with receives that take their time (benchmarks/hosts_training.py --wire).
//
// Everything is the library's that this one is linked with, but a receive is not over before SLOW_WIRE_US microseconds
// and its bytes at SLOW_WIRE_BYTES_PER_US have passed since it was posted, one receive after the other. Nothing is
// computed meanwhile: whoever waits may sleep.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void* Handle;
enum { kRequests = 4096 };
static const uintptr_t kNull = 0x180;  // MPI_REQUEST_NULL

// What this thread has posted and not yet found done.
static __thread struct {
  Handle request;
  double end;
} receives[kRequests];
static __thread int count;
static __thread double wire_is_free;

static double Now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static double Setting(const char* name) {
  const char* const text = getenv(name);
  return text == NULL ? 0 : atof(text);
}

static void* Real(const char* name) { return dlsym(RTLD_NEXT, name); }

int MPI_Irecv_c(void* data, int64_t bytes, Handle type, int source, int tag, Handle comm,
                Handle* request) {
  static int (*real)(void*, int64_t, Handle, int, int, Handle, Handle*);
  if (real == NULL) real = Real("MPI_Irecv_c");
  const int code = real(data, bytes, type, source, tag, comm, request);
  const double now = Now();
  const double begin = now > wire_is_free ? now : wire_is_free;
  wire_is_free = begin + (double)bytes / Setting("SLOW_WIRE_BYTES_PER_US");
  if (count == kRequests) abort();
  receives[count].request = *request;
  receives[count].end = wire_is_free + Setting("SLOW_WIRE_US");
  ++count;
  return code;
}

// Whether `request` has arrived; forgets it then.
static int HasArrived(Handle request, double now) {
  for (int i = 0; i < count; ++i) {
    if (receives[i].request != request) continue;
    if (receives[i].end > now) return 0;
    receives[i] = receives[--count];
    return 1;
  }
  return 1;
}

int MPI_Test(Handle* request, int* flag, void* status) {
  static int (*real)(Handle*, int*, void*);
  if (real == NULL) real = Real("MPI_Test");
  *flag = 0;
  return HasArrived(*request, Now()) ? real(request, flag, status) : 0;
}

int MPI_Testall(int number, Handle* requests, int* flag, void* statuses) {
  static int (*real)(int, Handle*, int*, void*);
  if (real == NULL) real = Real("MPI_Testall");
  const double now = Now();
  *flag = 0;
  for (int i = 0; i < number; ++i) {
    if (requests[i] != (Handle)kNull && !HasArrived(requests[i], now)) return 0;
  }
  return real(number, requests, flag, statuses);
}
