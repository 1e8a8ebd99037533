// The Profiler extension of the PJRT C API: how jax.profiler and torch_xla's profiler get a profile
// of our devices. The TensorFlow adapter goes through it too (nextpluggable/profiler.cc).
//
// A profiler is made, started, stopped and asked for its data, an XSpace (xspace.h); it may be
// started again, which forgets the data. One profiler of the process can be started at a time.
// Every function may be called from any thread.
#ifndef TRIPONT_PJRT_PROFILER_H_
#define TRIPONT_PJRT_PROFILER_H_

#include <cstdint>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Never destroyed.
PJRT_Extension_Base* ProfilerExtension();

// What the caller's own profiler calls the place that it calls from, by which tools draw an arrow
// from there. From the extensions of an argument struct; 0 if it is not among them.
uint64_t CallerInProfile(const PJRT_Extension_Base* extensions);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_PROFILER_H_
