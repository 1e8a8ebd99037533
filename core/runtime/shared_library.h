// Where shared libraries lie: for those that are opened by full path (oneDNN, LAPACK, dpctl).
#ifndef TRIPONT_CORE_RUNTIME_SHARED_LIBRARY_H_
#define TRIPONT_CORE_RUNTIME_SHARED_LIBRARY_H_

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

namespace tripont {

// The folder of the shared object that holds `address`, links resolved; empty if unknown.
inline std::filesystem::path FolderOf(const void* address) {
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::filesystem::path() : path.parent_path();
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_SHARED_LIBRARY_H_
