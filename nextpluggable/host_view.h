// Memory of a device buffer as the memory of a TensorFlow tensor on the host.
#ifndef TRIPONT_NEXTPLUGGABLE_HOST_VIEW_H_
#define TRIPONT_NEXTPLUGGABLE_HOST_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/tensor.h"

namespace tripont::tensorflow {

// `size` bytes at `data`. `Owner` keeps them alive: a tensor whose buffer they are, or the buffer
// itself. TensorFlow never writes to memory that a tensor does not own. Reference counted, as all
// buffers of tensors.
template <typename Owner>
class HostView : public ::tensorflow::TensorBuffer {
 public:
  HostView(Owner owner, void* data, size_t size)
      : ::tensorflow::TensorBuffer(data), owner_(std::move(owner)), size_(size) {}
  size_t size() const override { return size_; }
  ::tensorflow::TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(::tensorflow::AllocationDescription* proto) const override {
    proto->set_requested_bytes(static_cast<int64_t>(size_));
    proto->set_allocator_name("tripont");
  }
  bool OwnsMemory() const override { return false; }

 private:
  const Owner owner_;
  const size_t size_;
};

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_HOST_VIEW_H_
