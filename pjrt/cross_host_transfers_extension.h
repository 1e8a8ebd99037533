// The extension CrossHostTransfers of the PJRT C API, which TensorFlow's wheel has no header of.
//
// Frameworks read these structs by their layout: it is that of XLA's own header
// (xla/pjrt/extensions/cross_host_transfers), whose later versions add fields at the ends.
#ifndef TRIPONT_PJRT_CROSS_HOST_TRANSFERS_EXTENSION_H_
#define TRIPONT_PJRT_CROSS_HOST_TRANSFERS_EXTENSION_H_

#include <cstddef>
#include <cstdint>

#include "xla/pjrt/c/pjrt_c_api.h"

struct PJRT_CrossHostSendBuffers_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  size_t num_buffers;
  PJRT_Buffer** buffers;
  const int32_t* target_devices;  // ids
  const int64_t* transfer_keys;   // the same as those of the other side
  PJRT_Event** send_events;       // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CrossHostSendBuffers_Args, send_events);

struct PJRT_CrossHostReceiveBuffers_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Client* client;
  size_t num_shapes;
  size_t* ranks;
  const int64_t** dims;
  PJRT_Buffer_Type* element_types;
  PJRT_Buffer_MemoryLayout** layouts;
  PJRT_Device* device;
  const int32_t* source_devices;  // ids
  const int64_t* transfer_keys;   // the same as those of the other side
  PJRT_Buffer** buffers;          // out
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CrossHostReceiveBuffers_Args, buffers);

// The older interface, by descriptors, of which the implementation owns `event`.
struct PJRT_CopyToRemoteDevice_Args {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Buffer* buffer;
  PJRT_Event* event;
  char** serialized_descriptor;
  size_t* serialized_descriptor_size;
  void* on_done_argument;
  void (*on_done)(PJRT_Error* error, bool sends_were_enqueued, void* argument);
};

struct PJRT_CrossHostTransfers_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*make_receive_buffers)(void* args);
  void (*copy_to_remote_device)(PJRT_CopyToRemoteDevice_Args* args);
  PJRT_Error* (*receive_buffers)(PJRT_CrossHostReceiveBuffers_Args* args);
  PJRT_Error* (*send_buffers)(PJRT_CrossHostSendBuffers_Args* args);
};
PJRT_DEFINE_STRUCT_TRAITS(PJRT_CrossHostTransfers_Extension, send_buffers);

#endif  // TRIPONT_PJRT_CROSS_HOST_TRANSFERS_EXTENSION_H_
