// Sorting unsigned integers in the registers of AVX-512: quicksort, whose partitions compress vectors,
// down to what a sorting network in registers holds.
//
// Blacher, Giesen, Kühne, "Fast and robust vectorized in-place sorting of primitive types", 2021, and
// Bramas, "A novel hybrid quicksort algorithm vectorized using AVX-512 on Intel Skylake", 2017, for
// partitions by compression; Batcher, "Sorting networks and their applications", 1968.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_SORT_VECTORS_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_SORT_VECTORS_H_

#include <cstdint>

#include "core/runtime/export.h"

namespace tripont {

// Whether this CPU has the instructions.
TRIPONT_EXPORT bool HasSortVectors();

// Sorts data[0, n). `scratch` holds n numbers, too. `parallel`: on several threads. Only where
// HasSortVectors().
TRIPONT_EXPORT void SortInVectors(uint32_t* data, uint32_t* scratch, int64_t n, bool parallel);
TRIPONT_EXPORT void SortInVectors(uint64_t* data, uint64_t* scratch, int64_t n, bool parallel);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_SORT_VECTORS_H_
