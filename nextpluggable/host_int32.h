// int32 tensors that describe shapes and counters stay in host memory.
//
// TensorFlow keeps int32 tensors of function arguments, results and constants in host memory on
// every device, and the kernels of its device DEFAULT compute with them there: sizes, loop
// counters, indices of slices. tf2xla would compile each of these ops for the device, and every use
// of its result as a shape would then wait for a transfer. So where DEFAULT has such a kernel, XPU
// gets the same, above the compiled one. Inside functions with jit_compile=True nothing changes:
// there they are part of the program.
#ifndef TRIPONT_NEXTPLUGGABLE_HOST_INT32_H_
#define TRIPONT_NEXTPLUGGABLE_HOST_INT32_H_

namespace tripont::tensorflow {

void RegisterHostInt32Kernels();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_HOST_INT32_H_
