// The functions of TFNPD_Api: what TensorFlow's NextPluggableDevice asks of a plugin besides PJRT.
#ifndef TRIPONT_NEXTPLUGGABLE_DEVICE_FUNCTIONS_H_
#define TRIPONT_NEXTPLUGGABLE_DEVICE_FUNCTIONS_H_

#include "tensorflow/core/common_runtime/next_pluggable_device/c/plugin_c_api.h"

namespace tripont::tensorflow {

// A table in which no function is null. TensorFlow 2.21 does everything on tensors through PJRT, so
// the functions for transfers between tensors answer UNIMPLEMENTED; events are ready from the
// start, and the allocator hands out host memory. TFNPD_GetDeviceCount answers 0 and
// TFNPD_InitPluginInternalDeviceStates does nothing: plugin.cc puts its own in their places.
TFNPD_Api DeviceFunctions();

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_DEVICE_FUNCTIONS_H_
