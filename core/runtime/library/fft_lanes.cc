// Multiply and add in one instruction: rounding once is as right as rounding twice, and faster.
#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3,fp-contract=fast")
#pragma GCC diagnostic ignored "-Wpsabi"  // all functions of vectors are inlined
#endif

#include "core/runtime/library/fft_lanes.h"

#include <algorithm>
#include <utility>

#include "core/runtime/cpu_info.h"

namespace tripont {
namespace {

#define TRIPONT_INLINE [[gnu::always_inline]] static inline

// Transforms in vectors of kBytes.
template <typename T, int kBytes>
struct Lanes {
  using Plan = typename LaneFft<T>::Plan;
  using Stage = typename LaneFft<T>::Stage;
  using Kind = typename LaneFft<T>::Kind;

  static constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
  static constexpr int kUnits = kLanes / 2;  // complex numbers in a vector of memory
  typedef T V __attribute__((vector_size(kBytes)));
  typedef T Unaligned __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));

  struct Z {
    V re;
    V im;
  };

  TRIPONT_INLINE Z Add(const Z& a, const Z& b) { return {a.re + b.re, a.im + b.im}; }
  TRIPONT_INLINE Z Subtract(const Z& a, const Z& b) { return {a.re - b.re, a.im - b.im}; }
  TRIPONT_INLINE Z Times(const Z& a, const Complex<T>& w) {
    return {a.re * w.real - a.im * w.imaginary, a.re * w.imaginary + a.im * w.real};
  }
  TRIPONT_INLINE Z TimesMinusI(const Z& a) { return {a.im, -a.re}; }

  // ---------------------------------------------------------------------------- butterflies
  TRIPONT_INLINE void Butterfly4(Z& a, Z& b, Z& c, Z& d) {
    const Z even_sum = Add(a, c);
    const Z even_difference = Subtract(a, c);
    const Z odd_sum = Add(b, d);
    const Z odd_difference = TimesMinusI(Subtract(b, d));
    a = Add(even_sum, odd_sum);
    b = Add(even_difference, odd_difference);
    c = Subtract(even_sum, odd_sum);
    d = Subtract(even_difference, odd_difference);
  }

  template <int kRadix>
  TRIPONT_INLINE void Butterfly(Z (&x)[kRadix], const Complex<T>* roots) {
    if constexpr (kRadix == 2) {
      const Z sum = Add(x[0], x[1]);
      x[1] = Subtract(x[0], x[1]);
      x[0] = sum;
    } else if constexpr (kRadix == 4) {
      Butterfly4(x[0], x[1], x[2], x[3]);
    } else if constexpr (kRadix == 8) {
      Z even[4] = {x[0], x[2], x[4], x[6]};
      Z odd[4] = {x[1], x[3], x[5], x[7]};
      Butterfly4(even[0], even[1], even[2], even[3]);
      Butterfly4(odd[0], odd[1], odd[2], odd[3]);
      const T half = static_cast<T>(0.70710678118654752440);
      odd[1] = {(odd[1].re + odd[1].im) * half, (odd[1].im - odd[1].re) * half};
      odd[2] = TimesMinusI(odd[2]);
      odd[3] = {(odd[3].im - odd[3].re) * half, (odd[3].re + odd[3].im) * -half};
      for (int j = 0; j < 4; ++j) {
        x[j] = Add(even[j], odd[j]);
        x[j + 4] = Subtract(even[j], odd[j]);
      }
    } else {
      // An odd prime: the terms of i and kRadix - i have one cosine and opposite sines.
      constexpr int kHalf = kRadix / 2;
      Z sum[kHalf];
      Z difference[kHalf];
      for (int i = 0; i < kHalf; ++i) {
        sum[i] = Add(x[i + 1], x[kRadix - 1 - i]);
        difference[i] = TimesMinusI(Subtract(x[i + 1], x[kRadix - 1 - i]));
      }
      const Z first = x[0];
      for (int i = 0; i < kHalf; ++i) x[0] = Add(x[0], sum[i]);
#pragma GCC unroll 6
      for (int j = 1; j <= kHalf; ++j) {
        Z even = first;
        Z odd = {V{}, V{}};
#pragma GCC unroll 6
        for (int i = 1; i <= kHalf; ++i) {
          const T cosine = roots[i * j % kRadix].real;
          const T sine = -roots[i * j % kRadix].imaginary;
          even.re += sum[i - 1].re * cosine;
          even.im += sum[i - 1].im * cosine;
          odd.re += difference[i - 1].re * sine;
          odd.im += difference[i - 1].im * sine;
        }
        x[j] = Add(even, odd);
        x[kRadix - j] = Subtract(even, odd);
      }
    }
  }

  // One stage of Stockham's algorithm: from[stride * (p + rest * j) + q] to to[stride * (radix * p
  // + j) + q].
  template <int kRadix>
  TRIPONT_INLINE void RunStage(const Stage& stage, const Z* from, Z* to) {
    const int64_t stride = stage.stride;
    const int64_t jump = stride * stage.rest;
    Complex<T> roots[kRadix];
    if constexpr (kRadix != 2 && kRadix != 4 && kRadix != 8) {
      std::copy(stage.roots.begin(), stage.roots.end(), roots);
    }
    for (int64_t p = 0; p < stage.rest; ++p) {
      const Complex<T>* w = stage.twiddles.data() + (kRadix - 1) * p;
      const Z* in = from + stride * p;
      Z* out = to + stride * kRadix * p;
      for (int64_t q = 0; q < stride; ++q) {
        Z x[kRadix];
#pragma GCC unroll 13
        for (int j = 0; j < kRadix; ++j) x[j] = in[q + j * jump];
        Butterfly<kRadix>(x, roots);
        out[q] = x[0];
        if (stage.rest == 1) {
#pragma GCC unroll 13
          for (int j = 1; j < kRadix; ++j) out[q + j * stride] = x[j];
        } else {
#pragma GCC unroll 13
          for (int j = 1; j < kRadix; ++j) out[q + j * stride] = Times(x[j], w[j - 1]);
        }
      }
    }
  }

  // The transform of a[0, n), in one of the two arrays.
  TRIPONT_INLINE Z* RunStages(const Plan& plan, Z* a, Z* b) {
    for (const Stage& stage : plan.stages) {
      switch (stage.radix) {
        case 2:
          RunStage<2>(stage, a, b);
          break;
        case 3:
          RunStage<3>(stage, a, b);
          break;
        case 4:
          RunStage<4>(stage, a, b);
          break;
        case 5:
          RunStage<5>(stage, a, b);
          break;
        case 7:
          RunStage<7>(stage, a, b);
          break;
        case 8:
          RunStage<8>(stage, a, b);
          break;
        case 11:
          RunStage<11>(stage, a, b);
          break;
        default:
          RunStage<13>(stage, a, b);
          break;
      }
      std::swap(a, b);
    }
    return a;
  }

  // ------------------------------------------------------------------------------ real rows
  // From the transform of the pairs (x[2k], x[2k + 1]) the first n + 1 numbers of that of x.
  TRIPONT_INLINE void FromPairs(const Plan& plan, Z* z) {
    const int64_t n = plan.n;
    const Z first = z[0];
    z[0] = {first.re + first.im, V{}};
    z[n] = {first.re - first.im, V{}};
    const T half = T{0.5};
    for (int64_t k = 1; 2 * k <= n; ++k) {
      const Z a = z[k];
      const Z b = {z[n - k].re, -z[n - k].im};
      const Z even = {(a.re + b.re) * half, (a.im + b.im) * half};
      const Z odd = TimesMinusI({(a.re - b.re) * half, (a.im - b.im) * half});
      const Z turned = Times(odd, plan.halves[static_cast<size_t>(k)]);
      z[k] = Add(even, turned);
      const Z other = Subtract(even, turned);
      z[n - k] = {other.re, -other.im};
    }
  }

  // The inverse of FromPairs, with real and imaginary parts exchanged for the inverse transform.
  TRIPONT_INLINE void ToPairs(const Plan& plan, Z* z) {
    const int64_t n = plan.n;
    const T half = T{0.5};
    const V first = z[0].re;
    const V last = z[n].re;
    z[0] = {(first - last) * half, (first + last) * half};
    for (int64_t k = 1; 2 * k <= n; ++k) {
      const Z a = z[k];
      const Z b = {z[n - k].re, -z[n - k].im};
      const Z even = {(a.re + b.re) * half, (a.im + b.im) * half};
      const Z turned = {(a.re - b.re) * half, (a.im - b.im) * half};
      const Complex<T> w = plan.halves[static_cast<size_t>(k)];
      const Z odd = Times(turned, Complex<T>{w.real, -w.imaginary});
      // even + i odd, and the conjugate of even - i odd.
      z[k] = {even.im + odd.re, even.re - odd.im};
      z[n - k] = {odd.re - even.im, even.re + odd.im};
    }
  }

  // --------------------------------------------------------------------- reading and writing
  // Lane i of the result is lane index(i) of a, and of b from kLanes on.
  template <int kStep, bool kSecond, size_t... I>
  TRIPONT_INLINE V ExchangeWith(const V& a, const V& b, std::index_sequence<I...>) {
    // Units whose number has the bit kStep come from the other row.
    constexpr auto index = [](int lane) {
      const int unit = lane / 2;
      const bool set = (unit & kStep) != 0;
      if (!kSecond) return set ? kLanes + (unit ^ kStep) * 2 + lane % 2 : lane;
      return set ? kLanes + lane : (unit ^ kStep) * 2 + lane % 2;
    };
    return __builtin_shufflevector(a, b, index(I)...);
  }
  template <bool kOdd, size_t... I>
  TRIPONT_INLINE V Parts(const V& a, const V& b, std::index_sequence<I...>) {
    return __builtin_shufflevector(a, b, (2 * static_cast<int>(I) + (kOdd ? 1 : 0))...);
  }
  template <bool kHigh, size_t... I>
  TRIPONT_INLINE V Interleave(const V& a, const V& b, std::index_sequence<I...>) {
    constexpr int kFirst = kHigh ? kUnits : 0;
    return __builtin_shufflevector(
        a, b, (static_cast<int>(I % 2) * kLanes + kFirst + static_cast<int>(I / 2))...);
  }
  static constexpr std::make_index_sequence<kLanes> kAll{};

  template <int kStep>
  TRIPONT_INLINE void TransposeStep(V* rows) {
    if constexpr (kStep < kUnits) {
#pragma GCC unroll 8
      for (int r = 0; r < kUnits; ++r) {
        if ((r & kStep) != 0) continue;
        const V a = rows[r];
        const V b = rows[r | kStep];
        rows[r] = ExchangeWith<kStep, false>(a, b, kAll);
        rows[r | kStep] = ExchangeWith<kStep, true>(a, b, kAll);
      }
      TransposeStep<2 * kStep>(rows);
    }
  }

  TRIPONT_INLINE V LoadVector(const T* from) { return *reinterpret_cast<const Unaligned*>(from); }
  TRIPONT_INLINE void StoreVector(T* to, const V& value) {
    *reinterpret_cast<Unaligned*>(to) = value;
  }

  // `kExchanged`: real parts are read as imaginary ones, and these as real ones.
  template <bool kExchanged>
  TRIPONT_INLINE void Load(const FftRows<T>& rows, int64_t n, Z* z) {
    const auto parts = [](const V& low, const V& high) __attribute__((always_inline)) {
      return Z{Parts<kExchanged>(low, high, kAll), Parts<!kExchanged>(low, high, kAll)};
    };
    int64_t i = 0;
    if (rows.neighbours && rows.count == kLanes) {
      for (; i < n; ++i) {
        const T* from = rows.from[0] + 2 * i * rows.step;
        const V low = LoadVector(from);
        const V high = LoadVector(from + kLanes);
        z[i] = parts(low, high);
      }
      return;
    }
    const T* from[kLanes];
    for (int l = 0; l < kLanes; ++l) {
      from[l] = rows.from[static_cast<size_t>(std::min(l, rows.count - 1))];
    }
    if (rows.step == 1) {
      for (; i + kUnits <= n; i += kUnits) {
        V low[kUnits];
        V high[kUnits];
#pragma GCC unroll 8
        for (int r = 0; r < kUnits; ++r) {
          low[r] = LoadVector(from[r] + 2 * i);
          high[r] = LoadVector(from[r + kUnits] + 2 * i);
        }
        TransposeStep<1>(low);
        TransposeStep<1>(high);
#pragma GCC unroll 8
        for (int u = 0; u < kUnits; ++u) {
          z[i + u] = parts(low[u], high[u]);
        }
      }
    }
    for (; i < n; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        const T* value = from[l] + 2 * i * rows.step;
        z[i].re[l] = value[kExchanged ? 1 : 0];
        z[i].im[l] = value[kExchanged ? 0 : 1];
      }
    }
  }

  // `kExchanged`: the real parts are in z.im.
  template <bool kExchanged>
  TRIPONT_INLINE void Store(const FftRows<T>& rows, int64_t n, T scale, const Z* z) {
    const auto value = [&](int64_t i) __attribute__((always_inline)) {
      return kExchanged ? Z{z[i].im * scale, z[i].re * scale} : z[i];
    };
    int64_t i = 0;
    if (rows.neighbours && rows.count == kLanes) {
      for (; i < n; ++i) {
        T* to = rows.to[0] + 2 * i * rows.step;
        const Z number = value(i);
        StoreVector(to, Interleave<false>(number.re, number.im, kAll));
        StoreVector(to + kLanes, Interleave<true>(number.re, number.im, kAll));
      }
      return;
    }
    if (rows.step == 1) {
      for (; i + kUnits <= n; i += kUnits) {
        V low[kUnits];
        V high[kUnits];
#pragma GCC unroll 8
        for (int u = 0; u < kUnits; ++u) {
          const Z number = value(i + u);
          low[u] = Interleave<false>(number.re, number.im, kAll);
          high[u] = Interleave<true>(number.re, number.im, kAll);
        }
        TransposeStep<1>(low);
        TransposeStep<1>(high);
        if (rows.count == kLanes) {
#pragma GCC unroll 8
          for (int r = 0; r < kUnits; ++r) {
            StoreVector(rows.to[static_cast<size_t>(r)] + 2 * i, low[r]);
            StoreVector(rows.to[static_cast<size_t>(r) + kUnits] + 2 * i, high[r]);
          }
        } else {
          for (int r = 0; r < std::min(rows.count, kUnits); ++r) {
            const auto row = static_cast<size_t>(r);
            StoreVector(rows.to[row] + 2 * i, low[r]);
            if (r + kUnits < rows.count) StoreVector(rows.to[row + kUnits] + 2 * i, high[r]);
          }
        }
      }
    }
    for (; i < n; ++i) {
      const Z number = value(i);
      for (int l = 0; l < std::min(rows.count, kLanes); ++l) {
        T* to = rows.to[static_cast<size_t>(l)] + 2 * i * rows.step;
        to[0] = number.re[l];
        to[1] = number.im[l];
      }
    }
  }

  // Real rows of any length, and results that are the real parts.
  TRIPONT_INLINE void LoadReal(const FftRows<T>& rows, int64_t n, Z* z) {
    for (int64_t i = 0; i < n; ++i) {
      for (int l = 0; l < kLanes; ++l) {
        z[i].re[l] = rows.from[static_cast<size_t>(std::min(l, rows.count - 1))][i];
      }
      z[i].im = V{};
    }
  }
  TRIPONT_INLINE void StoreImaginaryParts(const FftRows<T>& rows, int64_t n, T scale, const Z* z) {
    for (int64_t i = 0; i < n; ++i) {
      const V scaled = z[i].im * scale;
      for (int l = 0; l < rows.count; ++l) rows.to[static_cast<size_t>(l)][i] = scaled[l];
    }
  }

  // The numbers of the rows as RunStages wants them, in z[0, n).
  TRIPONT_INLINE void Read(const Plan& plan, const FftRows<T>& rows, Z* z) {
    switch (plan.kind) {
      case Kind::kComplex:
        return Load<false>(rows, plan.n, z);
      case Kind::kInverse:
        // The transform with real and imaginary parts exchanged before and behind.
        return Load<true>(rows, plan.n, z);
      case Kind::kFromReal:
        return plan.pairs ? Load<false>(rows, plan.n, z) : LoadReal(rows, plan.n, z);
      case Kind::kToReal:
        if (plan.pairs) {
          Load<false>(rows, plan.n + 1, z);
          return ToPairs(plan, z);
        }
        // The other half is the conjugate of the first.
        Load<true>(rows, plan.n / 2 + 1, z);
        z[0].re = V{};
        for (int64_t i = 1; 2 * i < plan.n; ++i) z[plan.n - i] = {-z[i].re, z[i].im};
        return;
    }
  }

  // The rows' results, from what RunStages has left in z.
  TRIPONT_INLINE void Write(const Plan& plan, const FftRows<T>& rows, Z* z) {
    switch (plan.kind) {
      case Kind::kComplex:
        return Store<false>(rows, plan.n, plan.scale, z);
      case Kind::kInverse:
        return Store<true>(rows, plan.n, plan.scale, z);
      case Kind::kFromReal:
        if (!plan.pairs) return Store<false>(rows, plan.n / 2 + 1, plan.scale, z);
        FromPairs(plan, z);
        return Store<false>(rows, plan.n + 1, plan.scale, z);
      case Kind::kToReal:
        return plan.pairs ? Store<true>(rows, plan.n, plan.scale, z)
                          : StoreImaginaryParts(rows, plan.n, plan.scale, z);
    }
  }

  // The stages stand here once for all kinds: they are most of the code of a width.
  TRIPONT_INLINE void Run(const Plan& plan, const FftRows<T>& rows, void* scratch) {
    Z* a = static_cast<Z*>(scratch);
    Read(plan, rows, a);
    Write(plan, rows, RunStages(plan, a, a + plan.n + 1));
  }
};

#if defined(__x86_64__)
#define TRIPONT_WIDTHS 1
template <typename T>
[[gnu::target("arch=x86-64-v4")]] void Run64(const typename LaneFft<T>::Plan& plan,
                                             const FftRows<T>& rows, void* scratch) {
  Lanes<T, 64>::Run(plan, rows, scratch);
}
template <typename T>
[[gnu::target("arch=x86-64-v3")]] void Run32(const typename LaneFft<T>::Plan& plan,
                                             const FftRows<T>& rows, void* scratch) {
  Lanes<T, 32>::Run(plan, rows, scratch);
}
#endif
template <typename T>
void Run16(const typename LaneFft<T>::Plan& plan, const FftRows<T>& rows, void* scratch) {
  Lanes<T, 16>::Run(plan, rows, scratch);
}

constexpr int64_t kRadices[] = {8, 4, 2, 3, 5, 7, 11, 13};
constexpr int64_t kMostBytes = 1 << 20;  // of scratch memory

}  // namespace

template <typename T>
bool LaneFft<T>::Has(Kind kind, int64_t n) {
  if ((kind == Kind::kFromReal || kind == Kind::kToReal) && n % 2 == 0) n /= 2;
  if (2 * (n + 1) * 2 * VectorBytes() > kMostBytes) return false;
  for (const int64_t radix : kRadices) {
    while (n % radix == 0) n /= radix;
  }
  return n == 1;
}

template <typename T>
LaneFft<T>::LaneFft(Kind kind, int64_t n) {
  const bool real = kind == Kind::kFromReal || kind == Kind::kToReal;
  plan_.kind = kind;
  plan_.pairs = real && n % 2 == 0;
  plan_.n = plan_.pairs ? n / 2 : n;
  plan_.scale =
      kind == Kind::kInverse || kind == Kind::kToReal ? T{1} / static_cast<T>(plan_.n) : T{1};
  int64_t rest = plan_.n;
  int64_t stride = 1;
  for (const int64_t radix : kRadices) {
    while (rest % radix == 0) {
      Stage stage{radix, rest / radix, stride, {}, {}};
      for (int64_t p = 0; p < stage.rest; ++p) {
        for (int64_t j = 1; j < radix; ++j) stage.twiddles.push_back(RootOfUnity<T>(p * j, rest));
      }
      for (int64_t j = 0; j < radix; ++j) stage.roots.push_back(RootOfUnity<T>(j, radix));
      plan_.stages.push_back(std::move(stage));
      stride *= radix;
      rest /= radix;
    }
  }
  for (int64_t k = 0; plan_.pairs && 2 * k <= plan_.n; ++k) {
    plan_.halves.push_back(RootOfUnity<T>(k, 2 * plan_.n));
  }
}

template <typename T>
int LaneFft<T>::lanes() {
  return VectorBytes() / static_cast<int>(sizeof(T));
}

template <typename T>
int64_t LaneFft<T>::scratch_bytes() const {
  return 2 * (plan_.n + 1) * 2 * VectorBytes();
}

template <typename T>
void LaneFft<T>::Transform(const FftRows<T>& rows, void* scratch) const {
#if defined(TRIPONT_WIDTHS)
  if (VectorBytes() == 64) return Run64<T>(plan_, rows, scratch);
  if (VectorBytes() == 32) return Run32<T>(plan_, rows, scratch);
#endif
  Run16<T>(plan_, rows, scratch);
}

template class LaneFft<float>;
template class LaneFft<double>;

}  // namespace tripont
