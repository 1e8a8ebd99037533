// TF_InitProfiler: how tf.profiler and Keras' TensorBoard callback get a profile of our devices.
#ifndef TRIPONT_NEXTPLUGGABLE_PROFILER_H_
#define TRIPONT_NEXTPLUGGABLE_PROFILER_H_

#include "tensorflow/c/experimental/pluggable_profiler/pluggable_profiler.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::tensorflow {

// Registers the profiler of the core's PJRT extension. pjrt: the core's table, or one without that
// extension: then profiles hold nothing of ours.
void InitProfiler(const PJRT_Api* pjrt, TF_ProfilerRegistrationParams* params, TF_Status* status);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_PROFILER_H_
