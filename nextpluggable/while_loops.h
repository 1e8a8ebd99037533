// While ops whose state includes int32, and conditionals that are one op.
//
// TensorFlow keeps int32 arguments of While in host memory on every device, whatever its kernel
// says. On XPU a While op is compiled as one program, and the kernel that runs the program takes
// each argument for a device buffer: the process would end. tf.while_loop never comes that far,
// because TensorFlow lowers its loops to Switch and Merge; loops that are made in another way
// (functional_ops.While, as in tf.nn.ctc_loss, and tf.raw_ops.While) ask for nothing of the kind.
// Neither does what a session's graph makes in an XLAControlFlowContext, conditionals too: run as
// one op, those have no constants among their arguments, and no lists of tensors.
#ifndef TRIPONT_NEXTPLUGGABLE_WHILE_LOOPS_H_
#define TRIPONT_NEXTPLUGGABLE_WHILE_LOOPS_H_

namespace tripont::tensorflow {

// From now on both are lowered in graphs where they are meant for XPU, also within what is lowered.
// An eager loop is called in a function that is made for it, where it can be lowered. A loop that
// cannot be lowered is an error, UNIMPLEMENTED.
void LowerLoopsWithHostState();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_WHILE_LOOPS_H_
