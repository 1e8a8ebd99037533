#include "core/runtime/library/matrix_lanes_vectors.h"  // first: its pragmas hold for what follows

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

#include "core/runtime/cpu_info.h"
#include "core/runtime/library/matrix_lanes.h"

namespace tripont::matrix_lanes {
namespace {

// Columns that an LU factorisation does before it updates the rest by a product.
constexpr int64_t kPanel = 8;
// Matrices up to this order go into lanes where there are only two of them.
constexpr int64_t kMostScarce = 8;
constexpr int64_t kMostWorkspace = 1 << 20;  // bytes of a tile

// The factorisations, and solves of triangular systems.
template <typename T, int kBytes>
struct Factorisations : Lanes<T, kBytes> {
  using Base = Lanes<T, kBytes>;
  using Base::Abs;
  using Base::All;
  using Base::AllBits;
  using Base::IsFinite;
  using Base::kLanes;
  using Base::Load;
  using Base::LoadLine;
  using Base::Max;
  using Base::PowerOfTwo;
  using Base::SetOf;
  using Base::Sqrt;
  using Base::Store;
  using Base::StoreLine;
  using Base::Subtract;
  using Base::Union;
  using Base::ZeroIf;
  using typename Base::Bits;
  using typename Base::Divisor;
  using typename Base::I;
  using typename Base::V;
  using typename Base::View;

  // ------------------------------------------------------------------------------- Cholesky
  TRIPONT_INLINE void Run(CholeskyTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    Load(tile.from, tile.layout, n, n, tile.count, data);
    const View a = View::Of(data, tile.layout, n, n);
    if (tile.symmetrize) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < i; ++j) a(i, j) = (a(i, j) + a(j, i)) * T{0.5};
        a(i, i) = (a(i, i) + a(i, i)) * T{0.5};  // which may be infinite
      }
    }
    I bad = I{};
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t width = std::min<int64_t>(kBlock, n - first);
      const int64_t next = first + width;
      if (first > 0) {
        const View above = a.At(first, 0).Transposed();
        if (width == kBlock) {
          Base::template SubtractBlock<kBlock, kBlock, true>(a.At(first, first), a.At(first, 0),
                                                             above, first);
        } else {
          for (int64_t i = first; i < n; ++i) {
            Subtract(a.At(i, first), 1, i - first + 1, a.At(i, 0), above, first);
          }
        }
        Subtract(a.At(next, first), n - next, width, a.At(next, 0), above, first);
      }
      for (int64_t j = first; j < next; ++j) {
        const V pivot = a(j, j);
        bad |= ~((pivot > T{0}) & IsFinite(pivot));
        const V root = Sqrt(pivot);
        const V inverse = T{1} / root;
        a(j, j) = root;
        for (int64_t i = j + 1; i < n; ++i) {
          const V factor = a(i, j) * inverse;
          a(i, j) = factor;
          for (int64_t k = j + 1; k < std::min(next, i + 1); ++k) a(i, k) -= factor * a(k, j);
        }
      }
    }
    if (tile.zeros) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i + 1; j < n; ++j) a(i, j) = V{};
      }
    }
    Store(data, tile.layout, n, n, tile.count, tile.to);
    tile.failed = SetOf(bad, tile.count);
  }

  // ---------------------------------------------------------------------- triangular systems
  TRIPONT_INLINE void Run(SolveTile<T>& tile) {
    const int64_t n = tile.n;
    const int64_t sides = tile.sides;
    V* const a_data = static_cast<V*>(tile.workspace);
    V* const b_data = a_data + MatrixVectors(n, n);
    Load(tile.a, tile.a_layout, n, n, tile.count, a_data);
    Load(tile.b, tile.b_layout, n, sides, tile.count, b_data);
    const View a = View::Of(a_data, tile.a_layout, n, n);
    const View b = View::Of(b_data, tile.b_layout, n, sides);
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t width = std::min<int64_t>(kBlock, n - first);
      if (first > 0) Subtract(b.At(first, 0), width, sides, a.At(first, 0), b, first);
      for (int64_t i = first; i < first + width; ++i) {
        for (int64_t p = first; p < i; ++p) {
          const V factor = a(i, p);
          for (int64_t j = 0; j < sides; ++j) b(i, j) -= factor * b(p, j);
        }
        if (tile.unit_diagonal) continue;
        const V pivot = a(i, i);
        if (sides == 1) {
          b(i, 0) /= pivot;
          continue;
        }
        const Divisor divisor = Divisor::Of(pivot);
        for (int64_t j = 0; j < sides; ++j) b(i, j) = divisor.Divide(b(i, j));
      }
    }
    Store(b_data, tile.b_layout, n, sides, tile.count, tile.x);
  }

  // ------------------------------------------------------------------------------------- LU
  // Columns [first, next) below the rows above `first`, and the exchanges of their rows in all of
  // the n columns.
  TRIPONT_INLINE void FactorPanel(const View& a, int64_t m, int64_t n, int64_t first, int64_t next,
                                  I* pivots, I& info) {
    for (int64_t j = first; j < next; ++j) {
      V largest = Abs(a(j, j));
      I index = AllBits(static_cast<Bits>(j));
      for (int64_t i = j + 1; i < m; ++i) {
        const V size = Abs(a(i, j));
        const I larger = size > largest;
        largest = larger ? size : largest;
        index = larger ? AllBits(static_cast<Bits>(i)) : index;
      }
      pivots[j] = index + 1;
      static_assert(kMostOrder <= 64);
      const I bit = AllBits(1) << (index & 31);
      const uint64_t chosen = static_cast<uint32_t>(Union(index < 32 ? bit : I{})) |
                              uint64_t{static_cast<uint32_t>(Union(index < 32 ? I{} : bit))} << 32;
      for (int64_t i = j + 1; i < m; ++i) {
        if ((chosen >> i & 1) == 0) continue;
        const I mask = index == static_cast<Bits>(i);
        for (int64_t k = 0; k < n; ++k) {
          const V here = a(j, k);
          const V there = a(i, k);
          a(j, k) = mask ? there : here;
          a(i, k) = mask ? here : there;
        }
      }
      const V pivot = a(j, j);
      const I zero = pivot == T{0};
      info = (info == 0) & zero ? AllBits(static_cast<Bits>(j + 1)) : info;
      // Below a pivot of zero there are zeros.
      const Divisor divisor = Divisor::Of(zero ? All(T{1}) : pivot);
      for (int64_t i = j + 1; i < m; ++i) {
        const V factor = divisor.Divide(a(i, j));
        a(i, j) = factor;
        for (int64_t k = j + 1; k < next; ++k) a(i, k) -= factor * a(j, k);
      }
    }
  }

  // The same of all columns of a square matrix so small that its elements stay in registers: rows are exchanged in all
  // lanes, each with itself or with the pivot's.
  template <int kOrder>
  TRIPONT_INLINE void FactorInRegisters(const View& matrix, I* pivots, I& info) {
    V a[kOrder][kOrder];
#pragma GCC unroll 4
    for (int i = 0; i < kOrder; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kOrder; ++k) a[i][k] = matrix(i, k);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kOrder; ++j) {
      V largest = Abs(a[j][j]);
      I index = AllBits(static_cast<Bits>(j));
#pragma GCC unroll 4
      for (int i = j + 1; i < kOrder; ++i) {
        const V size = Abs(a[i][j]);
        const I larger = size > largest;
        largest = larger ? size : largest;
        index = larger ? AllBits(static_cast<Bits>(i)) : index;
      }
      pivots[j] = index + 1;
#pragma GCC unroll 4
      for (int i = j + 1; i < kOrder; ++i) {
        const I mask = index == static_cast<Bits>(i);
#pragma GCC unroll 4
        for (int k = 0; k < kOrder; ++k) {
          const V here = a[j][k];
          a[j][k] = mask ? a[i][k] : here;
          a[i][k] = mask ? here : a[i][k];
        }
      }
      const V pivot = a[j][j];
      const I zero = pivot == T{0};
      info = (info == 0) & zero ? AllBits(static_cast<Bits>(j + 1)) : info;
      const Divisor divisor = Divisor::Of(zero ? All(T{1}) : pivot);
#pragma GCC unroll 4
      for (int i = j + 1; i < kOrder; ++i) {
        const V factor = divisor.Divide(a[i][j]);
        a[i][j] = factor;
#pragma GCC unroll 4
        for (int k = j + 1; k < kOrder; ++k) a[i][k] -= factor * a[j][k];
      }
    }
#pragma GCC unroll 4
    for (int i = 0; i < kOrder; ++i) {
#pragma GCC unroll 4
      for (int k = 0; k < kOrder; ++k) matrix(i, k) = a[i][k];
    }
  }

  TRIPONT_INLINE void FactorInPanels(const View& a, int64_t m, int64_t n, I* pivots, I& info) {
    const int64_t count = std::min(m, n);
    for (int64_t first = 0; first < count; first += kPanel) {
      const int64_t next = std::min(first + kPanel, count);
      FactorPanel(a, m, n, first, next, pivots, info);
      for (int64_t k = next; k < n; ++k) {
        for (int64_t j = first; j < next; ++j) {
          const V factor = a(j, k);
          for (int64_t i = j + 1; i < next; ++i) a(i, k) -= a(i, j) * factor;
        }
      }
      if (next < m && next < n) {
        Subtract(a.At(next, next), m - next, n - next, a.At(next, first), a.At(first, next),
                 next - first);
      }
    }
  }

  TRIPONT_INLINE void Run(LuTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t count = std::min(m, n);
    V* const data = static_cast<V*>(tile.workspace);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    const View a = View::Of(data, tile.layout, m, n);
    I* const pivots = reinterpret_cast<I*>(data + MatrixVectors(m, n));
    I info = I{};
    switch (m == n ? n : 0) {
      case 2:
        FactorInRegisters<2>(a, pivots, info);
        break;
      case 3:
        FactorInRegisters<3>(a, pivots, info);
        break;
      case 4:
        FactorInRegisters<4>(a, pivots, info);
        break;
      default:
        FactorInPanels(a, m, n, pivots, info);
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
    const Bits* const numbers = reinterpret_cast<const Bits*>(pivots);
    for (int l = 0; l < tile.count; ++l) {
      for (int64_t j = 0; j < count; ++j) {
        tile.pivots[l * count + j] = static_cast<int32_t>(numbers[j * kLanes + l]);
      }
      tile.info[l] = static_cast<int32_t>(info[l]);
    }
  }

  // ------------------------------------------------------------------------------------- QR
  // a [m,n] := (1 - tau v v^T) a, v [m] with 1 for its first element.
  TRIPONT_INLINE void Reflect(const View& a, int64_t m, int64_t n, const View& v, const V& tau) {
    int64_t k = 0;
    for (; k + kBlock <= n; k += kBlock) ReflectColumns<kBlock>(a.At(0, k), m, v, tau);
    for (; k < n; ++k) ReflectColumns<1>(a.At(0, k), m, v, tau);
  }
  template <int kColumns>
  TRIPONT_INLINE void ReflectColumns(const View& a, int64_t m, const View& v, const V& tau) {
    V sums[kColumns];
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) sums[k] = a(0, k);
    for (int64_t i = 1; i < m; ++i) {
      const V factor = v(i, 0);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) sums[k] += factor * a(i, k);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kColumns; ++k) {
      sums[k] *= tau;
      a(0, k) -= sums[k];
    }
    for (int64_t i = 1; i < m; ++i) {
      const V factor = v(i, 0);
#pragma GCC unroll 4
      for (int k = 0; k < kColumns; ++k) a(i, k) -= sums[k] * factor;
    }
  }

  TRIPONT_INLINE void Run(QrTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t count = std::min(m, n);
    V* const data = static_cast<V*>(tile.workspace);
    V* const taus = data + MatrixVectors(m, n);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    const View a = View::Of(data, tile.layout, m, n);
    for (int64_t j = 0; j < count; ++j) {
      // As xLARFG, in units of a power of two near the column's largest number.
      V largest = Abs(a(j, j));
      for (int64_t i = j + 1; i < m; ++i) largest = Max(Abs(a(i, j)), largest);
      V power;
      V inverse;
      PowerOfTwo(largest, power, inverse);
      const V alpha = a(j, j) * inverse;
      V squares = V{};
      for (int64_t i = j + 1; i < m; ++i) {
        const V x = a(i, j) * inverse;
        squares += x * x;
      }
      const I none = squares == T{0};
      const V norm = Sqrt(alpha * alpha + squares);
      const V beta = alpha >= T{0} ? -norm : norm;
      const V tau = ZeroIf(none, (beta - alpha) / beta);
      const V factor = T{1} / (none ? All(T{1}) : alpha - beta);
      taus[j] = tau;
      a(j, j) = none ? a(j, j) : beta * power;
      for (int64_t i = j + 1; i < m; ++i) {
        a(i, j) = ZeroIf(none, (a(i, j) * inverse) * factor);
      }
      Reflect(a.At(j, j + 1), m - j, n - j - 1, a.At(j, j), tau);
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
    StoreLine(taus, count, count, tile.count, tile.tau);
  }

  TRIPONT_INLINE void Run(ReflectorsTile<T>& tile) {
    const int64_t m = tile.m;
    const int64_t n = tile.n;
    const int64_t k = tile.k;
    V* const data = static_cast<V*>(tile.workspace);
    V* const taus = data + MatrixVectors(m, n);
    Load(tile.from, tile.layout, m, n, tile.count, data);
    LoadLine(tile.tau, k, k, tile.count, taus);
    const View a = View::Of(data, tile.layout, m, n);
    for (int64_t j = k; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) a(i, j) = V{};
      a(j, j) = All(T{1});
    }
    for (int64_t j = k - 1; j >= 0; --j) {
      const V tau = taus[j];
      Reflect(a.At(j, j + 1), m - j, n - j - 1, a.At(j, j), tau);
      for (int64_t i = j + 1; i < m; ++i) a(i, j) *= -tau;
      a(j, j) = T{1} - tau;
      for (int64_t i = 0; i < j; ++i) a(i, j) = V{};
    }
    Store(data, tile.layout, m, n, tile.count, tile.to);
  }
};

}  // namespace

template <typename T>
int LaneCount() {
  return VectorBytes() / static_cast<int>(sizeof(T));
}

template <typename T>
Plan PlanFor(int64_t batch, int64_t order, int64_t most, int64_t vectors) {
  if constexpr (!std::is_floating_point_v<T>) {
    return {};
  } else {
    // A tile takes as long for one matrix as for all that it has room for.
    const int lanes = LaneCount<T>();
    const bool full = order <= kMostScarce ? batch > 1 : 4 * batch >= lanes;
    const int64_t bytes = vectors * VectorBytes();
    if (order == 0 || order > most || !full || bytes > kMostWorkspace) return {};
    return {lanes, static_cast<size_t>((bytes + 63) / 64 * 64)};
  }
}

template Plan PlanFor<float>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<double>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<std::complex<float>>(int64_t, int64_t, int64_t, int64_t);
template Plan PlanFor<std::complex<double>>(int64_t, int64_t, int64_t, int64_t);

template <template <typename> class Tile, typename T>
void Run(Tile<T>& tile) {
  RunLanes<Factorisations, T>(tile);
}

#define TRIPONT_TILES(T)                    \
  template int LaneCount<T>();              \
  template void Run(CholeskyTile<T>& tile); \
  template void Run(SolveTile<T>& tile);    \
  template void Run(LuTile<T>& tile);       \
  template void Run(QrTile<T>& tile);       \
  template void Run(ReflectorsTile<T>& tile);
TRIPONT_TILES(float)
TRIPONT_TILES(double)
#undef TRIPONT_TILES

}  // namespace tripont::matrix_lanes
