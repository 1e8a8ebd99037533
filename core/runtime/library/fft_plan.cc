// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#endif

#include "core/runtime/library/fft_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

// One version a vector width; the loader picks the one for this CPU.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__)
#define TRIPONT_VECTOR_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIPONT_VECTOR_CLONES
#endif

namespace tripont {
namespace {

template <typename T>
Complex<T> Conjugate(Complex<T> z) {
  return {z.real, -z.imaginary};
}

// z * -i
template <typename T>
Complex<T> TimesMinusI(Complex<T> z) {
  return {z.imaginary, -z.real};
}

// One stage of Stockham's algorithm: from[stride * (p + rest * j) + q] to to[stride * (radix * p +
// j) + q].
template <typename T>
[[gnu::always_inline]] inline void Stage2(int64_t rest, int64_t stride, const Complex<T>* twiddles,
                                          const Complex<T>* from, Complex<T>* to) {
  for (int64_t p = 0; p < rest; ++p) {
    const Complex<T> w = twiddles[p];
    const Complex<T>* a = from + stride * p;
    const Complex<T>* b = from + stride * (p + rest);
    Complex<T>* out = to + stride * 2 * p;
    for (int64_t q = 0; q < stride; ++q) {
      out[q] = a[q] + b[q];
      out[q + stride] = (a[q] - b[q]) * w;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void Stage3(int64_t rest, int64_t stride, const Complex<T>* twiddles,
                                          const Complex<T>* from, Complex<T>* to) {
  const T half_root_3 = static_cast<T>(std::numbers::sqrt3 / 2);
  for (int64_t p = 0; p < rest; ++p) {
    const Complex<T> w1 = twiddles[2 * p];
    const Complex<T> w2 = twiddles[2 * p + 1];
    const Complex<T>* in = from + stride * p;
    Complex<T>* out = to + stride * 3 * p;
    for (int64_t q = 0; q < stride; ++q) {
      const Complex<T> a = in[q];
      const Complex<T> b = in[q + stride * rest];
      const Complex<T> c = in[q + 2 * stride * rest];
      const Complex<T> sum = b + c;
      const Complex<T> middle = a - sum * T{0.5};
      const Complex<T> difference = TimesMinusI((b - c) * half_root_3);
      out[q] = a + sum;
      out[q + stride] = (middle + difference) * w1;
      out[q + 2 * stride] = (middle - difference) * w2;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void Stage4(int64_t rest, int64_t stride, const Complex<T>* twiddles,
                                          const Complex<T>* from, Complex<T>* to) {
  for (int64_t p = 0; p < rest; ++p) {
    const Complex<T> w1 = twiddles[3 * p];
    const Complex<T> w2 = twiddles[3 * p + 1];
    const Complex<T> w3 = twiddles[3 * p + 2];
    const Complex<T>* in = from + stride * p;
    Complex<T>* out = to + stride * 4 * p;
    for (int64_t q = 0; q < stride; ++q) {
      const Complex<T> a = in[q];
      const Complex<T> b = in[q + stride * rest];
      const Complex<T> c = in[q + 2 * stride * rest];
      const Complex<T> d = in[q + 3 * stride * rest];
      const Complex<T> even_sum = a + c;
      const Complex<T> even_difference = a - c;
      const Complex<T> odd_sum = b + d;
      const Complex<T> odd_difference = TimesMinusI(b - d);
      out[q] = even_sum + odd_sum;
      out[q + stride] = (even_difference + odd_difference) * w1;
      out[q + 2 * stride] = (even_sum - odd_sum) * w2;
      out[q + 3 * stride] = (even_difference - odd_difference) * w3;
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline void StageAny(int64_t radix, int64_t rest, int64_t stride,
                                            const Complex<T>* twiddles, const Complex<T>* roots,
                                            const Complex<T>* from, Complex<T>* to) {
  for (int64_t p = 0; p < rest; ++p) {
    const Complex<T>* in = from + stride * p;
    Complex<T>* out = to + stride * radix * p;
    for (int64_t j = 0; j < radix; ++j) {
      const Complex<T> w = j == 0 ? Complex<T>{1, 0} : twiddles[(radix - 1) * p + j - 1];
      for (int64_t q = 0; q < stride; ++q) {
        Complex<T> sum = in[q];
        for (int64_t i = 1; i < radix; ++i)
          sum = sum + in[q + i * stride * rest] * roots[i * j % radix];
        out[q + j * stride] = sum * w;
      }
    }
  }
}

// What a stage is, without its vectors.
template <typename T>
struct StageView {
  int64_t radix;
  int64_t rest;
  int64_t stride;
  const Complex<T>* twiddles;
  const Complex<T>* roots;
};

template <typename T>
[[gnu::always_inline]] inline void RunStageAs(const StageView<T>& stage, const Complex<T>* from,
                                              Complex<T>* to) {
  switch (stage.radix) {
    case 2:
      return Stage2(stage.rest, stage.stride, stage.twiddles, from, to);
    case 3:
      return Stage3(stage.rest, stage.stride, stage.twiddles, from, to);
    case 4:
      return Stage4(stage.rest, stage.stride, stage.twiddles, from, to);
    default:
      return StageAny(stage.radix, stage.rest, stage.stride, stage.twiddles, stage.roots, from, to);
  }
}
TRIPONT_VECTOR_CLONES void RunStage(const StageView<float>& stage, const Complex<float>* from,
                                    Complex<float>* to) {
  RunStageAs(stage, from, to);
}
TRIPONT_VECTOR_CLONES void RunStage(const StageView<double>& stage, const Complex<double>* from,
                                    Complex<double>* to) {
  RunStageAs(stage, from, to);
}

}  // namespace

template <typename T>
FftPlan<T>::FftPlan(int64_t n) : n_(n) {
  int64_t rest = n;
  int64_t stride = 1;
  const auto add_stage = [&](int64_t radix) {
    Stage stage;
    stage.radix = radix;
    stage.rest = rest / radix;
    stage.stride = stride;
    for (int64_t p = 0; p < stage.rest; ++p) {
      for (int64_t j = 1; j < radix; ++j) stage.twiddles.push_back(RootOfUnity<T>(p * j, rest));
    }
    if (radix > 4) {
      for (int64_t j = 0; j < radix; ++j) stage.roots.push_back(RootOfUnity<T>(j, radix));
    }
    stages_.push_back(std::move(stage));
    stride *= radix;
    rest /= radix;
  };
  int64_t left = n;
  for (int64_t radix : {4, 2, 3, 5, 7, 11, 13}) {
    while (left % radix == 0) left /= radix;
  }
  if (left == 1) {
    for (int64_t radix : {4, 2, 3, 5, 7, 11, 13}) {
      while (rest % radix == 0) add_stage(radix);
    }
    return;
  }
  int64_t size = 1;
  while (size < 2 * n - 1) size *= 2;
  convolution_ = std::make_unique<FftPlan>(size);
  chirp_.resize(static_cast<size_t>(n));
  chirp_transform_.resize(static_cast<size_t>(size));
  for (int64_t k = 0; k < n; ++k) {
    // k^2 modulo 2n, without overflow: exp(-i pi k^2 / n) has that period.
    const auto square =
        static_cast<int64_t>(static_cast<unsigned __int128>(k) * static_cast<uint64_t>(k) %
                             static_cast<unsigned __int128>(2 * n));
    chirp_[static_cast<size_t>(k)] = RootOfUnity<T>(square, 2 * n);
    chirp_transform_[static_cast<size_t>(k)] = Conjugate(chirp_[static_cast<size_t>(k)]);
    if (k > 0)
      chirp_transform_[static_cast<size_t>(size - k)] = Conjugate(chirp_[static_cast<size_t>(k)]);
  }
  std::vector<Complex<T>> scratch(static_cast<size_t>(convolution_->scratch_size()));
  convolution_->Transform(chirp_transform_.data(), scratch.data(), false);
}

template <typename T>
int64_t FftPlan<T>::scratch_size() const {
  return convolution_ ? convolution_->length() + convolution_->scratch_size() : n_;
}

template <typename T>
void FftPlan<T>::Transform(Complex<T>* data, Complex<T>* scratch, bool inverse) const {
  // The inverse is the conjugate of the transform of the conjugate.
  if (inverse) {
    for (int64_t i = 0; i < n_; ++i) data[i] = Conjugate(data[i]);
  }
  if (convolution_) {
    Bluestein(data, scratch);
  } else {
    RunStages(data, scratch);
  }
  if (inverse) {
    for (int64_t i = 0; i < n_; ++i) data[i] = Conjugate(data[i]);
  }
}

template <typename T>
void FftPlan<T>::RunStages(Complex<T>* data, Complex<T>* scratch) const {
  Complex<T>* from = data;
  Complex<T>* to = scratch;
  for (const Stage& stage : stages_) {
    RunStage(StageView<T>{stage.radix, stage.rest, stage.stride, stage.twiddles.data(),
                          stage.roots.data()},
             from, to);
    std::swap(from, to);
  }
  if (from != data) std::copy(from, from + n_, data);
}

template <typename T>
void FftPlan<T>::Bluestein(Complex<T>* data, Complex<T>* scratch) const {
  const int64_t size = convolution_->length();
  Complex<T>* padded = scratch;
  Complex<T>* more = scratch + size;
  for (int64_t k = 0; k < n_; ++k) padded[k] = data[k] * chirp_[static_cast<size_t>(k)];
  std::fill(padded + n_, padded + size, Complex<T>{0, 0});
  convolution_->Transform(padded, more, false);
  for (int64_t k = 0; k < size; ++k)
    padded[k] = padded[k] * chirp_transform_[static_cast<size_t>(k)];
  convolution_->Transform(padded, more, true);
  const T scale = T{1} / static_cast<T>(size);
  for (int64_t k = 0; k < n_; ++k) data[k] = padded[k] * chirp_[static_cast<size_t>(k)] * scale;
}

template class FftPlan<float>;
template class FftPlan<double>;

}  // namespace tripont
