// TensorFlow's eager tensors on XPU, to the core's buffers and from them, without a copy.
//
// core/runtime/exchange.h explains captures and tickets. tripont.interop calls these functions, by
// their addresses in libtripont_tensorflow.so, through core/bindings/frameworks.cc. They go past
// TensorFlow's ops: running an op eagerly costs more than the rest of an exchange, and several
// times that where the code is not in the processor's caches. No op runs and nothing is recorded on
// tapes: a tensor that is made here is a new leaf, like a constant.
//
// TensorFlow has its int32 tensors in host memory on every device: they are not exported, and
// imported as what they must be, a view of memory that the host sees.
#ifndef TRIPONT_NEXTPLUGGABLE_EAGER_TENSORS_H_
#define TRIPONT_NEXTPLUGGABLE_EAGER_TENSORS_H_

#include <cstdint>

#include "nextpluggable/adapter.h"

extern "C" {

// All return null, or a message that says what is wrong, to be freed with free().

// Captures the buffer of `tensor`, an EagerTensor (a PyObject) whose device is an XPU and which has
// elements, on this thread. Waits for ops that TensorFlow runs asynchronously, so without the
// interpreter's lock, and then passes on their errors; does not wait for the content.
TRIPONT_ADAPTER_EXPORT char* tripont_tensorflow_export(void* tensor);

// Makes a tensor handle (TFE_TensorHandle) of the buffer of that ticket, which is then void, in
// `context` (TFE_Context) on XPU:<ordinal>, whose memory it must be. Waits for the content of int32
// arrays, so without the interpreter's lock.
TRIPONT_ADAPTER_EXPORT char* tripont_tensorflow_import(void* context, int64_t ticket, int dtype,
                                                       int ordinal, void** handle);

// The EagerTensor (a new reference to a PyObject) on that handle, which it takes over. With the
// interpreter's lock.
TRIPONT_ADAPTER_EXPORT char* tripont_tensorflow_wrap(void* handle, void** tensor);
}

#endif  // TRIPONT_NEXTPLUGGABLE_EAGER_TENSORS_H_
