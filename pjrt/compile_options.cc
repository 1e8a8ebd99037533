#include "pjrt/compile_options.h"

#include <bit>
#include <utility>

#include "pjrt/wire.h"

namespace tripont::pjrt {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto, xla/xla_data.proto and xla/xla.proto.
enum CompileOptionsField : uint32_t {
  kParameterIsTupledArguments = 2,
  kExecutableBuildOptions = 3,
  kCompilePortableExecutable = 4,
  kEnvOptionOverrides = 7,
};
enum BuildOptionsField : uint32_t {
  kDeviceOrdinal = 1,
  kDebugOptions = 3,
  kNumReplicas = 4,
  kNumPartitions = 5,
  kUseSpmdPartitioning = 6,
  kDeviceAssignment = 9,
  kPropagationToOutputs = 12,
  kPropagationToParameters = 18,
  kUseShardyPartitioner = 19,
};
enum DebugOptionsField : uint32_t { kDumpTo = 109, kDumpHloPassRe = 111, kDumpHloAsText = 112 };
enum DeviceAssignmentField : uint32_t {
  kReplicaCount = 1,
  kComputationCount = 2,
  kComputationDevices = 3
};
enum ComputationDeviceField : uint32_t { kReplicaDeviceIds = 1 };
enum MapEntryField : uint32_t { kKey = 1, kValue = 2 };
enum OverrideField : uint32_t { kString = 1, kBool = 2, kInt = 3, kDouble = 4 };

// More devices than any machine has; keeps arithmetic on counts far from overflow.
constexpr int64_t kMaxDevices = 1 << 20;

Status ParseDeviceAssignment(std::string_view bytes, DeviceAssignment* assignment) {
  constexpr std::string_view kMessage = "DeviceAssignmentProto";
  int64_t replicas = 0;
  int64_t partitions = 0;
  std::vector<std::vector<int64_t>> computations;
  TRIPONT_RETURN_IF_ERROR(ReadMessage(bytes, kMessage,
                                      {{kReplicaCount, &replicas},
                                       {kComputationCount, &partitions},
                                       {kComputationDevices, [&](std::string_view computation) {
                                          return ReadMessage(
                                              computation, kMessage,
                                              {{kReplicaDeviceIds, &computations.emplace_back()}});
                                        }}}));
  if (replicas <= 0 || partitions <= 0 || replicas > kMaxDevices || partitions > kMaxDevices ||
      computations.size() != static_cast<size_t>(partitions)) {
    return InvalidArgument("a device assignment for ", replicas, " replicas and ", partitions,
                           " partitions lists ", computations.size(), " partitions");
  }
  *assignment = {replicas, partitions, {}};
  for (const std::vector<int64_t>& ids : computations) {
    if (ids.size() != static_cast<size_t>(replicas)) {
      return InvalidArgument("a device assignment for ", replicas, " replicas lists ", ids.size(),
                             " devices for a partition");
    }
  }
  for (int64_t replica = 0; replica < replicas; ++replica) {
    for (int64_t partition = 0; partition < partitions; ++partition) {
      assignment->device_ids.push_back(computations[partition][replica]);
    }
  }
  return OkStatus();
}

// The value of an override as text, whatever its type is.
Status ParseOverrideValue(std::string_view bytes, std::string* text) {
  WireReader value(bytes);
  while (value.Next()) {
    if (value.field() == kString) *text = value.bytes();
    if (value.field() == kBool) *text = value.number() != 0 ? "true" : "false";
    if (value.field() == kInt) *text = std::to_string(value.signed_number());
    if (value.field() == kDouble) *text = std::to_string(std::bit_cast<double>(value.number()));
  }
  if (!value.ok()) return InvalidArgument("the serialized OptionOverrideProto is malformed");
  return OkStatus();
}

Status ParseOverride(std::string_view bytes, std::map<std::string, std::string>* overrides) {
  std::string name, text;
  TRIPONT_RETURN_IF_ERROR(ReadMessage(bytes, "option override",
                                      {{kKey, &name}, {kValue, [&](std::string_view value) {
                                                         return ParseOverrideValue(value, &text);
                                                       }}}));
  overrides->insert_or_assign(std::move(name), std::move(text));
  return OkStatus();
}

Status ParseDebugOptions(std::string_view bytes, CompileOptions* options) {
  return ReadMessage(bytes, "DebugOptions",
                     {{kDumpTo, &options->dump_to},
                      {kDumpHloPassRe, &options->dump_pass_re},
                      {kDumpHloAsText, &options->dump_hlo_as_text}});
}

Status ParseBuildOptions(std::string_view bytes, CompileOptions* options) {
  return ReadMessage(
      bytes, "ExecutableBuildOptionsProto",
      {{kDeviceOrdinal, &options->device_ordinal},
       {kDebugOptions, [=](std::string_view debug) { return ParseDebugOptions(debug, options); }},
       {kNumReplicas, &options->num_replicas},
       {kNumPartitions, &options->num_partitions},
       {kUseSpmdPartitioning, &options->use_spmd_partitioning},
       {kUseShardyPartitioner, &options->use_shardy_partitioner},
       {kPropagationToOutputs, &options->propagation_to_outputs},
       {kPropagationToParameters, &options->propagation_to_parameters},
       {kDeviceAssignment, [=](std::string_view assignment) {
          options->has_device_assignment = true;
          return ParseDeviceAssignment(assignment, &options->device_assignment);
        }}});
}

Status ParseWhole(std::string_view bytes, CompileOptions* options) {
  return ReadMessage(bytes, "CompileOptionsProto",
                     {{kParameterIsTupledArguments, &options->parameter_is_tupled_arguments},
                      {kExecutableBuildOptions,
                       [=](std::string_view build) { return ParseBuildOptions(build, options); }},
                      {kCompilePortableExecutable, &options->compile_portable_executable},
                      {kEnvOptionOverrides, [=](std::string_view entry) {
                         return ParseOverride(entry, &options->overrides);
                       }}});
}

}  // namespace

std::string DeviceAssignment::Serialize() const {
  WireWriter writer;
  writer.Varint(kReplicaCount, static_cast<uint64_t>(num_replicas));
  writer.Varint(kComputationCount, static_cast<uint64_t>(num_partitions));
  for (int64_t partition = 0; partition < num_partitions; ++partition) {
    std::vector<int64_t> ids;
    ids.reserve(num_replicas);
    for (int64_t replica = 0; replica < num_replicas; ++replica) {
      ids.push_back(device_ids[replica * num_partitions + partition]);
    }
    WireWriter computation;
    computation.PackedVarints(kReplicaDeviceIds, ids);
    writer.Bytes(kComputationDevices, computation.str());
  }
  return writer.Take();
}

std::string CanonicalCompileOptions(const CompileOptions& options) {
  WireWriter debug;
  if (!options.dump_to.empty()) {
    debug.Bytes(kDumpTo, options.dump_to);
    if (!options.dump_pass_re.empty()) debug.Bytes(kDumpHloPassRe, options.dump_pass_re);
    if (options.dump_hlo_as_text) debug.Varint(kDumpHloAsText, 1);
  }
  WireWriter build;
  if (!debug.str().empty()) build.Bytes(kDebugOptions, debug.str());
  build.Varint(kNumReplicas, static_cast<uint64_t>(options.num_replicas));
  build.Varint(kNumPartitions, static_cast<uint64_t>(options.num_partitions));
  if (options.num_partitions > 1) {
    if (options.use_spmd_partitioning) build.Varint(kUseSpmdPartitioning, 1);
    if (!options.propagation_to_outputs.empty())
      build.PackedVarints(kPropagationToOutputs, options.propagation_to_outputs);
    if (!options.propagation_to_parameters.empty())
      build.PackedVarints(kPropagationToParameters, options.propagation_to_parameters);
    if (options.use_shardy_partitioner) build.Varint(kUseShardyPartitioner, 1);
  }
  WireWriter writer;
  if (options.parameter_is_tupled_arguments) writer.Varint(kParameterIsTupledArguments, 1);
  writer.Bytes(kExecutableBuildOptions, build.str());
  for (const auto& [name, value] : options.overrides) {
    WireWriter text;
    text.Bytes(kString, value);
    WireWriter entry;
    entry.Bytes(kKey, name);
    entry.Bytes(kValue, text.str());
    writer.Bytes(kEnvOptionOverrides, entry.str());
  }
  return writer.Take();
}

std::map<std::string, std::string> CompilerOptions(const CompileOptions& options) {
  constexpr std::string_view kXlaDump = "xla_dump_";
  std::map<std::string, std::string> result;
  if (!options.dump_to.empty()) result["dump_to"] = options.dump_to;
  if (!options.dump_pass_re.empty()) result["dump_hlo_pass_re"] = options.dump_pass_re;
  for (const auto& [name, value] : options.overrides) {
    const bool is_dump = name.starts_with(kXlaDump);
    result[is_dump ? name.substr(kXlaDump.size() - std::string_view("dump_").size()) : name] =
        value;
  }
  return result;
}

StatusOr<CompileOptions> ParseCompileOptions(std::string_view bytes) {
  CompileOptions options;
  if (const Status status = ParseWhole(bytes, &options); !status.ok())
    return status.WithPrefix("compile options");
  // proto3 leaves out zeros, and a zero count means "not given".
  if (options.num_replicas == 0) options.num_replicas = 1;
  if (options.num_partitions == 0) options.num_partitions = 1;
  if (options.num_replicas < 0 || options.num_partitions < 0 ||
      options.num_replicas > kMaxDevices || options.num_partitions > kMaxDevices) {
    return InvalidArgument("compile options: ", options.num_replicas, " replicas and ",
                           options.num_partitions, " partitions are not a valid number of devices");
  }
  const DeviceAssignment& assignment = options.device_assignment;
  if (options.has_device_assignment && (assignment.num_replicas != options.num_replicas ||
                                        assignment.num_partitions != options.num_partitions)) {
    return InvalidArgument("compile options: the device assignment is for ",
                           assignment.num_replicas, " replicas and ", assignment.num_partitions,
                           " partitions, the program for ", options.num_replicas, " and ",
                           options.num_partitions);
  }
  return options;
}

}  // namespace tripont::pjrt
