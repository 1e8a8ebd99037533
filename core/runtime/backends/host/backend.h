// The host's backend: this process's CPU. Kernels are functions that are called, in pieces on
// oneTBB's threads if they are large; its queue has done what it was given when the call returns.
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_HOST_BACKEND_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_HOST_BACKEND_H_

#include <cstdint>

#include "core/runtime/artifact.h"
#include "core/runtime/backend_registry.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont::host {

// OK if this CPU, or the one that the process behaves as (TRIPONT_CPU), has all that the artifact
// was compiled for; else FAILED_PRECONDITION, naming what it lacks.
TRIPONT_EXPORT Status CheckCpu(const Artifact& artifact);

const BackendRegistration& Registration();

}  // namespace tripont::host

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_HOST_BACKEND_H_
