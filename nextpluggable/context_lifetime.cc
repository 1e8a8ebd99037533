#include "nextpluggable/context_lifetime.h"

#include <atomic>

#include "tensorflow/core/common_runtime/eager/context.h"

namespace tripont::tensorflow {

void KeepForever(::tensorflow::EagerContext& context) {
  // There is one, unless a program resets TensorFlow's; one that is kept is never at the address of
  // another.
  static std::atomic<::tensorflow::EagerContext*> latest{nullptr};
  if (latest.load(std::memory_order_relaxed) == &context) return;
  if (latest.exchange(&context) != &context) context.Ref();
}

}  // namespace tripont::tensorflow
