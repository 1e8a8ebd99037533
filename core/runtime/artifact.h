// The executable artifact, parsed. core/schema/artifact.py defines its records and what their fields
// mean, core/compiler/formats/artifact.py the file that they are in.
#ifndef TRIPONT_CORE_RUNTIME_ARTIFACT_H_
#define TRIPONT_CORE_RUNTIME_ARTIFACT_H_

#include <string>
#include <string_view>

#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/schema/artifact.h"

namespace tripont {

// `code`, `constants` and `program` are views of the bytes that were parsed: valid as long as these.
// Results from `visible_results` on are for the runtime alone (never -1 here).
using Artifact = schema::Executable;
using schema::Allocation;
using schema::AllocationKind;
using schema::Slice;

// Checks magic, version, size and checksum only. Messages say what is wrong and with which
// versions.
TRIPONT_EXPORT Status CheckArtifactHeader(std::string_view bytes);

// Sets the checksum of an artifact whose content was changed. Nothing happens to bytes that are too
// few for one.
TRIPONT_EXPORT void SealArtifact(std::string& bytes);

// Parses and checks everything that can be checked without a device: bounds of all sections,
// strings, lists and slices, that allocations fit their parameters, results and constants, that
// functions and imports lie in the code, aliasing and donation. Never reads outside `bytes`,
// whatever they hold. INVALID_ARGUMENT with what is wrong.
TRIPONT_EXPORT StatusOr<Artifact> ParseArtifact(std::string_view bytes);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ARTIFACT_H_
