#include "core/runtime/strided_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/runtime/parallel.h"

namespace tripont {
namespace {

struct Axis {
  int64_t size;
  int64_t destination;  // byte strides
  int64_t source;
};

template <size_t kSize>
void CopyRow(char* destination, int64_t destination_stride, const char* source,
             int64_t source_stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(destination + i * destination_stride, source + i * source_stride, kSize);
  }
}

void CopyRow(char* destination, const char* source, const Axis& axis, size_t element_size) {
  switch (element_size) {
    case 1:
      return CopyRow<1>(destination, axis.destination, source, axis.source, axis.size);
    case 2:
      return CopyRow<2>(destination, axis.destination, source, axis.source, axis.size);
    case 4:
      return CopyRow<4>(destination, axis.destination, source, axis.source, axis.size);
    case 8:
      return CopyRow<8>(destination, axis.destination, source, axis.source, axis.size);
    case 16:
      return CopyRow<16>(destination, axis.destination, source, axis.source, axis.size);
    default:
      for (int64_t i = 0; i < axis.size; ++i) {
        std::memcpy(destination + i * axis.destination, source + i * axis.source, element_size);
      }
  }
}

// Both arrays are dense, along different axes: the destination along `inner`, the source along
// `outer`. Square tiles of a cache line, so that lines are read and written once.
template <size_t kSize>
void CopyTransposed(char* destination, const char* source, const Axis& outer, const Axis& inner) {
  constexpr auto kTile = static_cast<int64_t>(64 / kSize);
  for (int64_t row = 0; row < outer.size; row += kTile) {
    const int64_t rows = std::min(kTile, outer.size - row);
    for (int64_t column = 0; column < inner.size; column += kTile) {
      const int64_t columns = std::min(kTile, inner.size - column);
      char* to = destination + row * outer.destination + column * inner.destination;
      const char* from = source + row * outer.source + column * inner.source;
      for (int64_t i = 0; i < rows; ++i) {
        CopyRow<kSize>(to, kSize, from, inner.source, columns);
        to += outer.destination;
        from += kSize;
      }
    }
  }
}

bool IsTransposed(const Axis& outer, const Axis& inner, size_t element_size) {
  const auto width = static_cast<int64_t>(element_size);
  return element_size <= 16 && std::has_single_bit(element_size) && outer.source == width &&
         inner.destination == width;
}

void CopyTransposed(char* destination, const char* source, const Axis& outer, const Axis& inner,
                    size_t element_size) {
  switch (element_size) {
    case 1:
      return CopyTransposed<1>(destination, source, outer, inner);
    case 2:
      return CopyTransposed<2>(destination, source, outer, inner);
    case 4:
      return CopyTransposed<4>(destination, source, outer, inner);
    case 8:
      return CopyTransposed<8>(destination, source, outer, inner);
    default:
      return CopyTransposed<16>(destination, source, outer, inner);
  }
}

void Copy(char* destination, const char* source, const Axis* axes, size_t rank,
          size_t element_size) {
  if (rank == 2 && IsTransposed(axes[0], axes[1], element_size)) {
    CopyTransposed(destination, source, axes[0], axes[1], element_size);
  } else if (rank == 0) {
    std::memcpy(destination, source, element_size);
  } else if (rank == 1) {
    CopyRow(destination, source, axes[0], element_size);
  } else {
    for (int64_t i = 0; i < axes[0].size; ++i) {
      Copy(destination + i * axes[0].destination, source + i * axes[0].source, axes + 1, rank - 1,
           element_size);
    }
  }
}

}  // namespace

bool IsDense(std::span<const int64_t> byte_strides, std::span<const int64_t> dimensions,
             size_t element_size) {
  auto expected = static_cast<int64_t>(element_size);
  for (const int64_t dimension : dimensions) {
    if (dimension == 0) return true;
  }
  for (size_t i = dimensions.size(); i-- > 0;) {
    if (dimensions[i] == 1) continue;
    if (byte_strides[i] != expected) return false;
    expected *= dimensions[i];
  }
  return true;
}

void StridedCopy(void* destination, std::span<const int64_t> destination_strides,
                 const void* source, std::span<const int64_t> source_strides,
                 std::span<const int64_t> dimensions, size_t element_size) {
  std::vector<Axis> axes;
  int64_t elements = 1;
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i] == 0) return;
    elements *= dimensions[i];
    if (dimensions[i] != 1)
      axes.push_back({dimensions[i], destination_strides[i], source_strides[i]});
  }
  // Innermost: where the destination is densest, so that writes are in order. Neighbours that are
  // one run in both arrays become one axis; a last run of contiguous elements becomes one big
  // element.
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) {
    return std::abs(a.destination) > std::abs(b.destination);
  });
  for (size_t i = axes.size(); i-- > 1;) {
    Axis& outer = axes[i - 1];
    const Axis& inner = axes[i];
    if (outer.destination == inner.destination * inner.size &&
        outer.source == inner.source * inner.size) {
      outer = {outer.size * inner.size, inner.destination, inner.source};
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  const auto width = static_cast<int64_t>(element_size);
  if (!axes.empty() && axes.back().destination == width && axes.back().source == width) {
    element_size *= static_cast<size_t>(axes.back().size);
    elements /= axes.back().size;
    axes.pop_back();
  }
  // The axis along which the source is dense comes next to the innermost one: those two are copied
  // in tiles.
  for (size_t i = 0; i + 2 < axes.size(); ++i) {
    if (!IsTransposed(axes[i], axes.back(), element_size)) continue;
    std::rotate(axes.begin() + static_cast<std::ptrdiff_t>(i),
                axes.begin() + static_cast<std::ptrdiff_t>(i) + 1, axes.end() - 1);
    break;
  }
  auto* const to = static_cast<char*>(destination);
  const auto* const from = static_cast<const char*>(source);
  if (axes.empty()) return ParallelCopy(to, from, element_size);
  // Several threads share the outermost axis, in pieces of at least 256 KiB.
  const Axis outermost = axes.front();
  const int64_t bytes =
      std::max<int64_t>(1, elements / outermost.size * static_cast<int64_t>(element_size));
  ParallelFor(outermost.size, std::max<int64_t>(1, (256 << 10) / bytes),
              [&](int64_t begin, int64_t end) {
                std::vector<Axis> mine = axes;
                mine.front().size = end - begin;
                Copy(to + begin * outermost.destination, from + begin * outermost.source,
                     mine.data(), mine.size(), element_size);
              });
}

}  // namespace tripont
