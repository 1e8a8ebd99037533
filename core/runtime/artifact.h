// The executable artifact, parsed: a mirror of core/compiler/formats/artifact.py, which defines the format
// and what fields mean.
#ifndef TRIPONT_CORE_RUNTIME_ARTIFACT_H_
#define TRIPONT_CORE_RUNTIME_ARTIFACT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont {

inline constexpr uint32_t kArtifactFormatVersion = 2;

struct Slice {
  uint32_t allocation = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

enum class AllocationKind : uint8_t { kParameter = 0, kResult = 1, kConstant = 2, kTemp = 3 };

struct Allocation {
  AllocationKind kind = AllocationKind::kTemp;
  int64_t index = 0;
  int64_t size = 0;
  int64_t offset = 0;
  int64_t aliased_parameter = -1;
};

struct ArtifactOperand {
  Slice slice;
  Shape shape;
};

// A library attribute as written: integers, floats, bytes or the offset of a function in the code.
struct FunctionOffset {
  int64_t offset = 0;
};
using ArtifactAttribute =
    std::variant<std::vector<int64_t>, std::vector<double>, std::string, FunctionOffset>;

struct ArtifactThunk {
  enum class Kind : uint8_t {
    kKernel = 0,
    kCopy = 1,
    kWhile = 2,
    kConditional = 3,
    kLibraryCall = 4
  };
  Kind kind = Kind::kKernel;
  int32_t debug = -1;
  // Kernel
  int64_t function = 0;
  int64_t work_count = 0;
  int64_t grain = 0;
  double cost_ns = 0;  // library calls too
  std::vector<Slice> arguments;
  // Copy: destination, source. While: predicate. Conditional: selector.
  Slice destination;
  Slice source;
  int64_t trip_count = -1;
  bool selector_is_pred = false;
  // While: condition, body. Conditional: the branches.
  std::vector<std::vector<ArtifactThunk>> bodies;
  // Library call
  std::string name;
  std::vector<ArtifactOperand> operands;
  std::vector<ArtifactOperand> results;
  std::vector<std::pair<std::string, ArtifactAttribute>> attributes;
};

struct ArtifactValue {
  Shape shape;
  std::string memory_kind;
};

struct ArtifactDebugInfo {
  std::string name;
  std::string op_name;
  std::string source_file;
  int64_t source_line = 0;
  std::string text;
  std::string category;
  double flops = 0;           // of one run; 0: none, or not known
  double bytes_accessed = 0;  // operands and results, once each
};

// Dimension `dimension` of result `result` is a bound; result `size_result`, s32[], is its size.
struct ArtifactDynamicDimension {
  int64_t result = 0;
  int64_t dimension = 0;
  int64_t size_result = 0;
};

// Unless result `result`, pred[], is true, the execution has failed, and `message` says why.
struct ArtifactSizeCheck {
  int64_t result = 0;
  std::string message;
};

struct ArtifactCosts {
  double flops = 0;
  double transcendentals = 0;
  double bytes_accessed = 0;
  double optimal_nanoseconds = 0;
};

struct Artifact {
  std::string name;
  std::string target;
  std::string triple;
  std::string cpu;
  std::string compiler_version;
  std::string fingerprint;
  std::vector<std::string> cpu_features;
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  ArtifactCosts costs;
  std::vector<ArtifactValue> parameters;
  std::vector<ArtifactValue> results;
  // Results that a caller sees: the first ones. The others are sizes of these and truth values.
  size_t visible_results = 0;
  std::vector<ArtifactDynamicDimension> dynamic_results;
  std::vector<ArtifactSizeCheck> size_checks;
  std::vector<int64_t> donatable_parameters;
  std::vector<std::pair<std::string, int64_t>> imports;
  std::vector<Allocation> allocations;
  std::vector<ArtifactThunk> thunks;
  std::vector<ArtifactDebugInfo> debug;
  // Views of the bytes that were parsed: valid as long as these.
  std::string_view code;
  std::string_view constants;
  std::string_view program;
};

// Checks magic, version, size and checksum only. Messages say what is wrong and with which
// versions.
TRIPONT_EXPORT Status CheckArtifactHeader(std::string_view bytes);

// Parses and checks everything that can be checked without a device: bounds of all sections,
// strings, lists and slices, that allocations fit their parameters, results and constants, that
// functions and imports lie in the code, aliasing and donation. Never reads outside `bytes`,
// whatever they hold. INVALID_ARGUMENT with what is wrong.
TRIPONT_EXPORT StatusOr<Artifact> ParseArtifact(std::string_view bytes);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ARTIFACT_H_
