#include "core/runtime/shape.h"

namespace tripont {

StatusOr<size_t> Shape::ByteSize() const {
  constexpr uint64_t kLargest = uint64_t{1} << 62;
  const size_t width = ByteWidth(type);
  if (width == 0)
    return InvalidArgument("type ", static_cast<int>(type), " (", TypeName(type),
                           ") is not an array's");
  bool empty = false;
  for (const int64_t dimension : dimensions) {
    if (dimension < 0) return InvalidArgument("shape ", ToString(), " has a negative dimension");
    empty |= dimension == 0;
  }
  if (empty) return size_t{0};
  uint64_t size = width;
  for (const int64_t dimension : dimensions) {
    if (__builtin_mul_overflow(size, static_cast<uint64_t>(dimension), &size) || size > kLargest) {
      return ResourceExhausted("an array of shape ", ToString(), " does not fit in memory");
    }
  }
  return static_cast<size_t>(size);
}

int64_t Shape::ElementCount() const {
  uint64_t count = 1;
  for (const int64_t dimension : dimensions) count *= static_cast<uint64_t>(dimension);
  return static_cast<int64_t>(count);
}

std::vector<int64_t> Shape::DenseByteStrides() const {
  std::vector<int64_t> strides(rank());
  auto stride = static_cast<int64_t>(ByteWidth(type));
  for (size_t i = rank(); i-- > 0;) {
    strides[i] = stride;
    stride *= dimensions[i];
  }
  return strides;
}

std::string Shape::ToString() const {
  return StrCat(TypeName(type), "[", StrJoin(dimensions, ","), "]");
}

}  // namespace tripont
