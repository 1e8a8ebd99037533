// Element types: the numbers and names of XLA's PrimitiveType, as in core/compiler/ir/dtypes.py and in
// artifacts.
#ifndef TRIPONT_CORE_RUNTIME_DTYPE_H_
#define TRIPONT_CORE_RUNTIME_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/runtime/export.h"

namespace tripont {

enum class PrimitiveType : uint8_t {
  kInvalid = 0,
  kPred = 1,
  kS8 = 2,
  kS16 = 3,
  kS32 = 4,
  kS64 = 5,
  kU8 = 6,
  kU16 = 7,
  kU32 = 8,
  kU64 = 9,
  kF16 = 10,
  kF32 = 11,
  kF64 = 12,
  kC64 = 15,
  kBF16 = 16,
  kToken = 17,
  kC128 = 18,
  kF8E5M2 = 19,
  kF8E4M3FN = 20,
  kS4 = 21,
  kU4 = 22,
  kF8E4M3B11FNUZ = 23,
  kF8E5M2FNUZ = 24,
  kF8E4M3FNUZ = 25,
  kS2 = 26,
  kU2 = 27,
  kF8E4M3 = 28,
  kF8E3M4 = 29,
  kF4E2M1FN = 32,
  kF8E8M0FNU = 33,
  // Not XLA's: types of values inside programs, which no buffer of a framework's has.
  kF6E2M3FN = 200,
  kF6E3M2FN = 201,
};

// Whether `code` is an element type that arrays can have (kInvalid and kToken are not).
TRIPONT_EXPORT bool IsArrayType(uint32_t code);
// Bytes an element takes in memory; types below 8 bits take one byte each. 0 for kInvalid, kToken
// and unknown numbers.
TRIPONT_EXPORT size_t ByteWidth(PrimitiveType type);
// "f32", "s64", "pred"; "invalid" for unknown numbers.
TRIPONT_EXPORT std::string_view TypeName(PrimitiveType type);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_DTYPE_H_
