// Eigenvalues and singular values of matrices in lanes, Jacobi's way.
#include "core/runtime/library/matrix_lanes_vectors.h"  // first: its pragmas hold for what follows

#include "core/runtime/library/matrix_lanes.h"

namespace tripont::matrix_lanes {
namespace {

// The iterations converge in some six sweeps for these orders.
constexpr int kMostSweeps = 40;

template <typename T, int kBytes>
struct Jacobi : Lanes<T, kBytes> {
  using Base = Lanes<T, kBytes>;
  using Base::Abs;
  using Base::All;
  using Base::AllBits;
  using Base::Any;
  using Base::IsFinite;
  using Base::kEpsilon;
  using Base::Load;
  using Base::Max;
  using Base::PowerOfTwo;
  using Base::SetOf;
  using Base::Sqrt;
  using Base::Store;
  using Base::StoreLine;
  using Base::ZeroIf;
  using typename Base::I;
  using typename Base::V;
  using typename Base::View;

  // The rotation [[c, s], [-s, c]] that makes [[p, x], [x, q]] diagonal, the smaller of the two
  // angles; none where `mask` is not set. t = s / c.
  struct Rotation {
    V c;
    V s;
    V t;
  };
  TRIPONT_INLINE Rotation RotationOf(const V& p, const V& q, const V& x, const I& mask) {
    const V theta = (q - p) / (mask ? x + x : All(T{1}));
    const V size = T{1} / (Abs(theta) + Sqrt(theta * theta + T{1}));
    V t = theta < T{0} ? -size : size;
    t = ZeroIf(~mask, t);
    const V c = T{1} / Sqrt(t * t + T{1});
    return {c, t * c, t};
  }
  // (x, y) := (c x - s y, s x + c y)
  TRIPONT_INLINE void Rotate(V& x, V& y, const Rotation& r) {
    const V a = x;
    const V b = y;
    x = r.c * a - r.s * b;
    y = r.s * a + r.c * b;
  }
  TRIPONT_INLINE void ExchangeIf(V& x, V& y, const I& mask) {
    const V a = x;
    x = mask ? y : a;
    y = mask ? a : y;
  }

  TRIPONT_INLINE void Run(EigenTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    V* const v_data = data + MatrixVectors(n, n);
    V* const w = v_data + MatrixVectors(n, n);
    const Layout& layout = tile.layout;
    Load(tile.from, layout, n, n, tile.count, data);
    const View a = View::Of(data, tile.lower ? layout : layout.Transposed(), n, n);
    const View v = View::Of(v_data, layout, n, n);
    V largest = V{};
    I bad = I{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        largest = Max(Abs(a(i, j)), largest);
        bad |= ~IsFinite(a(i, j));
      }
    }
    V power;
    V inverse;
    PowerOfTwo(largest, power, inverse);
    V squares = V{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j <= i; ++j) {
        const V x = ZeroIf(bad, a(i, j) * inverse);
        a(i, j) = x;
        squares += x * x;
      }
    }
    const bool vectors = tile.v != nullptr;
    if (vectors) {
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) v(i, j) = i == j ? All(T{1}) : V{};
      }
    }
    // What is left off the diagonal is together less than a rounding of the norm.
    const V least = Sqrt(squares) * (kEpsilon / static_cast<T>(4 * n));
    I rotated = AllBits(-1);
    int sweep = 0;
    for (; sweep < kMostSweeps && Any(rotated); ++sweep) {
      rotated = I{};
      for (int64_t q = 1; q < n; ++q) {
        for (int64_t p = 0; p < q; ++p) {
          const V x = a(q, p);
          const I mask = Abs(x) > least;
          if (!Any(mask)) continue;
          rotated |= mask;
          const Rotation r = RotationOf(a(p, p), a(q, q), x, mask);
          a(p, p) -= r.t * x;
          a(q, q) += r.t * x;
          a(q, p) = ZeroIf(mask, x);
          for (int64_t i = 0; i < p; ++i) Rotate(a(p, i), a(q, i), r);
          for (int64_t i = p + 1; i < q; ++i) Rotate(a(i, p), a(q, i), r);
          for (int64_t i = q + 1; i < n; ++i) Rotate(a(i, p), a(i, q), r);
          for (int64_t i = 0; vectors && i < n; ++i) Rotate(v(i, p), v(i, q), r);
        }
      }
    }
    if (sweep == kMostSweeps) bad |= rotated;
    for (int64_t i = 0; i < n; ++i) w[i] = a(i, i) * power;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const I mask = w[j] < w[i];
        ExchangeIf(w[i], w[j], mask);
        for (int64_t k = 0; vectors && k < n; ++k) ExchangeIf(v(k, i), v(k, j), mask);
      }
    }
    StoreLine(w, n, n, tile.count, tile.w);
    if (vectors) Store(v_data, layout, n, n, tile.count, tile.v);
    tile.failed = SetOf(bad, tile.count);
  }

  // Columns are rotated, two and two, until they are orthogonal: then their norms are the singular
  // values (Hestenes).
  TRIPONT_INLINE void Run(SingularTile<T>& tile) {
    const int64_t n = tile.n;
    V* const data = static_cast<V*>(tile.workspace);
    V* const v_data = data + MatrixVectors(n, n);
    V* const s = v_data + MatrixVectors(n, n);
    V* const norms = s + n;  // squares
    const Layout& layout = tile.layout;
    Load(tile.from, layout, n, n, tile.count, data);
    const View a = View::Of(data, layout, n, n);
    const View v = View::Of(v_data, layout, n, n).Transposed();
    V largest = V{};
    I bad = I{};
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        largest = Max(Abs(a(i, j)), largest);
        bad |= ~IsFinite(a(i, j));
      }
    }
    V power;
    V inverse;
    PowerOfTwo(largest, power, inverse);
    const bool vectors = tile.u != nullptr;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        a(i, j) = ZeroIf(bad, a(i, j) * inverse);
        if (vectors) v(i, j) = i == j ? All(T{1}) : V{};
      }
    }
    I rotated = AllBits(-1);
    int sweep = 0;
    for (; sweep < kMostSweeps && Any(rotated); ++sweep) {
      rotated = I{};
      for (int64_t j = 0; j < n; ++j) norms[j] = Squares(a.At(0, j), n);
      for (int64_t q = 1; q < n; ++q) {
        for (int64_t p = 0; p < q; ++p) {
          V x = V{};
          for (int64_t i = 0; i < n; ++i) x += a(i, p) * a(i, q);
          // Orthogonal but for the roundings of x.
          const T least = kEpsilon * static_cast<T>(n) / 2;
          const I mask = x * x > norms[p] * norms[q] * (least * least);
          if (!Any(mask)) continue;
          rotated |= mask;
          const Rotation r = RotationOf(norms[p], norms[q], x, mask);
          for (int64_t i = 0; i < n; ++i) Rotate(a(i, p), a(i, q), r);
          for (int64_t i = 0; vectors && i < n; ++i) Rotate(v(i, p), v(i, q), r);
          norms[p] = Squares(a.At(0, p), n);
          norms[q] = Squares(a.At(0, q), n);
        }
      }
    }
    if (sweep == kMostSweeps) bad |= rotated;
    for (int64_t j = 0; j < n; ++j) s[j] = Sqrt(norms[j]);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) {
        const I mask = s[j] > s[i];
        ExchangeIf(s[i], s[j], mask);
        for (int64_t k = 0; vectors && k < n; ++k) {
          ExchangeIf(a(k, i), a(k, j), mask);
          ExchangeIf(v(k, i), v(k, j), mask);
        }
      }
    }
    if (vectors) {
      bad |= s[n - 1] <= s[0] * (kEpsilon * static_cast<T>(4 * n));
      for (int64_t j = 0; j < n; ++j) {
        const V factor = T{1} / s[j];
        for (int64_t i = 0; i < n; ++i) a(i, j) *= factor;
      }
      Store(data, layout, n, n, tile.count, tile.u);
      Store(v_data, layout, n, n, tile.count, tile.vt);
    }
    for (int64_t j = 0; j < n; ++j) s[j] *= power;
    StoreLine(s, n, n, tile.count, tile.s);
    tile.failed = SetOf(bad, tile.count);
  }
  TRIPONT_INLINE V Squares(const View& column, int64_t n) {
    V sum = V{};
    for (int64_t i = 0; i < n; ++i) sum += column(i, 0) * column(i, 0);
    return sum;
  }
};

}  // namespace

template <template <typename> class Tile, typename T>
void Run(Tile<T>& tile) {
  RunLanes<Jacobi, T>(tile);
}

template void Run(EigenTile<float>& tile);
template void Run(EigenTile<double>& tile);
template void Run(SingularTile<float>& tile);
template void Run(SingularTile<double>& tile);

}  // namespace tripont::matrix_lanes
