// The Custom Partitioner extension of the PJRT C API: functions of the framework's process that say
// how a custom call is partitioned over several devices (JAX's custom_partitioning).
//
// The compiler asks them through core/runtime/partitioners.h.
#ifndef TRIPONT_PJRT_CUSTOM_PARTITIONER_H_
#define TRIPONT_PJRT_CUSTOM_PARTITIONER_H_

#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Never destroyed.
PJRT_Extension_Base* CustomPartitionerExtension();

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_CUSTOM_PARTITIONER_H_
