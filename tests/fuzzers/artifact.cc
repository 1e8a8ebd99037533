// Fuzzer: bytes that claim to be an artifact. They are refused with a reason, or every slice lies
// in its allocation. Size and checksum are made right, so that damage gets past them.
#include "core/runtime/artifact.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "core/runtime/checksum.h"

namespace {

using tripont::Artifact;
using tripont::ArtifactThunk;
using tripont::Slice;

constexpr size_t kHeaderSize = 32;
constexpr size_t kChecksum = 12;
constexpr size_t kSize = 16;
constexpr size_t kChecked = 24;

void Check(const Artifact& artifact, const Slice& slice) {
  if (slice.allocation >= artifact.allocations.size()) std::abort();
  const auto size = static_cast<uint64_t>(artifact.allocations[slice.allocation].size);
  if (slice.offset > size || slice.size > size - slice.offset) std::abort();
}

void Check(const Artifact& artifact, const std::vector<ArtifactThunk>& thunks) {
  for (const ArtifactThunk& thunk : thunks) {
    for (const Slice& slice : thunk.arguments) Check(artifact, slice);
    for (const auto* arrays : {&thunk.operands, &thunk.results}) {
      for (const auto& array : *arrays) Check(artifact, array.slice);
    }
    if (thunk.kind == ArtifactThunk::Kind::kCopy) {
      Check(artifact, thunk.source);
      Check(artifact, thunk.destination);
    }
    for (const auto& body : thunk.bodies) Check(artifact, body);
  }
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
