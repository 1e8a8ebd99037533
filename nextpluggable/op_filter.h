// Which ops the device takes from TensorFlow's compiler bridge.
#ifndef TRIPONT_NEXTPLUGGABLE_OP_FILTER_H_
#define TRIPONT_NEXTPLUGGABLE_OP_FILTER_H_

#include <string_view>

namespace tripont::tensorflow {

// Whether tf2xla's kernel of this op is registered for XLA_XPU_JIT and XPU. An op that is dropped
// is placed on the CPU by TensorFlow, unless the adapter has a kernel of its own for it.
bool KeepOp(std::string_view op);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_OP_FILTER_H_
