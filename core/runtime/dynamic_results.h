// Results whose sizes depend on values: a program gives them with their bounds' shapes, and their
// sizes beside them (core/compiler/sizes/resolve.py).
#ifndef TRIPONT_CORE_RUNTIME_DYNAMIC_RESULTS_H_
#define TRIPONT_CORE_RUNTIME_DYNAMIC_RESULTS_H_

#include <span>

#include "core/runtime/buffer.h"
#include "core/runtime/executable.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// Whether the results of a program are not yet what its caller is to get.
inline bool NeedsCutting(const Artifact& artifact) {
  return artifact.visible_results < artifact.results.size();
}

// Puts arrays of the sizes that the program has computed in the place of the visible results that
// have such sizes. Blocks until the program is done, because nobody can say what a buffer's shape
// is before. `results`: all results of one execution; those that are not visible become null, and
// all of them where it fails. INVALID_ARGUMENT if the program's arguments break a rule about sizes:
// the message says which; the program's own error if it failed.
TRIPONT_EXPORT Status CutResults(const Executable& executable, std::span<Ref<Buffer>> results);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_DYNAMIC_RESULTS_H_
