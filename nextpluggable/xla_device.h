// What TensorFlow's compiler bridge (tf2xla, _XlaLaunch, compilation on demand) needs to know of
// the device.
//
// Functions of TensorFlow's C++ API are behind these, so that few files include its headers.
#ifndef TRIPONT_NEXTPLUGGABLE_XLA_DEVICE_H_
#define TRIPONT_NEXTPLUGGABLE_XLA_DEVICE_H_

#include "tensorflow/c/tf_status.h"

namespace tripont::tensorflow {

// Makes the XLA backend XLA_XPU_JIT, says that functions on XPU are compiled by it, and turns the
// PJRT path on for the three places that can run compiled programs. To be called once, when the
// plugin is loaded.
void RegisterXlaDevice();

// While one exists, TensorFlow's messages of severity INFO are not written: it reports each step of
// loading a plugin, and `import tensorflow` shall be as quiet as without one. This is a setting of
// the whole process, so it lasts as short as possible.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;

 private:
  int level_;
};

// Creates TensorFlow's PJRT client of the device type XPU and hands it to TensorFlow, which keeps
// it for the process's life. The plugin's PJRT table must be registered with TensorFlow by then. On
// failure `status` holds the client's error.
void CreateClient(TF_Status* status);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_XLA_DEVICE_H_
