#include "pjrt/types.h"

#include "pjrt/layouts.h"

namespace tripont::pjrt {

StatusOr<Shape> MakeShape(const PJRT_Buffer_Type& type, const int64_t* dims, size_t num_dims) {
  const PrimitiveType element_type = FromBufferType(type);
  if (!IsArrayType(static_cast<uint32_t>(element_type))) {
    return InvalidArgument("PJRT_Buffer_Type ", NumberOf(type),
                           " is not an element type of arrays");
  }
  if (num_dims > kMaxRank) {
    return InvalidArgument("an array of ", num_dims, " dimensions: at most ", kMaxRank,
                           " are supported");
  }
  if (num_dims > 0 && dims == nullptr)
    return InvalidArgument("`dims` is null for an array of ", num_dims, " dimensions");
  Shape shape{element_type, Dimensions(std::span<const int64_t>(dims, num_dims))};
  StatusOr<size_t> size = shape.ByteSize();
  if (!size.ok()) return size.status();
  return shape;
}

}  // namespace tripont::pjrt
