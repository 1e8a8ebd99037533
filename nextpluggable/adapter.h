// The adapter's entry points: what loader.cc finds in libtripont_tensorflow.so.
//
// The adapter is two libraries, because one of them must be safe to load into any TensorFlow:
//
//   tensorflow-plugins/libtripont_plugin.so
//       loader.cc. TensorFlow opens it on `import tensorflow`. It uses TensorFlow's C API alone,
//       compares versions, and opens the other library if they agree.
//   tripont/lib/libtripont_tensorflow.so
//       everything else. It is compiled against TensorFlow's C++ headers and belongs to one version
//       of TensorFlow.
//
// Both find the core, tripont/lib/libtripont.so, by path: one core serves every framework of the
// process.
#ifndef TRIPONT_NEXTPLUGGABLE_ADAPTER_H_
#define TRIPONT_NEXTPLUGGABLE_ADAPTER_H_

#include "tensorflow/core/common_runtime/next_pluggable_device/c/plugin_c_api.h"

#define TRIPONT_ADAPTER_EXPORT __attribute__((visibility("default")))

extern "C" {

// TFNPD_InitPlugin of the adapter: makes the XLA backend, fills `params` and returns the table of
// device functions. `core` is libtripont.so's handle. Where a plugin has registered XPU before, the
// device type that `params` name already gets no devices, and nothing else is registered.
typedef const TFNPD_Api* TripontTensorflowInitPlugin(void* core, TFNPD_PluginParams* params,
                                                     TF_Status* status);
TRIPONT_ADAPTER_EXPORT TripontTensorflowInitPlugin tripont_tensorflow_init_plugin;

// GetPjrtApi of the adapter: the core's table. To be called after the first.
typedef const PJRT_Api* TripontTensorflowPjrtApi();
TRIPONT_ADAPTER_EXPORT TripontTensorflowPjrtApi tripont_tensorflow_pjrt_api;

// Registers the kernels of nextpluggable/kernels.
typedef void TripontTensorflowInitKernel();
TRIPONT_ADAPTER_EXPORT TripontTensorflowInitKernel tripont_tensorflow_init_kernel;
}

namespace tripont::tensorflow {

inline constexpr char kDeviceType[] = "XPU";
// The device of symbolic execution, while a TensorFlow graph becomes HLO.
inline constexpr char kCompilationDevice[] = "XLA_XPU_JIT";

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_ADAPTER_H_
