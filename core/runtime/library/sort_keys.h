// Sort keys: element values mapped to unsigned integers whose order is the order of sorting.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_SORT_KEYS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_SORT_KEYS_H_

#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/runtime/dtype.h"

namespace tripont {

// How floating-point values compare.
enum class SortOrder : int {
  kNumeric = 0,  // the two zeros are equal; all NaNs are equal and greater than everything else
  kTotal = 1,    // -NaN < -inf < ... < -0 < 0 < ... < inf < NaN
};

// Element type as the bits that sorting looks at. `kInfinity`: the bits of +inf of a floating-point
// type, else 0.
template <typename Bits, bool is_signed, Bits kInfinityBits>
struct KeyTraits {
  using Unsigned = Bits;
  static constexpr bool kSigned = is_signed;
  static constexpr Bits kInfinity = kInfinityBits;
  static constexpr bool kFloat = kInfinityBits != 0;
  static constexpr int kSignPlace = std::numeric_limits<Bits>::digits - 1;
  static constexpr Bits kSignBit = static_cast<Bits>(Bits{1} << kSignPlace);

  static bool IsNan(Bits bits) { return kFloat && static_cast<Bits>(bits & ~kSignBit) > kInfinity; }
  static bool IsZero(Bits bits) { return kFloat && static_cast<Bits>(bits & ~kSignBit) == 0; }

  static Bits Encode(Bits bits, SortOrder order, bool descending) {
    Bits key = bits;
    if constexpr (kFloat) {
      if (order == SortOrder::kNumeric) {
        if (IsZero(bits)) bits = 0;
        if (IsNan(bits)) bits = static_cast<Bits>(~kSignBit);
      }
      // Negative numbers are inverted, of others the sign bit is: without a branch, for signs are
      // unpredictable.
      const Bits negative = static_cast<Bits>(bits >> kSignPlace);
      key = static_cast<Bits>(bits ^ static_cast<Bits>(static_cast<Bits>(-negative) | kSignBit));
    } else if constexpr (kSigned) {
      key = static_cast<Bits>(bits ^ kSignBit);
    }
    return descending ? static_cast<Bits>(~key) : key;
  }
  // Undoes Encode but for zeros' signs and NaNs' bits.
  static Bits Decode(Bits key, bool descending) {
    if (descending) key = static_cast<Bits>(~key);
    if constexpr (kFloat) {
      const Bits positive = static_cast<Bits>(key >> kSignPlace);
      return static_cast<Bits>(key ^ static_cast<Bits>(static_cast<Bits>(positive - 1) | kSignBit));
    }
    if constexpr (kSigned) return static_cast<Bits>(key ^ kSignBit);
    return key;
  }
};

// Calls visitor(KeyTraits<...>{}) for the element type; false if it has no keys.
template <typename Visitor>
bool VisitKeyTraits(PrimitiveType type, Visitor&& visitor) {
  const auto visit = [&](auto traits) {
    visitor(traits);
    return true;
  };
  switch (type) {
    case PrimitiveType::kPred:
    case PrimitiveType::kU8:
      return visit(KeyTraits<uint8_t, false, 0>{});
    case PrimitiveType::kS8:
      return visit(KeyTraits<uint8_t, true, 0>{});
    case PrimitiveType::kU16:
      return visit(KeyTraits<uint16_t, false, 0>{});
    case PrimitiveType::kS16:
      return visit(KeyTraits<uint16_t, true, 0>{});
    case PrimitiveType::kF16:
      return visit(KeyTraits<uint16_t, true, 0x7c00>{});
    case PrimitiveType::kBF16:
      return visit(KeyTraits<uint16_t, true, 0x7f80>{});
    case PrimitiveType::kU32:
      return visit(KeyTraits<uint32_t, false, 0>{});
    case PrimitiveType::kS32:
      return visit(KeyTraits<uint32_t, true, 0>{});
    case PrimitiveType::kF32:
      return visit(KeyTraits<uint32_t, true, 0x7f800000>{});
    case PrimitiveType::kU64:
      return visit(KeyTraits<uint64_t, false, 0>{});
    case PrimitiveType::kS64:
      return visit(KeyTraits<uint64_t, true, 0>{});
    case PrimitiveType::kF64:
      return visit(KeyTraits<uint64_t, true, 0x7ff0000000000000>{});
    default:
      return false;
  }
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_SORT_KEYS_H_
