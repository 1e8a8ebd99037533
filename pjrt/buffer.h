// PJRT_Buffer: a handle on a tripont::Buffer.
#ifndef TRIPONT_PJRT_BUFFER_H_
#define TRIPONT_PJRT_BUFFER_H_

#include <span>
#include <utility>

#include "core/runtime/buffer.h"
#include "pjrt/client.h"
#include "xla/pjrt/c/pjrt_c_api.h"

struct PJRT_Buffer {
  PJRT_Buffer(tripont::Ref<tripont::Buffer> buffer, PJRT_Memory* memory)
      : buffer(std::move(buffer)), memory(memory) {}

  // Never null. Destroying the handle deletes the buffer: that is what PJRT asks for, even if
  // others hold shares of it.
  const tripont::Ref<tripont::Buffer> buffer;
  PJRT_Memory* const memory;

  std::span<const int64_t> dims() const { return buffer->shape().dimensions; }
};

#endif  // TRIPONT_PJRT_BUFFER_H_
