#include "core/runtime/options.h"

#include <cstdlib>
#include <limits>
#include <optional>
#include <vector>

#include "core/runtime/installation.h"
#include "core/runtime/strings.h"

namespace tripont {
namespace {

constexpr int64_t kMany = std::numeric_limits<int64_t>::max();

// One entry an option: where its value goes and which values it can have. Exactly one of the
// members is set.
struct Setting {
  OptionInfo info;
  std::string Options::* text = nullptr;
  int64_t Options::* number = nullptr;
  int64_t smallest = 0;
  int64_t largest = kMany;
  bool Options::* flag = nullptr;
};

constexpr Setting kSettings[] = {
    {.info = {"device", "TRIPONT_DEVICE",
              "host, sycl, sycl:gpu or sycl:cpu (default: a SYCL GPU if there is one, else host)"},
     .text = &Options::device},
    {.info = {"backends", "TRIPONT_BACKENDS",
              "shared libraries, separated by colons, with further kinds of devices for "
              "TRIPONT_DEVICE (default: none)"},
     .text = &Options::backends},
    {.info = {"cpu", "TRIPONT_CPU",
              "CPU to compile and to call libraries for, which may have fewer instructions than "
              "this one: x86-64-v3, x86-64-v3+avxvnni, znver3 ... (default: this one)"},
     .text = &Options::cpu},
    {.info = {"num_devices", "TRIPONT_NUM_DEVICES", "number of host devices, 1 to 256 (default 1)"},
     .number = &Options::num_devices,
     .smallest = 1,
     .largest = 256},
    {.info = {"num_threads", "TRIPONT_NUM_THREADS",
              "threads of parallel kernels (default 0: one per CPU)"},
     .number = &Options::num_threads,
     .largest = 4096},
    {.info =
         {"python", "TRIPONT_PYTHON",
          "Python interpreter of the compile workers (default: the one that runs this process)"},
     .text = &Options::python},
    {.info = {"python_path", "TRIPONT_PYTHON_PATH",
              "folders, separated by colons, where the compile workers look for packages first "
              "(default: where this process does)"},
     .text = &Options::python_path},
    {.info = {"max_workers", "TRIPONT_MAX_WORKERS",
              "compile workers at the same time, 1 to 16 (default 2)"},
     .number = &Options::max_workers,
     .smallest = 1,
     .largest = 16},
    {.info =
         {"worker_idle_timeout", "TRIPONT_WORKER_IDLE_TIMEOUT",
          "seconds after which a compile worker that nobody needs ends; 0: never (default 600)"},
     .number = &Options::worker_idle_timeout},
    {.info = {"compile_timeout", "TRIPONT_COMPILE_TIMEOUT",
              "seconds that a worker may take for a program, its start included; 0: no limit "
              "(default)"},
     .number = &Options::compile_timeout},
    {.info = {"worker_start_timeout", "TRIPONT_WORKER_START_TIMEOUT",
              "seconds until a compile worker that was started must be ready; 0: no limit (default "
              "600)"},
     .number = &Options::worker_start_timeout},
    {.info = {"prestart_worker", "TRIPONT_PRESTART_WORKER",
              "start a compile worker early: 0 or 1 (default 1)"},
     .flag = &Options::prestart_worker},
    {.info = {"cache", "TRIPONT_CACHE", "keep compiled programs on disk: 0 or 1 (default 1)"},
     .flag = &Options::cache},
    {.info =
         {"cache_dir", "TRIPONT_CACHE_DIR",
          "folder of the compiled programs (default: $XDG_CACHE_HOME/tripont or ~/.cache/tripont)"},
     .text = &Options::cache_dir},
    {.info =
         {"cache_size", "TRIPONT_CACHE_SIZE",
          "bytes that programs in that folder may take (default 2 GiB); machine code of functions "
          "a sixteenth of it"},
     .number = &Options::cache_size},
    {.info = {"cache_shared", "TRIPONT_CACHE_SHARED",
              "trust a cache folder that others may write to, with code that runs as you: 0 or 1 "
              "(default 0)"},
     .flag = &Options::cache_shared},
    {.info =
         {"compiler_fingerprint", "TRIPONT_COMPILER_FINGERPRINT",
          "text that stands for the state of the compiler in the cache's keys (default: from its "
          "files)"},
     .text = &Options::compiler_fingerprint},
    {.info = {"dump_to", "TRIPONT_DUMP_TO",
              "folder for dumps of the compiler's stages (default: no dumps)"},
     .text = &Options::dump_to},
    {.info = {"log_level", "TRIPONT_LOG_LEVEL",
              "0 errors, 1 warnings (default), 2 information, 3 debug"},
     .number = &Options::log_level,
     .largest = 3},
    {.info = {"memory_limit", "TRIPONT_MEMORY_LIMIT",
              "bytes all arrays may take (default 0: 85 % of the memory that is available at the "
              "start, at least a quarter of all)"},
     .number = &Options::memory_limit},
    {.info = {"allocator_cache", "TRIPONT_ALLOCATOR_CACHE",
              "bytes of freed memory kept for reuse (default -1: a quarter of the limit)"},
     .number = &Options::allocator_cache,
     .smallest = -1},
    {.info = {"inline_ns", "TRIPONT_INLINE_NS",
              "programs estimated to take fewer nanoseconds run on the caller's thread, and so do "
              "those "
              "of up to 1 ms whose callers are seen to wait at once; 0: none (default 50000)"},
     .number = &Options::inline_ns},
    {.info = {"collective_timeout", "TRIPONT_COLLECTIVE_TIMEOUT",
              "seconds a device waits in a collective for the other devices of its program; 0: for "
              "ever (default 360)"},
     .number = &Options::collective_timeout},
    {.info = {"hosts_interface", "TRIPONT_HOSTS_INTERFACE",
              "network interface on which processes on several machines listen for one another "
              "(no default)"},
     .text = &Options::hosts_interface},
};

std::optional<bool> ParseFlag(std::string_view value) {
  if (value == "1" || value == "true" || value == "True" || value == "on" || value == "yes")
    return true;
  if (value == "0" || value == "false" || value == "False" || value == "off" || value == "no")
    return false;
  return std::nullopt;
}

Status SetValue(Options& options, const Setting& setting, std::string_view name,
                std::string_view value) {
  if (setting.text != nullptr) {
    options.*setting.text = std::string(value);
    return OkStatus();
  }
  if (setting.flag != nullptr) {
    const std::optional<bool> flag = ParseFlag(value);
    if (!flag.has_value()) return InvalidArgument(name, "=", value, ": expected 0 or 1");
    options.*setting.flag = *flag;
    return OkStatus();
  }
  const std::optional<int64_t> number = ToNumber(value);
  if (!number) return InvalidArgument(name, "=", value, ": expected a whole number");
  if (*number < setting.smallest || *number > setting.largest) {
    const std::string upper =
        setting.largest == kMany ? "" : StrCat(" and at most ", setting.largest);
    return InvalidArgument(name, "=", value, ": expected at least ", setting.smallest, upper);
  }
  options.*setting.number = *number;
  return OkStatus();
}

}  // namespace

StatusOr<Options> Options::FromEnvironment() {
  Options options;
  for (const Setting& setting : kSettings) {
    const char* value = std::getenv(std::string(setting.info.environment).c_str());
    // An empty variable is as good as none.
    if (value == nullptr || *value == '\0') continue;
    TRIPONT_RETURN_IF_ERROR(SetValue(
        options, setting, StrCat("environment variable ", setting.info.environment), value));
  }
  if (options.python.empty()) options.python = DefaultInterpreter();
  return options;
}

Status Options::Set(std::string_view name, std::string_view value) {
  for (const Setting& setting : kSettings) {
    if (setting.info.name == name) return SetValue(*this, setting, StrCat("option ", name), value);
  }
  compiler_options.insert_or_assign(std::string(name), std::string(value));
  return OkStatus();
}

std::span<const OptionInfo> Options::List() {
  static const auto* const infos = [] {
    auto* list = new std::vector<OptionInfo>;
    for (const Setting& setting : kSettings) list->push_back(setting.info);
    return list;
  }();
  return *infos;
}

}  // namespace tripont
