#include "core/runtime/artifact.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "core/runtime/checksum.h"
#include "core/runtime/record_reader.h"

namespace tripont {
namespace {

constexpr std::string_view kMagic("TRIPONT\0", 8);
constexpr size_t kHeaderSize = 32;
constexpr size_t kSectionSize = 24;
constexpr size_t kCheckedFrom = 24;
constexpr size_t kChecksumAt = 12;
constexpr uint32_t kMaxSections = 64;
constexpr int64_t kViewAlignment = 64;  // as of every array
constexpr int64_t kMaxBytes = int64_t{1} << 46;
constexpr int64_t kMaxDevices = std::numeric_limits<int32_t>::max();  // PJRT's ids have 32 bits
constexpr uint32_t kSections = NumberOf(schema::SectionKind{});       // numbered from 1

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
    if (artifact_.num_replicas > kMaxDevices / artifact_.num_partitions) {
      return InvalidArgument("artifact: ", artifact_.num_replicas, " replicas x ",
                             artifact_.num_partitions, " partitions are more than ", kMaxDevices,
                             " devices");
    }
    if (artifact_.num_threads < 0) {
      return InvalidArgument("artifact: a limit of ", artifact_.num_threads, " threads");
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
    is_set_.resize(artifact_.allocations.size());
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
    if (index < 0 || static_cast<uint64_t>(index) < artifact_.visible_results ||
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
    for (const schema::DynamicDimension& dimension : artifact_.dynamic_results) {
      const int64_t result = dimension.result;
      if (result < 0 || static_cast<uint64_t>(result) >= artifact_.visible_results ||
          dimension.dimension < 0 ||
          static_cast<size_t>(dimension.dimension) >= artifact_.results[result].shape.rank() ||
          !IsHidden(dimension.size_result, PrimitiveType::kS32)) {
        return InvalidArgument("artifact: bad size of dimension ", dimension.dimension,
                               " of result ", result);
      }
    }
    for (const schema::SizeCheck& check : artifact_.size_checks) {
      if (!IsHidden(check.result, PrimitiveType::kPred)) {
        return InvalidArgument("artifact: bad check of sizes by result ", check.result);
      }
    }
    return OkStatus();
  }

  // Which values have an allocation.
  struct Allocated {
    std::vector<bool> parameters;
    std::vector<bool> results;
  };

  Status CheckAllocations() {
    Allocated allocated{.parameters = std::vector<bool>(artifact_.parameters.size()),
                        .results = std::vector<bool>(artifact_.results.size())};
    int64_t temp = 0;
    for (size_t i = 0; i < artifact_.allocations.size(); ++i) {
      const Allocation& allocation = artifact_.allocations[i];
      const auto error = [&](const auto&... parts) {
        return InvalidArgument("artifact: allocation ", i, ": ", parts...);
      };
      const int64_t size = allocation.size;
      if (size < 0 || size > kMaxBytes) return error("size ", size);
      if (allocation.aliased_parameter != -1 && allocation.kind != AllocationKind::kResult)
        return error("only results can alias a parameter");
      switch (allocation.kind) {
        case AllocationKind::kParameter:
          TRIPONT_RETURN_IF_ERROR(
              CheckValue(allocation, artifact_.parameters, allocated.parameters, error));
          break;
        case AllocationKind::kResult:
          TRIPONT_RETURN_IF_ERROR(
              CheckValue(allocation, artifact_.results, allocated.results, error));
          if (allocation.aliased_parameter != -1)
            TRIPONT_RETURN_IF_ERROR(CheckAlias(allocation, allocated.parameters, error));
          break;
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
        case AllocationKind::kView:
          break;
        default:
          return error("unknown kind ", static_cast<int>(allocation.kind));
      }
    }
    for (size_t i = 0; i < allocated.results.size(); ++i) {
      if (!allocated.results[i] && *artifact_.results[i].shape.ByteSize() != 0) {
        return InvalidArgument("artifact: result ", i, " has no allocation");
      }
    }
    return OkStatus();
  }

  // The allocation of one of `values`, which has no other: it is marked in `allocated`.
  static Status CheckValue(const Allocation& allocation, const std::vector<schema::Value>& values,
                           std::vector<bool>& allocated, const auto& error) {
    const int64_t index = allocation.index;
    if (index < 0 || static_cast<size_t>(index) >= values.size())
      return error("no value of index ", index);
    if (allocated[index]) return error("value ", index, " has another allocation too");
    allocated[index] = true;
    if (allocation.size > RoundedSize(values[index].shape) ||
        std::cmp_less(allocation.size, *values[index].shape.ByteSize())) {
      return error(allocation.size, " bytes, but the value is ", values[index].shape);
    }
    return OkStatus();
  }

  // The parameter whose memory a result takes, which has no other: it is marked in `allocated`.
  Status CheckAlias(const Allocation& result, std::vector<bool>& allocated,
                    const auto& error) const {
    const int64_t parameter = result.aliased_parameter;
    if (parameter < 0 || static_cast<size_t>(parameter) >= allocated.size()) {
      return error("no parameter ", parameter, " to alias");
    }
    if (allocated[parameter])
      return error("parameter ", parameter, " is aliased but has another allocation");
    if (!donatable_[parameter])
      return error("parameter ", parameter, " is aliased but not donatable");
    if (*artifact_.parameters[parameter].shape.ByteSize() !=
        *artifact_.results[result.index].shape.ByteSize()) {
      return error("aliases parameter ", parameter, " of another size");
    }
    allocated[parameter] = true;
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
    if (IsView(slice) && !is_set_[slice.allocation])
      return InvalidArgument("reads view ", slice.allocation, " before it is set");
    return OkStatus();
  }

  bool IsView(const Slice& slice) const {
    return artifact_.allocations[slice.allocation].kind == AllocationKind::kView;
  }

  // A slice that is written must not be a parameter's, a constant's or a view's.
  Status CheckWritable(const Slice& slice) const {
    TRIPONT_RETURN_IF_ERROR(CheckSlice(slice));
    const AllocationKind kind = artifact_.allocations[slice.allocation].kind;
    if (kind == AllocationKind::kConstant) return InvalidArgument("writes to a constant");
    if (kind == AllocationKind::kParameter) return InvalidArgument("writes to a parameter");
    if (kind == AllocationKind::kView) return InvalidArgument("writes to a view");
    return OkStatus();
  }

  Status CheckThunks(const std::vector<schema::Thunk>& thunks) {
    for (const schema::Thunk& thunk : thunks)
      TRIPONT_RETURN_IF_ERROR(std::visit([&](const auto& t) { return CheckThunk(t); }, thunk));
    return OkStatus();
  }

  // A thunk and those in it. An error names the thunk that it is about.
  template <typename Thunk>
  Status CheckThunk(const Thunk& thunk) {
    Status status = CheckDebug(thunk.debug);
    if (status.ok()) status = Check(thunk);
    if (!status.ok()) {
      const bool named =
          thunk.debug >= 0 && static_cast<size_t>(thunk.debug) < artifact_.debug.size();
      return status.WithPrefix(
          StrCat("artifact: thunk ", named ? artifact_.debug[thunk.debug].name : "?"));
    }
    if constexpr (std::is_same_v<Thunk, schema::While>) {
      TRIPONT_RETURN_IF_ERROR(CheckThunks(thunk.condition));
      return CheckThunks(thunk.body);
    } else if constexpr (std::is_same_v<Thunk, schema::Conditional>) {
      for (const auto& branch : thunk.branches) TRIPONT_RETURN_IF_ERROR(CheckThunks(branch));
    }
    return OkStatus();
  }

  Status CheckDebug(int32_t debug) const {
    if (debug >= -1 && (debug < 0 || static_cast<size_t>(debug) < artifact_.debug.size()))
      return OkStatus();
    return InvalidArgument("debug information ", debug, " does not exist");
  }

  static Status CheckCost(double cost_ns) {
    if (cost_ns >= 0) return OkStatus();  // false for NaN
    return InvalidArgument("a cost of ", cost_ns, " ns");
  }

  Status Check(const schema::Kernel& kernel) const {
    TRIPONT_RETURN_IF_ERROR(CheckCost(kernel.cost_ns));
    TRIPONT_RETURN_IF_ERROR(CheckFunction(kernel.function));
    if (kernel.work_count < 0 || kernel.grain < 0)
      return InvalidArgument("work count ", kernel.work_count, ", grain ", kernel.grain);
    for (const Slice& slice : kernel.arguments) TRIPONT_RETURN_IF_ERROR(CheckSlice(slice));
    return OkStatus();
  }

  Status Check(const schema::Copy& copy) const {
    TRIPONT_RETURN_IF_ERROR(CheckSlice(copy.source));
    TRIPONT_RETURN_IF_ERROR(CheckWritable(copy.destination));
    if (copy.source.size == copy.destination.size) return OkStatus();
    return InvalidArgument("copies ", copy.source.size, " bytes to ", copy.destination.size);
  }

  Status Check(const schema::While& loop) const {
    TRIPONT_RETURN_IF_ERROR(CheckSlice(loop.predicate));
    if (loop.predicate.size < 1) return InvalidArgument("the predicate has no byte");
    if (loop.trip_count < -1) return InvalidArgument("trip count ", loop.trip_count);
    return OkStatus();
  }

  Status Check(const schema::Conditional& conditional) const {
    const Slice& selector = conditional.selector;
    const bool is_pred = conditional.selector_is_pred;
    TRIPONT_RETURN_IF_ERROR(CheckSlice(selector));
    if (selector.size < (is_pred ? 1 : 4)) return InvalidArgument("the selector is too small");
    if (selector.offset % 4 != 0 && !is_pred) return InvalidArgument("an unaligned selector");
    if (conditional.branches.size() < (is_pred ? 2 : 1))
      return InvalidArgument(conditional.branches.size(), " branches");
    if (conditional.usual < -1 ||
        (conditional.usual >= 0 &&
         std::cmp_greater_equal(conditional.usual, conditional.branches.size()))) {
      return InvalidArgument("the usual branch ", conditional.usual, " of ",
                             conditional.branches.size());
    }
    return OkStatus();
  }

  // Wherever the indices lead, the view lies in its source.
  Status Check(const schema::View& thunk) {
    TRIPONT_RETURN_IF_ERROR(CheckSlice(thunk.source));
    const Slice& view = thunk.view;
    if (view.allocation >= artifact_.allocations.size() || !IsView(view))
      return InvalidArgument("allocation ", view.allocation, " is not a view");
    if (is_set_[view.allocation])
      return InvalidArgument("view ", view.allocation, " is set by two thunks");
    if (view.offset != 0 ||
        view.size != static_cast<uint64_t>(artifact_.allocations[view.allocation].size))
      return InvalidArgument("a part of view ", view.allocation);
    if (view.size > thunk.source.size)
      return InvalidArgument("a view of ", view.size, " bytes of ", thunk.source.size);
    uint64_t room = thunk.source.size - view.size;
    for (const schema::Stride& stride : thunk.strides) {
      TRIPONT_RETURN_IF_ERROR(CheckSlice(stride.index));
      if ((stride.index.size != 4 && stride.index.size != 8) ||
          stride.index.offset % stride.index.size != 0)
        return InvalidArgument("an index of ", stride.index.size, " bytes at ",
                               stride.index.offset);
      if (stride.limit < 0 || stride.stride < 1 || stride.stride % kViewAlignment != 0)
        return InvalidArgument("an index up to ", stride.limit, " times ", stride.stride, " bytes");
      if (static_cast<uint64_t>(stride.limit) > room / static_cast<uint64_t>(stride.stride))
        return InvalidArgument("the index up to ", stride.limit, " times ", stride.stride,
                               " bytes leads out of the array");
      room -= static_cast<uint64_t>(stride.limit) * static_cast<uint64_t>(stride.stride);
    }
    if (thunk.source.offset % kViewAlignment != 0)
      return InvalidArgument("a view at offset ", thunk.source.offset);
    is_set_[view.allocation] = true;
    return OkStatus();
  }

  Status Check(const schema::LibraryCall& call) const {
    TRIPONT_RETURN_IF_ERROR(CheckCost(call.cost_ns));
    for (const schema::Operand& operand : call.operands) {
      TRIPONT_RETURN_IF_ERROR(CheckSlice(operand.slice));
      TRIPONT_RETURN_IF_ERROR(CheckOperand(call, operand));
    }
    for (const schema::Operand& result : call.results) {
      TRIPONT_RETURN_IF_ERROR(CheckWritable(result.slice));
      TRIPONT_RETURN_IF_ERROR(CheckOperand(call, result));
    }
    for (const auto& [name, attribute] : call.attributes) {
      if (const auto* function = std::get_if<schema::FunctionOffset>(&attribute))
        TRIPONT_RETURN_IF_ERROR(CheckFunction(function->offset));
    }
    return OkStatus();
  }

  static Status CheckOperand(const schema::LibraryCall& call, const schema::Operand& operand) {
    if (operand.slice.size >= *operand.shape.ByteSize()) return OkStatus();
    return InvalidArgument("library call ", call.name, ": ", operand.slice.size, " bytes for ",
                           operand.shape);
  }

  Status CheckFunction(int64_t offset) const {
    if (offset >= 0 && static_cast<uint64_t>(offset) < artifact_.code.size()) return OkStatus();
    return InvalidArgument("function at ", offset, " is outside the code of ",
                           artifact_.code.size(), " bytes");
  }

  const Artifact& artifact_;
  std::vector<bool> donatable_;
  std::vector<bool> is_set_;  // views, by the thunks before the one that is looked at
};

template <typename Table>
Status Read(std::string_view section, std::string_view name, const Table& fields,
            Artifact& artifact) {
  const std::string title = StrCat("artifact: section ", name);
  RecordReader reader(section, title);
  reader.ReadFields(artifact, fields);
  return reader.Finish();
}

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
  if (At<uint32_t>(bytes, kChecksumAt) != Crc32(bytes.substr(kCheckedFrom))) {
    return InvalidArgument("the artifact is corrupt: its checksum does not match");
  }
  return OkStatus();
}

void SealArtifact(std::string& bytes) {
  if (bytes.size() < kHeaderSize) return;
  const uint32_t checksum = Crc32(std::string_view(bytes).substr(kCheckedFrom));
  std::memcpy(bytes.data() + kChecksumAt, &checksum, sizeof(checksum));
}

StatusOr<Artifact> ParseArtifact(std::string_view bytes) {
  TRIPONT_RETURN_IF_ERROR(CheckArtifactHeader(bytes));
  const auto count = At<uint32_t>(bytes, 24);
  if (count > kMaxSections || kHeaderSize + count * kSectionSize > bytes.size()) {
    return InvalidArgument("artifact: ", count, " sections do not fit in ", bytes.size(), " bytes");
  }
  std::array<std::string_view, kSections + 1> sections;
  std::array<bool, kSections + 1> present{};
  for (uint32_t i = 0; i < count; ++i) {
    const size_t entry = kHeaderSize + i * kSectionSize;
    const auto kind = At<uint32_t>(bytes, entry);
    const auto offset = At<uint64_t>(bytes, entry + 8);
    const auto size = At<uint64_t>(bytes, entry + 16);
    if (offset > bytes.size() || size > bytes.size() - offset) {
      return InvalidArgument("artifact: section ", kind, " [", offset, ", +", size,
                             ") is outside the ", bytes.size(), " bytes");
    }
    if (kind == 0 || kind > kSections || present[kind]) {
      return InvalidArgument("artifact: section ", kind, " is unknown or there twice");
    }
    present[kind] = true;
    sections[kind] = bytes.substr(offset, size);
  }
  const auto number = [](schema::SectionKind kind) { return static_cast<size_t>(kind); };
  const auto section = [&](schema::SectionKind kind) { return sections[number(kind)]; };
  using enum schema::SectionKind;
  if (!present[number(kMeta)]) return InvalidArgument("artifact: section META is missing");
  Artifact artifact;
  artifact.code = section(kCode);
  artifact.constants = section(kConstants);
  artifact.program = section(kProgram);
  TRIPONT_RETURN_IF_ERROR(Read(section(kMeta), "META", Artifact::Fields(), artifact));
  artifact.visible_results = artifact.results.size();
  if (present[number(kSizes)])
    TRIPONT_RETURN_IF_ERROR(Read(section(kSizes), "SIZES", Artifact::FieldsInSizes(), artifact));
  if (!section(kDebug).empty())
    TRIPONT_RETURN_IF_ERROR(Read(section(kDebug), "DEBUG", Artifact::FieldsInDebug(), artifact));
  TRIPONT_RETURN_IF_ERROR(Checker(artifact).Check());
  return artifact;
}

}  // namespace tripont
