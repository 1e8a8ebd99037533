#include "core/runtime/library/lapack_api.h"
#include "core/runtime/environment.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/runtime/cpu_info.h"
#include "core/runtime/logging.h"
#include "core/runtime/parallel.h"
#include "core/runtime/room.h"
#include "core/runtime/shared_library.h"
#include "core/runtime/strings.h"
#include "core/runtime/thread.h"

namespace tripont::lapack {
namespace {

namespace fs = std::filesystem;

constexpr char kWheel[] = "scipy-openblas32";
constexpr const char* kThreads = "OPENBLAS_NUM_THREADS";
constexpr char kWheelLibrary[] = "scipy_openblas32/lib/libscipy_openblas.so";

std::atomic<const Api*> loaded{nullptr};

// The folders of `folder` whose names start with `prefix`, in order.
std::vector<fs::path> EntriesOf(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(prefix)) entries.push_back(entry->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Where Python packages may lie: above tripont/lib/libtripont.so, and beside the folder of oneTBB's
// wheel.
std::vector<fs::path> SitePackages() {
  std::vector<fs::path> folders;
  if (fs::path folder = FolderOf(reinterpret_cast<const void*>(&Load)); !folder.empty()) {
    folders.push_back((folder / "../..").lexically_normal());
  }
  if (fs::path folder = FolderOf(reinterpret_cast<const void*>(&TBB_runtime_version));
      !folder.empty()) {
    for (const fs::path& python : EntriesOf(folder, "python3")) {
      folders.push_back(python / "site-packages");
    }
  }
  return folders;
}

std::vector<fs::path> Candidates() {
  if (const char* chosen = std::getenv("TRIPONT_LAPACK_PATH");
      chosen != nullptr && *chosen != '\0') {
    return {chosen};
  }
  const std::vector<fs::path> folders = SitePackages();
  std::vector<fs::path> candidates;
  candidates.reserve(folders.size());
  for (const fs::path& folder : folders) candidates.push_back(folder / kWheelLibrary);
  for (const fs::path& folder : folders) {
    for (fs::path& library : EntriesOf(folder / "scipy.libs", "libscipy_openblas-")) {
      candidates.push_back(std::move(library));
    }
  }
  return candidates;
}

// Looks functions up; keeps the name of the first that is missing.
class Resolver {
 public:
  explicit Resolver(void* handle) : handle_(handle) {}

  // scipy-openblas puts "scipy_" before every name; any other LAPACK has the plain names.
  void* Find(const std::string& name) const {
    if (void* symbol = dlsym(handle_, ("scipy_" + name).c_str())) return symbol;
    return dlsym(handle_, name.c_str());
  }
  template <typename Function>
  void Resolve(Function& function, char letter, const char* name) {
    const std::string symbol = StrCat(letter, name, "_");
    function = reinterpret_cast<Function>(Find(symbol));
    if (function == nullptr && missing_.empty()) missing_ = symbol;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* const handle_;
  std::string missing_;
};

template <typename T>
void Resolve(Resolver& resolver, char letter, Routines<T>& routines) {
  constexpr bool kComplex = kIsComplex<T>;
  resolver.Resolve(routines.getrf, letter, "getrf");
  resolver.Resolve(routines.geqrf, letter, "geqrf");
  resolver.Resolve(routines.geqp3, letter, "geqp3");
  resolver.Resolve(routines.orgqr, letter, kComplex ? "ungqr" : "orgqr");
  resolver.Resolve(routines.ormqr, letter, kComplex ? "unmqr" : "ormqr");
  resolver.Resolve(routines.potrf, letter, "potrf");
  resolver.Resolve(routines.trsm, letter, "trsm");
  resolver.Resolve(routines.trsv, letter, "trsv");
  resolver.Resolve(routines.gemv, letter, "gemv");
  resolver.Resolve(routines.gemm, letter, "gemm");
  resolver.Resolve(routines.herk, letter, kComplex ? "herk" : "syrk");
  resolver.Resolve(routines.gtsv, letter, "gtsv");
  resolver.Resolve(routines.gehrd, letter, "gehrd");
  resolver.Resolve(routines.sytrd, letter, kComplex ? "hetrd" : "sytrd");
  resolver.Resolve(routines.gebrd, letter, "gebrd");
  if constexpr (!kComplex) {
    resolver.Resolve(routines.sterf, letter, "sterf");
    resolver.Resolve(routines.stedc, letter, "stedc");
    resolver.Resolve(routines.laed1, letter, "laed1");
    resolver.Resolve(routines.bdsdc, letter, "bdsdc");
  }
  resolver.Resolve(routines.gesdd, letter, "gesdd");
  resolver.Resolve(routines.gesvd, letter, "gesvd");
  resolver.Resolve(routines.syevd, letter, kComplex ? "heevd" : "syevd");
  resolver.Resolve(routines.geev, letter, "geev");
  resolver.Resolve(routines.gees, letter, "gees");
}

// OpenBLAS's name for the kernels of the CPU that the process behaves as.
const char* OpenBlasCore() {
  if (CpuArchitecture() == "aarch64") return CpuHasFeature("dotprod") ? "NEOVERSEN1" : "ARMV8";
  if (CpuHasFeature("avx512bf16"))
    return CpuHasFeature("amx-bf16") ? "SapphireRapids" : "Cooperlake";
  if (CpuHasFeature("avx512vl") && CpuHasFeature("avx512dq")) return "SkylakeX";
  if (CpuHasFeature("avx2") && CpuHasFeature("fma")) return "Haswell";
  return CpuHasFeature("avx") ? "Sandybridge" : "Nehalem";
}

// OpenBLAS reads the name of its kernels from the environment when it is loaded. Set only while a
// process that behaves as another CPU (TRIPONT_CPU) opens it, and only if the user has not set it.
class ScopedCoreType {
 public:
  ScopedCoreType() : set_(!ActingCpu().empty() && !GetVariable(kVariable).has_value()) {
    if (set_) SetVariable(kVariable, OpenBlasCore());
  }
  ~ScopedCoreType() {
    if (set_) SetVariable(kVariable, std::nullopt);
  }
  ScopedCoreType(const ScopedCoreType&) = delete;
  ScopedCoreType& operator=(const ScopedCoreType&) = delete;

 private:
  static constexpr const char* kVariable = "OPENBLAS_CORETYPE";
  const bool set_;
};

// OpenBLAS ends the process where it finds no memory for its buffers, or cannot start its threads, when it is loaded.
constexpr size_t kRoomOfThread = size_t{48} << 20;  // 32 MB of buffers, and a stack
constexpr size_t kRoomOfLibrary = size_t{64} << 20;

// The threads that OpenBLAS has by itself, the one that loads it included.
int ThreadsOfOpenBlas() {
  int64_t threads = std::thread::hardware_concurrency();
  for (const char* name : {kThreads, "GOTO_NUM_THREADS", "OMP_NUM_THREADS"}) {  // in its order
    const std::optional<std::string> said = GetVariable(name);
    const std::optional<int64_t> number = said ? ToNumber(*said) : std::nullopt;
    if (number && *number > 0) {
      threads = *number;
      break;
    }
  }
  return static_cast<int>(std::clamp<int64_t>(threads, 1, 512));
}

// The threads that OpenBLAS may have when it is loaded: as many as by itself, as we have, or one. RESOURCE_EXHAUSTED if
// it cannot be loaded at all.
StatusOr<int> ThreadsWithRoom(const fs::path& path) {
  const int wanted = ThreadsOfOpenBlas();
  for (const int threads : {wanted, std::min(wanted, NumThreads()), 1}) {
    const int started = threads - 1;
    if (HasRoom(kRoomOfLibrary + kRoomOfThread * static_cast<size_t>(started)) &&
        StartableThreads(started, Thread::kStack) == started) {
      return threads;
    }
  }
  return ResourceExhausted("there is no room for ", path.string(), ", which takes ",
                           kRoomOfLibrary >> 20,
                           " MB of the process's address space (ulimit -v, ulimit -d)");
}

// Sets the variable while OpenBLAS is loaded, if it may not have the threads that it has by itself.
class ScopedThreads {
 public:
  explicit ScopedThreads(int threads) : set_(threads < ThreadsOfOpenBlas()) {
    if (set_) SetVariable(kThreads, std::to_string(threads));
  }
  ~ScopedThreads() {
    if (set_) SetVariable(kThreads, before_);
  }
  ScopedThreads(const ScopedThreads&) = delete;
  ScopedThreads& operator=(const ScopedThreads&) = delete;

 private:
  const bool set_;
  const std::optional<std::string> before_ = GetVariable(kThreads);
};

StatusOr<const Api*> Open(const fs::path& path) {
  void* handle = nullptr;
  TRIPONT_ASSIGN_OR_RETURN(const int threads, ThreadsWithRoom(path));
  {
    const ScopedCoreType core;
    const ScopedThreads fewer(threads);
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == nullptr) return Unavailable("cannot load ", path.string(), ": ", dlerror());
  auto api = std::make_unique<Api>();
  api->path = path.string();
  Resolver resolver(handle);
  Resolve(resolver, 's', api->f32);
  Resolve(resolver, 'd', api->f64);
  Resolve(resolver, 'c', api->c64);
  Resolve(resolver, 'z', api->c128);
  if (!resolver.missing().empty()) {
    return Unavailable(path.string(), " is no LAPACK with 32-bit integers: it has no function ",
                       resolver.missing(), "; pip install ", kWheel);
  }
  using GetConfig = char* (*)();
  if (auto config = reinterpret_cast<GetConfig>(resolver.Find("openblas_get_config"))) {
    api->description = config();
  }
  using SetThreads = void (*)(int);
  using GetThreads = int (*)();
  api->set_threads = reinterpret_cast<SetThreads>(resolver.Find("openblas_set_num_threads"));
  api->get_threads = reinterpret_cast<GetThreads>(resolver.Find("openblas_get_num_threads"));
  const bool has_fewer = threads < std::min(ThreadsOfOpenBlas(), NumThreads());
  if (has_fewer || api->set_threads == nullptr || api->get_threads == nullptr) {
    api->set_threads = nullptr;
    api->get_threads = nullptr;
  } else if (std::getenv(kThreads) == nullptr) {
    api->set_threads(NumThreads());
  }
  TRIPONT_LOG(kDebug, "LAPACK: ", api->description, " at ", api->path);
  return static_cast<const Api*>(api.release());  // as long as the process
}

StatusOr<const Api*> FindAndOpen() {
  std::vector<std::string> looked_at;
  for (const fs::path& path : Candidates()) {
    std::error_code error;
    if (fs::exists(path, error)) return Open(path);
    looked_at.push_back(path.string());
  }
  return Unavailable("LAPACK is not installed: there is no ", StrJoin(looked_at, " nor "),
                     "; pip install ", kWheel,
                     ", or set TRIPONT_LAPACK_PATH to a LAPACK with 32-bit integers");
}

}  // namespace

StatusOr<const Api*> Load() {
  if (const Api* api = loaded.load(std::memory_order_acquire)) return api;
  // Leaked on purpose: executables may be destroyed after static destructors ran.
  static auto* const mutex = new std::mutex;
  static auto* const failure = new Status;
  std::lock_guard lock(*mutex);
  if (const Api* api = loaded.load(std::memory_order_acquire)) return api;
  if (!failure->ok()) return *failure;
  StatusOr<const Api*> api = FindAndOpen();
  if (api.ok()) {
    loaded.store(*api, std::memory_order_release);
  } else if (api.status().code() != StatusCode::kResourceExhausted) {  // there may be room later
    *failure = api.status();
  }
  return api;
}

namespace {

// Leaked on purpose: executables may run while static destructors do.
std::mutex& OneThreadMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}
// Guarded by the mutex.
int one_thread_count = 0;
int threads_before = 1;

}  // namespace

OneThread::OneThread(const Api& api) : api_(api) {
  if (api_.set_threads == nullptr) return;
  std::lock_guard lock(OneThreadMutex());
  if (one_thread_count++ > 0) return;
  threads_before = api_.get_threads();
  if (threads_before != 1) api_.set_threads(1);
}

OneThread::~OneThread() {
  if (api_.set_threads == nullptr) return;
  std::lock_guard lock(OneThreadMutex());
  if (--one_thread_count == 0 && threads_before != 1) api_.set_threads(threads_before);
}

const Api* LoadedOrNull() { return loaded.load(std::memory_order_acquire); }

}  // namespace tripont::lapack
