#include "nextpluggable/kernels/kernels.h"

void tripont_tensorflow_init_kernel() { tripont::tensorflow::RegisterHostMemoryKernels(); }
