#include "core/runtime/library/lapack_tridiagonal.h"

#include <algorithm>
#include <cmath>

#include "core/runtime/parallel.h"

namespace tripont::lapack {
namespace {

// Matrices up to this order are not divided here. (LAPACK divides them further.)
constexpr Int kMostUndivided = 128;

// What a column of a part takes of the workspaces: xSTEDC asks for 1 + 4 n + n^2 elements and
// 3 + 5 n integers, xLAED1 for less.
int64_t WorkOfColumn(Int n) { return int64_t{n} + 8; }
constexpr Int kIntegersOfColumn = 8;

template <typename T>
class Solver {
 public:
  // Arrays as SolveTridiagonal has them. Columns in `order` count from 1, each within its part.
  Solver(const Routines<T>& lapack, Int n, T* diagonal, T* off_diagonal, T* vectors, Int* order,
         T* work, Int* integers)
      : lapack_(lapack),
        n_(n),
        diagonal_(diagonal),
        off_diagonal_(off_diagonal),
        vectors_(vectors),
        order_(order),
        work_(work),
        integers_(integers) {}

  // The part of rows and columns [begin, end).
  Int Solve(Int begin, Int end) const {
    const Int n = end - begin;
    T* vectors = vectors_ + int64_t{begin} * n_ + begin;
    T* work = work_ + begin * WorkOfColumn(n_);
    Int* integers = integers_ + int64_t{begin} * kIntegersOfColumn;
    Int info = 0;
    if (n <= kMostUndivided) {
      const char identity = 'I';
      const auto work_size = static_cast<Int>(1 + 4 * n + n * n);
      const Int integers_size = 3 + 5 * n;
      lapack_.stedc(&identity, &n, diagonal_ + begin, off_diagonal_ + begin, vectors, &n_, work,
                    &work_size, integers, &integers_size, &info, 1);
      for (Int i = 0; i < n; ++i) order_[begin + i] = i + 1;
      return info;
    }
    // The matrix is that of both halves alone and `between` times the product of a vector with
    // itself, whose only elements are 1 and the sign of `between` beside the cut.
    const Int half = n / 2;
    const Int cut = begin + half;
    const T between = off_diagonal_[cut - 1];
    diagonal_[cut - 1] -= std::abs(between);
    diagonal_[cut] -= std::abs(between);
    Int infos[2] = {0, 0};
    ParallelFor(2, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        infos[i] = i == 0 ? Solve(begin, cut) : Solve(cut, end);
      }
    });
    for (const Int failed : infos) {
      if (failed != 0) return failed;
    }
    lapack_.laed1(&n, diagonal_ + begin, vectors, &n_, order_ + begin, &between, &half, work,
                  integers, &info);
    return info;
  }

 private:
  const Routines<T>& lapack_;
  const Int n_;
  T* const diagonal_;
  T* const off_diagonal_;
  T* const vectors_;
  Int* const order_;
  T* const work_;
  Int* const integers_;
};

}  // namespace

int64_t TridiagonalWork(Int n) { return n * WorkOfColumn(n); }
int64_t TridiagonalIntegers(Int n) { return int64_t{n} * kIntegersOfColumn; }

template <typename T>
Int SolveTridiagonal(const Routines<T>& lapack, Int n, T* diagonal, T* off_diagonal, T* vectors,
                     Int* order, T* work, Int* integers) {
  // xLAED1 takes for zero what is small beside 1. A power of two, so that nothing is rounded.
  T largest = 0;
  for (Int i = 0; i < n; ++i) largest = std::max(largest, std::abs(diagonal[i]));
  for (Int i = 0; i + 1 < n; ++i) largest = std::max(largest, std::abs(off_diagonal[i]));
  const int exponent = largest > 0 ? std::ilogb(largest) : 0;
  for (Int i = 0; i < n; ++i) diagonal[i] = std::ldexp(diagonal[i], -exponent);
  for (Int i = 0; i + 1 < n; ++i) off_diagonal[i] = std::ldexp(off_diagonal[i], -exponent);
  std::fill_n(vectors, int64_t{n} * n, T(0));
  const Int info =
      Solver<T>(lapack, n, diagonal, off_diagonal, vectors, order, work, integers).Solve(0, n);
  for (Int i = 0; i < n; ++i) diagonal[i] = std::ldexp(diagonal[i], exponent);
  for (Int i = 0; i < n; ++i) --order[i];
  return info;
}

template Int SolveTridiagonal<float>(const Routines<float>&, Int, float*, float*, float*, Int*,
                                     float*, Int*);
template Int SolveTridiagonal<double>(const Routines<double>&, Int, double*, double*, double*, Int*,
                                      double*, Int*);

}  // namespace tripont::lapack
