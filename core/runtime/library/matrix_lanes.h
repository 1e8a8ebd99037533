// Factorisations and solves of many small matrices at a time, one in each lane of vectors.
//
// Matrices of a batch stand side by side: element (i, j) of lanes() of them is one vector, so that
// the steps of an algorithm are vector instructions without shuffles, whatever the order of the
// matrices. They are transposed to that order, and back, while they are read and written; because
// every element has a vector of its own, a matrix may be row-major, column-major or turned about
// at no cost.
//
// What a matrix becomes does not depend on the ones beside it. Algorithms are LAPACK's (unblocked,
// with partial pivoting; Householder reflectors with scaled norms), but for eigenvalues and
// singular values, which are Jacobi's (as exact as LAPACK's, and more so for small ones).
//
// All functions are thread-safe: a job belongs to its caller. T is float or double.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"
#include "core/runtime/status.h"

namespace tripont::matrix_lanes {

// Orders that the functions take.
constexpr int64_t kMostOrder = 64;
// Eigenvectors and singular vectors: above, LAPACK's algorithms need so much less work that one
// matrix at a time is faster.
constexpr int64_t kMostJacobiOrder = 16;

// Matrices that go together on this CPU, or on the one that the process behaves as.
template <typename T>
int LaneCount();

// Multiply-adds in lanes that make a task worth another thread.
constexpr int64_t kTaskWork = 1 << 18;

// How a batch is shared out to lanes.
struct Plan {
  int count = 0;         // of the matrices of a tile; 0: lanes are not worth it
  size_t workspace = 0;  // bytes of a tile's workspace, a multiple of 64; it is counted in vectors
};

// The plan for `batch` matrices whose larger dimension is `order`, up to `most`, with a workspace of
// `vectors`. T may also be a complex type: complex matrices have no lanes.
template <typename T>
Plan PlanFor(int64_t batch, int64_t order, int64_t most, int64_t vectors);

// Calls body(first, count, workspace) for the tiles of a batch, on several threads; `grain`: the
// matrices that are worth a thread. RESOURCE_EXHAUSTED without memory for the workspaces.
template <typename Body>
Status ForEachTile(LibraryContext& context, const Plan& plan, int64_t batch, int64_t grain,
                   const Body& body) {
  const int64_t tiles = (batch + plan.count - 1) / plan.count;
  const int64_t tasks = std::clamp<int64_t>(batch / std::max<int64_t>(1, grain), 1,
                                            std::min(tiles, int64_t{4} * NumThreads()));
  TRIPONT_ASSIGN_OR_RETURN(const Scratch scratch,
                           context.AllocateScratch(static_cast<size_t>(tasks) * plan.workspace));
  ParallelFor(tasks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      std::byte* workspace = scratch.as<std::byte>() + static_cast<size_t>(task) * plan.workspace;
      for (int64_t t = tiles * task / tasks; t < tiles * (task + 1) / tasks; ++t) {
        const int64_t first = t * plan.count;
        body(first, static_cast<int>(std::min<int64_t>(plan.count, batch - first)),
             static_cast<void*>(workspace));
      }
    }
  });
  return OkStatus();
}

// Which numbers of a matrix in memory are its rows: the matrices of a tile, `count` of them (at least
// 1, at most LaneCount), stand one behind the other, each row-major or column-major without gaps.
struct Layout {
  bool column_major = false;
  // From the last row, or column, to the first.
  bool rows_reversed = false;
  bool columns_reversed = false;

  Layout Transposed() const { return {!column_major, columns_reversed, rows_reversed}; }
};
constexpr Layout kRowMajor{};
constexpr Layout kColumnMajor{true};

// Vectors of the workspace for a matrix [rows,columns].
inline int64_t MatrixVectors(int64_t rows, int64_t columns) { return (rows + 1) * (columns + 1); }

// A bit for each matrix of a tile.
using LaneSet = uint32_t;

// to := the lower Cholesky factors of from, of which the lower triangles are read; of the means of
// from and its transposes where they are to be symmetrized. The other
// triangle becomes zeros, or stays as it is in `from`. `to` may be `from`. Failed matrices, which
// are not positive definite or have NaNs or infinities, are undefined in `to`.
// Workspace: a matrix.
template <typename T>
struct CholeskyTile {
  int64_t n;
  Layout layout;
  bool zeros;
  bool symmetrize;
  const T* from;
  T* to;
  int count;
  void* workspace;
  LaneSet failed = 0;  // result
};

// x := inverse of a times b, a lower triangular [n,n], b [n,sides]. `x` may be `b`.
// Workspace: a and b.
template <typename T>
struct SolveTile {
  int64_t n;
  int64_t sides;
  Layout a_layout;
  Layout b_layout;
  bool unit_diagonal;
  const T* a;
  const T* b;
  T* x;
  int count;
  void* workspace;
};

// Sets the layouts of `tile` for op(a) x = b ("left") or x op(a) = b,
// where op(a) is a or its transpose: all of them are lower systems in other orders.
template <typename T>
void Orient(Layout a, Layout b, bool left, bool lower, bool transposed, SolveTile<T>& tile) {
  // x op(a) = b is op(a)^T x^T = b^T.
  if (!left) {
    b = b.Transposed();
    transposed = !transposed;
  }
  if (transposed) a = a.Transposed();
  // An upper triangle read from its last row and column on is a lower one.
  if (lower == transposed) {
    a.rows_reversed = a.columns_reversed = true;
    b.rows_reversed = true;
  }
  tile.a_layout = a;
  tile.b_layout = b;
}

// As xGETRF: to := L and U of from [m,n] with rows exchanged; pivots [min(m, n)] from 1, info.
// Workspace: a matrix and min(m, n) vectors.
template <typename T>
struct LuTile {
  int64_t m;
  int64_t n;
  Layout layout;
  const T* from;
  T* to;
  int32_t* pivots;
  int32_t* info;
  int count;
  void* workspace;
};

// As xGEQRF: to := R and reflectors of from [m,n]; tau [min(m, n)].
// Workspace: a matrix and min(m, n) vectors.
template <typename T>
struct QrTile {
  int64_t m;
  int64_t n;
  Layout layout;
  const T* from;
  T* to;
  T* tau;
  int count;
  void* workspace;
};

// As xORGQR: to [m,n] := the first n columns of the product of k reflectors; m >= n >= k.
// Workspace: a matrix and k vectors.
template <typename T>
struct ReflectorsTile {
  int64_t m;
  int64_t n;
  int64_t k;
  Layout layout;
  const T* from;
  const T* tau;
  T* to;
  int count;
  void* workspace;
};

// Eigenvalues w [n], ascending, and eigenvectors v (columns; null: none) of symmetric matrices, of
// which one triangle is read. Failed matrices have NaNs or infinities, or did not converge.
// Workspace: two matrices and n vectors.
template <typename T>
struct EigenTile {
  int64_t n;
  Layout layout;
  bool lower;
  const T* from;
  T* w;
  T* v;  // laid out as `layout`
  int count;
  void* workspace;
  LaneSet failed = 0;  // result
};

// Singular values s [n], descending, and u, vt [n,n] (null: neither) of square matrices. Failed
// matrices have NaNs or infinities, did not converge, or have singular values that are 0 beside the
// largest, so that one vector belongs to them as well as another.
// Workspace: two matrices and 2 n vectors.
template <typename T>
struct SingularTile {
  int64_t n;
  Layout layout;
  const T* from;
  T* s;
  T* u;   // laid out as `layout`
  T* vt;  // laid out as `layout`
  int count;
  void* workspace;
  LaneSet failed = 0;  // result
};

template <template <typename> class Tile, typename T>
void Run(Tile<T>& tile);

}  // namespace tripont::matrix_lanes

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_MATRIX_LANES_H_
