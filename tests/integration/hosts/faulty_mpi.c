// MPI's library with faults: everything is the library's that this one is linked with, but where FAULTY_MPI says so.
//
//   never_starts        MPI_Init_thread does not return
//   dies_at_once        the process is killed in MPI_Init_thread
//   dies_in_start       the process is killed when it begins what all processes end MPI's start with
//   fails_to_send       no message of more than 16 KB can be sent
//   sends_no_receipt    no message of a single byte can be sent
#define _GNU_SOURCE
#include <dlfcn.h>
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
