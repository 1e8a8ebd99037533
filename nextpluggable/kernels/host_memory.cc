#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

// TensorFlow keeps int32 constants in host memory on every device, and sends each through an op so
// that the device may make it its own. Compiled, that op would read the host's tensor as if it were
// a buffer.
struct EagerConst {
  void Compute(Context& context) { context.Forward(0, 0); }
};

}  // namespace

void RegisterHostMemoryKernels() {
  Register<EagerConst>(
      Kernel("_EagerConst").Type("T", TF_INT32).HostMemory("input").HostMemory("output"));
}

}  // namespace tripont::tensorflow
