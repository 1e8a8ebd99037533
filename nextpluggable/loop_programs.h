// Loops in functions without jit_compile, each as one compiled program.
//
// TensorFlow lowers the While ops of a function to Switch and Merge, and then runs every op of every
// iteration by itself. On XPU such an op is a program of its own, and costs more to call than the
// CPU's kernel, which does nothing but compute. The layers of recurrent networks in Keras are such
// loops. So before the loops are lowered, those for XPU that can be compiled as a whole become
// programs. A list of tensors (TensorArray, what a loop keeps for its gradient) cannot go into or out
// of a program. So the ops that make and read a loop's lists belong to its program, and a loop, its
// gradient and all that lies between them are one.
//
// TensorFlow's op _XlaCompile runs such a program. It also decides when to compile: at the first
// call, and for arguments of other shapes at the second call with them. Otherwise, and if the program
// cannot be compiled after all, the loop runs op by op, as all did before.
//
// A loop stays as it is, op by op, where a program would do something else:
// * ops that draw random numbers from the device's state, check, print or call Python,
// * ops that XPU does not compile, or that XLA translates with another meaning (cpu_kernels.h),
// * lists that are read or written at an index that might be out of range, which the ops report and
//   compiled programs do not notice (loop_lists.h),
// * anything on another device between a loop and its gradient.
#ifndef TRIPONT_NEXTPLUGGABLE_LOOP_PROGRAMS_H_
#define TRIPONT_NEXTPLUGGABLE_LOOP_PROGRAMS_H_

namespace tripont::tensorflow {

// From now on this is done. To be called before LowerLoopsWithHostState().
void CompileLoops();

// Registers the kernel of _XlaCompile for XPU: TensorFlow's, but a program that cannot be compiled
// runs op by op, whatever the error.
void RegisterProgramCompiler();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_LOOP_PROGRAMS_H_
