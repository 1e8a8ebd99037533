// The C ABI between XLA FFI handlers and the runtime that calls them.
//
// Handlers are functions of the user, compiled against the header-only API that jaxlib ships
// (`#include "xla/ffi/api/ffi.h"`, in jax.ffi.include_dir()). Here are the same structs in our own
// words, laid out as that ABI prescribes, so that the runtime needs no header of a framework.
// tests/core/runtime/ffi compares sizes and offsets with jaxlib's c_api.h.
//
// Written for versions 0.2 (TensorFlow 2.21), 0.3 (jaxlib 0.10) and 0.5 (jaxlib 0.12) of the ABI.
// Where they differ, `struct_size` tells which one the handler was compiled with.
#ifndef TRIPONT_CORE_RUNTIME_FFI_C_API_H_
#define TRIPONT_CORE_RUNTIME_FFI_C_API_H_

#include <cstddef>
#include <cstdint>

namespace tripont::ffi {

constexpr int kApiMajor = 0;
constexpr int kApiMinor = 5;

struct Api;
struct Error;             // a status; null means OK. Whoever receives one destroys it.
struct ExecutionContext;  // what a handler's invocation may ask for
struct Future;            // says when a handler that returned already is done

enum class ExtensionType : int32_t { kMetadata = 1 };
struct ExtensionBase {
  size_t struct_size;
  ExtensionType type;
  ExtensionBase* next;
};

struct ApiVersion {
  size_t struct_size;
  ExtensionBase* extension_start;
  int32_t major_version;
  int32_t minor_version;
};

struct ByteSpan {
  const char* ptr;
  size_t len;
};

// dtype: a PrimitiveType as a 32-bit number.
struct Buffer {
  size_t struct_size;
  ExtensionBase* extension_start;
  int32_t dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};

constexpr int32_t kBuffer = 1;  // the only kind of operand and of result

enum class AttributeType : int32_t { kArray = 1, kDictionary = 2, kScalar = 3, kString = 4 };
struct Scalar {
  int32_t dtype;
  void* value;
};
struct Array {
  int32_t dtype;
  size_t size;  // elements
  void* data;
};

struct Arguments {
  size_t struct_size;
  ExtensionBase* extension_start;
  int64_t size;
  int32_t* types;
  void** values;  // Buffer*
};
// Sorted by name. Values: Array*, Attributes*, Scalar* or ByteSpan*.
struct Attributes {
  size_t struct_size;
  ExtensionBase* extension_start;
  int64_t size;
  AttributeType* types;
  ByteSpan** names;
  void** values;
};

enum class Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };
constexpr int kNumStages = 4;

struct CallFrame {
  size_t struct_size;
  ExtensionBase* extension_start;
  const Api* api;
  ExecutionContext* context;
  Stage stage;
  Arguments arguments;
  Arguments results;
  Attributes attributes;
  Future* future;  // out
};
// Handlers insist on exactly this size, which leaves `future` out.
constexpr size_t kCallFrameSize = offsetof(CallFrame, future);

using Handler = Error*(CallFrame* frame);

struct TypeId {
  int64_t type_id;
};
struct TypeInfo {
  size_t struct_size;
  ExtensionBase* extension_start;
  void (*deleter)(void* object);
};

struct Metadata {
  size_t struct_size;
  ApiVersion api_version;
  uint32_t traits;
  TypeId state_type_id;
};
constexpr size_t kMetadataSize = offsetof(Metadata, traits) + sizeof(uint32_t);
struct MetadataExtension {
  ExtensionBase base;
  Metadata* metadata;
};

// The arguments of the functions in Api. All start with these two fields.
struct ArgsBase {
  size_t struct_size;
  ExtensionBase* extension_start;
};
struct ErrorCreateArgs : ArgsBase {
  const char* message;
  int32_t code;
};
struct ErrorGetDetailsArgs : ArgsBase {
  Error* error;
  const char* message;  // out
  int32_t code;         // out; from version 0.5 on
};
struct ErrorDestroyArgs : ArgsBase {
  Error* error;
};
// Version 0.5 has a fifth, for graphs of commands, which xpu does not record.
struct HandlerBundle {
  Handler* instantiate;
  Handler* prepare;
  Handler* initialize;
  Handler* execute;
};
struct HandlerRegisterArgs : ArgsBase {
  ByteSpan name;
  ByteSpan platform;
  HandlerBundle bundle;  // traits follow, where the version's bundle ends: nothing here needs them
};
struct StreamGetArgs : ArgsBase {
  ExecutionContext* context;
  void* stream;  // out
};
struct TypeRegisterArgs : ArgsBase {
  ByteSpan name;
  TypeId* type_id;  // in-out
  const TypeInfo* type_info;
};
struct ExecutionContextGetArgs : ArgsBase {
  ExecutionContext* context;
  TypeId* type_id;
  void* data;  // out
};
// State of version 0.2 and of 0.3, for both Set (state: in) and Get (state: out).
struct StateArgs2 : ArgsBase {
  ExecutionContext* context;
  TypeId* type_id;
  void* state;
};
struct StateArgs3 : ArgsBase {
  ExecutionContext* context;
  Stage stage;
  TypeId* type_id;
  void* state;
};
struct MemoryAllocateArgs : ArgsBase {
  ExecutionContext* context;
  size_t size;
  size_t alignment;
  void* data;  // out
};
struct MemoryFreeArgs : ArgsBase {
  ExecutionContext* context;
  size_t size;
  void* data;
};
using Task = void(void* data);
struct ScheduleArgs : ArgsBase {
  ExecutionContext* context;
  Task* task;
  void* data;
};
struct NumThreadsArgs : ArgsBase {
  ExecutionContext* context;
  int64_t* num_threads;  // out
};
struct FutureCreateArgs : ArgsBase {
  Future* future;  // out
};
struct FutureSetAvailableArgs : ArgsBase {
  Future* future;
};
struct FutureSetErrorArgs : ArgsBase {
  Future* future;
  Error* error;
};
struct RunIdArgs : ArgsBase {
  ExecutionContext* context;
  int64_t run_id;  // out
};
struct DeviceOrdinalArgs : ArgsBase {
  ExecutionContext* context;
  int32_t device_ordinal;  // out
};

// From version 0.5 on: what a framework attached to the execution, by its type.
struct Extension;
struct FindExtensionArgs : ArgsBase {
  ExecutionContext* context;
  int64_t extension_type;
  const Extension* extension;  // out; null: there is none
};
// From version 0.5 on: options of the execution, as attributes.
struct CustomOptionsArgs : ArgsBase {
  ExecutionContext* context;
  const Attributes* options;  // out
};

struct Api {
  size_t struct_size;
  ExtensionBase* extension_start;
  ApiVersion api_version;
  const void* internal_api;  // null: handlers that include XLA's internals do not work
  Error* (*error_create)(ErrorCreateArgs*);
  void (*error_get_details)(ErrorGetDetailsArgs*);
  void (*error_destroy)(ErrorDestroyArgs*);
  Error* (*handler_register)(HandlerRegisterArgs*);
  Error* (*stream_get)(StreamGetArgs*);
  Error* (*type_register)(TypeRegisterArgs*);
  Error* (*execution_context_get)(ExecutionContextGetArgs*);
  Error* (*state_set)(ArgsBase*);
  Error* (*state_get)(ArgsBase*);
  Error* (*memory_allocate)(MemoryAllocateArgs*);
  Error* (*memory_free)(MemoryFreeArgs*);
  Error* (*schedule)(ScheduleArgs*);
  Error* (*num_threads)(NumThreadsArgs*);
  Error* (*future_create)(FutureCreateArgs*);
  Error* (*future_set_available)(FutureSetAvailableArgs*);
  Error* (*future_set_error)(FutureSetErrorArgs*);
  Error* (*run_id)(RunIdArgs*);
  Error* (*device_ordinal)(DeviceOrdinalArgs*);
  Error* (*find_extension)(FindExtensionArgs*);
  Error* (*custom_options)(CustomOptionsArgs*);
};

}  // namespace tripont::ffi

#endif  // TRIPONT_CORE_RUNTIME_FFI_C_API_H_
