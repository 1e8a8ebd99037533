// Copies between dense and strided arrays in host memory.
#ifndef TRIPONT_CORE_RUNTIME_STRIDED_COPY_H_
#define TRIPONT_CORE_RUNTIME_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/runtime/export.h"

namespace tripont {

// Copies an array of the given dimensions, element by element of `element_size` bytes. Strides are
// in bytes, one a dimension, of any sign. Source and destination must not overlap. Runs of
// contiguous elements are copied as such.
TRIPONT_EXPORT void StridedCopy(void* destination, std::span<const int64_t> destination_strides,
                                const void* source, std::span<const int64_t> source_strides,
                                std::span<const int64_t> dimensions, size_t element_size);

// Whether these byte strides are those of a dense row-major array (dimensions of size 1 or 0 do not
// matter).
TRIPONT_EXPORT bool IsDense(std::span<const int64_t> byte_strides,
                            std::span<const int64_t> dimensions, size_t element_size);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_STRIDED_COPY_H_
