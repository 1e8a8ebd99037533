// Sorting many short rows at once: one row a vector lane, a sorting network over the positions.
//
// A network's comparisons do not depend on the values, so a minimum and a maximum of two vectors
// sort one pair of positions of every row. Batcher's odd-even merge sort (K. E. Batcher, Sorting
// networks and their applications, 1968) needs about n log2(n)^2 / 4 of them.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_SORT_NETWORK_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_SORT_NETWORK_H_

#include <cstddef>
#include <cstdint>

namespace tripont {

constexpr size_t kLanes32 = 16;
constexpr size_t kLanes64 = 8;

// Sorts each of the kLanes32 columns of data[n][kLanes32]. n: a power of two; data: aligned to 64
// bytes.
void SortColumns(uint32_t* data, size_t n);
// The same for data[n][kLanes64].
void SortColumns(uint64_t* data, size_t n);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_SORT_NETWORK_H_
