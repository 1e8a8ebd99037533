// Tensors in host memory that go from a CPU's part of a graph to XPU's, or back.
//
// TensorFlow runs each eager op as a small function, and places the arguments that the op wants in
// host memory (shapes, axes, all int32) on the CPU. The tensor then goes to the op through a
// rendezvous, and all eager ops share one: two threads that call the same op at the same time send
// under the same key, and each may get the other's argument, without a word. (On GPUs too:
// TensorFlow's issue 62523.)
#ifndef TRIPONT_NEXTPLUGGABLE_HOST_TRANSFERS_H_
#define TRIPONT_NEXTPLUGGABLE_HOST_TRANSFERS_H_

namespace tripont::tensorflow {

// From now on such tensors travel under a key that has the call's own number.
void SeparateHostTransfers();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_HOST_TRANSFERS_H_
