// The kernels that the adapter registers through TensorFlow's C API.
#ifndef TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_
#define TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_

#include "nextpluggable/adapter.h"

namespace tripont::tensorflow {

void RegisterHostMemoryKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_
