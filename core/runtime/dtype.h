// Element types: PrimitiveType, whose numbers and names core/schema/element_types.py defines.
#ifndef TRIPONT_CORE_RUNTIME_DTYPE_H_
#define TRIPONT_CORE_RUNTIME_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/runtime/export.h"
#include "core/schema/element_types.h"

namespace tripont {

// Whether `code` is an element type that arrays can have (kInvalid and kToken are not).
TRIPONT_EXPORT bool IsArrayType(uint32_t code);
// Bytes an element takes in memory; types below 8 bits take one byte each. 0 for kInvalid, kToken
// and unknown numbers.
TRIPONT_EXPORT size_t ByteWidth(PrimitiveType type);
// "f32", "s64", "pred"; "invalid" for unknown numbers.
TRIPONT_EXPORT std::string_view TypeName(PrimitiveType type);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_DTYPE_H_
