#include "nextpluggable/adapter.h"
#include "nextpluggable/host_int32.h"
#include "nextpluggable/host_lists.h"
#include "nextpluggable/kernels/kernels.h"

void tripont_tensorflow_init_kernel() {
  using namespace tripont::tensorflow;
  RegisterHostMemoryKernels();
  RegisterHostInt32Kernels();
  RegisterHostListKernels();
  RegisterWhereKernels();
  RegisterUniqueKernels();
  RegisterNonMaxSuppressionKernels();
  RegisterRandomShuffleKernels();
  RegisterAdamKernels();
}
