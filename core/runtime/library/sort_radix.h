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

// The part of a record that is sorted by. Records of 32-bit keys with positions are one number: key
// << 32 | position.
inline uint32_t SortKey(uint32_t record) { return record; }
inline uint64_t SortKey(uint64_t record) { return record; }
inline uint64_t SortKey(const KeyAndIndex& record) { return record.key; }

constexpr int kDigitBits = 11;
constexpr size_t kDigits = size_t{1} << kDigitBits;
// Blocks of a parallel pass hold at least this many records.
constexpr int64_t kRadixBlock = 1 << 15;

using DigitCounts = std::array<int64_t, kDigits>;

template <typename Record>
size_t Digit(const Record& record, int bit) {
  return static_cast<size_t>(SortKey(record) >> bit) & (kDigits - 1);
}

template <typename Record>
void CountDigits(const Record* data, int64_t n, int bit, DigitCounts& counts) {
  counts.fill(0);
  for (int64_t i = 0; i < n; ++i) ++counts[Digit(data[i], bit)];
}

// Moves each record to the next free place of its digit.
template <typename Record>
void Scatter(const Record* data, int64_t n, int bit, Record* destination, DigitCounts& next) {
  for (int64_t i = 0; i < n; ++i) destination[next[Digit(data[i], bit)]++] = data[i];
}

// Sorts data[0, n) by bits [first_bit, last_bit) of the keys; all other bits above first_bit must
// be 0. `scratch` holds n records. The result is in the array returned: data or scratch.
// `parallel`: spread each pass over threads.
template <typename Record>
Record* RadixSort(Record* data, Record* scratch, int64_t n, int first_bit, int last_bit,
                  bool parallel) {
  const int64_t blocks =
      parallel ? std::clamp<int64_t>(n / kRadixBlock, 1, 4 * int64_t{NumThreads()}) : 1;
  std::vector<int64_t> edges;
  for (int64_t block = 0; block <= blocks; ++block)
    edges.push_back(n / blocks * block + std::min(n % blocks, block));
  std::vector<DigitCounts> counts(static_cast<size_t>(blocks));
  const auto for_each_block = [&](const auto& body) {
    ParallelFor(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const auto b = static_cast<size_t>(block);
        body(data + edges[b], edges[b + 1] - edges[b], counts[b]);
      }
    });
  };
  for (int bit = first_bit; bit < last_bit; bit += kDigitBits) {
    for_each_block([&](const Record* from, int64_t size, DigitCounts& count) {
      CountDigits(from, size, bit, count);
    });
    int64_t position = 0;
    bool one_digit = false;
    for (size_t digit = 0; digit < kDigits; ++digit) {
      const int64_t start = position;
      for (DigitCounts& count : counts) position += std::exchange(count[digit], position);
      one_digit |= position - start == n;
    }
    if (one_digit) continue;
    for_each_block([&](const Record* from, int64_t size, DigitCounts& next) {
      Scatter(from, size, bit, scratch, next);
    });
    std::swap(data, scratch);
  }
  return data;
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_LIBRARY_SORT_RADIX_H_
