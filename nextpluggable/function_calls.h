// Calls of functions inside of functions.
#ifndef TRIPONT_NEXTPLUGGABLE_FUNCTION_CALLS_H_
#define TRIPONT_NEXTPLUGGABLE_FUNCTION_CALLS_H_

namespace tripont::tensorflow {

// TensorFlow inlines most calls. One that it does not (of a function with several implementations,
// or marked so) would be compiled as a whole, as XLA translates PartitionedCall like any op, and so
// every shape in the function would have to be constant. Here it runs op by op, as on every other
// device, by TensorFlow's own kernel.
void RegisterFunctionCallKernels();

// A function with jit_compile=True runs on one device, and that is TensorFlow's default device, the
// CPU, unless the program says otherwise. There it could not use variables of XPU. So a call that
// names no device runs on the XPU of its variables, if all of them are there: a Keras model that
// was made on XPU predicts wherever it is called. Eager calls and calls in functions.
void PlaceCompiledCalls();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_FUNCTION_CALLS_H_
