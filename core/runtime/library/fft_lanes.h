// Many transforms of one length at a time, one in each lane of vectors.
//
// Numbers of several rows stand side by side in vectors of real and of imaginary parts, so that a
// transform's steps are vector instructions without shuffles, whatever the length. Rows are
// transposed to that order, and back, while they are read and written.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_FFT_LANES_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_FFT_LANES_H_

#include <array>
#include <cstdint>
#include <vector>

#include "core/runtime/library/fft_plan.h"

namespace tripont {

constexpr int kMostFftLanes = 16;

// The rows of one call.
template <typename T>
struct FftRows {
  std::array<const T*, kMostFftLanes>
      from;  // the first (real part of the first) number of each row
  std::array<T*, kMostFftLanes> to;
  int64_t step = 1;  // complex numbers from a number of a row to the next; 1 for real rows
  int count = 0;     // at least 1, at most lanes()
  // Whether row l lies l complex numbers behind row 0, in what is read and in what is written.
  bool neighbours = false;
};

// Transforms of one length. Immutable once made; any number of threads may use one.
template <typename T>
class LaneFft {
 public:
  enum class Kind { kComplex, kInverse, kFromReal, kToReal };

  // Whether there are such transforms of length `n`: products of primes up to 13 that leave their
  // numbers in the nearest caches.
  static bool Has(Kind kind, int64_t n);

  // Has(kind, n) holds. Results are scaled by 1 / n for kInverse and kToReal.
  LaneFft(Kind kind, int64_t n);

  // Rows that go together, of the CPU that runs this.
  static int lanes();
  int64_t scratch_bytes() const;  // at a multiple of 64
  // Transforms rows.count rows. What is read may be what is written.
  void Transform(const FftRows<T>& rows, void* scratch) const;

  // What the code for a width of vectors sees.
  struct Stage {
    int64_t radix;
    int64_t rest;                      // length of the subtransforms
    int64_t stride;                    // number of interleaved transforms
    std::vector<Complex<T>> twiddles;  // [p][j] for p < rest, 1 <= j < radix
    std::vector<Complex<T>> roots;     // radix-th roots of unity
  };
  struct Plan {
    Kind kind;
    // Complex numbers that are transformed: half as many as a real row has, if that is even (pairs of
    // neighbours are taken for complex numbers); else as many.
    int64_t n;
    bool pairs;
    T scale;
    std::vector<Stage> stages;
    std::vector<Complex<T>> halves;  // exp(-i pi k / n) for pairs, k <= n / 2
  };

 private:
  Plan plan_;
};

extern template class LaneFft<float>;
extern template class LaneFft<double>;

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_FFT_LANES_H_
