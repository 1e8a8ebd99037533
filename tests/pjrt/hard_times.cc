// What callers of the PJRT C API from C++ may meet, and Python hardly:
//
//   hard_times LIBRARY ARTIFACT references     threads that drop one external reference at the same time
//   hard_times LIBRARY ARTIFACT allocations    calls in which the first, the second, ... allocation fails
//
// Prints what it has seen. A wrong answer ends the process with status 1; a crash is one.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

namespace {

// Allocations of this thread until one fails; none does while it is negative.
thread_local int64_t allocations_left = -1;

void* Allocate(size_t size) {
  if (allocations_left >= 0) {
    --allocations_left;
    if (allocations_left < 0) return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

void* AllocateOrThrow(size_t size) {
  if (void* const memory = Allocate(size)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// The library's allocations are these too.
void* operator new(size_t size) { return AllocateOrThrow(size); }
void* operator new[](size_t size) { return AllocateOrThrow(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace {

const PJRT_Api* api = nullptr;

[[noreturn]] void Fail(const char* what) {
  std::printf("%s\n", what);
  (void)std::fflush(stdout);
  std::_Exit(1);
}

// Whether a call succeeded; its error is freed.
bool Succeeds(PJRT_Error* error) {
  if (error == nullptr) return true;
  PJRT_Error_Message_Args message{PJRT_Error_Message_Args_STRUCT_SIZE, nullptr, error, nullptr, 0};
  api->PJRT_Error_Message(&message);
  if (message.message_size == 0) Fail("an error without a message");
  PJRT_Error_Destroy_Args destroy{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api->PJRT_Error_Destroy(&destroy);
  return false;
}

void Check(PJRT_Error* error) {
  if (!Succeeds(error)) Fail("a call failed that needs nothing");
}

#define ARGS(name, variable)     \
  PJRT_##name##_Args variable{}; \
  variable.struct_size = PJRT_##name##_Args_STRUCT_SIZE

constexpr int64_t kSize = 64;
float host[kSize];

struct Plugin {
  PJRT_Client* client = nullptr;
  PJRT_Device* device = nullptr;
  std::string artifact;
};

void Destroy(PJRT_Event* event) {
  if (event == nullptr) return;
  ARGS(Event_Await, await);
  await.event = event;
  Succeeds(api->PJRT_Event_Await(&await));
  ARGS(Event_Destroy, args);
  args.event = event;
  Check(api->PJRT_Event_Destroy(&args));
}

void Destroy(PJRT_Buffer* buffer) {
  ARGS(Buffer_Destroy, args);
  args.buffer = buffer;
  Check(api->PJRT_Buffer_Destroy(&args));
}

PJRT_Buffer* MakeBuffer(const Plugin& plugin) {
  ARGS(Client_BufferFromHostBuffer, args);
  args.client = plugin.client;
  args.data = host;
  args.type = PJRT_Buffer_Type_F32;
  args.dims = &kSize;
  args.num_dims = 1;
  args.device = plugin.device;
  if (!Succeeds(api->PJRT_Client_BufferFromHostBuffer(&args))) return nullptr;
  const int64_t left = allocations_left;
  allocations_left = -1;
  Destroy(args.done_with_host_buffer);
  allocations_left = left;
  return args.buffer;
}

// Two threads drop the one reference that there is: one of them may.
int References(const Plugin& plugin) {
  constexpr int kRounds = 100000;
  PJRT_Buffer* const buffer = MakeBuffer(plugin);
  std::atomic<bool> stop{false};
  std::atomic<int> dropped{0};
  const auto drop = [&] {
    ARGS(Buffer_DecreaseExternalReferenceCount, args);
    args.buffer = buffer;
    if (Succeeds(api->PJRT_Buffer_DecreaseExternalReferenceCount(&args))) ++dropped;
  };
  std::thread other([&] {
    while (!stop.load()) drop();
  });
  for (int i = 1; i <= kRounds; ++i) {
    ARGS(Buffer_IncreaseExternalReferenceCount, args);
    args.buffer = buffer;
    Check(api->PJRT_Buffer_IncreaseExternalReferenceCount(&args));
    drop();
    while (dropped.load() < i) std::this_thread::yield();
    if (dropped.load() > i) Fail("one reference was dropped twice");
  }
  stop = true;
  other.join();
  if (dropped.load() != kRounds) Fail("a reference was dropped that nobody had");
  Destroy(buffer);
  std::printf("%d references\n", kRounds);
  return 0;
}

struct Calls {
  const Plugin& plugin;
  PJRT_LoadedExecutable* loaded = nullptr;
  PJRT_Buffer* argument = nullptr;

  bool Make() {
    PJRT_Buffer* const made = MakeBuffer(plugin);
    if (made == nullptr) return false;
    allocations_left = -1;
    Destroy(made);
    return true;
  }

  bool Load() {
    ARGS(Executable_DeserializeAndLoad, args);
    args.client = plugin.client;
    args.serialized_executable = plugin.artifact.data();
    args.serialized_executable_size = plugin.artifact.size();
    if (!Succeeds(api->PJRT_Executable_DeserializeAndLoad(&args))) return false;
    allocations_left = -1;
    ARGS(LoadedExecutable_Destroy, destroy);
    destroy.executable = args.loaded_executable;
    Check(api->PJRT_LoadedExecutable_Destroy(&destroy));
    return true;
  }

  bool Execute() {
    PJRT_Buffer* const inputs[] = {argument};
    PJRT_Buffer* const* const lists[] = {inputs};
    PJRT_Buffer* outputs[1] = {};
    PJRT_Buffer** const output_lists[] = {outputs};
    PJRT_Event* done[1] = {};
    const int64_t kept = 0;
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.non_donatable_input_indices = &kept;
    options.num_non_donatable_input_indices = 1;
    ARGS(LoadedExecutable_Execute, args);
    args.executable = loaded;
    args.options = &options;
    args.argument_lists = lists;
    args.num_devices = 1;
    args.num_args = 1;
    args.output_lists = output_lists;
    args.device_complete_events = done;
    if (!Succeeds(api->PJRT_LoadedExecutable_Execute(&args))) return false;
    allocations_left = -1;
    Destroy(done[0]);
    Destroy(outputs[0]);
    return true;
  }

  bool Read() {
    float read[kSize];
    ARGS(Buffer_ToHostBuffer, args);
    args.src = argument;
    args.dst = read;
    args.dst_size = sizeof(read);
    if (!Succeeds(api->PJRT_Buffer_ToHostBuffer(&args))) return false;
    allocations_left = -1;
    Destroy(args.event);
    if (!std::equal(std::begin(read), std::end(read), std::begin(host)))
      Fail("other numbers were read");
    return true;
  }
};

// Starts a profile of everything, whose records must not fail an execution; null if there is no profiler.
const PLUGIN_Profiler_Api* Profile(PLUGIN_Profiler** profiler) {
  for (const PJRT_Extension_Base* e = api->extension_start; e != nullptr; e = e->next) {
    if (e->type != PJRT_Extension_Type_Profiler) continue;
    const PLUGIN_Profiler_Api* const table =
        reinterpret_cast<const PJRT_Profiler_Extension*>(e)->profiler_api;
    PLUGIN_Profiler_Create_Args create{};
    create.struct_size = PLUGIN_Profiler_Create_Args_STRUCT_SIZE;
    if (table->create(&create) != nullptr) return nullptr;
    PLUGIN_Profiler_Start_Args start{};
    start.struct_size = PLUGIN_Profiler_Start_Args_STRUCT_SIZE;
    start.profiler = *profiler = create.profiler;
    if (table->start(&start) != nullptr) return nullptr;
    return table;
  }
  return nullptr;
}

// Each allocation that a call makes fails once; then the call succeeds.
template <typename Call>
void EveryAllocation(const char* name, Call call) {
  for (int64_t n = 0; n < 5000; ++n) {
    allocations_left = n;
    const bool done = call();
    allocations_left = -1;
    if (!done) continue;
    if (!call()) Fail("a call fails although nothing does");
    std::printf("%s: goes on after %lld failures\n", name, static_cast<long long>(n));
    return;
  }
  Fail("a call makes allocations without end");
}

int Allocations(const Plugin& plugin) {
  Calls calls{plugin};
  ARGS(Executable_DeserializeAndLoad, load);
  load.client = plugin.client;
  load.serialized_executable = plugin.artifact.data();
  load.serialized_executable_size = plugin.artifact.size();
  Check(api->PJRT_Executable_DeserializeAndLoad(&load));
  calls.loaded = load.loaded_executable;
  calls.argument = MakeBuffer(plugin);
  for (const bool profiled : {false, true}) {
    PLUGIN_Profiler* profiler = nullptr;
    const PLUGIN_Profiler_Api* const table = profiled ? Profile(&profiler) : nullptr;
    if (profiled && table == nullptr) Fail("there is no profiler");
    EveryAllocation("make", [&] { return calls.Make(); });
    EveryAllocation("load", [&] { return calls.Load(); });
    EveryAllocation("execute", [&] { return calls.Execute(); });
    EveryAllocation("read", [&] { return calls.Read(); });
    if (table == nullptr) continue;
    // Records are lost, not executions: each allocation of a record fails, too.
    for (int64_t n = 0; n < 64; ++n) {
      allocations_left = n;
      calls.Execute();
      allocations_left = -1;
    }
    PLUGIN_Profiler_Destroy_Args destroy{};
    destroy.struct_size = PLUGIN_Profiler_Destroy_Args_STRUCT_SIZE;
    destroy.profiler = profiler;
    table->destroy(&destroy);
  }
  Destroy(calls.argument);
  ARGS(LoadedExecutable_Destroy, destroy);
  destroy.executable = calls.loaded;
  Check(api->PJRT_LoadedExecutable_Destroy(&destroy));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the test names our library
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  std::ifstream file(arguments[2], std::ios::binary);
  Plugin plugin{.artifact = {std::istreambuf_iterator<char>(file), {}}};
  ARGS(Client_Create, create);
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = "prestart_worker";
  option.name_size = std::strlen(option.name);
  option.type = PJRT_NamedValue_kInt64;
  option.value_size = 1;
  create.create_options = &option;
  create.num_options = 1;
  Check(api->PJRT_Client_Create(&create));
  plugin.client = create.client;
  ARGS(Client_AddressableDevices, devices);
  devices.client = plugin.client;
  Check(api->PJRT_Client_AddressableDevices(&devices));
  plugin.device = devices.addressable_devices[0];
  const int status =
      std::strcmp(arguments[3], "references") == 0 ? References(plugin) : Allocations(plugin);
  ARGS(Client_Destroy, destroy);
  destroy.client = plugin.client;
  Check(api->PJRT_Client_Destroy(&destroy));
  return status;
}
