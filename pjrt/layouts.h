// Memory layouts. Every device buffer is dense, and row-major unless somebody asked for another
// order of its dimensions (JAX's Format): then the runtime's buffer is the row-major array of the
// dimensions in the order of memory, and its handle knows the array's own.
#ifndef TRIPONT_PJRT_LAYOUTS_H_
#define TRIPONT_PJRT_LAYOUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/runtime/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// One object for each order of dimensions; lives as long as the process.
struct PJRT_Layouts_MemoryLayout {
  std::string text;                     // as xla::Layout prints it: "{2,1,0}"
  std::vector<int64_t> minor_to_major;  // the dimensions from the fastest to the slowest
};

namespace tripont::pjrt {

// Arrays of more dimensions are refused (NumPy stops at 64 too).
inline constexpr size_t kMaxRank = 64;

// The row-major order {rank-1, ..., 1, 0}, valid for the life of the process. rank <= kMaxRank.
const int64_t* RowMajorMinorToMajor(size_t rank);

// A layout other than row-major; null means row-major.
using Layout = const PJRT_Layouts_MemoryLayout;

// The layout object of row-major arrays. rank <= kMaxRank.
Layout* RowMajorLayout(size_t rank);

// Null if the order is row-major. INVALID_ARGUMENT if it is not one of `rank` dimensions.
StatusOr<Layout*> LayoutOf(std::span<const int64_t> minor_to_major, size_t rank);

// Values of each dimension (sizes, strides) of an array, in the order of its memory, slowest first,
// and back.
std::vector<int64_t> InMemoryOrder(std::span<const int64_t> values, const Layout& layout);
std::vector<int64_t> FromMemoryOrder(std::span<const int64_t> values, const Layout& layout);

// The Layouts extension, for PJRT_Api.extension_start.
PJRT_Extension_Base* LayoutsExtension();

// The layout of a device buffer that a caller asks for; null for row-major, also of the default.
// UNIMPLEMENTED for tiles, and for strides that are not row-major.
StatusOr<Layout*> DeviceLayout(const PJRT_Buffer_MemoryLayout* layout,
                               std::span<const int64_t> dims, int64_t element_size);

// OK if `layout` (null means the default) is row-major for an array of `dims`, for buffers that
// have no other. Dimensions of size 0 or 1 may stand anywhere.
Status CheckDeviceLayout(const PJRT_Buffer_MemoryLayout* layout, std::span<const int64_t> dims,
                         int64_t element_size);

// The byte strides that `layout` (null means row-major) gives a host array.
// INVALID_ARGUMENT if it is not a layout of such an array, UNIMPLEMENTED if it is tiled.
StatusOr<std::vector<int64_t>> HostStrides(const PJRT_Buffer_MemoryLayout* layout,
                                           std::span<const int64_t> dims, int64_t element_size);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_LAYOUTS_H_
