#include "core/runtime/client.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "core/runtime/artifact.h"
#include "core/runtime/backend_registry.h"
#include "core/runtime/callback_names.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/environment.h"
#include "core/runtime/event.h"
#include "core/runtime/library/onednn_api.h"
#include "core/runtime/logging.h"
#include "core/runtime/parallel.h"

#ifndef TRIPONT_VERSION
#define TRIPONT_VERSION "0.1.0"
#endif

namespace tripont {
namespace {

// Unless it is told, the compiler cuts work for so many threads.
constexpr int kUsualThreads = 4;

std::atomic<Core*> core_instance{nullptr};

// Serialises the creation of the core. Never destroyed: a client may be created while the process
// exits.
std::mutex& CreationMutex() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

bool IsAnotherCpu(std::string_view cpu) { return !cpu.empty() && cpu != "host"; }

int64_t AllocatorCacheLimit(const Options& options, const MemoryBudget& budget) {
  return options.allocator_cache >= 0 ? options.allocator_cache : budget.limit() / 4;
}

}  // namespace

std::string_view Version() { return TRIPONT_VERSION; }

// ---------------------------------------------------------------------------------------------------------------
// Core

Core::Core(const Options& options, Backend& backend)
    : options_(options),
      backend_(backend),
      budget_(options.memory_limit),
      workers_(options.max_workers, options.worker_idle_timeout) {}

Core* Core::GetIfCreated() { return core_instance.load(std::memory_order_acquire); }

StatusOr<Core*> Core::Get(const Options& options) {
  TRIPONT_RETURN_IF_ERROR(LoadBackends(options.backends));
  TRIPONT_RETURN_IF_ERROR(CheckDeviceChoice(options.device));
  const std::lock_guard<std::mutex> lock(CreationMutex());
  Core* core = GetIfCreated();
  if (core == nullptr) {
    SetLogLevel(static_cast<int>(options.log_level));
    SetNumThreads(static_cast<int>(options.num_threads));
    if (IsAnotherCpu(options.cpu)) TRIPONT_RETURN_IF_ERROR(ActAsCpu(options.cpu));
    TRIPONT_ASSIGN_OR_RETURN(Backend* const backend, MakeBackend(options.device, options.python));
    Event::AlwaysReady();  // is made, while there is memory
    core = new Core(options, *backend);
    core_instance.store(core, std::memory_order_release);
    pthread_atfork(&Core::PrepareFork, &Core::ParentAfterFork, &Core::ChildAfterFork);
    Event::SetForkHook([] {
      Core* const forked = GetIfCreated();
      for (int i = 0; i < forked->num_devices(); ++i) {
        forked->device(i)->stream().AbandonInChild();
        forked->device(i)->wire().stream.AbandonInChild();
      }
    });
  } else {
    const auto differs = [&](std::string_view name, int64_t first, int64_t now) {
      if (first == now) return;
      TRIPONT_LOG(kInfo, "option ", name, "=", now,
                  " has no effect: the process's first client set ", first);
    };
    differs("num_threads", core->options_.num_threads, options.num_threads);
    differs("memory_limit", core->options_.memory_limit, options.memory_limit);
    differs("max_workers", core->options_.max_workers, options.max_workers);
    differs("inline_ns", core->options_.inline_ns, options.inline_ns);
  }
  if (IsAnotherCpu(options.cpu) && options.cpu != ActingCpu()) {
    return FailedPrecondition("TRIPONT_CPU=", options.cpu, ": this process uses ", CpuName(),
                              " already, and a process can use one CPU");
  }
  const std::string_view used = core->backend_.target();
  const std::string_view wanted =
      std::string_view(options.device).substr(0, options.device.find(':'));
  if (!wanted.empty() && wanted != used) {
    return FailedPrecondition("TRIPONT_DEVICE=", options.device, ": this process uses ", used,
                              " devices already, and a process can use one kind");
  }
  TRIPONT_RETURN_IF_ERROR(core->AddDevices(options.num_devices));
  return core;
}

Status Core::AddDevices(int64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  count = std::max<int64_t>(count, backend_.num_devices());
  while (static_cast<int64_t>(devices_.size()) < count) {
    const int id = static_cast<int>(devices_.size());
    TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<DeviceQueue> queue, backend_.MakeQueue(id));
    devices_.push_back(std::make_unique<Device>(id, &budget_,
                                                AllocatorCacheLimit(options_, budget_),
                                                options_.inline_ns, backend_, std::move(queue)));
  }
  return OkStatus();
}

Device* Core::device(int id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return id >= 0 && static_cast<size_t>(id) < devices_.size()
             ? devices_[static_cast<size_t>(id)].get()
             : nullptr;
}

int Core::num_devices() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(devices_.size());
}

// Around fork(): every lock of the core is held, so that the child finds what they guard in order.
void Core::PrepareFork() {
  CreationMutex().lock();
  Core* const core = GetIfCreated();
  core->mutex_.lock();
  core->workers_.LockForFork();
  core->budget_.LockForFork();
  for (const std::unique_ptr<Device>& device : core->devices_) {
    device->stream().LockForFork();
    device->wire().stream.LockForFork();
    for (Memory* const memory : device->memories()) memory->allocator().LockForFork();
  }
  LockEnvironmentForFork();
}

void Core::ParentAfterFork() {
  UnlockEnvironmentAfterFork();
  Core* const core = GetIfCreated();
  for (const std::unique_ptr<Device>& device : core->devices_) {
    for (Memory* const memory : device->memories()) memory->allocator().UnlockAfterFork();
    device->wire().stream.UnlockInParent();
    device->stream().UnlockInParent();
  }
  core->budget_.UnlockAfterFork();
  core->workers_.UnlockInParent();
  core->mutex_.unlock();
  CreationMutex().unlock();
}

void Core::ChildAfterFork() {
  MarkForkedChild();
  UnlockEnvironmentAfterFork();
  Core* const core = GetIfCreated();
  for (const std::unique_ptr<Device>& device : core->devices_) {
    for (Memory* const memory : device->memories()) memory->allocator().UnlockAfterFork();
    device->stream().ResetInChild();
    device->wire().stream.ResetInChild();
  }
  core->budget_.UnlockAfterFork();
  core->workers_.ResetInChild();
  core->mutex_.unlock();
  CreationMutex().unlock();
}

// -------------------------------------------------------------------------------------------------------------
// Client

namespace {

// The largest power of two up to the number of threads: the cache of programs need not tell more
// numbers apart.
int ThreadsToCutFor() {
  int threads = 1;
  while (2 * threads <= NumThreads()) threads *= 2;
  return threads;
}

// What the compiler must know of where the program runs, unless the caller compiles for another
// machine.
void AddFactsOfThisMachine(const Backend& backend, int threads,
                           std::map<std::string, std::string>& options) {
  const auto cpu = options.find("cpu");
  if (cpu != options.end() && IsAnotherCpu(cpu->second)) return;
  if (!ActingCpu().empty()) options.insert_or_assign("cpu", std::string(ActingCpu()));
  if (!onednn::IsUsable(backend)) options.try_emplace("onednn", "0");
  if (threads != kUsualThreads) options.try_emplace("threads", std::to_string(threads));
}

}  // namespace

Client::Client(Core* core, Options options, std::vector<Device*> devices)
    : core_(core),
      options_(std::move(options)),
      devices_(std::move(devices)),
      threads_(ThreadsToCutFor()),
      cache_(options_) {}

StatusOr<Ref<Client>> Client::Create(const Options& options) {
  if (options.num_devices < 1 || options.num_devices > 256) {
    return InvalidArgument("num_devices=", options.num_devices, ": expected 1 to 256");
  }
  TRIPONT_ASSIGN_OR_RETURN(Core* const core, Core::Get(options));
  std::vector<Device*> devices;
  const int64_t count = std::max<int64_t>(options.num_devices, core->backend().num_devices());
  devices.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) devices.push_back(core->device(i));
  if (options.prestart_worker && !InCompileWorker()) {
    core->workers().Prestart({options.python, options.python_path});
  }
  return Ref<Client>(new Client(core, options, std::move(devices)));
}

StatusOr<CompileResult> Client::Compile(std::string_view program, std::string_view format,
                                        std::string_view compile_options,
                                        const std::map<std::string, std::string>& extra) {
  if (InCompileWorker()) {
    return FailedPrecondition("a compile worker cannot compile through itself");
  }
  const CallbackNames callbacks(program);
  program = callbacks.program();
  CompileRequest request{
      format, program, compile_options, extra, PartitionersNamedIn(program), cache_.code_folder()};
  request.options.insert(options_.compiler_options.begin(), options_.compiler_options.end());
  std::map<std::string, std::string> ours = core_->backend().compiler_options();
  const auto target = request.options.find("target");
  if (target == request.options.end() || target->second == ours["target"])
    request.options.merge(ours);
  AddFactsOfThisMachine(core_->backend(), threads_, request.options);
  // Python functions that partition the program are to be called each time.
  const bool own = !request.partitioners.empty();
  const std::string key =
      cache_.enabled() && !own ? cache_.Key(program, format, compile_options, request.options) : "";
  // Who asks for dumps wants the compiler to run.
  if (!options_.dump_to.empty()) request.options.try_emplace("dump_to", options_.dump_to);
  CompileTurn turn;  // until the entry is stored
  if (!own && !request.options.contains("dump_to")) {
    std::optional<std::string> artifact = cache_.Lookup(key);
    if (!artifact) {
      TRIPONT_ASSIGN_OR_RETURN(
          turn, cache_.TakeTurn(key, std::chrono::seconds(options_.compile_timeout)));
      if (turn.was_waited_for) artifact = cache_.Lookup(key);
    }
    if (artifact) {
      callbacks.PutBack(*artifact);
      return CompileResult{std::move(*artifact), true, key};
    }
  }
  request.time_limit = options_.compile_timeout;
  request.start_limit = options_.worker_start_timeout;
  TRIPONT_ASSIGN_OR_RETURN(
      CompiledProgram compiled,
      core_->workers().Compile({options_.python, options_.python_path}, request));
  if (const Status status = CheckArtifactHeader(compiled.artifact); !status.ok()) {
    return Internal("the compile worker gave a bad artifact: ", status.message());
  }
  if (!own && compiled.same_compiler) cache_.Store(key, compiled.artifact);
  callbacks.PutBack(compiled.artifact);
  return CompileResult{std::move(compiled.artifact), false, key};
}

StatusOr<Ref<Executable>> Client::CompileAndLoad(std::string_view program, std::string_view format,
                                                 std::string_view compile_options,
                                                 const std::map<std::string, std::string>& extra,
                                                 LoadAs as, bool* from_cache) {
  Backend& backend = core_->backend();
  for (bool again = false;; again = true) {
    const bool had_onednn = onednn::IsUsable(backend);
    TRIPONT_ASSIGN_OR_RETURN(CompileResult result,
                             Compile(program, format, compile_options, extra));
    if (from_cache != nullptr) *from_cache = result.from_cache;
    StatusOr<Ref<Executable>> executable =
        as == LoadAs::kProgram ? Executable::Load(std::move(result.artifact), backend)
                               : Executable::LoadDescription(std::move(result.artifact));
    // oneDNN was there, but opening it has failed: the compiler does without it from now on.
    if (!executable.ok() && had_onednn && !onednn::IsUsable(backend)) continue;
    if (executable.ok() || !result.from_cache || again) return executable;
    // What the bytes say is wrong, not what the process lacks (memory, a custom call's handler).
    const StatusCode code = executable.status().code();
    if (code != StatusCode::kInvalidArgument && code != StatusCode::kFailedPrecondition) {
      return executable;
    }
    cache_.Remove(result.key, executable.status().message());
  }
}

void Client::DumpLoaded(std::string_view artifact,
                        const std::map<std::string, std::string>& extra) {
  CompileRequest request{"artifact", artifact, "", extra, {}, {}};
  if (!options_.dump_to.empty()) request.options.try_emplace("dump_to", options_.dump_to);
  if (!request.options.contains("dump_to") || InCompileWorker()) return;
  if (const Status status =
          core_->workers().Compile({options_.python, options_.python_path}, request).status();
      !status.ok()) {
    TRIPONT_LOG(kWarning, "a program that was compiled before is not dumped to ",
                request.options["dump_to"], ": ", status.message());
  }
}

}  // namespace tripont
