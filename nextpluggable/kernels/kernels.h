// The kernels that the adapter registers through TensorFlow's C API, written with the header that
// users have.
#ifndef TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_
#define TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_

#include <cstdio>
#include <string>

#include "nextpluggable/include/tripont/tensorflow_kernel.h"

namespace tripont::tensorflow {

void RegisterHostMemoryKernels();         // what TensorFlow itself reads on the host
void RegisterWhereKernels();              // Where: sizes that depend on values
void RegisterUniqueKernels();             // Unique, UniqueWithCounts
void RegisterNonMaxSuppressionKernels();  // NonMaxSuppressionV3, V4, V5
void RegisterAdamKernels();               // ResourceApplyAdam, fused and in place

// TensorFlow's types of fixed size that a device buffer can have, with the C++ type that holds one.
template <typename Visit>
void ForEachType(const Visit& visit) {
  visit.template operator()<bool>(TF_BOOL);
  visit.template operator()<int8_t>(TF_INT8);
  visit.template operator()<uint8_t>(TF_UINT8);
  visit.template operator()<int16_t>(TF_INT16);
  visit.template operator()<uint16_t>(TF_UINT16);
  visit.template operator()<int32_t>(TF_INT32);
  visit.template operator()<uint32_t>(TF_UINT32);
  visit.template operator()<int64_t>(TF_INT64);
  visit.template operator()<uint64_t>(TF_UINT64);
  visit.template operator()<float>(TF_FLOAT);
  visit.template operator()<double>(TF_DOUBLE);
}

template <typename Implementation>
void Register(const Kernel& kernel) {
  const std::string error = RegisterKernel<Implementation>(kernel);
  if (error.empty()) return;
  (void)std::fprintf(stderr, "tripont: no kernel of its own for %s: %s\n", kernel.op.c_str(),
                     error.c_str());
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_KERNELS_KERNELS_H_
