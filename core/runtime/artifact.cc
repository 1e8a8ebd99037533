#include "core/runtime/artifact.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/runtime/checksum.h"

namespace tripont {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "artifacts are little-endian and read in place");

constexpr std::string_view kMagic("TRIPONT\0", 8);
constexpr size_t kHeaderSize = 32;
constexpr size_t kSectionSize = 24;
constexpr size_t kCheckedFrom = 24;
constexpr uint32_t kMaxSections = 64;
constexpr uint32_t kMaxRank = 1024;
// Of loops and branches in each other. Reading, checking, loading and running them call themselves
// with up to 0.8 KB of stack a level: so many fit the smallest stacks that frameworks' threads
// have.
constexpr int kMaxNesting = 2000;
constexpr int64_t kMaxBytes = int64_t{1} << 46;
enum Section : uint32_t {
  kMeta = 1,
  kCode = 2,
  kConstants = 3,
  kDebug = 4,
  kProgram = 5,
  kSizes = 6
};

// Whether `text` is UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF.
bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4) return false;
    // What the second byte may be, so that the code point needs as many bytes as it has.
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (int n = 0; n < more; ++n, ++i) {
      if (i == text.size()) return false;
      const auto byte = static_cast<uint8_t>(text[i]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xBF;
    }
  }
  return true;
}

// Reads values one after the other. After an error everything reads as 0 and the first message
// stays.
class Reader {
 public:
  Reader(std::string_view data, std::string_view section) : data_(data), section_(section) {}

  template <typename T>
  T Number() {
    T value{};
    if (!Need(sizeof(T))) return value;
    std::memcpy(&value, data_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }
  uint8_t U8() { return Number<uint8_t>(); }
  uint32_t U32() { return Number<uint32_t>(); }
  int64_t I64() { return Number<int64_t>(); }
  double F64() { return Number<double>(); }

  std::string Bytes() {
    const uint32_t size = U32();
    if (!Need(size)) return {};
    std::string bytes(data_.substr(position_, size));
    position_ += size;
    return bytes;
  }
  std::string String() {
    std::string text = Bytes();
    if (!IsUtf8(text)) Fail("a string is not UTF-8");
    return text;
  }
  // The number of elements of a list whose elements take at least `element_size` bytes: never more
  // than can follow.
  uint32_t Count(size_t element_size) {
    const uint32_t count = U32();
    if (!failed() && count > (data_.size() - position_) / element_size)
      Fail("a list is longer than its section");
    return failed() ? 0 : count;
  }
  Shape ReadShape() {
    const uint8_t code = U8();
    const uint32_t rank = U32();
    if (!failed() && !IsArrayType(code)) Fail(StrCat("unknown element type ", int{code}));
    if (rank > kMaxRank) Fail(StrCat("a shape of rank ", rank));
    if (!Need(size_t{8} * rank)) return {};
    std::vector<int64_t> dimensions(rank);
    for (int64_t& dimension : dimensions) dimension = I64();
    Shape shape{static_cast<PrimitiveType>(code), Dimensions(dimensions)};
    if (const StatusOr<size_t> size = shape.ByteSize(); !size.ok()) Fail(size.status().message());
    return shape;
  }
  Slice ReadSlice() {
    Slice slice;
    slice.allocation = U32();
    slice.offset = Number<uint64_t>();
    slice.size = Number<uint64_t>();
    return slice;
  }

  void Fail(std::string message) {
    if (failed()) return;
    status_ = InvalidArgument("artifact: section ", section_, ": ", message);
  }
  bool failed() const { return !status_.ok(); }
  // Also an error if something is left over.
  Status Finish() {
    if (!failed() && position_ != data_.size()) Fail("there are bytes after its end");
    return status_;
  }

 private:
  bool Need(size_t size) {
    if (!failed() && size > data_.size() - position_) Fail("it ends early");
    return !failed();
  }

  std::string_view data_;
  std::string_view section_;
  size_t position_ = 0;
  Status status_;
};

constexpr size_t kSliceSize = 20;

ArtifactAttribute ReadAttribute(Reader& r) {
  switch (const uint8_t kind = r.U8()) {
    case 0: {
      std::vector<int64_t> values(r.Count(8));
      for (int64_t& value : values) value = r.I64();
      return values;
    }
    case 1: {
      std::vector<double> values(r.Count(8));
      for (double& value : values) value = r.F64();
      return values;
    }
    case 2:
      return r.Bytes();
    case 3:
      return FunctionOffset{r.I64()};
    default:
      r.Fail(StrCat("unknown attribute kind ", int{kind}));
      return std::string();
  }
}

std::vector<ArtifactOperand> ReadOperands(Reader& r) {
  std::vector<ArtifactOperand> operands(r.Count(kSliceSize + 5));
  for (ArtifactOperand& operand : operands) {
    operand.slice = r.ReadSlice();
    operand.shape = r.ReadShape();
  }
  return operands;
}

std::vector<ArtifactThunk> ReadThunks(Reader& r, int depth) {
  std::vector<ArtifactThunk> thunks;
  if (depth > kMaxNesting) {
    r.Fail(StrCat("loops and branches are nested more than ", kMaxNesting, " deep"));
    return thunks;
  }
  // One after the other, not all at once: each level could claim as many as the section has room
  // for.
  const uint32_t count = r.Count(5 + kSliceSize);
  for (uint32_t i = 0; i < count && !r.failed(); ++i) {
    ArtifactThunk& thunk = thunks.emplace_back();
    const uint8_t kind = r.U8();
    thunk.kind = static_cast<ArtifactThunk::Kind>(kind);
    thunk.debug = r.Number<int32_t>();
    if (r.failed()) break;
    switch (thunk.kind) {
      case ArtifactThunk::Kind::kKernel:
        thunk.function = r.I64();
        thunk.work_count = r.I64();
        thunk.grain = r.I64();
        thunk.cost_ns = r.F64();
        thunk.arguments.resize(r.Count(kSliceSize));
        for (Slice& slice : thunk.arguments) slice = r.ReadSlice();
        break;
      case ArtifactThunk::Kind::kCopy:
        thunk.destination = r.ReadSlice();
        thunk.source = r.ReadSlice();
        break;
      case ArtifactThunk::Kind::kWhile:
        thunk.source = r.ReadSlice();
        thunk.trip_count = r.I64();
        thunk.bodies.push_back(ReadThunks(r, depth + 1));
        thunk.bodies.push_back(ReadThunks(r, depth + 1));
        break;
      case ArtifactThunk::Kind::kConditional: {
        thunk.source = r.ReadSlice();
        thunk.selector_is_pred = r.U8() != 0;
        const uint32_t branches = r.Count(4);
        for (uint32_t i = 0; i < branches && !r.failed(); ++i)
          thunk.bodies.push_back(ReadThunks(r, depth + 1));
        break;
      }
      case ArtifactThunk::Kind::kLibraryCall: {
        thunk.name = r.String();
        thunk.cost_ns = r.F64();
        thunk.operands = ReadOperands(r);
        thunk.results = ReadOperands(r);
        const uint32_t attributes = r.Count(5);
        for (uint32_t i = 0; i < attributes && !r.failed(); ++i) {
          std::string name = r.String();
          thunk.attributes.emplace_back(std::move(name), ReadAttribute(r));
        }
        break;
      }
      default:
        r.Fail(StrCat("unknown thunk kind ", int{kind}));
    }
  }
  return thunks;
}

std::vector<ArtifactValue> ReadValues(Reader& r) {
  std::vector<ArtifactValue> values(r.Count(9));
  for (ArtifactValue& value : values) {
    value.shape = r.ReadShape();
    value.memory_kind = r.String();
  }
  return values;
}

Status ReadMeta(std::string_view section, Artifact& artifact) {
  Reader r(section, "META");
  for (std::string* text : {&artifact.name, &artifact.target, &artifact.triple, &artifact.cpu,
                            &artifact.compiler_version, &artifact.fingerprint}) {
    *text = r.String();
  }
  artifact.cpu_features.resize(r.Count(4));
  for (std::string& feature : artifact.cpu_features) feature = r.String();
  artifact.num_replicas = r.I64();
  artifact.num_partitions = r.I64();
  ArtifactCosts& costs = artifact.costs;
  for (double* number :
       {&costs.flops, &costs.transcendentals, &costs.bytes_accessed, &costs.optimal_nanoseconds}) {
    *number = r.F64();
  }
  artifact.parameters = ReadValues(r);
  artifact.results = ReadValues(r);
  artifact.donatable_parameters.resize(r.Count(8));
  for (int64_t& index : artifact.donatable_parameters) index = r.I64();
  artifact.imports.resize(r.Count(12));
  for (auto& [symbol, offset] : artifact.imports) {
    symbol = r.String();
    offset = r.I64();
  }
  artifact.allocations.resize(r.Count(33));
  for (Allocation& allocation : artifact.allocations) {
    allocation.kind = static_cast<AllocationKind>(r.U8());
    allocation.index = r.I64();
    allocation.size = r.I64();
    allocation.offset = r.I64();
    allocation.aliased_parameter = r.I64();
  }
  artifact.thunks = ReadThunks(r, 0);
  return r.Finish();
}

Status ReadDebug(std::string_view section, Artifact& artifact) {
  if (section.empty()) return OkStatus();
  Reader r(section, "DEBUG");
  artifact.debug.resize(r.Count(44));
  for (ArtifactDebugInfo& info : artifact.debug) {
    info.name = r.String();
    info.op_name = r.String();
    info.source_file = r.String();
    info.source_line = r.I64();
    info.text = r.String();
    info.category = r.String();
    info.flops = r.F64();
    info.bytes_accessed = r.F64();
  }
  return r.Finish();
}

Status ReadSizes(std::string_view section, Artifact& artifact) {
  Reader r(section, "SIZES");
  artifact.visible_results = static_cast<size_t>(r.I64());
  artifact.dynamic_results.resize(r.Count(24));
  for (ArtifactDynamicDimension& dimension : artifact.dynamic_results) {
    dimension.result = r.I64();
    dimension.dimension = r.I64();
    dimension.size_result = r.I64();
  }
  artifact.size_checks.resize(r.Count(12));
  for (ArtifactSizeCheck& check : artifact.size_checks) {
    check.result = r.I64();
    check.message = r.String();
  }
  return r.Finish();
}

// ----------------------------------------------------------------------------------------------------
// consistency

class Checker {
 public:
  explicit Checker(const Artifact& artifact) : artifact_(artifact) {}

  Status Check() {
    if (artifact_.num_replicas < 1 || artifact_.num_partitions < 1) {
      return InvalidArgument("artifact: ", artifact_.num_replicas, " replicas x ",
                             artifact_.num_partitions, " partitions");
    }
    TRIPONT_RETURN_IF_ERROR(CheckDonation());
    TRIPONT_RETURN_IF_ERROR(CheckSizes());
    for (const auto& [symbol, offset] : artifact_.imports) {
      if (offset < 0 || offset % 8 != 0 ||
          static_cast<uint64_t>(offset) + 8 > artifact_.code.size()) {
        return InvalidArgument("artifact: the import ", symbol, " at offset ", offset,
                               " is outside the code");
      }
    }
    TRIPONT_RETURN_IF_ERROR(CheckAllocations());
    return CheckThunks(artifact_.thunks);
  }

 private:
  Status CheckDonation() {
    donatable_.resize(artifact_.parameters.size());
    for (const int64_t index : artifact_.donatable_parameters) {
      if (index < 0 || static_cast<size_t>(index) >= donatable_.size() || donatable_[index]) {
        return InvalidArgument("artifact: bad donatable parameter ", index);
      }
      donatable_[index] = true;
    }
    return OkStatus();
  }

  // Whether a result that only the runtime sees is a scalar of `type`.
  bool IsHidden(int64_t index, PrimitiveType type) const {
    if (index < 0 || static_cast<size_t>(index) < artifact_.visible_results ||
        static_cast<size_t>(index) >= artifact_.results.size()) {
      return false;
    }
    const Shape& shape = artifact_.results[index].shape;
    return shape.type == type && shape.rank() == 0;
  }

  Status CheckSizes() {
    if (artifact_.visible_results > artifact_.results.size()) {
      return InvalidArgument("artifact: ", artifact_.visible_results, " of ",
                             artifact_.results.size(), " results are visible");
    }
    for (const ArtifactDynamicDimension& dimension : artifact_.dynamic_results) {
      const int64_t result = dimension.result;
      if (result < 0 || static_cast<size_t>(result) >= artifact_.visible_results ||
          dimension.dimension < 0 ||
          static_cast<size_t>(dimension.dimension) >= artifact_.results[result].shape.rank() ||
          !IsHidden(dimension.size_result, PrimitiveType::kS32)) {
        return InvalidArgument("artifact: bad size of dimension ", dimension.dimension,
                               " of result ", result);
      }
    }
    for (const ArtifactSizeCheck& check : artifact_.size_checks) {
      if (!IsHidden(check.result, PrimitiveType::kPred)) {
        return InvalidArgument("artifact: bad check of sizes by result ", check.result);
      }
    }
    return OkStatus();
  }

  Status CheckAllocations() {
    std::vector<bool> has_parameter(artifact_.parameters.size());
    std::vector<bool> has_result(artifact_.results.size());
    int64_t temp = 0;
    for (size_t i = 0; i < artifact_.allocations.size(); ++i) {
      const Allocation& allocation = artifact_.allocations[i];
      const auto error = [&](const auto&... parts) {
        return InvalidArgument("artifact: allocation ", i, ": ", parts...);
      };
      const int64_t size = allocation.size;
      if (size < 0 || size > kMaxBytes) return error("size ", size);
      const bool is_result = allocation.kind == AllocationKind::kResult;
      if (allocation.aliased_parameter != -1 && !is_result)
        return error("only results can alias a parameter");
      switch (allocation.kind) {
        case AllocationKind::kParameter:
        case AllocationKind::kResult: {
          std::vector<bool>& seen = is_result ? has_result : has_parameter;
          const std::vector<ArtifactValue>& values =
              is_result ? artifact_.results : artifact_.parameters;
          const int64_t index = allocation.index;
          if (index < 0 || static_cast<size_t>(index) >= values.size())
            return error("no value of index ", index);
          if (seen[index]) return error("value ", index, " has another allocation too");
          seen[index] = true;
          if (size > RoundedSize(values[index].shape)) {
            return error(size, " bytes, but the value is ", values[index].shape);
          }
          if (allocation.aliased_parameter == -1) break;
          const int64_t parameter = allocation.aliased_parameter;
          if (parameter < 0 || static_cast<size_t>(parameter) >= has_parameter.size()) {
            return error("no parameter ", parameter, " to alias");
          }
          if (has_parameter[parameter])
            return error("parameter ", parameter, " is aliased but has another allocation");
          if (!donatable_[parameter])
            return error("parameter ", parameter, " is aliased but not donatable");
          if (*artifact_.parameters[parameter].shape.ByteSize() !=
              *values[index].shape.ByteSize()) {
            return error("aliases parameter ", parameter, " of another size");
          }
          has_parameter[parameter] = true;
          break;
        }
        case AllocationKind::kConstant:
          if (allocation.offset < 0 || allocation.offset % 64 != 0 ||
              static_cast<uint64_t>(allocation.offset) > artifact_.constants.size() ||
              static_cast<uint64_t>(size) >
                  artifact_.constants.size() - static_cast<uint64_t>(allocation.offset)) {
            return error("a constant of ", size, " bytes at ", allocation.offset,
                         " is outside the constants");
          }
          break;
        case AllocationKind::kTemp:
          temp += (size + 63) / 64 * 64;
          if (temp > kMaxBytes)
            return error("the temporary arena has more than ", kMaxBytes, " bytes");
          break;
        default:
          return error("unknown kind ", static_cast<int>(allocation.kind));
      }
    }
    for (size_t i = 0; i < has_result.size(); ++i) {
      if (!has_result[i] && *artifact_.results[i].shape.ByteSize() != 0) {
        return InvalidArgument("artifact: result ", i, " has no allocation");
      }
    }
    return OkStatus();
  }

  static int64_t RoundedSize(const Shape& shape) {
    return static_cast<int64_t>((*shape.ByteSize() + 63) / 64 * 64);
  }

  Status CheckSlice(const Slice& slice) const {
    if (slice.allocation >= artifact_.allocations.size()) {
      return InvalidArgument("slice of allocation ", slice.allocation, ", which does not exist");
    }
    const auto size = static_cast<uint64_t>(artifact_.allocations[slice.allocation].size);
    if (slice.offset > size || slice.size > size - slice.offset) {
      return InvalidArgument("slice [", slice.offset, ", +", slice.size, ") is outside allocation ",
                             slice.allocation, " of ", size, " bytes");
    }
    return OkStatus();
  }

  // A slice that is written must not be a parameter's or a constant's.
  Status CheckWritable(const Slice& slice) const {
    TRIPONT_RETURN_IF_ERROR(CheckSlice(slice));
    const AllocationKind kind = artifact_.allocations[slice.allocation].kind;
    if (kind == AllocationKind::kConstant) return InvalidArgument("writes to a constant");
    if (kind == AllocationKind::kParameter) return InvalidArgument("writes to a parameter");
    return OkStatus();
  }

  Status CheckThunks(const std::vector<ArtifactThunk>& thunks) const {
    for (const ArtifactThunk& thunk : thunks) {
      if (const Status status = CheckThunk(thunk); !status.ok()) {
        const bool named =
            thunk.debug >= 0 && static_cast<size_t>(thunk.debug) < artifact_.debug.size();
        return status.WithPrefix(
            StrCat("artifact: thunk ", named ? artifact_.debug[thunk.debug].name : "?"));
      }
      for (const std::vector<ArtifactThunk>& body : thunk.bodies)
        TRIPONT_RETURN_IF_ERROR(CheckThunks(body));
    }
    return OkStatus();
  }

  Status CheckThunk(const ArtifactThunk& thunk) const {
    if (thunk.debug < -1 ||
        (thunk.debug >= 0 && static_cast<size_t>(thunk.debug) >= artifact_.debug.size())) {
      return InvalidArgument("debug information ", thunk.debug, " does not exist");
    }
    if (std::isnan(thunk.cost_ns) || thunk.cost_ns < 0)
      return InvalidArgument("a cost of ", thunk.cost_ns, " ns");
    switch (thunk.kind) {
      case ArtifactThunk::Kind::kKernel:
        TRIPONT_RETURN_IF_ERROR(CheckFunction(thunk.function));
        if (thunk.work_count < 0 || thunk.grain < 0) {
          return InvalidArgument("work count ", thunk.work_count, ", grain ", thunk.grain);
        }
        for (const Slice& slice : thunk.arguments) TRIPONT_RETURN_IF_ERROR(CheckSlice(slice));
        return OkStatus();
      case ArtifactThunk::Kind::kCopy:
        TRIPONT_RETURN_IF_ERROR(CheckSlice(thunk.source));
        TRIPONT_RETURN_IF_ERROR(CheckWritable(thunk.destination));
        if (thunk.source.size != thunk.destination.size) {
          return InvalidArgument("copies ", thunk.source.size, " bytes to ",
                                 thunk.destination.size);
        }
        return OkStatus();
      case ArtifactThunk::Kind::kWhile:
        TRIPONT_RETURN_IF_ERROR(CheckSlice(thunk.source));
        if (thunk.source.size < 1) return InvalidArgument("the predicate has no byte");
        if (thunk.trip_count < -1) return InvalidArgument("trip count ", thunk.trip_count);
        return OkStatus();
      case ArtifactThunk::Kind::kConditional:
        TRIPONT_RETURN_IF_ERROR(CheckSlice(thunk.source));
        if (thunk.source.size < (thunk.selector_is_pred ? 1 : 4))
          return InvalidArgument("the selector is too small");
        if (thunk.source.offset % 4 != 0 && !thunk.selector_is_pred)
          return InvalidArgument("an unaligned selector");
        if (thunk.bodies.size() < (thunk.selector_is_pred ? 2 : 1)) {
          return InvalidArgument(thunk.bodies.size(), " branches");
        }
        return OkStatus();
      case ArtifactThunk::Kind::kLibraryCall: {
        for (const ArtifactOperand& operand : thunk.operands) {
          TRIPONT_RETURN_IF_ERROR(CheckSlice(operand.slice));
          TRIPONT_RETURN_IF_ERROR(CheckOperand(thunk, operand));
        }
        for (const ArtifactOperand& result : thunk.results) {
          TRIPONT_RETURN_IF_ERROR(CheckWritable(result.slice));
          TRIPONT_RETURN_IF_ERROR(CheckOperand(thunk, result));
        }
        for (const auto& [name, attribute] : thunk.attributes) {
          if (const auto* function = std::get_if<FunctionOffset>(&attribute)) {
            TRIPONT_RETURN_IF_ERROR(CheckFunction(function->offset));
          }
        }
        return OkStatus();
      }
    }
    return InvalidArgument("unknown kind");
  }

  static Status CheckOperand(const ArtifactThunk& thunk, const ArtifactOperand& operand) {
    if (operand.slice.size >= *operand.shape.ByteSize()) return OkStatus();
    return InvalidArgument("library call ", thunk.name, ": ", operand.slice.size, " bytes for ",
                           operand.shape);
  }

  Status CheckFunction(int64_t offset) const {
    if (offset >= 0 && static_cast<uint64_t>(offset) < artifact_.code.size()) return OkStatus();
    return InvalidArgument("function at ", offset, " is outside the code of ",
                           artifact_.code.size(), " bytes");
  }

  const Artifact& artifact_;
  std::vector<bool> donatable_;
};

template <typename T>
T At(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

}  // namespace

Status CheckArtifactHeader(std::string_view bytes) {
  if (bytes.size() < kHeaderSize || bytes.substr(0, kMagic.size()) != kMagic) {
    return InvalidArgument("not a tripont artifact (", bytes.size(),
                           " bytes; the magic number is missing)");
  }
  const auto version = At<uint32_t>(bytes, 8);
  if (version != kArtifactFormatVersion) {
    return FailedPrecondition("artifact of format ", version,
                              ", but this version of tripont reads format ", kArtifactFormatVersion,
                              ": compile the program again");
  }
  if (const auto size = At<uint64_t>(bytes, 16); size != bytes.size()) {
    return InvalidArgument("an artifact of ", size, " bytes is truncated or padded: ", bytes.size(),
                           " bytes given");
  }
  if (At<uint32_t>(bytes, 12) != Crc32(bytes.substr(kCheckedFrom))) {
    return InvalidArgument("the artifact is corrupt: its checksum does not match");
  }
  return OkStatus();
}

StatusOr<Artifact> ParseArtifact(std::string_view bytes) {
  TRIPONT_RETURN_IF_ERROR(CheckArtifactHeader(bytes));
  const auto count = At<uint32_t>(bytes, 24);
  if (count > kMaxSections || kHeaderSize + count * kSectionSize > bytes.size()) {
    return InvalidArgument("artifact: ", count, " sections do not fit in ", bytes.size(), " bytes");
  }
  std::array<std::string_view, kSizes + 1> sections;
  std::array<bool, kSizes + 1> present{};
  for (uint32_t i = 0; i < count; ++i) {
    const size_t entry = kHeaderSize + i * kSectionSize;
    const auto kind = At<uint32_t>(bytes, entry);
    const auto offset = At<uint64_t>(bytes, entry + 8);
    const auto size = At<uint64_t>(bytes, entry + 16);
    if (offset > bytes.size() || size > bytes.size() - offset) {
      return InvalidArgument("artifact: section ", kind, " [", offset, ", +", size,
                             ") is outside the ", bytes.size(), " bytes");
    }
    if (kind < kMeta || kind > kSizes || present[kind]) {
      return InvalidArgument("artifact: section ", kind, " is unknown or there twice");
    }
    present[kind] = true;
    sections[kind] = bytes.substr(offset, size);
  }
  if (!present[kMeta]) return InvalidArgument("artifact: section META is missing");
  Artifact artifact;
  artifact.code = sections[kCode];
  artifact.constants = sections[kConstants];
  artifact.program = sections[kProgram];
  TRIPONT_RETURN_IF_ERROR(ReadMeta(sections[kMeta], artifact));
  artifact.visible_results = artifact.results.size();
  if (present[kSizes]) TRIPONT_RETURN_IF_ERROR(ReadSizes(sections[kSizes], artifact));
  TRIPONT_RETURN_IF_ERROR(ReadDebug(sections[kDebug], artifact));
  TRIPONT_RETURN_IF_ERROR(Checker(artifact).Check());
  return artifact;
}

}  // namespace tripont
