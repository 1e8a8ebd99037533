#include "pjrt/optimized_program.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "pjrt/wire.h"

namespace tripont::pjrt {
namespace {

// Field numbers of xla/xla.proto and xla/service/hlo.proto.
enum ModuleWithConfigField : uint32_t { kHloModule = 1, kConfig = 2 };
enum ModuleConfigField : uint32_t {
  kEntryComputationLayout = 1,
  kConfigReplicaCount = 4,
  kConfigNumPartitions = 5
};
enum ModuleField : uint32_t {
  kEntryName = 2,
  kComputations = 3,
  kHostProgramShape = 4,
  kEntryId = 6
};
enum ProgramShapeOfModuleField : uint32_t { kShapeOfParameter = 1, kShapeOfResult = 2 };
enum ComputationField : uint32_t {
  kComputationName = 1,
  kInstructions = 2,
  kComputationShape = 4,
  kComputationId = 5,
  kRootId = 6
};
enum InstructionField : uint32_t {
  kInstructionName = 1,
  kOpcode = 2,
  kInstructionShape = 3,
  kParameterNumber = 9,
  kCustomCallTarget = 28,
  kInstructionId = 35,
  kOperandIds = 36,
  kBackendConfig = 43
};

// XLA's client makes a module only if the config holds the entry computation's layout, which is the
// module's program shape.
std::string ConfigOf(const Artifact& artifact) {
  WireWriter config;
  config.Bytes(kEntryComputationLayout, ProgramShapeOf(artifact.program));
  config.Varint(kConfigReplicaCount, static_cast<uint64_t>(artifact.num_replicas));
  config.Varint(kConfigNumPartitions, static_cast<uint64_t>(artifact.num_partitions));
  WireWriter field;
  field.Bytes(kConfig, config.str());
  return field.Take();
}

// A computation of parameters and one call, of all of them, that gives the result. The call's
// configuration is the artifact's fingerprint: programs that differ have outlines that differ.
std::string OutlineOfEntry(const Artifact& artifact, std::string_view name, uint64_t id,
                           std::string_view program_shape) {
  WireWriter computation;
  computation.Bytes(kComputationName, name);
  std::vector<int64_t> parameters;
  auto next_id = static_cast<int64_t>(id);
  std::string_view result;
  for (WireReader reader(program_shape); reader.Next();) {
    if (reader.field() == kShapeOfResult) result = reader.bytes();
    if (reader.field() != kShapeOfParameter) continue;
    WireWriter parameter;
    parameter.Bytes(kInstructionName, "parameter." + std::to_string(parameters.size()));
    parameter.Bytes(kOpcode, "parameter");
    parameter.Bytes(kInstructionShape, reader.bytes());
    parameter.Varint(kParameterNumber, parameters.size());
    parameter.Varint(kInstructionId, static_cast<uint64_t>(++next_id));
    computation.Bytes(kInstructions, parameter.str());
    parameters.push_back(next_id);
  }
  WireWriter root;
  root.Bytes(kInstructionName, "program");
  root.Bytes(kOpcode, "custom-call");
  root.Bytes(kInstructionShape, result);
  root.Bytes(kCustomCallTarget, "tripont$program");
  root.Varint(kInstructionId, static_cast<uint64_t>(++next_id));
  root.PackedVarints(kOperandIds, parameters);
  root.Bytes(kBackendConfig, artifact.fingerprint);
  computation.Bytes(kInstructions, root.str());
  computation.Bytes(kComputationShape, program_shape);
  computation.Varint(kComputationId, id);
  computation.Varint(kRootId, static_cast<uint64_t>(next_id));
  return computation.Take();
}

}  // namespace

void OptimizedProgram::WriteTo(char* out) const {
  for (std::string_view piece : {std::string_view(before), module, std::string_view(after)}) {
    std::memcpy(out, piece.data(), piece.size());
    out += piece.size();
  }
}

std::string_view ProgramShapeOf(std::string_view module) {
  std::string_view program_shape;
  for (WireReader reader(module); reader.Next();) {
    if (reader.field() == kHostProgramShape) program_shape = reader.bytes();
  }
  return program_shape;
}

OptimizedProgram WholeProgram(const Artifact& artifact) {
  OptimizedProgram program;
  program.module = artifact.program;
  if (program.module.empty()) return program;
  program.after = ConfigOf(artifact);
  WireWriter before;
  before.BytesHeader(kHloModule, program.module.size());
  program.before = before.Take();
  return program;
}

OptimizedProgram OutlineOfProgram(const Artifact& artifact) {
  OptimizedProgram program;
  if (artifact.program.empty()) return program;
  WireWriter module;
  std::string_view name, program_shape;
  uint64_t id = 0;
  for (WireReader reader(artifact.program); reader.Next();) {
    if (reader.field() == kComputations) continue;
    if (reader.field() == kEntryName) name = reader.bytes();
    if (reader.field() == kHostProgramShape) program_shape = reader.bytes();
    if (reader.field() == kEntryId) id = reader.number();
    if (reader.type() == WireType::kBytes) {
      module.Bytes(reader.field(), reader.bytes());
    } else {
      module.Varint(reader.field(), reader.number());
    }
  }
  module.Bytes(kComputations, OutlineOfEntry(artifact, name, id, program_shape));
  WireWriter before;
  before.Bytes(kHloModule, module.str());
  program.before = before.Take();
  program.after = ConfigOf(artifact);
  return program;
}

}  // namespace tripont::pjrt
