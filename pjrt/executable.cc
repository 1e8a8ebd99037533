// What can be asked of an executable.

#include "pjrt/executable.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "pjrt/call.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"
#include "pjrt/types.h"
#include "pjrt/wire.h"

// Bytes that a caller holds until it calls the deleter that came with them.
struct PJRT_SerializedExecutable {
  std::string bytes;
};
struct PJRT_SerializedCompileOptions {
  std::string bytes;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string bytes;
};

namespace tripont::pjrt {
namespace {

// Field numbers of xla/xla_data.proto.
enum ProgramShapeField : uint32_t { kParameters = 1, kResult = 2 };
enum ShapeField : uint32_t { kElementType = 2, kTupleShapes = 4, kLayout = 5 };
enum LayoutField : uint32_t { kMinorToMajor = 1 };
constexpr uint64_t kTupleType = 13;
// Field numbers of ExecutableAndOptionsProto (xla/pjrt/proto/compile_options.proto): how an
// executable is serialized.
enum ExecutableAndOptionsField : uint32_t {
  kSerializedExecutable = 1,
  kCompileOptions = 2,
  kClientName = 3
};

constexpr std::string_view kHloWithConfigFormat = "hlo_with_config";

// Results are tuples of arrays; those of a program that nests tuples deeper than this have no
// layouts that are known.
constexpr int kDeepestTuple = 16;

// Appends the layout of a serialized ShapeProto of an array, or those of a tuple's elements.
void AppendLayouts(std::string_view shape, std::vector<Layout*>& layouts, int depth = 0) {
  if (depth > kDeepestTuple) return;
  std::vector<int64_t> minor_to_major;
  bool is_tuple = false;
  for (WireReader reader(shape); reader.Next();) {
    if (reader.field() == kElementType) is_tuple = reader.number() == kTupleType;
    if (reader.field() == kTupleShapes) AppendLayouts(reader.bytes(), layouts, depth + 1);
    if (reader.field() != kLayout) continue;
    for (WireReader layout(reader.bytes()); layout.Next();) {
      if (layout.field() == kMinorToMajor) layout.AppendTo(&minor_to_major);
    }
  }
  if (is_tuple) return;
  StatusOr<Layout*> layout = LayoutOf(minor_to_major, minor_to_major.size());
  layouts.push_back(layout.ok() ? *layout : nullptr);
}

// Leaves nothing of a list without any layout, as almost all are, nor of one that is not about
// these values.
void ClearUnlessNeeded(std::vector<Layout*>& layouts, const std::vector<schema::Value>& values) {
  bool needed = false;
  bool fits = layouts.size() == values.size();
  for (size_t i = 0; i < layouts.size() && fits; ++i) {
    if (layouts[i] == nullptr) continue;
    needed = true;
    fits = layouts[i]->minor_to_major.size() == values[i].shape.rank();
  }
  if (!needed || !fits) layouts.clear();
}

// Takes apart what PJRT_Executable_Serialize made, or a bare artifact (made by `tripont compile`),
// which has no options.
Status ReadSerialized(std::string_view bytes, std::string_view* artifact,
                      std::string_view* compile_options) {
  if (CheckArtifactHeader(bytes).ok()) {
    *artifact = bytes;
    return OkStatus();
  }
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.field() == kSerializedExecutable) *artifact = reader.bytes();
    if (reader.field() == kCompileOptions) *compile_options = reader.bytes();
  }
  if (!reader.ok() || artifact->empty()) {
    return InvalidArgument("these ", bytes.size(),
                           " bytes are not a serialized executable of platform ", kPlatformName);
  }
  return OkStatus();
}

}  // namespace

ExecutableInfo::ExecutableInfo(Ref<Executable> executable_share, std::string options, bool outline)
    : executable(std::move(executable_share)), compile_options(std::move(options)) {
  const Artifact& artifact = executable->artifact();
  const std::string_view program_shape = ProgramShapeOf(artifact.program);
  for (WireReader reader(program_shape); reader.Next();) {
    if (reader.field() == kParameters) AppendLayouts(reader.bytes(), parameter_layouts);
    if (reader.field() == kResult) AppendLayouts(reader.bytes(), result_layouts);
  }
  ClearUnlessNeeded(parameter_layouts, artifact.parameters);
  ClearUnlessNeeded(result_layouts, artifact.results);
  const std::span visible(artifact.results.data(), artifact.visible_results);
  for (const schema::Value& result : visible) {
    const size_t number = output_types.size();
    Layout* const layout = result_layouts.empty() ? nullptr : result_layouts[number];
    std::vector<int64_t> dims(result.shape.dimensions.begin(), result.shape.dimensions.end());
    if (layout != nullptr) dims = FromMemoryOrder(dims, *layout);
    SetBufferType(result.shape.type, output_types.emplace_back());
    output_dims.insert(output_dims.end(), dims.begin(), dims.end());
    output_ranks.push_back(result.shape.rank());
    output_memory_kinds.push_back(result.memory_kind.data());
    output_memory_kind_sizes.push_back(result.memory_kind.size());
    output_memories.push_back(MemoryKindFromName(result.memory_kind).value_or(MemoryKind::kDevice));
    output_layouts.push_back(layout != nullptr ? layout : RowMajorLayout(result.shape.rank()));
  }
  // The names that XLA's cost analysis uses.
  costs.AddFloat("flops", static_cast<float>(artifact.costs.flops));
  costs.AddFloat("transcendentals", static_cast<float>(artifact.costs.transcendentals));
  costs.AddFloat("bytes accessed", static_cast<float>(artifact.costs.bytes_accessed));
  costs.AddFloat("optimal_seconds", static_cast<float>(artifact.costs.optimal_nanoseconds * 1e-9));
  optimized_program = outline ? OutlineOfProgram(artifact) : WholeProgram(artifact);
  parameter_shardings = ParameterShardingsOf(artifact.program);
  output_shardings = OutputShardingsOf(artifact.program);
}

StatusOr<PJRT_LoadedExecutable*> LoadExecutable(PJRT_Client* client, Ref<Executable> executable,
                                                std::string compile_options) {
  TRIPONT_ASSIGN_OR_RETURN(CompileOptions options, ParseCompileOptions(compile_options));
  const auto num_devices = static_cast<int64_t>(client->devices.size());
  const auto no_device = [&](int64_t id) {
    return InvalidArgument("program ", executable->name(), " is assigned to device ", id,
                           ", but this client has ", num_devices,
                           " devices (TRIPONT_NUM_DEVICES gives a process more)");
  };
  auto loaded = std::make_unique<PJRT_LoadedExecutable>();
  loaded->client = client;
  loaded->portable = options.compile_portable_executable && !options.has_device_assignment;
  loaded->assigned = options.has_device_assignment;
  if (options.has_device_assignment) {
    loaded->device_assignment = std::move(options.device_assignment);
  } else if (!loaded->portable) {
    // The default: the device asked for, or the first ones.
    DeviceAssignment& assignment = loaded->device_assignment;
    assignment.num_replicas = options.num_replicas;
    assignment.num_partitions = options.num_partitions;
    const int64_t count = options.num_replicas * options.num_partitions;
    // TensorFlow compiles a program for several replicas once for each device, whose ordinal it
    // gives.
    const int64_t own = client->addressable_pointers[0]->description->id;
    const int64_t first = count == 1 ? own + std::max<int64_t>(options.device_ordinal, 0) : 0;
    if (count > num_devices || first > num_devices - count)
      return no_device(std::max(first, num_devices));
    for (int64_t i = 0; i < count; ++i) assignment.device_ids.push_back(first + i);
  }
  const std::vector<int64_t>& ids = loaded->device_assignment.device_ids;
  for (size_t i = 0; i < ids.size(); ++i) {
    PJRT_Device* device = client->device(ids[i]);
    if (device == nullptr) return no_device(ids[i]);
    if (!device->is_addressable()) continue;
    loaded->devices.push_back(device);
    loaded->participants.push_back(static_cast<int64_t>(i));
  }
  if (executable->has_collectives()) {
    const Artifact& program = executable->artifact();
    const int64_t count = program.num_replicas * program.num_partitions;
    const auto assigned = static_cast<int64_t>(ids.size());
    if (count != assigned) {
      return InvalidArgument("program ", executable->name(), " is for ", program.num_replicas,
                             " replicas and ", program.num_partitions,
                             " partitions, but its device assignment has ", assigned, " devices");
    }
    if (loaded->devices.size() < ids.size() && !client->job->mpi_status().ok()) {
      return client->job->mpi_status().WithPrefix(
          StrCat("program ", executable->name(), " spans several processes"));
    }
    loaded->launches = LaunchSeries::Get(client->job, executable->collectives(), executable->name(),
                                         std::vector<int>(ids.begin(), ids.end()),
                                         client->client->options().collective_timeout);
  }
  loaded->info = std::make_shared<const ExecutableInfo>(
      std::move(executable), std::move(compile_options), client->gives_outlines);
  return loaded.release();
}

Status Executable_Destroy(PJRT_Executable_Destroy_Args& args) {
  delete args.executable;
  return OkStatus();
}

Status Executable_Name(PJRT_Executable_Name_Args& args) {
  const std::string& name = args.executable->info->executable->name();
  return Lend(name, args.executable_name, args.executable_name_size);
}

TRIPONT_PJRT_GIVES(Executable_NumReplicas, num_replicas,
                   static_cast<size_t>(args.executable->info->executable->artifact().num_replicas))
TRIPONT_PJRT_GIVES(
    Executable_NumPartitions, num_partitions,
    static_cast<size_t>(args.executable->info->executable->artifact().num_partitions))
TRIPONT_PJRT_GIVES(Executable_NumOutputs, num_outputs, args.executable->info->num_outputs())
TRIPONT_PJRT_GIVES(Executable_SizeOfGeneratedCodeInBytes, size_in_bytes,
                   args.executable->info->executable->memory_stats().generated_code_size)
TRIPONT_PJRT_LENDS(Executable_GetCostAnalysis, properties, num_properties,
                   args.executable->info->costs)

Status Executable_OutputMemoryKinds(PJRT_Executable_OutputMemoryKinds_Args& args) {
  args.num_outputs = args.executable->info->num_outputs();
  args.memory_kinds = args.executable->info->output_memory_kinds.data();
  args.memory_kind_sizes = args.executable->info->output_memory_kind_sizes.data();
  return OkStatus();
}

Status Executable_OutputElementTypes(PJRT_Executable_OutputElementTypes_Args& args) {
  // The API gives the list away as mutable, but callers only read it.
  args.output_types = const_cast<PJRT_Buffer_Type*>(args.executable->info->output_types.data());
  args.num_output_types = args.executable->info->num_outputs();
  return OkStatus();
}

Status Executable_OutputDimensions(PJRT_Executable_OutputDimensions_Args& args) {
  args.num_outputs = args.executable->info->num_outputs();
  args.dims = args.executable->info->output_dims.data();
  args.dim_sizes = args.executable->info->output_ranks.data();
  return OkStatus();
}

Status Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args& args) {
  if (args.program == nullptr || !TRIPONT_PJRT_HAS_FIELD(args.program, PJRT_Program, format_size)) {
    return InvalidArgument(
        "PJRT_Executable_OptimizedProgram: `program` is null or its struct_size is too small");
  }
  const OptimizedProgram& program = args.executable->info->optimized_program;
  if (program.empty()) {
    return Unimplemented("executable ", args.executable->info->executable->name(),
                         " holds no optimised program");
  }
  args.program->format = kHloWithConfigFormat.data();
  args.program->format_size = kHloWithConfigFormat.size();
  if (args.program->code == nullptr) {
    args.program->code_size = program.size();
    return OkStatus();
  }
  if (args.program->code_size < program.size()) {
    return InvalidArgument("the optimised program has ", program.size(),
                           " bytes, but `code_size` is ", args.program->code_size);
  }
  args.program->code_size = program.size();
  program.WriteTo(args.program->code);
  return OkStatus();
}

Status Executable_Serialize(PJRT_Executable_Serialize_Args& args) {
  const ExecutableInfo& info = *args.executable->info;
  WireWriter writer;
  writer.Bytes(kSerializedExecutable, info.executable->bytes());
  writer.Bytes(kCompileOptions, info.compile_options);
  writer.Bytes(kClientName, kPlatformName);
  return GiveBytes(writer.Take(), args, args.serialized_executable,
                   args.serialized_executable_deleter);
}

Status Executable_DeserializeAndLoad(PJRT_Executable_DeserializeAndLoad_Args& args) {
  if (args.serialized_executable == nullptr) {
    return InvalidArgument("PJRT_Executable_DeserializeAndLoad: `serialized_executable` is null");
  }
  std::string_view artifact, options;
  TRIPONT_RETURN_IF_ERROR(ReadSerialized(
      {args.serialized_executable, args.serialized_executable_size}, &artifact, &options));
  if (args.overridden_serialized_compile_options != nullptr) {
    options = {args.overridden_serialized_compile_options,
               args.overridden_serialized_compile_options_size};
  }
  TRIPONT_ASSIGN_OR_RETURN(
      Ref<Executable> executable,
      Executable::Load(std::string(artifact), args.client->client->core().backend()));
  TRIPONT_ASSIGN_OR_RETURN(
      args.loaded_executable,
      LoadExecutable(args.client, std::move(executable), std::string(options)));
  // Whoever loads it may want to see it. Dumps that it was compiled with do not concern this
  // process.
  std::map<std::string, std::string> wanted;
  if (args.overridden_serialized_compile_options != nullptr) {
    TRIPONT_ASSIGN_OR_RETURN(const CompileOptions parsed, ParseCompileOptions(options));
    wanted = CompilerOptions(parsed);
  }
  args.client->client->DumpLoaded(artifact, wanted);
  return OkStatus();
}

Status Executable_Fingerprint(PJRT_Executable_Fingerprint_Args& args) {
  const std::string& fingerprint = args.executable->info->executable->fingerprint();
  return Lend(fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}

// Device memory is host memory, but every byte is counted once: all of it as device memory.
Status Executable_GetCompiledMemoryStats(PJRT_Executable_GetCompiledMemoryStats_Args& args) {
  const ExecutableMemoryStats& stats = args.executable->info->executable->memory_stats();
  args.generated_code_size_in_bytes = stats.generated_code_size;
  args.argument_size_in_bytes = stats.argument_size;
  args.output_size_in_bytes = stats.output_size;
  args.alias_size_in_bytes = stats.alias_size;
  args.temp_size_in_bytes = stats.temp_size;
  args.host_generated_code_size_in_bytes = 0;
  args.host_argument_size_in_bytes = 0;
  args.host_output_size_in_bytes = 0;
  args.host_alias_size_in_bytes = 0;
  args.host_temp_size_in_bytes = 0;
  args.peak_memory_in_bytes = stats.argument_size + stats.output_size - stats.alias_size +
                              stats.temp_size + stats.constant_size;
  args.total_size_in_bytes = args.peak_memory_in_bytes + stats.generated_code_size;
  return OkStatus();
}

Status Executable_GetCompileOptions(PJRT_Executable_GetCompileOptions_Args& args) {
  return GiveBytes(args.executable->info->compile_options, args, args.serialized_compile_options,
                   args.serialized_compile_options_deleter);
}

Status LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args& args) {
  delete args.executable;
  return OkStatus();
}

Status LoadedExecutable_GetExecutable(PJRT_LoadedExecutable_GetExecutable_Args& args) {
  args.executable = new PJRT_Executable{args.loaded_executable->info};
  return OkStatus();
}

TRIPONT_PJRT_LENDS(LoadedExecutable_AddressableDevices, addressable_devices,
                   num_addressable_devices, args.executable->devices)

// No bytes means that the executable is portable and has no assignment.
Status LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args& args) {
  const PJRT_LoadedExecutable& executable = *args.executable;
  return GiveBytes(executable.portable ? "" : executable.device_assignment.Serialize(), args,
                   args.serialized_device_assignment, args.serialized_device_assignment_deleter);
}

Status LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args& args) {
  args.executable->deleted.store(true, std::memory_order_release);
  return OkStatus();
}

TRIPONT_PJRT_GIVES(LoadedExecutable_IsDeleted, is_deleted,
                   args.executable->deleted.load(std::memory_order_acquire))

Status LoadedExecutable_Fingerprint(PJRT_LoadedExecutable_Fingerprint_Args& args) {
  const std::string& fingerprint = args.executable->info->executable->fingerprint();
  return Lend(fingerprint, args.executable_fingerprint, args.executable_fingerprint_size);
}

}  // namespace tripont::pjrt
