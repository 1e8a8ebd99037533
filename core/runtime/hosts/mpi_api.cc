#include "core/runtime/hosts/mpi_api.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "core/runtime/hosts/scoped_environment.h"
#include "core/runtime/logging.h"
#include "core/runtime/shared_library.h"

namespace tripont::hosts {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libmpi_abi.so.1";
constexpr char kRemedy[] =
    "; programs that span processes need an MPI with the standard ABI of MPI 5: pip install "
    "'tripont[hosts]', or set TRIPONT_MPI_PATH to a libmpi_abi.so.1";

StatusOr<MpiApi> Open(const std::string& path) {
  // UCX, which MPICH brings, reads these when it is opened. It shall not take signals and memory
  // calls from the process that it is a guest in.
  ScopedEnvironment environment;
  environment.SetDefault("UCX_HANDLE_ERRORS", "none");
  environment.SetDefault("UCX_MEM_EVENTS", "n");
  environment.SetDefault("UCX_WARN_UNUSED_ENV_VARS", "n");
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return Unavailable("cannot load ", path, ": ", dlerror(), kRemedy);
  MpiApi api;
  api.path = path;
#define TRIPONT_MPI_RESOLVE(member, symbol, parameters)                       \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(handle, symbol)); \
  if (api.member == nullptr) return Unavailable(path, " has no function " symbol, kRemedy);
  TRIPONT_MPI_FUNCTIONS(TRIPONT_MPI_RESOLVE)
#undef TRIPONT_MPI_RESOLVE
  int major = 0;
  int minor = 0;
  (void)api.abi_get_version(&major, &minor);
  if (major != 1) {
    return Unavailable(path, " has version ", major, ".", minor, " of MPI's ABI, not 1.0", kRemedy);
  }
  char version[kMpiMaxLibraryVersion] = {};
  int length = 0;
  if (api.get_library_version(version, &length) == kMpiSuccess) {
    api.version = std::string(version, static_cast<size_t>(length));
    api.version = api.version.substr(0, api.version.find('\n'));
    for (char& c : api.version) {
      if (c == '\t') c = ' ';
    }
  }
  TRIPONT_LOG(kDebug, "MPI: ", api.version, " at ", path);
  return api;
}

StatusOr<MpiApi> FindAndOpen() {
  std::error_code error;
  if (const char* const chosen = std::getenv("TRIPONT_MPI_PATH");
      chosen != nullptr && *chosen != '\0') {
    const fs::path path(chosen);
    return Open(fs::is_directory(path, error) ? path / kLibraryName : path);
  }
  // pip puts it where oneTBB lies.
  const fs::path packaged =
      FolderOf(reinterpret_cast<const void*>(&TBB_runtime_version)) / kLibraryName;
  return Open(fs::exists(packaged, error) ? packaged.string() : std::string(kLibraryName));
}

}  // namespace

Status MpiApi::Check(int code, std::string_view what) const {
  if (code == kMpiSuccess) return OkStatus();
  char text[kMpiMaxErrorString] = {};
  int length = 0;
  if (error_string(code, text, &length) != kMpiSuccess) length = 0;
  return Internal("MPI, ", what, ": ", std::string_view(text, static_cast<size_t>(length)));
}

StatusOr<const MpiApi*> LoadMpi() {
  // Leaked on purpose: threads may use the library while the process exits.
  static auto* const mutex = new std::mutex;
  static const MpiApi* loaded = nullptr;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (loaded == nullptr) {
    TRIPONT_ASSIGN_OR_RETURN(MpiApi api, FindAndOpen());
    loaded = new MpiApi(std::move(api));
  }
  return loaded;
}

}  // namespace tripont::hosts
