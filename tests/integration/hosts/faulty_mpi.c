// MPI's library with faults: everything is the library's that this one is linked with, but where FAULTY_MPI says so.
//
//   never_starts        MPI_Init_thread does not return
//   dies_at_once        the process is killed in MPI_Init_thread
//   dies_in_start       the process is killed when it begins what all processes end MPI's start with
//   fails_to_send       no message of more than 16 KB can be sent
//   sends_no_receipt    no message of a single byte can be sent
//   no_threads          no thread can be started before MPI starts
//   no_threads_later    no thread can be started once MPI has started
//   no_memory           the second look for messages finds no memory (std::bad_alloc)
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void* Handle;
enum { kErrorOther = 16 };  // MPI_ERR_OTHER

static int Has(const char* fault) {
  const char* const text = getenv("FAULTY_MPI");
  return text != NULL && strcmp(text, fault) == 0;
}

// Gives threads stacks for which no machine has addresses, or the usual ones.
static void LetThreadsStart(int may) {
  static size_t usual = 0;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) abort();
  if (usual == 0) (void)pthread_attr_getstacksize(&attributes, &usual);
  if (pthread_attr_setstacksize(&attributes, may ? usual : (size_t)1 << 46) != 0) abort();
  if (pthread_setattr_default_np(&attributes) != 0) abort();
  (void)pthread_attr_destroy(&attributes);
}

int MPI_Initialized(int* is_initialised) {
  int (*real)(int*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Initialized");
  if (Has("no_threads")) LetThreadsStart(0);
  return real(is_initialised);
}

int MPI_Iprobe(int source, int tag, Handle comm, int* is_there, void* status) {
  static _Thread_local int looks = 0;
  int (*real)(int, int, Handle, int*, void*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Iprobe");
  if (Has("no_memory") && ++looks == 2) {
    void (*throw_bad_alloc)(void);
    *(void**)&throw_bad_alloc =
        dlsym(dlopen("libstdc++.so.6", RTLD_NOW), "_ZSt17__throw_bad_allocv");
    if (throw_bad_alloc != NULL) throw_bad_alloc();
    abort();
  }
  return real(source, tag, comm, is_there, status);
}

int MPI_Ibarrier(Handle comm, Handle* request) {
  int (*real)(Handle, Handle*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Ibarrier");
  if (Has("no_threads_later")) LetThreadsStart(0);
  return real(comm, request);
}

int MPI_Init_thread(int* count, char*** arguments, int required, int* provided) {
  int (*real)(int*, char***, int, int*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Init_thread");
  while (Has("never_starts")) pause();
  if (Has("dies_at_once")) raise(SIGKILL);
  return real(count, arguments, required, provided);
}

int MPI_Comm_idup(Handle comm, Handle* copy, Handle* request) {
  int (*real)(Handle, Handle*, Handle*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Comm_idup");
  if (Has("dies_in_start")) raise(SIGKILL);
  return real(comm, copy, request);
}

int MPI_Isend_c(const void* data, int64_t count, Handle type, int target, int tag, Handle comm,
                Handle* request) {
  int (*real)(const void*, int64_t, Handle, int, int, Handle, Handle*);
  *(void**)&real = dlsym(RTLD_NEXT, "MPI_Isend_c");
  if (count > (16 << 10) && Has("fails_to_send")) return kErrorOther;
  if (count == 1 && Has("sends_no_receipt")) return kErrorOther;
  return real(data, count, type, target, tag, comm, request);
}
