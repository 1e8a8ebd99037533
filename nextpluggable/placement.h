// Ops that were asked for on XPU and run on the CPU, because XPU has no kernel for them.
//
// TensorFlow places them there by itself (soft placement) and says nothing. Here each kind of op is
// logged once, with severity INFO, and listed. Ops on strings are not: they are at home on the CPU.
// Ops that were asked for on an XPU that does not exist are listed too, and each such device is
// logged once, with severity WARNING.
#ifndef TRIPONT_NEXTPLUGGABLE_PLACEMENT_H_
#define TRIPONT_NEXTPLUGGABLE_PLACEMENT_H_

#include <string>
#include <string_view>

#include "nextpluggable/adapter.h"

namespace tripont::tensorflow {

// Whether the name of a device ("/job:localhost/replica:0/task:0/device:XPU:0") is of this type.
bool IsOn(std::string_view type, const std::string& device);

// Starts to look on: at every eager op, and at every function's graph after placement.
void WatchPlacement();

}  // namespace tripont::tensorflow

extern "C" {
// The names of the kinds so far, with newlines between them, in the order of their appearance.
// Writes at most `size` bytes and a final zero; returns the bytes that all need, without it.
TRIPONT_ADAPTER_EXPORT size_t tripont_tensorflow_ops_on_cpu(char* names, size_t size);
}

#endif  // TRIPONT_NEXTPLUGGABLE_PLACEMENT_H_
