// Fuzzer: bytes that claim to be an artifact. They are refused with a reason, or every slice lies
// in its allocation. Size and checksum are made right, so that damage gets past them.
#include "core/runtime/artifact.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/runtime/checksum.h"

namespace {

using tripont::Artifact;
using tripont::Slice;
namespace schema = tripont::schema;

constexpr size_t kHeaderSize = 32;
constexpr size_t kChecksum = 12;
constexpr size_t kSize = 16;
constexpr size_t kChecked = 24;

void Check(const Artifact& artifact, const Slice& slice) {
  if (slice.allocation >= artifact.allocations.size()) std::abort();
  const auto size = static_cast<uint64_t>(artifact.allocations[slice.allocation].size);
  if (slice.offset > size || slice.size > size - slice.offset) std::abort();
}

void Check(const Artifact& artifact, const std::vector<schema::Thunk>& thunks);

void Check(const Artifact& artifact, const schema::Kernel& kernel) {
  for (const Slice& slice : kernel.arguments) Check(artifact, slice);
}
void Check(const Artifact& artifact, const schema::Copy& copy) {
  Check(artifact, copy.source);
  Check(artifact, copy.destination);
}
void Check(const Artifact& artifact, const schema::View& view) {
  Check(artifact, view.view);
  Check(artifact, view.source);
  int64_t end = static_cast<int64_t>(view.view.size);
  for (const schema::Stride& stride : view.strides) {
    Check(artifact, stride.index);
    end += stride.limit * stride.stride;
  }
  if (end > static_cast<int64_t>(view.source.size)) std::abort();
}
void Check(const Artifact& artifact, const schema::While& loop) {
  Check(artifact, loop.predicate);
  Check(artifact, loop.condition);
  Check(artifact, loop.body);
}
void Check(const Artifact& artifact, const schema::Conditional& conditional) {
  Check(artifact, conditional.selector);
  for (const auto& branch : conditional.branches) Check(artifact, branch);
}
void Check(const Artifact& artifact, const schema::LibraryCall& call) {
  for (const auto* arrays : {&call.operands, &call.results}) {
    for (const schema::Operand& array : *arrays) Check(artifact, array.slice);
  }
}
void Check(const Artifact& artifact, const std::vector<schema::Thunk>& thunks) {
  for (const schema::Thunk& thunk : thunks)
    std::visit([&](const auto& what) { Check(artifact, what); }, thunk);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  if (size >= kHeaderSize) {
    const uint64_t whole = size;
    std::memcpy(bytes.data() + kSize, &whole, sizeof(whole));
    const uint32_t checksum = tripont::Crc32(std::string_view(bytes).substr(kChecked));
    std::memcpy(bytes.data() + kChecksum, &checksum, sizeof(checksum));
  }
  const auto artifact = tripont::ParseArtifact(bytes);
  if (artifact.ok()) {
    Check(*artifact, artifact->thunks);
  } else if (artifact.status().message().empty()) {
    std::abort();
  }
  return 0;
}
