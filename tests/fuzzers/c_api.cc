// Fuzzer: sequences of calls of the PJRT C API, as callers of any header make them.
//
//   c_api LIBRARY ARTIFACT FIRST COUNT    the inputs of so many seeds; prints each seed before it is tried
//
// An input is read as a program: which function, with which handle of those that were made before
// (or null), which sizes and counts, and how long the caller's structs are. A struct lies in
// memory of exactly its size, so that the address sanitizer sees every field that a shorter struct
// does not have. What the API leaves to its callers is kept to: handles are of the right type and
// not destroyed, host memory is as large as the shape, events that nobody decides are not awaited.
// The first byte says how many threads do the rest of the input, each with handles of its own.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace {

constexpr size_t kHostBytes = size_t{1} << 20;
constexpr size_t kMostHandles = 12;
constexpr int kMostCalls = 64;

// The fuzzer's input, read from the front; zeros after its end.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}
  bool empty() const { return rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }
  // One of the numbers below `count`.
  size_t Below(size_t count) { return count == 0 ? 0 : Byte() % count; }
  bool Seldom() { return Byte() % 16 == 0; }

 private:
  std::string_view rest_;
};

const PJRT_Api* the_api = nullptr;

const PJRT_Api& Api() { return *the_api; }

void DestroyError(PJRT_Error* error) {
  PJRT_Error_Message_Args message{PJRT_Error_Message_Args_STRUCT_SIZE, nullptr, error, nullptr, 0};
  Api().PJRT_Error_Message(&message);
  if (message.message_size == 0) std::abort();  // every error says something
  PJRT_Error_Destroy_Args destroy{PJRT_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  Api().PJRT_Error_Destroy(&destroy);
}

// `value` in memory of `size` bytes, which are all that the callee may touch.
template <typename T>
class Exact {
 public:
  Exact(const T& value, size_t size) : size_(size), memory_(std::malloc(size)) {
    std::memset(memory_, 0, size);
    std::memcpy(memory_, &value, std::min(size, sizeof(T)));
    std::memcpy(memory_, &size, sizeof(size));  // struct_size, the first field of all
  }
  ~Exact() { std::free(memory_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  T* get() { return static_cast<T*>(memory_); }
  void Read(T& value) const { std::memcpy(&value, memory_, std::min(size_, sizeof(T))); }

 private:
  const size_t size_;
  void* const memory_;
};

// Of a struct whose full size is `full`: mostly that, or less (an older caller), or more.
size_t StructSize(Input& input, size_t full) {
  const uint8_t choice = input.Byte();
  if (choice < 200) return full;
  if (choice < 232) {
    const size_t less = size_t{8} * (choice % 8 + 1);
    return full > less + sizeof(size_t) ? full - less : sizeof(size_t);
  }
  if (choice < 250) return full + size_t{8} * (choice % 16);
  return sizeof(size_t) + input.Byte();
}

// Calls a function of the table. True if it succeeded; its results are in `args` then.
template <typename Args>
bool Call(Input& input, PJRT_Error* (*function)(Args*), Args& args, size_t full) {
  const size_t size = StructSize(input, full);
  Exact<Args> exact(args, size);
  PJRT_Error* const error = function(exact.get());
  if (error != nullptr) {
    DestroyError(error);
    return false;
  }
  exact.Read(args);
  return true;
}
#define CALL(name, args) Call(input, Api().PJRT_##name, args, PJRT_##name##_Args_STRUCT_SIZE)
#define ARGS(name, variable) \
  PJRT_##name##_Args variable {}

std::vector<char>& HostMemory() {
  static auto* const memory = new std::vector<char>(kHostBytes, 1);
  return *memory;
}

// One client with two devices for each thread, and what was made with it.
class Session {
 public:
  Session(std::string_view bytes, std::string_view artifact) : input(bytes), artifact_(artifact) {}

  void Run() {
    if (!CreateClient()) return;
    for (int i = 0; i < kMostCalls && !input.empty(); ++i) Step();
    Destroy();
  }

 private:
  bool CreateClient() {
    PJRT_NamedValue options[3] = {};
    const auto set = [](PJRT_NamedValue& value, const char* name, int64_t number) {
      value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
      value.name = name;
      value.name_size = std::strlen(name);
      value.type = PJRT_NamedValue_kInt64;
      value.int64_value = number;
      value.value_size = 1;
    };
    set(options[0], "num_devices", 2);
    set(options[1], "prestart_worker", 0);
    set(options[2], "cache", 0);
    PJRT_Client_Create_Args args{};
    args.struct_size = PJRT_Client_Create_Args_STRUCT_SIZE;
    args.create_options = options;
    args.num_options = 3;
    if (PJRT_Error* const error = Api().PJRT_Client_Create(&args)) {
      DestroyError(error);
      return false;
    }
    client_ = args.client;
    PJRT_Client_AddressableDevices_Args devices{};
    devices.struct_size = PJRT_Client_AddressableDevices_Args_STRUCT_SIZE;
    devices.client = client_;
    if (PJRT_Error* const error = Api().PJRT_Client_AddressableDevices(&devices)) std::abort();
    devices_.assign(devices.addressable_devices,
                    devices.addressable_devices + devices.num_addressable_devices);
    for (PJRT_Device* device : devices_) {
      PJRT_Device_AddressableMemories_Args memories{};
      memories.struct_size = PJRT_Device_AddressableMemories_Args_STRUCT_SIZE;
      memories.device = device;
      if (PJRT_Error* const error = Api().PJRT_Device_AddressableMemories(&memories)) std::abort();
      memories_.insert(memories_.end(), memories.memories,
                       memories.memories + memories.num_memories);
    }
    return true;
  }

  template <typename T>
  T* One(const std::vector<T*>& all) {
    return all.empty() || input.Seldom() ? nullptr : all[input.Below(all.size())];
  }
  PJRT_Client* TheClient() { return input.Seldom() ? nullptr : client_; }

  // Sizes of a shape; the bytes that a dense array of 16-byte elements of it takes, or more than
  // there are if there are too many.
  size_t Shape(std::vector<int64_t>& dims) {
    static constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 8, 64, 1000, -1, 1 << 20, INT64_MAX};
    dims.resize(input.Below(5));
    size_t bytes = 16;
    for (int64_t& dim : dims) {
      dim = kSizes[input.Below(std::size(kSizes))];
      const auto size = static_cast<size_t>(dim);
      bytes = size != 0 && bytes > kHostBytes / size ? kHostBytes + 1 : bytes * size;
    }
    return bytes;
  }
  PJRT_Buffer_Type Type() { return static_cast<PJRT_Buffer_Type>(input.Below(36)); }

  // A layout, or null. Valid until the next call.
  PJRT_Buffer_MemoryLayout* Layout(size_t rank) {
    const uint8_t choice = input.Byte();
    if (choice < 160) return nullptr;
    layout_ = {};
    layout_.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
    numbers_.resize(rank + (input.Seldom() ? 1 : 0));
    for (size_t i = 0; i < numbers_.size(); ++i)
      numbers_[i] = choice % 2 ? static_cast<int64_t>(i) : static_cast<int64_t>(input.Byte()) - 1;
    if (choice < 240) {
      layout_.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
      layout_.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
      layout_.tiled.minor_to_major = input.Seldom() ? nullptr : numbers_.data();
      layout_.tiled.minor_to_major_size = numbers_.size();
      layout_.tiled.num_tiles = input.Seldom() ? 1 : 0;
    } else {
      layout_.type = static_cast<PJRT_Buffer_MemoryLayout_Type>(input.Below(3));
      layout_.strides.struct_size = PJRT_Buffer_MemoryLayout_Strides_STRUCT_SIZE;
      layout_.strides.byte_strides = numbers_.data();
      layout_.strides.num_byte_strides = numbers_.size();
    }
    return &layout_;
  }

  void Keep(PJRT_Event* event) {
    if (event != nullptr) events_.push_back(event);
  }
  void Keep(PJRT_Buffer* buffer) {
    if (buffer != nullptr) buffers_.push_back(buffer);
  }

  void Step() {
    switch (input.Below(30)) {
      case 0:
      case 1:
        return FromHost();
      case 2:
        return ToHost();
      case 3:
        return Load();
      case 4:
      case 5:
        return Execute();
      case 6: {
        ARGS(Buffer_Delete, args);
        args.buffer = One(buffers_);
        CALL(Buffer_Delete, args);
        return;
      }
      case 7: {
        ARGS(Buffer_ReadyEvent, args);
        args.buffer = One(buffers_);
        if (CALL(Buffer_ReadyEvent, args)) Keep(args.event);
        return;
      }
      case 8: {
        ARGS(Buffer_CopyToDevice, args);
        args.buffer = One(buffers_);
        args.dst_device = One(devices_);
        if (CALL(Buffer_CopyToDevice, args)) Keep(args.dst_buffer);
        return;
      }
      case 9: {
        ARGS(Buffer_CopyToMemory, args);
        args.buffer = One(buffers_);
        args.dst_memory = One(memories_);
        if (CALL(Buffer_CopyToMemory, args)) Keep(args.dst_buffer);
        return;
      }
      case 10: {
        ARGS(Buffer_Dimensions, args);
        args.buffer = One(buffers_);
        CALL(Buffer_Dimensions, args);
        return;
      }
      case 11: {
        ARGS(Buffer_GetMemoryLayout, args);
        args.buffer = One(buffers_);
        CALL(Buffer_GetMemoryLayout, args);
        return;
      }
      case 12: {
        ARGS(Buffer_IncreaseExternalReferenceCount, args);
        args.buffer = One(buffers_);
        CALL(Buffer_IncreaseExternalReferenceCount, args);
        return;
      }
      case 13: {
        ARGS(Buffer_DecreaseExternalReferenceCount, args);
        args.buffer = One(buffers_);
        CALL(Buffer_DecreaseExternalReferenceCount, args);
        return;
      }
      case 14: {
        ARGS(Buffer_UnsafePointer, args);
        args.buffer = managers_.empty() ? One(buffers_) : nullptr;  // may wait
        CALL(Buffer_UnsafePointer, args);
        return;
      }
      case 15:
        return CopyRaw();
      case 16: {
        ARGS(Event_Await, args);
        // Nothing else would keep what a manager has promised.
        args.event = managers_.empty() ? One(events_) : nullptr;
        CALL(Event_Await, args);
        return;
      }
      case 17: {
        ARGS(Event_OnReady, args);
        args.event = One(input.Seldom() ? own_events_ : events_);
        args.callback = input.Seldom() ? nullptr : +[](PJRT_Error* error, void* count) {
          if (error != nullptr) DestroyError(error);
          ++*static_cast<std::atomic<int>*>(count);
        };
        args.user_arg = &called_;
        CALL(Event_OnReady, args);
        return;
      }
      case 18: {
        ARGS(Event_Create, args);
        if (own_events_.size() < kMostHandles && CALL(Event_Create, args) && args.event != nullptr)
          own_events_.push_back(args.event);
        return;
      }
      case 19: {
        ARGS(Event_Set, args);
        args.event = One(own_events_);
        const int code = input.Byte() - 2;
        std::memcpy(&args.error_code, &code, sizeof(code));
        args.error_message = input.Seldom() ? nullptr : "failed";
        args.error_message_size = input.Seldom() ? 0 : 6;
        CALL(Event_Set, args);
        return;
      }
      case 20:
        return Uninitialized();
      case 21:
        return ErrorBuffer();
      case 22:
        return AsyncManager();
      case 23:
        return Transfer();
      case 24:
        return View();
      case 25: {
        ARGS(Device_MemoryStats, args);
        args.device = One(devices_);
        CALL(Device_MemoryStats, args);
        return;
      }
      case 26: {
        ARGS(Client_DefaultDeviceAssignment, args);
        int assignment[4] = {};
        args.client = TheClient();
        args.num_replicas = static_cast<int>(input.Below(3)) - (input.Seldom() ? 2 : 0);
        args.num_partitions = static_cast<int>(input.Below(3));
        args.default_assignment_size = input.Below(5);
        args.default_assignment = input.Seldom() ? nullptr : assignment;
        CALL(Client_DefaultDeviceAssignment, args);
        return;
      }
      case 27: {
        ARGS(LoadedExecutable_Delete, args);
        args.executable = One(executables_);
        CALL(LoadedExecutable_Delete, args);
        return;
      }
      case 28: {
        ARGS(TopologyDescription_Deserialize, args);
        char text[32];
        for (char& c : text) c = static_cast<char>(input.Byte());
        args.serialized_topology = text;
        args.serialized_topology_size = input.Below(sizeof(text) + 1);
        if (!CALL(TopologyDescription_Deserialize, args) || args.topology == nullptr) return;
        PJRT_TopologyDescription_Destroy_Args destroy{
            PJRT_TopologyDescription_Destroy_Args_STRUCT_SIZE, nullptr, args.topology};
        if (PJRT_Error* const error = Api().PJRT_TopologyDescription_Destroy(&destroy))
          DestroyError(error);
        return;
      }
      default:
        return DropOne();
    }
  }

  void FromHost() {
    if (buffers_.size() >= kMostHandles) return;
    ARGS(Client_BufferFromHostBuffer, args);
    std::vector<int64_t> dims;
    size_t bytes = Shape(dims);
    args.client = TheClient();
    args.data = input.Seldom() ? nullptr : HostMemory().data();
    args.type = Type();
    if (input.Byte() < 128) {  // as the program takes it
      dims = {64};
      bytes = 64 * sizeof(float);
      args.type = PJRT_Buffer_Type_F32;
    }
    args.dims = input.Seldom() ? nullptr : dims.data();
    args.num_dims = dims.size();
    std::vector<int64_t> strides;
    if (input.Seldom()) {  // of zero, or one too few or too many of them
      strides.assign(dims.size() + input.Below(3) - (dims.empty() ? 0 : 1), 0);
      args.byte_strides = input.Seldom() ? nullptr : strides.data();
      args.num_byte_strides = strides.size();
    }
    // What is lent for longer than the call is as large as it says.
    args.host_buffer_semantics = bytes > kHostBytes
                                     ? PJRT_HostBufferSemantics_kImmutableOnlyDuringCall
                                     : static_cast<PJRT_HostBufferSemantics>(input.Below(4));
    args.device = One(devices_);
    args.memory = input.Seldom() ? One(memories_) : nullptr;
    args.device_layout = Layout(dims.size());
    if (bytes > kHostBytes) args.data = nullptr;  // there is no such memory
    if (!CALL(Client_BufferFromHostBuffer, args)) return;
    Keep(args.buffer);
    Keep(args.done_with_host_buffer);
  }

  void ToHost() {
    ARGS(Buffer_ToHostBuffer, args);
    args.src = One(buffers_);
    args.host_layout = Layout(input.Below(5));
    if (args.src == nullptr || input.Byte() < 40) {  // asks how large it is
      CALL(Buffer_ToHostBuffer, args);
      return;
    }
    args.dst_size = input.Byte() < 128 ? kHostBytes : size_t{16} * input.Byte();
    const std::shared_ptr<char[]> memory(new char[args.dst_size]);
    destinations_.push_back(memory);  // until the end: the copy may come later
    args.dst = memory.get();
    if (CALL(Buffer_ToHostBuffer, args)) Keep(args.event);
  }

  void CopyRaw() {
    ARGS(Buffer_CopyRawToHost, args);
    const std::shared_ptr<char[]> memory(new char[256]);
    destinations_.push_back(memory);
    args.buffer = One(buffers_);
    args.dst = input.Seldom() ? nullptr : memory.get();
    args.offset = input.Byte() < 200 ? input.Byte() : static_cast<int64_t>(input.Byte()) - 128;
    args.transfer_size = input.Seldom() ? -1 : input.Byte();
    if (input.Seldom()) args.offset = INT64_MAX;
    if (CALL(Buffer_CopyRawToHost, args)) Keep(args.event);
  }

  void Load() {
    if (executables_.size() >= 3) return;
    ARGS(Executable_DeserializeAndLoad, args);
    args.client = TheClient();
    args.serialized_executable = input.Seldom() ? nullptr : artifact_.data();
    args.serialized_executable_size = input.Seldom() ? input.Byte() : artifact_.size();
    char options[16];
    if (input.Seldom()) {
      for (char& c : options) c = static_cast<char>(input.Byte());
      args.overridden_serialized_compile_options = options;
      args.overridden_serialized_compile_options_size = input.Below(sizeof(options) + 1);
    }
    if (CALL(Executable_DeserializeAndLoad, args) && args.loaded_executable != nullptr)
      executables_.push_back(args.loaded_executable);
  }

  void Execute() {
    ARGS(LoadedExecutable_Execute, args);
    PJRT_Buffer* arguments[2] = {One(buffers_), One(buffers_)};
    PJRT_Buffer* const* lists[2] = {input.Seldom() ? nullptr : arguments, arguments};
    PJRT_Buffer* outputs[2][4] = {};
    PJRT_Buffer** output_lists[2] = {input.Seldom() ? nullptr : outputs[0], outputs[1]};
    PJRT_Event* complete[2] = {};
    int64_t kept[2] = {static_cast<int64_t>(input.Below(3)) - 1, 0};
    PJRT_ExecuteOptions options{};
    options.non_donatable_input_indices = input.Seldom() ? nullptr : kept;
    options.num_non_donatable_input_indices = input.Below(3);
    options.launch_id = input.Byte();
    Exact<PJRT_ExecuteOptions> exact(options, StructSize(input, PJRT_ExecuteOptions_STRUCT_SIZE));
    args.executable = One(executables_);
    args.options = input.Seldom() ? nullptr : exact.get();
    args.argument_lists = input.Seldom() ? nullptr : lists;
    args.num_devices = input.Seldom() ? input.Below(3) : 1;
    args.num_args = input.Seldom() ? input.Below(3) : 1;
    args.output_lists = input.Seldom() ? nullptr : output_lists;
    args.device_complete_events = input.Byte() < 128 ? nullptr : complete;
    args.execute_device = input.Byte() < 200 ? nullptr : One(devices_);
    if (!CALL(LoadedExecutable_Execute, args)) return;
    for (auto& list : outputs) {
      for (PJRT_Buffer* output : list) Keep(output);
    }
    if (args.device_complete_events != nullptr) {
      for (PJRT_Event* event : complete) Keep(event);
    }
  }

  void Uninitialized() {
    if (buffers_.size() >= kMostHandles) return;
    ARGS(Client_CreateUninitializedBuffer, args);
    std::vector<int64_t> dims;
    if (Shape(dims) > kHostBytes && !input.Seldom()) return;
    args.client = TheClient();
    args.shape_dims = input.Seldom() ? nullptr : dims.data();
    args.shape_num_dims = dims.size();
    args.shape_element_type = Type();
    args.shape_layout = Layout(dims.size());
    args.device = One(devices_);
    args.memory = input.Seldom() ? One(memories_) : nullptr;
    if (CALL(Client_CreateUninitializedBuffer, args)) Keep(args.buffer);
  }

  void ErrorBuffer() {
    if (buffers_.size() >= kMostHandles) return;
    ARGS(Client_CreateErrorBuffer, args);
    std::vector<int64_t> dims;
    Shape(dims);
    args.client = TheClient();
    const int code = input.Byte() - 2;
    std::memcpy(&args.error_code, &code, sizeof(code));
    args.error_message = input.Seldom() ? nullptr : "no number";
    args.error_message_size = args.error_message == nullptr ? 0 : 9;
    args.shape_dims = input.Seldom() ? nullptr : dims.data();
    args.shape_num_dims = dims.size();
    args.shape_element_type = Type();
    args.shape_layout = Layout(dims.size());
    args.memory = One(memories_);
    if (CALL(Client_CreateErrorBuffer, args)) Keep(args.buffer);
  }

  void View() {
    if (buffers_.size() >= kMostHandles) return;
    ARGS(Client_CreateViewOfDeviceBuffer, args);
    std::vector<int64_t> dims;
    if (Shape(dims) > kHostBytes) return;
    args.client = TheClient();
    args.device_buffer_ptr = input.Seldom() ? nullptr : HostMemory().data();
    args.dims = input.Seldom() ? nullptr : dims.data();
    args.num_dims = dims.size();
    args.element_type = Type();
    args.layout = Layout(dims.size());
    args.device = One(devices_);
    args.memory = input.Seldom() ? One(memories_) : nullptr;
    args.on_delete_callback = input.Seldom() ? nullptr : +[](void*, void* count) {
      ++*static_cast<std::atomic<int>*>(count);
    };
    args.on_delete_callback_arg = &called_;
    if (CALL(Client_CreateViewOfDeviceBuffer, args)) Keep(args.buffer);
  }

  void AsyncManager() {
    if (managers_.size() >= 4) return;
    ARGS(Client_CreateBuffersForAsyncHostToDevice, args);
    std::vector<int64_t> dims;
    if (Shape(dims) > kHostBytes) return;
    PJRT_ShapeSpec specs[2] = {};
    for (PJRT_ShapeSpec& spec : specs) {
      spec.struct_size = PJRT_ShapeSpec_STRUCT_SIZE;
      spec.dims = dims.data();
      spec.num_dims = dims.size();
      spec.element_type = Type();
    }
    args.client = TheClient();
    args.shape_specs = input.Seldom() ? nullptr : specs;
    args.num_shape_specs = input.Below(3);
    args.memory = One(memories_);
    if (CALL(Client_CreateBuffersForAsyncHostToDevice, args) && args.transfer_manager != nullptr)
      managers_.push_back(args.transfer_manager);
  }

  void Transfer() {
    PJRT_AsyncHostToDeviceTransferManager* const manager = One(managers_);
    const int index = static_cast<int>(input.Below(4)) - 1;
    switch (input.Below(4)) {
      case 0: {
        ARGS(AsyncHostToDeviceTransferManager_RetrieveBuffer, args);
        args.transfer_manager = manager;
        args.buffer_index = index;
        if (CALL(AsyncHostToDeviceTransferManager_RetrieveBuffer, args)) Keep(args.buffer_out);
        return;
      }
      case 1: {
        ARGS(AsyncHostToDeviceTransferManager_SetBufferError, args);
        args.transfer_manager = manager;
        args.buffer_index = index;
        args.error_code = PJRT_Error_Code_ABORTED;
        args.error_message = "given up";
        args.error_message_size = 8;
        CALL(AsyncHostToDeviceTransferManager_SetBufferError, args);
        return;
      }
      default: {
        ARGS(AsyncHostToDeviceTransferManager_TransferData, args);
        args.transfer_manager = manager;
        args.buffer_index = index;
        args.data = input.Seldom() ? nullptr : HostMemory().data();
        args.offset = input.Seldom() ? -1 : input.Byte();
        args.transfer_size = input.Seldom() ? INT64_MAX : input.Byte();
        args.is_last_transfer = input.Byte() < 128;
        if (CALL(AsyncHostToDeviceTransferManager_TransferData, args))
          Keep(args.done_with_h2d_transfer);
        return;
      }
    }
  }

  template <typename Args, typename T>
  static void DestroyHandle(PJRT_Error* (*function)(Args*), size_t size, T* Args::* field,
                            T* handle) {
    Args args{};
    args.struct_size = size;
    args.*field = handle;
    if (PJRT_Error* const error = function(&args)) DestroyError(error);
  }
  void Destroy(PJRT_Buffer* handle) {
    DestroyHandle(Api().PJRT_Buffer_Destroy, PJRT_Buffer_Destroy_Args_STRUCT_SIZE,
                  &PJRT_Buffer_Destroy_Args::buffer, handle);
  }
  void Destroy(PJRT_Event* handle) {
    DestroyHandle(Api().PJRT_Event_Destroy, PJRT_Event_Destroy_Args_STRUCT_SIZE,
                  &PJRT_Event_Destroy_Args::event, handle);
  }
  void Destroy(PJRT_LoadedExecutable* handle) {
    DestroyHandle(Api().PJRT_LoadedExecutable_Destroy,
                  PJRT_LoadedExecutable_Destroy_Args_STRUCT_SIZE,
                  &PJRT_LoadedExecutable_Destroy_Args::executable, handle);
  }
  void Destroy(PJRT_AsyncHostToDeviceTransferManager* handle) {
    DestroyHandle(Api().PJRT_AsyncHostToDeviceTransferManager_Destroy,
                  PJRT_AsyncHostToDeviceTransferManager_Destroy_Args_STRUCT_SIZE,
                  &PJRT_AsyncHostToDeviceTransferManager_Destroy_Args::transfer_manager, handle);
  }
  template <typename T>
  void DropOneOf(std::vector<T*>& all) {
    if (all.empty()) return;
    const auto place = all.begin() + static_cast<std::ptrdiff_t>(input.Below(all.size()));
    T* const handle = *place;
    all.erase(place);
    Destroy(handle);
  }
  void DropOne() {
    switch (input.Below(5)) {
      case 0:
        return DropOneOf(events_);
      case 1:
        return DropOneOf(executables_);
      case 2:
        return DropOneOf(managers_);
      case 3:
        return DropOneOf(own_events_);
      default:
        return DropOneOf(buffers_);
    }
  }

  void Destroy() {
    for (auto* handle : managers_) Destroy(handle);  // decides what they have promised
    for (auto* handle : own_events_) Destroy(handle);
    for (auto* handle : events_) {  // all that is under way ends before its memory goes
      PJRT_Event_Await_Args args{PJRT_Event_Await_Args_STRUCT_SIZE, nullptr, handle};
      if (PJRT_Error* const error = Api().PJRT_Event_Await(&args)) DestroyError(error);
      Destroy(handle);
    }
    for (auto* handle : buffers_) Destroy(handle);
    for (auto* handle : executables_) Destroy(handle);
    PJRT_Client_Destroy_Args args{PJRT_Client_Destroy_Args_STRUCT_SIZE, nullptr, client_};
    if (PJRT_Error* const error = Api().PJRT_Client_Destroy(&args)) DestroyError(error);
  }

  Input input;  // named as the macros above have it
  const std::string_view artifact_;
  PJRT_Client* client_ = nullptr;
  std::vector<PJRT_Device*> devices_;
  std::vector<PJRT_Memory*> memories_;
  std::vector<PJRT_Buffer*> buffers_;
  std::vector<PJRT_Event*> events_;      // that somebody decides
  std::vector<PJRT_Event*> own_events_;  // that this program decides, or not
  std::vector<PJRT_LoadedExecutable*> executables_;
  std::vector<PJRT_AsyncHostToDeviceTransferManager*> managers_;
  std::vector<std::shared_ptr<char[]>> destinations_;
  PJRT_Buffer_MemoryLayout layout_{};
  std::vector<int64_t> numbers_;
  std::atomic<int> called_{0};
};

void Try(std::string_view bytes, std::string_view artifact) {
  if (bytes.size() < 2) return;
  const int others = bytes[0] % 8 == 0 ? 2 : 0;
  bytes.remove_prefix(1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(others));
  for (int i = 0; i < others; ++i)
    threads.emplace_back([bytes, artifact] { Session(bytes, artifact).Run(); });
  Session(bytes, artifact).Run();
  for (std::thread& thread : threads) thread.join();
}

std::string InputOf(uint64_t seed) {
  std::mt19937_64 numbers(seed);
  std::string bytes(2 + numbers() % 600, '\0');
  for (char& c : bytes) c = static_cast<char>(numbers());
  return bytes;
}

std::string Contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return 2;
  // NOLINTNEXTLINE(clang-analyzer-optin.taint.GenericTaint): c_api.py names our library
  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) {
    (void)std::fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  using GetApi = const PJRT_Api* (*)();
  const auto get = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) return 2;
  the_api = get();
  const std::string artifact = Contents(arguments[2]);
  const uint64_t first = std::strtoull(arguments[3], nullptr, 10);
  const uint64_t seeds = std::strtoull(arguments[4], nullptr, 10);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    std::printf("%llu\n", static_cast<unsigned long long>(seed));
    if (std::fflush(stdout) != 0) return 2;  // nobody would know which seed failed
    Try(InputOf(seed), artifact);
  }
  std::puts("done");
  return 0;
}
