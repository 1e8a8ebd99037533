// The ABI of the Custom Partitioner extension of the PJRT C API.
//
// The layouts are those of XLA's xla/pjrt/c/pjrt_c_api_custom_partitioner_extension.h (version 1,
// callbacks of version 0; the same from 2024 to jaxlib 0.12). No package installs this header, so
// the structs are declared here, by the names that they have there. Callers' versions and sizes are
// checked where they come in (custom_partitioner.cc).
#ifndef TRIPONT_PJRT_CUSTOM_PARTITIONER_EXTENSION_H_
#define TRIPONT_PJRT_CUSTOM_PARTITIONER_EXTENSION_H_

#include <cstddef>
#include <cstdint>

#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" {

// JAX_CustomCallPartitioner_Callbacks::version and ..._version_and_error::api_version.
inline constexpr int64_t JAX_CUSTOM_CALL_PARTITIONER_VERSION = 0;

struct JAX_CustomCallPartitioner_string {
  const char* data;
  size_t size;
};

// An operand or a result: a serialized ShapeProto and, if it has one, a serialized OpSharding.
struct JAX_CustomCallPartitioner_aval {
  JAX_CustomCallPartitioner_string shape;
  bool has_sharding;
  JAX_CustomCallPartitioner_string sharding;
};

// Arguments belong to the caller. Results live until the caller calls cleanup_fn(data).
struct JAX_CustomCallPartitioner_version_and_error {
  int64_t api_version;
  void* data;                                  // out
  void (*cleanup_fn)(void* data);              // out
  bool has_error;                              // out
  PJRT_Error_Code code;                        // out
  JAX_CustomCallPartitioner_string error_msg;  // out
};

struct JAX_CustomCallPartitioner_Partition_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval* op_args;
  JAX_CustomCallPartitioner_aval op_result;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string mlir_module;      // out
  JAX_CustomCallPartitioner_string* args_sharding;   // out: num_args of them
  JAX_CustomCallPartitioner_string result_sharding;  // out
};

struct JAX_CustomCallPartitioner_InferShardingFromOperands_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  size_t num_args;
  JAX_CustomCallPartitioner_aval* op_args;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string backend_config;
  bool has_result_sharding;                          // out
  JAX_CustomCallPartitioner_string result_sharding;  // out
};

struct JAX_CustomCallPartitioner_PropagateUserSharding_Args {
  JAX_CustomCallPartitioner_version_and_error header;
  JAX_CustomCallPartitioner_string backend_config;
  JAX_CustomCallPartitioner_string result_shape;
  JAX_CustomCallPartitioner_string result_sharding;  // in: that of the user of the result; out
};

struct JAX_CustomCallPartitioner_Callbacks {
  int64_t version;
  void* private_data;
  void (*dtor)(JAX_CustomCallPartitioner_Callbacks* self);
  void (*partition)(JAX_CustomCallPartitioner_Callbacks* self,
                    JAX_CustomCallPartitioner_Partition_Args* args);
  void (*infer_sharding)(JAX_CustomCallPartitioner_Callbacks* self,
                         JAX_CustomCallPartitioner_InferShardingFromOperands_Args* args);
  void (*propagate_user_sharding)(JAX_CustomCallPartitioner_Callbacks* self,
                                  JAX_CustomCallPartitioner_PropagateUserSharding_Args* args);
  bool can_side_effecting_have_replicated_sharding;
};

struct PJRT_Register_Custom_Partitioner_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
  JAX_CustomCallPartitioner_Callbacks* callbacks;  // the plugin's from now on
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Register_Custom_Partitioner_Args, callbacks);

struct PJRT_Register_Batch_Partitionable_Args {
  size_t struct_size;
  const char* name;
  size_t name_size;
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Register_Batch_Partitionable_Args, name_size);

struct PJRT_Custom_Partitioner_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*register_custom_partitioner)(PJRT_Register_Custom_Partitioner_Args* args);
  PJRT_Error* (*register_batch_partitionable)(PJRT_Register_Batch_Partitionable_Args* args);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_Custom_Partitioner_Extension, register_batch_partitionable);

}  // extern "C"

#endif  // TRIPONT_PJRT_CUSTOM_PARTITIONER_EXTENSION_H_
