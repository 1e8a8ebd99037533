// Programs and transfers while memory is refused:
//
//   refused_memory LIBRARY FOLDER WORK one|all|others-one|others-all|threads
//
// WORK is done again and again: one allocation of the thread that calls is refused (operator new throws, aligned_alloc
// gives nothing, mmap fails), the first, the second, ..., or all from there on, until none is left to refuse; or those of
// all other threads. "threads": not memory, but threads are refused, in processes that have none yet. A call then gives
// an error, or a result that is right or has one. What is no error, and everything afterwards, is as without it.
// FOLDER has NAME.tripont for each program of programs.txt, and NAME.options (a CompileOptionsProto) for those of two
// devices: a line is NAME, and for each parameter its dimensions; "/" is between parameters. Prints what it has seen. A
// wrong answer ends the process with status 1, a hang with SIGALRM.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "refusals.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

struct Program {
  std::string artifact;
  std::string options;
  PJRT_LoadedExecutable* loaded = nullptr;
  std::vector<Dims> parameters;
  size_t num_outputs = 0;

  std::vector<Array> Numbers() const {
    std::vector<Array> arrays;
    for (const Dims& dims : parameters)
      arrays.push_back(::Numbers(Size(dims), static_cast<int64_t>(arrays.size())));
    return arrays;
  }

  // On the first device. Empty if it failed.
  std::vector<PJRT_Buffer*> Execute(const std::vector<PJRT_Buffer*>& inputs, bool donate) const {
    std::vector<std::vector<PJRT_Buffer*>> of_devices;
    {
      const Pause pause;
      of_devices.push_back(inputs);
    }
    of_devices = Execute(of_devices, donate);
    return of_devices.empty() ? std::vector<PJRT_Buffer*>() : std::move(of_devices[0]);
  }

  // On as many devices as there are lists of inputs. Empty if it failed.
  std::vector<std::vector<PJRT_Buffer*>> Execute(
      const std::vector<std::vector<PJRT_Buffer*>>& inputs, bool donate) const {
    std::vector<std::vector<PJRT_Buffer*>> outputs;
    std::vector<PJRT_Buffer* const*> lists;
    std::vector<PJRT_Buffer**> output_lists;
    std::vector<PJRT_Event*> done;
    std::vector<int64_t> kept;
    {
      const Pause pause;
      outputs.assign(inputs.size(), std::vector<PJRT_Buffer*>(num_outputs));
      for (const auto& of_device : inputs) lists.push_back(of_device.data());
      for (auto& of_device : outputs) output_lists.push_back(of_device.data());
      done.resize(inputs.size());
      for (size_t i = 0; i < inputs[0].size() && !donate; ++i)
        kept.push_back(static_cast<int64_t>(i));
    }
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    ARGS(LoadedExecutable_Execute, execute);
    execute.executable = loaded;
    execute.options = &options;
    execute.argument_lists = lists.data();
    execute.num_devices = inputs.size();
    execute.num_args = inputs[0].size();
    execute.output_lists = output_lists.data();
    execute.device_complete_events = done.data();
    const bool has_begun = Succeeds(api->PJRT_LoadedExecutable_Execute(&execute));
    const Pause pause;
    if (!has_begun) {
      for (const auto& of_device : outputs) {
        for (PJRT_Buffer* output : of_device)
          if (output != nullptr) Fail("a call that failed gave a result");
      }
      return {};
    }
    for (PJRT_Event* const event : done) {
      ARGS(Event_Destroy, destroy);
      destroy.event = event;
      Check(api->PJRT_Event_Destroy(&destroy));
    }
    return outputs;
  }
};

std::map<std::string, Program> programs;

// Null if it failed.
PJRT_LoadedExecutable* TryLoad(const Program& program) {
  ARGS(Executable_DeserializeAndLoad, load);
  load.client = plugin.client;
  load.serialized_executable = program.artifact.data();
  load.serialized_executable_size = program.artifact.size();
  load.overridden_serialized_compile_options = program.options.data();
  load.overridden_serialized_compile_options_size = program.options.size();
  return Succeeds(api->PJRT_Executable_DeserializeAndLoad(&load)) ? load.loaded_executable
                                                                  : nullptr;
}

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

// A program that is loaded anew.
bool Load(const Program& program, Expectation& expected) {
  Program again;
  {
    const Pause pause;
    again = program;
  }
  again.loaded = TryLoad(program);
  if (again.loaded == nullptr) return false;
  const bool done = Once(again, false, expected);
  ARGS(LoadedExecutable_Destroy, destroy);
  destroy.executable = again.loaded;
  Check(api->PJRT_LoadedExecutable_Destroy(&destroy));
  return done;
}

// An array of another size each time, for which no block of memory is kept.
bool Fresh() {
  static int64_t size = 300'000;
  size = size < 30'000'000 ? size * 13 / 10 : 300'007;
  Array array;
  Dims dims;
  {
    const Pause pause;
    array = Numbers(size, 1);
    dims = {size};
  }
  PJRT_Buffer* const buffer =
      TryMake(array, dims, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall);
  if (buffer == nullptr) return false;
  CheckIs(buffer, BytesOf(array), "a large array");
  const Pause pause;
  Destroy(buffer);
  return true;
}

// On both devices, whose results are reduced and exchanged.
bool Both(const Program& program, Expectation& expected) {
  std::vector<Array> numbers;
  std::vector<std::vector<PJRT_Buffer*>> inputs;
  {
    const Pause pause;
    inputs.resize(2);
    numbers = program.Numbers();
    for (size_t device = 0; device < 2; ++device) {
      for (size_t i = 0; i < numbers.size(); ++i)
        inputs[device].push_back(Make(numbers[i], program.parameters[i], device));
    }
  }
  const std::vector<std::vector<PJRT_Buffer*>> outputs = program.Execute(inputs, false);
  bool all = !outputs.empty();
  for (const auto& of_device : outputs) all = Finish(of_device, expected) && all;
  const Pause pause;
  for (const auto& of_device : inputs) {
    for (size_t i = 0; i < of_device.size(); ++i) {
      CheckIs(of_device[i], BytesOf(numbers[i]), "an argument");
      Destroy(of_device[i]);
    }
  }
  return all;
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

// Does it once; whether everything succeeded.
bool Work(const std::string& work, Expectation& expected) {
  const auto [kind, program] = [&]() -> std::pair<std::string, const Program&> {
    const Pause pause;
    const size_t colon = work.find(':');
    return {work.substr(0, colon), programs.at(work.substr(colon + 1))};
  }();
  if (kind == "once") return Once(program, false, expected);
  if (kind == "donated") return Once(program, true, expected);
  if (kind == "load") return Load(program, expected);
  if (kind == "fresh") return Fresh();
  if (kind == "both") return Both(program, expected);
  if (kind == "chain") return Chain(program, false, expected);
  if (kind == "donated-chain") return Chain(program, true, expected);
  if (kind == "transfers") return Transfers(program, expected);
  Fail("there is no work of this name: " + kind);
}

int Run(const std::string& work) {
  Expectation expected;
  const auto once = [&] { return Work(work, expected); };
  for (int i = 0; i < 3; ++i)
    if (!once()) Fail("it fails although nothing does: " + last_error);
  int64_t failures = 0;
  const int64_t in_use = BytesInUse();
  for (now_refused = 0; now_refused < 5000; ++now_refused) {
    alarm(60);
    bool done = false;
    {
      const Refusal refusal(now_refused);
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
    program.artifact.assign(std::istreambuf_iterator<char>(file), {});
    std::ifstream options_file(folder + "/" + name + ".options", std::ios::binary);
    program.options.assign(std::istreambuf_iterator<char>(options_file), {});
    program.loaded = TryLoad(program);
    if (program.loaded == nullptr) Fail("a program cannot be loaded: " + last_error);
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

void MakeClient() {
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
}

void EndClient() {
  for (const auto& [name, program] : programs) {
    ARGS(LoadedExecutable_Destroy, destroy);
    destroy.executable = program.loaded;
    Check(api->PJRT_LoadedExecutable_Destroy(&destroy));
  }
  ARGS(Client_Destroy, destroy);
  destroy.client = plugin.client;
  Check(api->PJRT_Client_Destroy(&destroy));
}

// What the processes of RunFirst tell.
struct Told {
  int64_t refused = 0;
  bool done = false;
  uint64_t results = 0;  // a number of their bits
};

// `work` in a process of few threads, from the first client on.
void RunInChild(const std::string& folder, const std::string& work, Told* told) {
  alarm(60);
  Expectation expected;
  {
    const Refusal refusal(now_refused);
    MakeClient();
    LoadPrograms(folder);
    told->done = Work(work, expected);
    if (!Work(work, expected)) told->done = false;
    EndClient();
  }
  told->refused = refused;
  told->results = expected.Number();
}

// Processes that may have no thread besides the first, one, two, ..., until none is refused.
int RunFirst(const std::string& folder, const std::string& work) {
  auto* const told = static_cast<Told*>(
      mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const auto run = [&](int64_t number) {
    *told = Told{};
    now_refused = number;
    const pid_t child = fork();
    if (child == 0) {
      RunInChild(folder, work, told);
      std::_Exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) Fail("a process ended with status " + std::to_string(status));
  };
  run(1 << 20);
  if (!told->done) Fail("it fails although nothing does");
  const uint64_t results = told->results;
  int64_t failures = 0;
  for (int64_t number = 0; number < 500; ++number) {
    run(number);
    if (told->done && told->results != results) Fail("other results");
    failures += told->done ? 0 : 1;
    if (told->refused > 0) continue;
    std::printf("%s: %lld threads, %lld failures\n", work.c_str(), static_cast<long long>(number),
                static_cast<long long>(failures));
    return 0;
  }
  Fail("it starts threads without end");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  is_caller = true;
  // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): the test names our library
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  api = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))();
  const std::string_view which = arguments[4];
  refuse_all = which.ends_with("all");
  if (which.starts_with("others")) what_is_refused = What::kAllocationsOfOthers;
  if (which == "threads") what_is_refused = What::kThreads;
  if (what_is_refused == What::kThreads) return RunFirst(arguments[2], arguments[3]);
  MakeClient();
  LoadPrograms(arguments[2]);
  const int status = Run(arguments[3]);
  EndClient();
  return status;
}
