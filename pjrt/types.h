// Element types: PJRT_Buffer_Type on one side, PrimitiveType on the other.
#ifndef TRIPONT_PJRT_TYPES_H_
#define TRIPONT_PJRT_TYPES_H_

#include <array>
#include <cstdint>
#include <span>

#include "core/runtime/dtype.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"
#include "pjrt/call.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

namespace internal {
// PrimitiveType of each PJRT_Buffer_Type, by number.
inline constexpr std::array<PrimitiveType, PJRT_Buffer_Type_F4E2M1FN + 1> kPrimitiveTypes = [] {
  std::array<PrimitiveType, PJRT_Buffer_Type_F4E2M1FN + 1> types{};
#define TRIPONT_TYPE(pjrt, ours) types[PJRT_Buffer_Type_##pjrt] = PrimitiveType::ours;
  TRIPONT_TYPE(PRED, kPred)
  TRIPONT_TYPE(S8, kS8)
  TRIPONT_TYPE(S16, kS16)
  TRIPONT_TYPE(S32, kS32)
  TRIPONT_TYPE(S64, kS64)
  TRIPONT_TYPE(U8, kU8)
  TRIPONT_TYPE(U16, kU16)
  TRIPONT_TYPE(U32, kU32)
  TRIPONT_TYPE(U64, kU64)
  TRIPONT_TYPE(F16, kF16)
  TRIPONT_TYPE(F32, kF32)
  TRIPONT_TYPE(F64, kF64)
  TRIPONT_TYPE(BF16, kBF16)
  TRIPONT_TYPE(C64, kC64)
  TRIPONT_TYPE(C128, kC128)
  TRIPONT_TYPE(F8E5M2, kF8E5M2)
  TRIPONT_TYPE(F8E4M3FN, kF8E4M3FN)
  TRIPONT_TYPE(F8E4M3B11FNUZ, kF8E4M3B11FNUZ)
  TRIPONT_TYPE(F8E5M2FNUZ, kF8E5M2FNUZ)
  TRIPONT_TYPE(F8E4M3FNUZ, kF8E4M3FNUZ)
  TRIPONT_TYPE(S4, kS4)
  TRIPONT_TYPE(U4, kU4)
  TRIPONT_TYPE(TOKEN, kToken)
  TRIPONT_TYPE(S2, kS2)
  TRIPONT_TYPE(U2, kU2)
  TRIPONT_TYPE(F8E4M3, kF8E4M3)
  TRIPONT_TYPE(F8E3M4, kF8E3M4)
  TRIPONT_TYPE(F8E8M0FNU, kF8E8M0FNU)
  TRIPONT_TYPE(F4E2M1FN, kF4E2M1FN)
#undef TRIPONT_TYPE
  return types;
}();

inline constexpr std::array<PJRT_Buffer_Type, 64> kBufferTypes = [] {
  std::array<PJRT_Buffer_Type, 64> types{};
  for (size_t i = 0; i < kPrimitiveTypes.size(); ++i) {
    types[static_cast<size_t>(kPrimitiveTypes[i])] = static_cast<PJRT_Buffer_Type>(i);
  }
  types[0] = PJRT_Buffer_Type_INVALID;
  return types;
}();
}  // namespace internal

// kInvalid for a number that is no type.
inline PrimitiveType FromBufferType(const PJRT_Buffer_Type& type) {
  const auto index = static_cast<size_t>(NumberOf(type));
  return index < internal::kPrimitiveTypes.size() ? internal::kPrimitiveTypes[index]
                                                  : PrimitiveType::kInvalid;
}

inline PJRT_Buffer_Type ToBufferType(PrimitiveType type) {
  return internal::kBufferTypes[static_cast<size_t>(type) & 63];
}

// The shape that a caller describes. INVALID_ARGUMENT if it is not one of an array (type, negative
// dimension, rank over kMaxRank), RESOURCE_EXHAUSTED if its size in bytes overflows. Its ByteSize()
// is OK.
StatusOr<Shape> MakeShape(const PJRT_Buffer_Type& type, const int64_t* dims, size_t num_dims);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_TYPES_H_
