// What PJRT_Client_Compile needs to know of a serialized CompileOptionsProto.
#ifndef TRIPONT_PJRT_COMPILE_OPTIONS_H_
#define TRIPONT_PJRT_COMPILE_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/status.h"

namespace tripont::pjrt {

// Which device runs which replica of which partition.
struct DeviceAssignment {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  std::vector<int64_t> device_ids;  // [replica * num_partitions + partition]

  // A serialized DeviceAssignmentProto.
  std::string Serialize() const;
};

struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // Ordinal of the device to build for; -1 if not given.
  int64_t device_ordinal = -1;
  bool has_device_assignment = false;
  DeviceAssignment device_assignment;
  // How a program for several partitions is partitioned, and where the partitioner may choose.
  bool use_spmd_partitioning = false;
  bool use_shardy_partitioner = false;
  std::vector<int64_t> propagation_to_parameters;  // 0 or 1, one for all or one a parameter
  std::vector<int64_t> propagation_to_outputs;
  // One executable for all devices, told at execution which one (TensorFlow).
  bool compile_portable_executable = false;
  // The program takes one tuple of all its parameters.
  bool parameter_is_tupled_arguments = false;

  // XLA_FLAGS that concern us: where and what to dump.
  std::string dump_to;
  std::string dump_pass_re;
  bool dump_hlo_as_text = false;

  // jax.jit(..., compiler_options={name: value}), values as text.
  std::map<std::string, std::string> overrides;
};

// The parts of a CompileOptionsProto that a compiled program depends on, serialized the same way
// for the same options. Without the device assignment and XLA's own flags, so that the program for
// another device, or from a process with other XLA_FLAGS, is found in the cache. Dump options stay:
// a dump is made by compiling.
std::string CanonicalCompileOptions(const CompileOptions& options);

// What the caller's options tell the compiler: where to dump its stages (from XLA_FLAGS, or from
// jax.jit's compiler_options by XLA's names), and whatever else compiler_options holds, by its
// name.
std::map<std::string, std::string> CompilerOptions(const CompileOptions& options);

// Reads a serialized CompileOptionsProto (empty bytes give the defaults). INVALID_ARGUMENT if the
// bytes are malformed, or the counts and the device assignment contradict one another.
StatusOr<CompileOptions> ParseCompileOptions(std::string_view bytes);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_COMPILE_OPTIONS_H_
