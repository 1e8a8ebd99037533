// Shape: element type and dimensions of a dense row-major array.
#ifndef TRIPONT_CORE_RUNTIME_SHAPE_H_
#define TRIPONT_CORE_RUNTIME_SHAPE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/dtype.h"
#include "core/runtime/export.h"
#include "core/runtime/status.h"

namespace tripont {

// A list of int64 that allocates nothing up to rank 6.
class Dimensions {
 public:
  Dimensions() = default;
  Dimensions(std::span<const int64_t> values) { Assign(values); }  // NOLINT: implicit on purpose
  Dimensions(std::initializer_list<int64_t> values) { Assign({values.begin(), values.size()}); }
  Dimensions(const Dimensions& other) { Assign(other); }
  Dimensions& operator=(const Dimensions& other) {
    if (this != &other) Assign(other);
    return *this;
  }
  Dimensions(Dimensions&&) = default;
  Dimensions& operator=(Dimensions&&) = default;

  size_t size() const { return size_; }
  const int64_t* data() const { return large_ ? large_.get() : small_.data(); }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t operator[](size_t i) const { return data()[i]; }
  operator std::span<const int64_t>() const {
    return {data(), size_};
  }  // NOLINT: implicit on purpose
  friend bool operator==(const Dimensions& a, const Dimensions& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  void Assign(std::span<const int64_t> values) {
    large_.reset(values.size() > small_.size() ? new int64_t[values.size()] : nullptr);
    size_ = values.size();
    std::copy(values.begin(), values.end(), large_ ? large_.get() : small_.data());
  }

  size_t size_ = 0;
  std::array<int64_t, 6> small_;
  std::unique_ptr<int64_t[]> large_;
};

struct TRIPONT_EXPORT Shape {
  PrimitiveType type = PrimitiveType::kInvalid;
  Dimensions dimensions;

  // Bytes of the whole array. INVALID_ARGUMENT for an unknown type or a negative dimension,
  // RESOURCE_EXHAUSTED if the number does not fit in 62 bits.
  StatusOr<size_t> ByteSize() const;
  // Elements; only for shapes whose ByteSize() is OK.
  int64_t ElementCount() const;
  size_t rank() const { return dimensions.size(); }
  // Distances of neighbours in bytes, one a dimension.
  std::vector<int64_t> DenseByteStrides() const;
  // "f32[2,3]"
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.type == b.type && a.dimensions == b.dimensions;
  }
  friend std::ostream& operator<<(std::ostream& stream, const Shape& shape) {
    return stream << shape.ToString();
  }
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_SHAPE_H_
