// All kernels of the adapter.
#ifndef TRIPONT_NEXTPLUGGABLE_KERNELS_REGISTER_H_
#define TRIPONT_NEXTPLUGGABLE_KERNELS_REGISTER_H_

namespace tripont::tensorflow {

// Registers them with TensorFlow. After RegisterXlaDevice: what is compiled decides what is needed
// besides.
void RegisterAllKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_KERNELS_REGISTER_H_
