// The core: its PJRT table, its functions beside it, and TensorFlow's client and devices.
#ifndef TRIPONT_NEXTPLUGGABLE_PJRT_H_
#define TRIPONT_NEXTPLUGGABLE_PJRT_H_

#include <cstdint>
#include <string>

#include "pjrt/device_memory.h"
#include "pjrt/exchange.h"
#include "pjrt/host_access.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::tensorflow {

// What the adapter uses of libtripont.so. pjrt/host_access.h, pjrt/exchange.h and
// pjrt/device_memory.h document all but the first.
struct CoreFunctions {
  const PJRT_Api* api;
  decltype(tripont_buffer_await_read)* await_read;
  decltype(tripont_buffer_await_write)* await_write;
  decltype(tripont_parallel_for)* parallel_for;
  decltype(tripont_exchange_collect)* collect;
  decltype(tripont_device_reset_peak_memory)* reset_peak_memory;
};

// Set once, when the plugin is loaded, before anything else here is called.
void SetCore(const CoreFunctions& functions);
const CoreFunctions& Core();
inline const PJRT_Api* Pjrt() { return Core().api; }

// The core's table for TensorFlow: the same functions, but the client that is created with it is
// remembered, and programs that update variables do so in place (donation.h).
const PJRT_Api* TableForTensorflow();
// That client; null before TensorFlow has one.
PJRT_Client* TheClient();
// Its device number `ordinal`, which is TensorFlow's XPU:<ordinal>; null if there is none.
PJRT_Device* TheDevice(int ordinal);

// An argument struct, zeroed, with its struct_size.
template <typename Arguments>
Arguments PjrtArguments() {
  Arguments arguments{};
  arguments.struct_size = sizeof(Arguments);
  return arguments;
}

// Code and message of `error`, which is destroyed.
int TakeError(PJRT_Error* error, std::string* message);

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_PJRT_H_
