#include "core/runtime/installation.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/runtime/checksum.h"
#include "core/runtime/computed_once.h"
#include "core/runtime/shared_library.h"
#include "core/runtime/strings.h"

namespace tripont {
namespace {

namespace fs = std::filesystem;

fs::path LibraryFolder() { return FolderOf(reinterpret_cast<const void*>(&DefaultInterpreter)); }

bool IsPython(const fs::path& path) {
  return path.is_absolute() && path.filename().string().starts_with("python") &&
         access(path.c_str(), X_OK) == 0;
}

// Interpreters export this function up to Python 3.15. It reads a field that never changes once
// Python has started, so it may be called from any thread.
fs::path RunningInterpreter() {
  using GetProgramFullPath = const wchar_t* (*)();
  const auto get =
      reinterpret_cast<GetProgramFullPath>(dlsym(RTLD_DEFAULT, "Py_GetProgramFullPath"));
  const auto is_initialized = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  if (get == nullptr || is_initialized == nullptr || is_initialized() == 0) return {};
  const wchar_t* const path = get();
  return path == nullptr ? fs::path() : fs::path(path);
}

// <prefix>/lib/python3.x/site-packages/tripont/lib/libtripont.so -> <prefix>/bin/python3.x
fs::path InstalledInterpreter() {
  const fs::path site_packages = LibraryFolder().parent_path().parent_path();
  const fs::path python = site_packages.parent_path();
  if (site_packages.filename() != "site-packages") return {};
  return python.parent_path().parent_path() / "bin" / python.filename();
}

// Calls `visit(path, name)` for each source file below `folder`, sorted by name in each folder: code,
// and the tables beside it. `name` is `prefix` and the path relative to the first folder.
template <typename Visit>
void VisitFiles(const fs::path& folder, const Visit& visit, const std::string& prefix) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  for (const fs::path& path : paths) {
    const std::string name = path.filename().string();
    if (fs::is_directory(path, error)) {
      if (name != "__pycache__") VisitFiles(path, visit, StrCat(prefix, name, "/"));
    } else if (path.extension() == ".py" || path.extension() == ".txt") {
      visit(path, StrCat(prefix, name));
    }
  }
}

// Those of the compiler and of what it shares with the runtime, in the folder `core` of the package
// (tripont/fingerprint.py goes through them in the same way).
template <typename Visit>
void VisitSources(const fs::path& core, const Visit& visit) {
  for (const char* const name : {"compiler", "schema"})
    VisitFiles(core / name, visit, StrCat(name, "/"));
}

// The names of the .dist-info folders of what the compiler is built on: they hold the versions.
std::vector<std::string> PackagesIn(const fs::path& site_packages) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(site_packages, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    const bool is_dependency = name.starts_with("llvmlite-") || name.starts_with("jaxlib-");
    if (is_dependency && name.ends_with(".dist-info")) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Those beside the library, and, because in a checkout they are not there, those where the
// interpreter finds them.
std::vector<std::string> FindPackages() {
  std::vector<std::string> names = PackagesIn(LibraryFolder().parent_path().parent_path());
  std::error_code error;
  const fs::path prefix = fs::path(DefaultInterpreter()).parent_path().parent_path();
  for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with("python3")) {
      for (std::string& name : PackagesIn(entry->path() / "site-packages"))
        names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace

std::string DefaultInterpreter() {
  for (const fs::path& path : {RunningInterpreter(), InstalledInterpreter()}) {
    if (IsPython(path)) return path.string();
  }
  return "";
}

std::vector<std::string> RunningInterpreterFlags() {
  if (RunningInterpreter().empty()) return {};
  // Interpreters export these variables up to Python 3.15; they do not change once Python has
  // started.
  const auto flag = [](const char* name) {
    const auto* const value = static_cast<const int*>(dlsym(RTLD_DEFAULT, name));
    return value == nullptr ? 0 : *value;
  };
  std::vector<std::string> flags;
  if (flag("Py_IsolatedFlag") != 0) {
    flags.emplace_back("-I");
  } else {
    if (flag("Py_IgnoreEnvironmentFlag") != 0) flags.emplace_back("-E");
    if (flag("Py_NoUserSiteDirectory") != 0) flags.emplace_back("-s");
  }
  if (flag("Py_NoSiteFlag") != 0) flags.emplace_back("-S");
  if (flag("Py_DontWriteBytecodeFlag") != 0) flags.emplace_back("-B");
  for (int i = 0; i < std::min(flag("Py_OptimizeFlag"), 2); ++i) flags.emplace_back("-O");
  return flags;
}

std::string PackageFolder() {
  const fs::path package = LibraryFolder().parent_path();
  std::error_code error;
  return fs::is_directory(package / "core" / "compiler", error) ? package.parent_path().string()
                                                                : "";
}

std::string DefaultCompilerFingerprint() {
  const fs::path package = LibraryFolder().parent_path();
  std::error_code error;
  if (!fs::is_directory(package / "core" / "compiler", error)) return "";
  Sha256 digest;
  VisitSources(package / "core", [&](const fs::path& path, const std::string& name) {
    struct stat info{};
    if (stat(path.c_str(), &info) != 0) return;
    digest.UpdateField(StrCat(name, " ", static_cast<int64_t>(info.st_size), " ",
                              static_cast<int64_t>(info.st_mtim.tv_sec), ".",
                              static_cast<int64_t>(info.st_mtim.tv_nsec)));
  });
  for (const std::string& name : FindPackages()) digest.UpdateField(name);
  return digest.FinishHex().substr(0, 16);
}

const std::string& CompilerSources() {
  constinit static ComputedOnce<std::string> digest;
  return digest.Get([] {
    std::string text;
    VisitSources(LibraryFolder().parent_path() / "core",
                 [&](const fs::path& path, const std::string& name) {
                   std::ifstream file(path, std::ios::binary);
                   const std::string content((std::istreambuf_iterator<char>(file)), {});
                   text += StrCat(name, " ", Crc32(content), "\n");
                 });
    if (text.empty()) return text;
    Sha256 sha;
    sha.Update(text);
    return sha.FinishHex().substr(0, 16);
  });
}

const std::vector<std::string>& CompilerPackages() {
  constinit static ComputedOnce<std::vector<std::string>> packages;
  return packages.Get([] {
    std::vector<std::string> names = FindPackages();
    for (std::string& name : names) name.resize(name.rfind(".dist-info"));
    return names;
  });
}

}  // namespace tripont
