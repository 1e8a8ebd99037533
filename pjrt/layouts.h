// Memory layouts. Every device buffer is dense and row-major, so a layout is a rank.
#ifndef TRIPONT_PJRT_LAYOUTS_H_
#define TRIPONT_PJRT_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/runtime/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

struct PJRT_Layouts_MemoryLayout;

namespace tripont::pjrt {

// Arrays of more dimensions are refused (NumPy stops at 64 too).
inline constexpr size_t kMaxRank = 64;

// The row-major order {rank-1, ..., 1, 0}, valid for the life of the process. rank <= kMaxRank.
const int64_t* RowMajorMinorToMajor(size_t rank);

// The layout object of row-major arrays; lives as long as the process. rank <= kMaxRank.
PJRT_Layouts_MemoryLayout* RowMajorLayout(size_t rank);

// The Layouts extension, for PJRT_Api.extension_start.
PJRT_Extension_Base* LayoutsExtension();

// OK if `layout` (null means the default) is row-major for an array of `dims`, the only layout a
// device buffer has. Dimensions of size 0 or 1 may stand anywhere.
Status CheckDeviceLayout(const PJRT_Buffer_MemoryLayout* layout, std::span<const int64_t> dims,
                         int64_t element_size);

// The byte strides that `layout` (null means row-major) gives a host array.
// INVALID_ARGUMENT if it is not a layout of such an array, UNIMPLEMENTED if it is tiled.
StatusOr<std::vector<int64_t>> HostStrides(const PJRT_Buffer_MemoryLayout* layout,
                                           std::span<const int64_t> dims, int64_t element_size);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_LAYOUTS_H_
