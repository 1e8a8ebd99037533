// Programs and transfers while memory is refused:
//
//   refused_memory LIBRARY FOLDER WORK one|all
//
// WORK is done again and again: one allocation of the thread that calls is refused (operator new throws), the first, the
// second, ..., or all from there on, until none is left to refuse. A call then gives an error, or a result that is right
// or has one. What is no error, and everything afterwards, is as without it.
// FOLDER has NAME.tripont for each program of programs.txt: NAME, and for each parameter its rank and dimensions; "/" is
// between parameters. Prints what it has seen. A wrong answer ends the process with status 1, a hang with SIGALRM.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

// Of the thread that calls. What it does on its own behalf while memory is refused is paused.
thread_local bool is_refusing = false;
thread_local bool is_paused = false;
thread_local int64_t left = 0;  // allocations until one is refused
thread_local bool refuse_all = false;
thread_local int64_t refused = 0;

bool IsRefused() {
  if (!is_refusing || is_paused) return false;
  const int64_t before = left--;
  if (before > 0 || (before < 0 && !refuse_all)) return false;
  ++refused;
  return true;
}

void* Allocate(size_t size, size_t alignment) {
  if (IsRefused()) return nullptr;
  size = size == 0 ? 1 : size;
  return alignment == 0
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(size_t size, size_t alignment = 0) {
  if (void* const memory = Allocate(size, alignment)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// The library's allocations are these too. (Not inlined: GCC would find that what new gives is freed by free.)
[[gnu::noinline]] void* operator new(size_t size) { return AllocateOrThrow(size); }
[[gnu::noinline]] void* operator new[](size_t size) { return AllocateOrThrow(size); }
[[gnu::noinline]] void* operator new(size_t size, std::align_val_t to) {
  return AllocateOrThrow(size, size_t(to));
}
[[gnu::noinline]] void* operator new[](size_t size, std::align_val_t to) {
  return AllocateOrThrow(size, size_t(to));
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 0);
}
[[gnu::noinline]] void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return Allocate(size, 0);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace {

const PJRT_Api* api = nullptr;
int64_t now_refused = -1;  // which allocation, for messages

[[noreturn]] void Fail(const std::string& what) {
  is_refusing = false;
  std::printf("allocation %lld refused: %s\n", static_cast<long long>(now_refused), what.c_str());
  (void)std::fflush(stdout);
  std::_Exit(1);
}

// Refuses memory while it lives.
class Refusal {
 public:
  Refusal(int64_t after, bool all) {
    left = after;
    refuse_all = all;
    refused = 0;
    is_refusing = true;
  }
  ~Refusal() { is_refusing = false; }
  Refusal(const Refusal&) = delete;
  Refusal& operator=(const Refusal&) = delete;
};

// Nothing is refused to this thread while it lives.
class Pause {
 public:
  ~Pause() { is_paused = before_; }

 private:
  const bool before_ = std::exchange(is_paused, true);
};

#define ARGS(name, variable)     \
  PJRT_##name##_Args variable{}; \
  variable.struct_size = PJRT_##name##_Args_STRUCT_SIZE

// Whether a call succeeded; its error has a message, and is freed.
bool Succeeds(PJRT_Error* error) {
  if (error == nullptr) return true;
  const Pause pause;
  ARGS(Error_Message, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  if (message.message_size == 0) Fail("an error without a message");
  ARGS(Error_GetCode, code);
  code.error = error;
  Succeeds(api->PJRT_Error_GetCode(&code));
  ARGS(Error_Destroy, destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  return false;
}

void Check(PJRT_Error* error) {
  if (!Succeeds(error)) Fail("a call failed that needs nothing");
}

struct Plugin {
  PJRT_Client* client = nullptr;
  std::vector<PJRT_Device*> devices;
};
Plugin plugin;

using Array = std::vector<float>;
using Dims = std::vector<int64_t>;

int64_t Size(const Dims& dims) {
  int64_t size = 1;
  for (const int64_t dim : dims) size *= dim;
  return size;
}

Array Numbers(int64_t size, int64_t seed) {
  Array array(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i)
    array[static_cast<size_t>(i)] = static_cast<float>((i * 7 + seed * 3) % 11 - 5);
  return array;
}

// False if it failed.
bool Await(PJRT_Event* event) {
  ARGS(Event_Await, await);
  await.event = event;
  const bool ready = Succeeds(api->PJRT_Event_Await(&await));
  ARGS(Event_Destroy, destroy);
  destroy.event = event;
  Check(api->PJRT_Event_Destroy(&destroy));
  return ready;
}

void Destroy(PJRT_Buffer* buffer) {
  ARGS(Buffer_Destroy, destroy);
  destroy.buffer = buffer;
  Check(api->PJRT_Buffer_Destroy(&destroy));
}

// Null if it failed. The caller keeps `array` until the buffer is destroyed.
PJRT_Buffer* TryMake(const Array& array, const Dims& dims, PJRT_HostBufferSemantics semantics) {
  ARGS(Client_BufferFromHostBuffer, make);
  make.client = plugin.client;
  make.data = array.data();
  make.type = PJRT_Buffer_Type_F32;
  make.dims = dims.data();
  make.num_dims = dims.size();
  make.device = plugin.devices[0];
  make.host_buffer_semantics = semantics;
  if (!Succeeds(api->PJRT_Client_BufferFromHostBuffer(&make))) return nullptr;
  ARGS(Event_Destroy, destroy);
  destroy.event = make.done_with_host_buffer;
  Check(api->PJRT_Event_Destroy(&destroy));
  return make.buffer;
}

PJRT_Buffer* Make(const Array& array, const Dims& dims) {
  const Pause pause;
  PJRT_Buffer* const buffer =
      TryMake(array, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  if (buffer == nullptr) Fail("no array can be made");
  return buffer;
}

bool IsDeleted(PJRT_Buffer* buffer) {
  ARGS(Buffer_IsDeleted, deleted);
  deleted.buffer = buffer;
  Check(api->PJRT_Buffer_IsDeleted(&deleted));
  return deleted.is_deleted;
}

// Reads into `bytes`; false if that or the array's making failed.
bool Read(PJRT_Buffer* buffer, std::string& bytes) {
  ARGS(Buffer_ToHostBuffer, read);
  read.src = buffer;
  {
    const Pause pause;
    Check(api->PJRT_Buffer_ToHostBuffer(&read));
    bytes.assign(read.dst_size, '?');
  }
  read.dst = bytes.data();
  if (!Succeeds(api->PJRT_Buffer_ToHostBuffer(&read))) return false;
  const Pause pause;
  return Await(read.event);
}

std::string BytesOf(const Array& array) {
  const Pause pause;
  return {reinterpret_cast<const char*>(array.data()), array.size() * sizeof(float)};
}

void CheckIs(PJRT_Buffer* buffer, const std::string& expected, const char* what) {
  const Pause pause;
  std::string bytes;
  if (!Read(buffer, bytes)) Fail(std::string(what) + " cannot be read");
  if (bytes != expected) Fail(std::string(what) + " has other numbers");
}

// The results of one kind of work by the order in which it is read; what they were at first.
class Expectation {
 public:
  void Is(size_t number, const std::string& bytes) {
    const Pause pause;
    if (number == expected_.size()) expected_.push_back(bytes);
    if (bytes != expected_[number]) Fail("result " + std::to_string(number) + " has other numbers");
  }

 private:
  std::vector<std::string> expected_;
};

// Callbacks that were asked for, and those that have come.
std::atomic<int64_t> asked{0};
std::atomic<int64_t> called{0};

void AskWhenReady(PJRT_Buffer* buffer) {
  ARGS(Buffer_ReadyEvent, ready);
  ready.buffer = buffer;
  if (!Succeeds(api->PJRT_Buffer_ReadyEvent(&ready))) return;
  ARGS(Event_OnReady, on_ready);
  on_ready.event = ready.event;
  on_ready.callback = [](PJRT_Error* error, void*) {
    Succeeds(error);
    ++called;
  };
  if (Succeeds(api->PJRT_Event_OnReady(&on_ready))) ++asked;
  const Pause pause;
  Await(ready.event);
}

struct Program {
  PJRT_LoadedExecutable* loaded = nullptr;
  std::vector<Dims> parameters;
  size_t num_outputs = 0;

  std::vector<Array> Numbers() const {
    std::vector<Array> arrays;
    for (const Dims& dims : parameters)
      arrays.push_back(::Numbers(Size(dims), static_cast<int64_t>(arrays.size())));
    return arrays;
  }

  // Empty if it failed.
  std::vector<PJRT_Buffer*> Execute(const std::vector<PJRT_Buffer*>& inputs, bool donate) const {
    std::vector<PJRT_Buffer*> outputs;
    std::vector<int64_t> kept;
    {
      const Pause pause;
      outputs.resize(num_outputs);
      for (size_t i = 0; i < inputs.size() && !donate; ++i) kept.push_back(static_cast<int64_t>(i));
    }
    PJRT_Buffer* const* const lists[] = {inputs.data()};
    PJRT_Buffer** const output_lists[] = {outputs.data()};
    PJRT_Event* done[1] = {};
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    ARGS(LoadedExecutable_Execute, execute);
    execute.executable = loaded;
    execute.options = &options;
    execute.argument_lists = lists;
    execute.num_devices = 1;
    execute.num_args = inputs.size();
    execute.output_lists = output_lists;
    execute.device_complete_events = done;
    if (!Succeeds(api->PJRT_LoadedExecutable_Execute(&execute))) {
      for (PJRT_Buffer* output : outputs)
        if (output != nullptr) Fail("a call that failed gave a result");
      return {};
    }
    const Pause pause;
    ARGS(Event_Destroy, destroy);
    destroy.event = done[0];
    Check(api->PJRT_Event_Destroy(&destroy));
    return outputs;
  }
};

std::map<std::string, Program> programs;

// Reads the results, which may have failed, and destroys them. Whether all are right.
bool Finish(const std::vector<PJRT_Buffer*>& outputs, Expectation& expected) {
  bool all = !outputs.empty();
  for (PJRT_Buffer* const output : outputs) AskWhenReady(output);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string bytes;
    if (Read(outputs[i], bytes)) {
      expected.Is(i, bytes);
    } else {
      all = false;
    }
    const Pause pause;
    Destroy(outputs[i]);
  }
  return all;
}

// Each returns whether everything succeeded.

bool Once(const Program& program, bool donate, Expectation& expected) {
  std::vector<Array> numbers;
  std::vector<PJRT_Buffer*> inputs;
  {
    const Pause pause;
    numbers = program.Numbers();
    for (size_t i = 0; i < numbers.size(); ++i)
      inputs.push_back(Make(numbers[i], program.parameters[i]));
  }
  const std::vector<PJRT_Buffer*> outputs = program.Execute(inputs, donate);
  const bool done = Finish(outputs, expected);
  const Pause pause;
  for (size_t i = 0; i < inputs.size(); ++i) {
    // A donated array that is still there is as it was.
    if (!IsDeleted(inputs[i])) CheckIs(inputs[i], BytesOf(numbers[i]), "an argument");
    if (IsDeleted(inputs[i]) && !donate) Fail("an argument is gone that was not donated");
    Destroy(inputs[i]);
  }
  return done;
}

// Each execution takes the results of the one before, which is not waited for.
bool Chain(const Program& program, bool donate, Expectation& expected) {
  std::vector<Array> numbers;
  std::vector<std::vector<PJRT_Buffer*>> steps;
  {
    const Pause pause;
    numbers = program.Numbers();
    steps.emplace_back();
    for (size_t i = 0; i < numbers.size(); ++i)
      steps[0].push_back(Make(numbers[i], program.parameters[i]));
    steps.reserve(5);
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<PJRT_Buffer*> outputs = program.Execute(steps.back(), donate);
    if (outputs.empty()) break;
    const Pause pause;
    for (; outputs.size() > program.parameters.size(); outputs.pop_back()) Destroy(outputs.back());
    steps.push_back(std::move(outputs));
  }
  const bool all = steps.size() == 4;
  const std::vector<PJRT_Buffer*> last = std::move(steps.back());
  const bool done = all && Finish(last, expected);
  const Pause pause;
  steps.pop_back();
  if (!all) steps.push_back(last);
  for (const auto& step : steps)
    for (PJRT_Buffer* const buffer : step) Destroy(buffer);
  return done;
}

// From the host, to another memory and another device, and back in several ways.
bool Transfers(const Program& program, Expectation& expected) {
  const Dims& dims = program.parameters[0];
  std::vector<Array> numbers;
  PJRT_Buffer* made = nullptr;
  {
    const Pause pause;
    numbers = program.Numbers();
    made = Make(numbers[0], dims);
  }
  std::vector<PJRT_Buffer*> arrays, inputs;
  {
    const Pause pause;
    arrays.reserve(16);
    inputs = {made, made};
  }
  bool all = true;
  const auto keep = [&](PJRT_Buffer* buffer) {
    if (buffer != nullptr) arrays.push_back(buffer);
    all = all && buffer != nullptr;
  };
  keep(TryMake(numbers[0], dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall));
  keep(TryMake(numbers[0], dims, PJRT_HostBufferSemantics_kImmutableZeroCopy));
  {
    ARGS(Client_CreateViewOfDeviceBuffer, view);
    ARGS(Buffer_UnsafePointer, pointer);
    pointer.buffer = made;
    Check(api->PJRT_Buffer_UnsafePointer(&pointer));
    view.client = plugin.client;
    view.device = plugin.devices[0];
    view.device_buffer_ptr = reinterpret_cast<void*>(pointer.buffer_pointer);
    view.dims = dims.data();
    view.num_dims = dims.size();
    view.element_type = PJRT_Buffer_Type_F32;
    static std::atomic<int> viewed{0};
    viewed = 0;
    view.on_delete_callback = [](void*, void*) { ++viewed; };
    const bool is_made = Succeeds(api->PJRT_Client_CreateViewOfDeviceBuffer(&view));
    if (is_made) {
      CheckIs(view.buffer, BytesOf(numbers[0]), "a view");
      const Pause pause;
      Destroy(view.buffer);
    }
    if (viewed != (is_made ? 1 : 0)) Fail("a view's callback was not called as it should be");
    all = all && is_made;
  }
  // An array that is in the making, and what is copied from it meanwhile.
  std::vector<PJRT_Buffer*> results = program.Execute(inputs, /*donate=*/false);
  all = all && !results.empty();
  for (PJRT_Buffer* const result : results) {
    ARGS(Buffer_CopyToDevice, copy);
    copy.buffer = result;
    copy.dst_device = plugin.devices[1];
    keep(Succeeds(api->PJRT_Buffer_CopyToDevice(&copy)) ? copy.dst_buffer : nullptr);
    ARGS(Device_DefaultMemory, memory);
    memory.device = plugin.devices[0];
    Check(api->PJRT_Device_DefaultMemory(&memory));
    ARGS(Buffer_CopyToMemory, to_memory);
    to_memory.buffer = result;
    to_memory.dst_memory = memory.memory;
    keep(Succeeds(api->PJRT_Buffer_CopyToMemory(&to_memory)) ? to_memory.dst_buffer : nullptr);
    std::string bytes;
    {
      const Pause pause;
      bytes.assign(static_cast<size_t>(Size(dims)) * sizeof(float), '?');
    }
    ARGS(Buffer_CopyRawToHost, raw);
    raw.buffer = result;
    raw.dst = bytes.data();
    raw.transfer_size = static_cast<int64_t>(bytes.size());
    const bool raw_begun = Succeeds(api->PJRT_Buffer_CopyRawToHost(&raw));
    if (raw_begun) {
      const bool came = Await(raw.event);
      if (came) expected.Is(0, bytes);
      all = all && came;
    }
    all = all && raw_begun;
    ARGS(Buffer_CopyRawToHostFuture, future);
    future.buffer = result;
    future.transfer_size = static_cast<int64_t>(bytes.size());
    const bool promised = Succeeds(api->PJRT_Buffer_CopyRawToHostFuture(&future));
    if (promised) {
      PJRT_Buffer_CopyRawToHostFuture_Callback_Args given{};
      given.struct_size = PJRT_Buffer_CopyRawToHostFuture_Callback_Args_STRUCT_SIZE;
      given.callback_data = future.callback_data;
      given.dst = bytes.data();
      future.future_ready_callback(&given);
      const Pause pause;
      const bool came = Await(future.event);
      if (came) expected.Is(0, bytes);
      all = all && came;
    }
    all = all && promised;
  }
  {
    const Pause pause;
    arrays.insert(arrays.end(), results.begin(), results.end());
  }
  // An array whose content comes in pieces.
  ARGS(Client_CreateBuffersForAsyncHostToDevice, create);
  PJRT_ShapeSpec spec{};
  spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
  spec.dims = dims.data();
  spec.num_dims = dims.size();
  spec.element_type = PJRT_Buffer_Type_F32;
  create.client = plugin.client;
  create.shape_specs = &spec;
  create.num_shape_specs = 1;
  ARGS(Device_DefaultMemory, memory);
  memory.device = plugin.devices[0];
  Check(api->PJRT_Device_DefaultMemory(&memory));
  create.memory = memory.memory;
  if (Succeeds(api->PJRT_Client_CreateBuffersForAsyncHostToDevice(&create))) {
    ARGS(AsyncHostToDeviceTransferManager_RetrieveBuffer, retrieve);
    retrieve.transfer_manager = create.transfer_manager;
    PJRT_Buffer* buffer = nullptr;
    if (Succeeds(api->PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer(&retrieve)))
      keep(buffer = retrieve.buffer_out);
    ARGS(AsyncHostToDeviceTransferManager_TransferData, transfer);
    transfer.transfer_manager = create.transfer_manager;
    transfer.data = numbers[0].data();
    transfer.transfer_size = Size(dims) * static_cast<int64_t>(sizeof(float));
    transfer.is_last_transfer = true;
    const bool came = Succeeds(api->PJRT_AsyncHostToDeviceTransferManager_TransferData(&transfer));
    if (came && buffer != nullptr) CheckIs(buffer, BytesOf(numbers[0]), "what came in pieces");
    all = all && came && buffer != nullptr;
    ARGS(AsyncHostToDeviceTransferManager_Destroy, destroy);
    destroy.transfer_manager = create.transfer_manager;
    Check(api->PJRT_AsyncHostToDeviceTransferManager_Destroy(&destroy));
  } else {
    all = false;
  }
  for (PJRT_Buffer* const array : arrays) {
    AskWhenReady(array);
    std::string bytes;
    all = Read(array, bytes) && all;
    const Pause pause;
    Destroy(array);
  }
  CheckIs(made, BytesOf(numbers[0]), "an argument");
  const Pause pause;
  Destroy(made);
  return all;
}

int64_t BytesInUse() {
  int64_t bytes = 0;
  for (PJRT_Device* const device : plugin.devices) {
    ARGS(Device_MemoryStats, stats);
    stats.device = device;
    Check(api->PJRT_Device_MemoryStats(&stats));
    bytes += stats.bytes_in_use;
  }
  return bytes;
}

// Streams may still hold arrays for a moment.
void CheckBytesInUse(int64_t expected) {
  for (int i = 0; i < 10000 && BytesInUse() != expected; ++i) usleep(1000);
  if (BytesInUse() != expected) Fail("arrays that nobody has any more hold memory");
}

int Run(const std::string& work, bool all) {
  const size_t colon = work.find(':');
  const std::string kind = work.substr(0, colon);
  const Program& program = programs.at(work.substr(colon + 1));
  Expectation expected;
  const std::map<std::string, std::function<bool()>> kinds = {
      {"once", [&] { return Once(program, false, expected); }},
      {"donated", [&] { return Once(program, true, expected); }},
      {"chain", [&] { return Chain(program, false, expected); }},
      {"donated-chain", [&] { return Chain(program, true, expected); }},
      {"transfers", [&] { return Transfers(program, expected); }},
  };
  const std::function<bool()>& once = kinds.at(kind);
  for (int i = 0; i < 3; ++i)
    if (!once()) Fail("it fails although nothing does");
  int64_t failures = 0;
  const int64_t in_use = BytesInUse();
  for (now_refused = 0; now_refused < 5000; ++now_refused) {
    alarm(60);
    bool done = false;
    {
      const Refusal refusal(now_refused, all);
      done = once();
    }
    const bool complete = refused == 0;
    if (complete && !done) Fail("it fails although nothing was refused");
    if (!once()) Fail("it fails afterwards");
    while (called < asked) std::this_thread::yield();  // those who wait are told first
    if (called > asked) Fail("a callback was called twice");
    CheckBytesInUse(in_use);
    failures += done ? 0 : 1;
    if (!complete) continue;
    std::printf("%s: %lld allocations, %lld failures\n", work.c_str(),
                static_cast<long long>(now_refused), static_cast<long long>(failures));
    return 0;
  }
  Fail("it makes allocations without end");
}

void LoadPrograms(const std::string& folder) {
  std::ifstream list(folder + "/programs.txt");
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name, word;
    words >> name;
    Program program;
    program.parameters.emplace_back();
    while (words >> word) {
      word == "/" ? static_cast<void>(program.parameters.emplace_back())
                  : program.parameters.back().push_back(std::stoll(word));
    }
    std::ifstream file(folder + "/" + name + ".tripont", std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    ARGS(Executable_DeserializeAndLoad, load);
    load.client = plugin.client;
    load.serialized_executable = bytes.data();
    load.serialized_executable_size = bytes.size();
    Check(api->PJRT_Executable_DeserializeAndLoad(&load));
    program.loaded = load.loaded_executable;
    ARGS(LoadedExecutable_GetExecutable, get);
    get.loaded_executable = program.loaded;
    Check(api->PJRT_LoadedExecutable_GetExecutable(&get));
    ARGS(Executable_NumOutputs, outputs);
    outputs.executable = get.executable;
    Check(api->PJRT_Executable_NumOutputs(&outputs));
    program.num_outputs = outputs.num_outputs;
    ARGS(Executable_Destroy, destroy);
    destroy.executable = get.executable;
    Check(api->PJRT_Executable_Destroy(&destroy));
    programs.emplace(name, program);
  }
}

PJRT_NamedValue Option(const char* name, const int64_t value) {
  PJRT_NamedValue option{};
  option.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  option.name = name;
  option.name_size = std::strlen(name);
  option.type = PJRT_NamedValue_kInt64;
  option.int64_value = value;
  option.value_size = 1;
  return option;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the test names our library
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  const PJRT_NamedValue options[] = {Option("prestart_worker", 0), Option("num_devices", 2)};
  ARGS(Client_Create, create);
  create.create_options = options;
  create.num_options = std::size(options);
  Check(api->PJRT_Client_Create(&create));
  plugin.client = create.client;
  ARGS(Client_AddressableDevices, devices);
  devices.client = plugin.client;
  Check(api->PJRT_Client_AddressableDevices(&devices));
  plugin.devices.assign(devices.addressable_devices,
                        devices.addressable_devices + devices.num_addressable_devices);
  LoadPrograms(arguments[2]);
  const int status = Run(arguments[3], std::strcmp(arguments[4], "all") == 0);
  for (const auto& [name, program] : programs) {
    ARGS(LoadedExecutable_Destroy, destroy);
    destroy.executable = program.loaded;
    Check(api->PJRT_LoadedExecutable_Destroy(&destroy));
  }
  ARGS(Client_Destroy, destroy);
  destroy.client = plugin.client;
  Check(api->PJRT_Client_Destroy(&destroy));
  return status;
}
