// Lists of tensors (TensorArray, what loops keep for their gradients) on the host.
//
// A list is an object of the host, which no single compiled op can take or give (inside functions
// with jit_compile=True it is part of the program). So the ops on lists are, on XPU too, those of
// the CPU: TensorFlow moves elements between device and host memory where they go in and out.
#ifndef TRIPONT_NEXTPLUGGABLE_HOST_LISTS_H_
#define TRIPONT_NEXTPLUGGABLE_HOST_LISTS_H_

namespace tripont::tensorflow {

void RegisterHostListKernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_HOST_LISTS_H_
