// One-dimensional complex discrete Fourier transforms of any length.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_FFT_PLAN_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_FFT_PLAN_H_

#include <cmath>
#include <cstdint>
#include <memory>
#include <numbers>
#include <vector>

namespace tripont {

// std::complex without its special cases for infinities, which would make multiplications slow.
template <typename T>
struct Complex {
  T real;
  T imaginary;

  friend Complex operator+(Complex a, Complex b) {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
  friend Complex operator-(Complex a, Complex b) {
    return {a.real - b.real, a.imaginary - b.imaginary};
  }
  friend Complex operator*(Complex a, Complex b) {
    return {a.real * b.real - a.imaginary * b.imaginary,
            a.real * b.imaginary + a.imaginary * b.real};
  }
  friend Complex operator*(Complex a, T scale) { return {a.real * scale, a.imaginary * scale}; }
};

// exp(-2 pi i numerator / denominator), computed in double precision.
template <typename T>
Complex<T> RootOfUnity(int64_t numerator, int64_t denominator) {
  // Exact reduction: numerator / denominator of a turn, in [0, 1).
  numerator %= denominator;
  const double angle =
      -2.0 * std::numbers::pi * (static_cast<double>(numerator) / static_cast<double>(denominator));
  return {static_cast<T>(std::cos(angle)), static_cast<T>(std::sin(angle))};
}

// Transforms of one length: sum over j of x[j] exp(-2 pi i j k / n), without scaling.
//
// Lengths whose prime factors are at most kMaxRadix go through Stockham's autosort algorithm with
// radices 4, 2, 3, 5 and general small primes. Other lengths are convolutions of a power of two (L.
// Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970).
// Immutable once made; any number of threads may use one plan.
template <typename T>
class FftPlan {
 public:
  explicit FftPlan(int64_t n);
  int64_t length() const { return n_; }
  // Elements of scratch that Transform needs.
  int64_t scratch_size() const;
  // Transforms data[0, n) in place. The inverse has the opposite sign in the exponent and no
  // scaling either.
  void Transform(Complex<T>* data, Complex<T>* scratch, bool inverse) const;

 private:
  static constexpr int64_t kMaxRadix = 13;
  struct Stage {
    int64_t radix;
    int64_t rest;                      // length of the subtransforms
    int64_t stride;                    // number of interleaved transforms
    std::vector<Complex<T>> twiddles;  // [p][j] for p < rest, 1 <= j < radix
    std::vector<Complex<T>> roots;     // radix-th roots of unity, of general stages
  };
  void RunStages(Complex<T>* data, Complex<T>* scratch) const;
  void Bluestein(Complex<T>* data, Complex<T>* scratch) const;

  int64_t n_;
  std::vector<Stage> stages_;
  // Bluestein's algorithm: exp(-i pi k^2 / n), the transform of its conjugate, and the plan of the
  // power of two.
  std::vector<Complex<T>> chirp_;
  std::vector<Complex<T>> chirp_transform_;
  std::unique_ptr<FftPlan> convolution_;
};

extern template class FftPlan<float>;
extern template class FftPlan<double>;

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_FFT_PLAN_H_
