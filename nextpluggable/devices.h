// The devices XPU:0, XPU:1, ... as TensorFlow's contexts and sessions hold them.
//
// A tensor gives its memory back to the allocator of the device that it was allocated on, and
// TensorFlow's threads may still hold tensors when a session or a context goes, and with it its
// devices: the threads would call an allocator that is gone. So TensorFlow's NextPluggableDevices,
// and the allocators, are made once for each XPU and stay for as long as the process lives; what a
// context or a session gets, and destroys, is a device that passes everything on to them, and has
// resources (variables, ...) of its own.
//
// The allocator that it shows also knows how much memory the arrays of the device take
// (tf.config.experimental.get_memory_info).
#ifndef TRIPONT_NEXTPLUGGABLE_DEVICES_H_
#define TRIPONT_NEXTPLUGGABLE_DEVICES_H_

namespace tripont::tensorflow {

// Registers the factory of XPU's devices, over the one that TensorFlow will register for the
// plugin. To be called once, when the plugin is loaded.
void RegisterDeviceFactory();

// Whether a plugin has registered XPU's devices in this process.
bool HasDeviceFactory();

// Has XPU's factory read the table of device functions, which is TensorFlow's last one: the plugin
// that is loaded next may bring another. To be called after TensorFlow has this plugin's.
void ReadDeviceFunctions();

// Registers a device type that has no devices, over the factory that TensorFlow will register for it.
void RegisterTypeWithoutDevices(const char* type);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_DEVICES_H_
