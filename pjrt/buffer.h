// PJRT_Buffer: a handle on a tripont::Buffer.
#ifndef TRIPONT_PJRT_BUFFER_H_
#define TRIPONT_PJRT_BUFFER_H_

#include <span>
#include <utility>
#include <vector>

#include "core/runtime/buffer.h"
#include "core/runtime/object_pool.h"
#include "pjrt/client.h"
#include "pjrt/layouts.h"
#include "xla/pjrt/c/pjrt_c_api.h"

struct PJRT_Buffer final {
  PJRT_Buffer(tripont::Ref<tripont::Buffer> buffer, PJRT_Memory* memory,
              tripont::pjrt::Layout* layout = nullptr)
      : PJRT_Buffer(buffer->shape(), memory, layout) {
    this->buffer = std::move(buffer);
  }
  // A handle of an array of this shape, which is put into `buffer` before anybody sees it.
  PJRT_Buffer(const tripont::Shape& shape, PJRT_Memory* memory, tripont::pjrt::Layout* layout)
      : memory(memory), layout(layout) {
    if (layout != nullptr) [[unlikely]] {
      own_dims = tripont::pjrt::FromMemoryOrder(shape.dimensions, *layout);
    }
  }

  // Never null, and always the same. Destroying the handle deletes the buffer: that is what PJRT
  // asks for, even if others hold shares of it.
  tripont::Ref<tripont::Buffer> buffer;
  PJRT_Memory* const memory;
  // Null if the array is row-major. Else `buffer` has its dimensions in the order of memory.
  tripont::pjrt::Layout* const layout;

  // The array's dimensions.
  std::span<const int64_t> dims() const {
    return layout == nullptr ? std::span<const int64_t>(buffer->shape().dimensions) : own_dims;
  }

  static void* operator new(size_t) { return tripont::ObjectPool<PJRT_Buffer>::Allocate(); }
  static void operator delete(void* memory) { tripont::ObjectPool<PJRT_Buffer>::Free(memory); }

 private:
  std::vector<int64_t> own_dims;
};

#endif  // TRIPONT_PJRT_BUFFER_H_
