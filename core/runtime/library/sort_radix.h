// Stable least-significant-digit radix sort, for rows too long for a sorting network.
#ifndef TRIPONT_CORE_RUNTIME_LIBRARY_SORT_RADIX_H_
#define TRIPONT_CORE_RUNTIME_LIBRARY_SORT_RADIX_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/runtime/parallel.h"

namespace tripont {

// A 64-bit key with the row position it came from.
struct KeyAndIndex {
  uint64_t key;
  uint64_t index;
};

// The part of a record that is sorted by. Records of 32-bit keys with positions are one number: key << 32 | position.
inline uint32_t SortKey(uint32_t record) { return record; }
inline uint64_t SortKey(uint64_t record) { return record; }
inline uint64_t SortKey(const KeyAndIndex& record) { return record.key; }

constexpr int kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;
// Blocks of a parallel pass hold at least this many records.
constexpr int64_t kRadixBlock = 1 << 15;

// Sorts data[0, n) by bits [first_bit, last_bit) of the keys. `scratch` holds n records. The result is in the array returned:
// data or scratch. `parallel`: spread each pass over threads.
template <typename Record>
Record* RadixSort(Record* data, Record* scratch, int64_t n, int first_bit, int last_bit, bool parallel) {
  const int64_t blocks =
      parallel ? std::clamp<int64_t>(n / kRadixBlock, 1, 4 * static_cast<int64_t>(NumThreads())) : 1;
  const auto begin_of = [n, blocks](int64_t block) { return n / blocks * block + std::min(n % blocks, block); };
  std::vector<std::array<int64_t, kDigits>> counts(static_cast<size_t>(blocks));
  for (int bit = first_bit; bit < last_bit; bit += kDigitBits) {
    const auto digit_of = [bit](const Record& record) {
      return static_cast<size_t>(SortKey(record) >> bit) & (kDigits - 1);
    };
    ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        std::array<int64_t, kDigits>& count = counts[static_cast<size_t>(block)];
        count.fill(0);
        for (int64_t i = begin_of(block); i < begin_of(block + 1); ++i) ++count[digit_of(data[i])];
      }
    });
    int64_t position = 0;
    bool one_digit = false;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      const int64_t start = position;
      for (std::array<int64_t, kDigits>& count : counts) position += std::exchange(count[digit], position);
      one_digit |= position - start == n;
    }
    if (one_digit) continue;
    ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        std::array<int64_t, kDigits>& next = counts[static_cast<size_t>(block)];
        for (int64_t i = begin_of(block); i < begin_of(block + 1); ++i) scratch[next[digit_of(data[i])]++] = data[i];
      }
    });
    std::swap(data, scratch);
  }
  return data;
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_SORT_RADIX_H_
