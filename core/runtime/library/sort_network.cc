#include "core/runtime/library/sort_network.h"

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

using Vector32 = uint32_t __attribute__((vector_size(64)));
using Vector64 = uint64_t __attribute__((vector_size(64)));

// Puts the smaller of each lane of two positions into the first. Always inlined into the clones.
template <typename Vector>
[[gnu::always_inline]] inline void CompareExchange(Vector* data, size_t i, size_t j) {
  const Vector a = data[i];
  const Vector b = data[j];
  data[i] = a < b ? a : b;
  data[j] = a < b ? b : a;
}

// One merge step of distance k: pairs (i, i + k) for the i in blocks of 2k that start at k mod p
// and stay within blocks of 2p.
template <typename Vector>
[[gnu::always_inline]] inline void Step(Vector* data, size_t n, size_t p, size_t k) {
  if (k == p) {
    for (size_t j = 0; j + k < n; j += 2 * k) {
      for (size_t i = 0; i < k; ++i) CompareExchange(data, j + i, j + i + k);
    }
    return;
  }
  for (size_t block = 0; block < n; block += 2 * p) {
    for (size_t j = block + k; j + k < block + 2 * p; j += 2 * k) {
      for (size_t i = 0; i < k; ++i) CompareExchange(data, j + i, j + i + k);
    }
  }
}

template <typename Vector>
[[gnu::always_inline]] inline void Network(Vector* data, size_t n) {
  for (size_t p = 1; p < n; p *= 2) {
    for (size_t k = p; k > 0; k /= 2) Step(data, n, p, k);
  }
}

TRIPONT_VECTOR_CLONES void Sort32(Vector32* data, size_t n) { Network(data, n); }
TRIPONT_VECTOR_CLONES void Sort64(Vector64* data, size_t n) { Network(data, n); }

}  // namespace

void SortColumns(uint32_t* data, size_t n) { Sort32(reinterpret_cast<Vector32*>(data), n); }
void SortColumns(uint64_t* data, size_t n) { Sort64(reinterpret_cast<Vector64*>(data), n); }

}  // namespace tripont
