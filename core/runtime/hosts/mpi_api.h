// MPI by the standard ABI of MPI 5.0 (libmpi_abi.so.1), opened at run time.
//
// Any implementation with that ABI will do: MPICH from the wheel `mpich` (the extra [hosts]), or a
// cluster's own. Handles and constants below are those of the standard's chapter on the ABI.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_MPI_API_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_MPI_API_H_

#include <cstdint>
#include <string>

#include "core/runtime/status.h"

namespace tripont::hosts {

using MpiHandle = void*;  // MPI_Comm, MPI_Request, ...

inline MpiHandle MpiConstant(uintptr_t number) noexcept {
  return reinterpret_cast<MpiHandle>(number);
}
inline const MpiHandle kMpiCommWorld = MpiConstant(0x101);
inline const MpiHandle kMpiErrorsReturn = MpiConstant(0x143);
inline const MpiHandle kMpiRequestNull = MpiConstant(0x180);
inline const MpiHandle kMpiByte = MpiConstant(0x247);
inline constexpr int kMpiSuccess = 0;
inline constexpr int kMpiAnySource = -1;
inline constexpr int kMpiThreadMultiple = 4096;
inline constexpr int kMpiTagUpperBound = 501;
inline constexpr int kMpiMaxErrorString = 512;
inline constexpr int kMpiMaxLibraryVersion = 8192;

struct MpiStatus {
  int source;
  int tag;
  int error;
  int internal[5];
};

// (member, name, parameters); all return an error code.
#define TRIPONT_MPI_FUNCTIONS(F)                                                               \
  F(abi_get_version, "MPI_Abi_get_version", (int* major, int* minor))                          \
  F(cancel, "MPI_Cancel", (MpiHandle * request))                                               \
  F(comm_get_attr, "MPI_Comm_get_attr", (MpiHandle comm, int key, void* value, int* flag))     \
  F(comm_idup, "MPI_Comm_idup", (MpiHandle comm, MpiHandle * copy, MpiHandle * request))       \
  F(comm_rank, "MPI_Comm_rank", (MpiHandle comm, int* rank))                                   \
  F(comm_set_errhandler, "MPI_Comm_set_errhandler", (MpiHandle comm, MpiHandle handler))       \
  F(comm_size, "MPI_Comm_size", (MpiHandle comm, int* size))                                   \
  F(error_string, "MPI_Error_string", (int code, char* text, int* length))                     \
  F(get_library_version, "MPI_Get_library_version", (char* text, int* length))                 \
  F(ibarrier, "MPI_Ibarrier", (MpiHandle comm, MpiHandle * request))                           \
  F(init_thread, "MPI_Init_thread", (int* argc, char*** argv, int required, int* provided))    \
  F(initialized, "MPI_Initialized", (int* flag))                                               \
  F(iprobe, "MPI_Iprobe", (int source, int tag, MpiHandle comm, int* flag, MpiStatus* status)) \
  F(get_count, "MPI_Get_count", (const MpiStatus* status, MpiHandle type, int* count))         \
  F(irecv, "MPI_Irecv_c",                                                                      \
    (void* data, int64_t count, MpiHandle type, int source, int tag, MpiHandle comm,           \
     MpiHandle* request))                                                                      \
  F(isend, "MPI_Isend_c",                                                                      \
    (const void* data, int64_t count, MpiHandle type, int target, int tag, MpiHandle comm,     \
     MpiHandle* request))                                                                      \
  F(query_thread, "MPI_Query_thread", (int* provided))                                         \
  F(recv, "MPI_Recv",                                                                          \
    (void* data, int count, MpiHandle type, int source, int tag, MpiHandle comm,               \
     MpiStatus* status))                                                                       \
  F(testall, "MPI_Testall", (int count, MpiHandle* requests, int* flag, MpiStatus* statuses))  \
  F(test, "MPI_Test", (MpiHandle * request, int* flag, MpiStatus* status))

struct MpiApi {
#define TRIPONT_MPI_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  TRIPONT_MPI_FUNCTIONS(TRIPONT_MPI_MEMBER)
#undef TRIPONT_MPI_MEMBER
  std::string path;
  std::string version;  // for people: "MPICH Version: 5.0.2"

  // OK for kMpiSuccess, else INTERNAL with MPI's own words for `code`.
  Status Check(int code, std::string_view what) const;
};

// Opens the library: TRIPONT_MPI_PATH (the file or its folder) if that is set, else the one of the
// environment's packages, else the one that the dynamic linker finds. UNAVAILABLE with what to
// install. The result lives as long as the process. Thread-safe.
StatusOr<const MpiApi*> LoadMpi();

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_MPI_API_H_
