// Element types: PJRT_Buffer_Type on one side, PrimitiveType on the other.
#ifndef TRIPONT_PJRT_TYPES_H_
#define TRIPONT_PJRT_TYPES_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"
#include "pjrt/call.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

namespace internal {
// PrimitiveType of each PJRT_Buffer_Type, by number. Some are later than the header's enumerators:
// numbers here are never values of that enum, which need not be able to hold them.
inline constexpr std::array<PrimitiveType, 64> kPrimitiveTypes = [] {
  std::array<PrimitiveType, 64> types{};
#define TRIPONT_TYPE(pjrt, ours) types[PJRT_Buffer_Type_##pjrt] = PrimitiveType::ours;
  TRIPONT_FOR_EACH_PJRT_TYPE(TRIPONT_TYPE)
#undef TRIPONT_TYPE
#define TRIPONT_TYPE(number, ours) types[number] = PrimitiveType::ours;
  TRIPONT_FOR_EACH_LATER_PJRT_TYPE(TRIPONT_TYPE)
#undef TRIPONT_TYPE
  return types;
}();

inline constexpr std::array<int, 64> kBufferTypes = [] {
  std::array<int, 64> numbers{};
  for (size_t i = 0; i < kPrimitiveTypes.size(); ++i) {
    if (kPrimitiveTypes[i] != PrimitiveType::kInvalid) {
      numbers[static_cast<size_t>(kPrimitiveTypes[i])] = static_cast<int>(i);
    }
  }
  return numbers;
}();
}  // namespace internal

// kInvalid for a number that is not a type.
inline PrimitiveType FromBufferType(const PJRT_Buffer_Type& type) {
  const auto index = static_cast<size_t>(NumberOf(type));
  return index < internal::kPrimitiveTypes.size() ? internal::kPrimitiveTypes[index]
                                                  : PrimitiveType::kInvalid;
}

inline void SetBufferType(PrimitiveType type, PJRT_Buffer_Type& to) {
  const int number = internal::kBufferTypes[static_cast<size_t>(type) & 63];
  static_assert(sizeof(to) == sizeof(number));
  std::memcpy(&to, &number, sizeof(number));
}

// The shape that a caller describes. INVALID_ARGUMENT if it is not one of an array (type, negative
// dimension, rank over kMaxRank), RESOURCE_EXHAUSTED if its size in bytes overflows. Its ByteSize()
// is OK.
StatusOr<Shape> MakeShape(const PJRT_Buffer_Type& type, const int64_t* dims, size_t num_dims);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_TYPES_H_
