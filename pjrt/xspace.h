// XSpace: the protobuf message that TensorBoard, XProf, jax.profiler and tf.profiler read profiles
// from (tsl/profiler/protobuf/xplane.proto).
//
// A plane holds lines, a line events; what events have in common is kept once, in the plane. Ours:
//
//   /device:CUSTOM:XPU:<id>  one a device. Line "XLA Modules": executions, by the program's name.
//                            Line "XLA Ops": runs of thunks, by the instruction's name, with its
//                            kind, text, source line, arithmetic and bytes; a loop's event spans
//                            those of its iterations. "CUSTOM" is the word by which the tools know
//                            devices that are neither GPUs nor TPUs.
//   /host:CPU                compiles and transfers, a line a thread. Frameworks have a plane of
//                            that name and one line a thread too: the tools merge them.
//   /host:metadata           the optimised HLO of the programs that ran.
#ifndef TRIPONT_PJRT_XSPACE_H_
#define TRIPONT_PJRT_XSPACE_H_

#include <string>

#include "pjrt/profile_recording.h"

namespace tripont::pjrt {

// The serialized message.
std::string ToXSpace(const RecordedProfile& profile);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_XSPACE_H_
