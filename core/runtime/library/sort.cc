// Library call "sort": sorts one or more arrays of one shape together along a dimension, stably.
//
// Attributes: "dimension"; "is_stable" (sorting is always stable); and what comes first, either as
// a function of the program, "comparator" (uint8_t(void* const* pairs): pairs[2 i] and pairs[2 i +
// 1] point to the two elements of operand i; true if the first comes before the second), or as keys
// in order of priority: "key_operands" (operand numbers), "key_descending" and "key_orders"
// (SortOrder; integers ignore it), one number a key. Keys of more than 64 bits together need a
// comparator.
//
// How rows are sorted: by keys, short rows in sorting networks, one row a vector lane
// (sort_network.h), others by quicksort in AVX-512's registers (sort_vectors.h), elsewhere by radix
// (sort_radix.h); by a comparator, merge sort of positions.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>
#include <span>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/library/sort_keys.h"
#include "core/runtime/library/sort_network.h"
#include "core/runtime/library/sort_radix.h"
#include "core/runtime/library/sort_vectors.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

using Comparator = uint8_t (*)(void* const* pairs);

// Rows up to this many elements go through a sorting network; for longer ones radix sort does less
// work.
constexpr int64_t kMaxNetworkLength = 2048;
// A row without enough neighbours to fill the lanes goes through std::sort up to this length, then
// radix.
constexpr int64_t kMaxComparisonLength = 512;
// A row of this many elements is worth several threads.
constexpr int64_t kParallelLength = 1 << 17;
// Elements that make a task worth another thread.
constexpr int64_t kTaskElements = 1 << 13;
// Runs that merge sort starts from.
constexpr int64_t kInsertionRun = 16;

struct Key {
  size_t operand;
  PrimitiveType type;
  SortOrder order;
  bool descending;
  int shift;  // of its bits in the combined key
};

struct Problem {
  int64_t length;  // of a row
  int64_t inner;   // elements between two neighbours in a row
  int64_t rows;
  std::vector<size_t> widths;  // bytes an element, one an operand
  std::vector<Key> keys;
  int key_bits = 0;
  Comparator comparator = nullptr;

  // Position of the first element of a row.
  int64_t RowStart(int64_t row) const { return row / inner * length * inner + row % inner; }
};

// ----------------------------------------------------------------------------------------------------
// keys of a row

// Part of a row: positions [begin, end).
struct Range {
  int64_t begin;
  int64_t end;
};

// Calls body(range) for parts of the row, on several threads if it is worth it.
template <typename Body>
void ForEachPart(const Problem& problem, bool parallel, const Body& body) {
  ParallelFor(problem.length, parallel ? kTaskElements : problem.length,
              [&](int64_t begin, int64_t end) { body(Range{begin, end}); });
}

// Calls visitor(position, key) for the row's elements, in order; keys as bits shifted to their
// place.
template <typename Visitor>
void ForEachKey(const Problem& problem, const Key& key, void* const* operands, int64_t row,
                Range range, const Visitor& visitor) {
  VisitKeyTraits(key.type, [&](auto traits) {
    using Traits = decltype(traits);
    const auto* source = static_cast<const typename Traits::Unsigned*>(operands[key.operand]) +
                         problem.RowStart(row);
    const int64_t inner = problem.inner;
    const int shift = key.shift;
    const bool descending = key.descending;
    const auto visit = [&](auto order) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        visitor(i, static_cast<uint64_t>(Traits::Encode(source[i * inner], order(), descending))
                       << shift);
      }
    };
    // The order as a constant of each loop, so that the loops become vector code.
    if (key.order == SortOrder::kNumeric) {
      visit([] { return SortOrder::kNumeric; });
    } else {
      visit([] { return SortOrder::kTotal; });
    }
  });
}

// Writes the row's combined keys to destination[i * stride].
template <typename T>
void EncodeRow(const Problem& problem, void* const* operands, int64_t row, Range range,
               T* destination, int64_t stride) {
  ForEachKey(problem, problem.keys[0], operands, row, range,
             [=](int64_t i, uint64_t key) { destination[i * stride] = static_cast<T>(key); });
  for (const Key& more : std::span(problem.keys).subspan(1)) {
    ForEachKey(problem, more, operands, row, range,
               [=](int64_t i, uint64_t key) { destination[i * stride] |= static_cast<T>(key); });
  }
}

// -------------------------------------------------------------------------------------------------
// results of a row

// result[i] = operand[source[i]] along the row, for all operands. index_of(i): source of position
// i.
template <typename IndexOf>
void Permute(const Problem& problem, void* const* operands, void* const* results, int64_t row,
             Range range, const IndexOf& index_of) {
  const int64_t start = problem.RowStart(row);
  const int64_t inner = problem.inner;
  const auto move = [&]<typename T>(T /*unused*/, size_t operand) {
    const T* from = static_cast<const T*>(operands[operand]) + start;
    T* to = static_cast<T*>(results[operand]) + start;
    for (int64_t i = range.begin; i < range.end; ++i) to[i * inner] = from[index_of(i) * inner];
  };
  struct Wide {
    uint64_t parts[2];
  };
  for (size_t operand = 0; operand < problem.widths.size(); ++operand) {
    switch (problem.widths[operand]) {
      case 1:
        move(uint8_t{}, operand);
        break;
      case 2:
        move(uint16_t{}, operand);
        break;
      case 4:
        move(uint32_t{}, operand);
        break;
      case 8:
        move(uint64_t{}, operand);
        break;
      default:
        move(Wide{}, operand);
        break;
    }
  }
}

// Writes a row of sorted keys as values. Zeros' signs and NaNs' bits are not in the keys of
// kNumeric: those elements are copied from the operand, in their order there, so that the result is
// what a stable sort of the values gives.
template <typename T>
void DecodeRow(const Problem& problem, void* const* operands, void* const* results, int64_t row,
               const T* keys, int64_t stride, bool parallel = false) {
  const Key& key = problem.keys[0];
  const int64_t start = problem.RowStart(row);
  const int64_t inner = problem.inner;
  VisitKeyTraits(key.type, [&](auto traits) {
    using Traits = decltype(traits);
    using Bits = typename Traits::Unsigned;
    Bits* to = static_cast<Bits*>(results[0]) + start;
    std::atomic<bool> any_special{false};
    ForEachPart(problem, parallel, [&](Range range) {
      const bool descending = key.descending;
      bool special = false;
      for (int64_t i = range.begin; i < range.end; ++i) {
        const Bits bits = Traits::Decode(static_cast<Bits>(keys[i * stride]), descending);
        special |= Traits::IsZero(bits) | Traits::IsNan(bits);
        to[i * inner] = bits;
      }
      if (special) any_special.store(true, std::memory_order_relaxed);
    });
    if (!Traits::kFloat || key.order != SortOrder::kNumeric || !any_special) return;
    const Bits* from = static_cast<const Bits*>(operands[0]) + start;
    int64_t zero = 0;
    while (zero < problem.length && !Traits::IsZero(to[zero * inner])) ++zero;
    int64_t nan = 0;
    while (nan < problem.length && !Traits::IsNan(to[nan * inner])) ++nan;
    for (int64_t i = 0; i < problem.length; ++i) {
      const Bits bits = from[i * inner];
      if (Traits::IsZero(bits)) to[zero++ * inner] = bits;
      if (Traits::IsNan(bits)) to[nan++ * inner] = bits;
    }
  });
}

// --------------------------------------------------------------------------------------------------
// sorting by keys

// Rows [begin, end) of at most kMaxNetworkLength elements, in sorting networks. T: uint32_t or
// uint64_t. `with_index`: the positions are in the low 32 bits of 64-bit records.
template <typename T>
void SortByNetwork(const Problem& problem, void* const* operands, void* const* results,
                   int64_t begin, int64_t end, bool with_index) {
  constexpr int64_t kLanes = 64 / sizeof(T);
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(problem.length)));
  std::unique_ptr<T[], void (*)(T*)> columns(
      static_cast<T*>(std::aligned_alloc(64, static_cast<size_t>(padded) * 64)),
      [](T* p) { std::free(p); });
  // Longer than any key: stays at the end.
  std::fill(columns.get() + problem.length * kLanes, columns.get() + padded * kLanes,
            std::numeric_limits<T>::max());
  for (int64_t row = begin; row < end; row += kLanes) {
    const int64_t lanes = std::min(kLanes, end - row);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      T* column = columns.get() + lane;
      EncodeRow(problem, operands, row + lane, {0, problem.length}, column, kLanes);
      if (with_index) {
        for (int64_t i = 0; i < problem.length; ++i) {
          column[i * kLanes] = static_cast<T>(static_cast<uint64_t>(column[i * kLanes]) << 32 |
                                              static_cast<uint64_t>(i));
        }
      }
      // What the last sort left below the values.
      for (int64_t i = problem.length; i < padded; ++i)
        column[i * kLanes] = std::numeric_limits<T>::max();
    }
    SortColumns(columns.get(), static_cast<size_t>(padded));
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const T* column = columns.get() + lane;
      if (with_index) {
        Permute(problem, operands, results, row + lane, {0, problem.length},
                [=](int64_t i) { return static_cast<int64_t>(column[i * kLanes] & 0xffffffff); });
      } else {
        DecodeRow(problem, operands, results, row + lane, column, kLanes);
      }
    }
  }
}

// One row by std::sort or radix sort. Records: uint32_t or uint64_t (a key; with_index: key << 32 |
// position), or KeyAndIndex.
template <typename Record>
void SortRow(const Problem& problem, void* const* operands, void* const* results, int64_t row,
             Record* records, Record* scratch, bool with_index, bool parallel) {
  constexpr bool kWide = std::is_same_v<Record, KeyAndIndex>;
  const int64_t n = problem.length;
  ForEachPart(problem, parallel, [&](Range range) {
    if constexpr (kWide) {
      static_assert(sizeof(KeyAndIndex) == 2 * sizeof(uint64_t));
      EncodeRow(problem, operands, row, range, reinterpret_cast<uint64_t*>(records), 2);
      for (int64_t i = range.begin; i < range.end; ++i) records[i].index = static_cast<uint64_t>(i);
    } else {
      EncodeRow(problem, operands, row, range, records, 1);
      if (!with_index) return;
      for (int64_t i = range.begin; i < range.end; ++i) {
        records[i] =
            static_cast<Record>(static_cast<uint64_t>(records[i]) << 32 | static_cast<uint64_t>(i));
      }
    }
  });
  const Record* sorted = records;
  const bool short_row = n <= kMaxComparisonLength;
  bool in_vectors = false;
  if constexpr (!kWide) {
    // A key of one digit is a pass of radix sort.
    in_vectors = HasSortVectors() && (short_row || problem.key_bits > kDigitBits);
    if (in_vectors) SortInVectors(records, scratch, n, parallel);
  }
  if (in_vectors) {
    // Records are whole numbers: keys, or keys before their positions.
  } else if (short_row) {
    std::sort(records, records + n, [](const Record& a, const Record& b) {
      if constexpr (kWide)
        return a.key != b.key ? a.key < b.key : a.index < b.index;
      else
        return a < b;
    });
  } else {
    const int first_bit = with_index && !kWide ? 32 : 0;
    sorted = RadixSort(records, scratch, n, first_bit, first_bit + problem.key_bits, parallel);
  }
  if (!with_index) {
    if constexpr (!kWide) DecodeRow(problem, operands, results, row, sorted, 1, parallel);
    return;
  }
  ForEachPart(problem, parallel, [&](Range range) {
    Permute(problem, operands, results, row, range, [sorted](int64_t i) {
      if constexpr (kWide)
        return static_cast<int64_t>(sorted[i].index);
      else
        return static_cast<int64_t>(sorted[i] & 0xffffffff);
    });
  });
}

template <typename Record>
Status SortLongRows(LibraryContext& context, const Problem& problem, void* const* operands,
                    void* const* results, bool with_index) {
  const auto bytes = 2 * static_cast<size_t>(problem.length) * sizeof(Record);
  const bool parallel_rows = problem.rows >= NumThreads() || problem.length < kParallelLength;
  if (!parallel_rows) {
    TRIPONT_ASSIGN_OR_RETURN(const Scratch memory, context.AllocateScratch(bytes));
    auto* records = memory.as<Record>();
    for (int64_t row = 0; row < problem.rows; ++row) {
      SortRow(problem, operands, results, row, records, records + problem.length, with_index, true);
    }
    return OkStatus();
  }
  std::atomic<bool> out_of_memory{false};
  ParallelFor(problem.rows, std::max<int64_t>(1, kTaskElements / problem.length),
              [&](int64_t begin, int64_t end) {
                StatusOr<Scratch> memory = context.AllocateScratch(bytes);
                if (!memory.ok()) {
                  out_of_memory = true;
                  return;
                }
                auto* records = memory->template as<Record>();
                for (int64_t row = begin; row < end; ++row) {
                  SortRow(problem, operands, results, row, records, records + problem.length,
                          with_index, false);
                }
              });
  if (out_of_memory)
    return ResourceExhausted("no memory to sort rows of ", problem.length, " elements");
  return OkStatus();
}

Status SortByKeys(LibraryContext& context, const Problem& problem, void* const* operands,
                  void* const* results) {
  const bool with_index = problem.widths.size() > 1 || problem.keys.size() > 1;
  const bool narrow = problem.key_bits <= 32;
  const bool wide_records =
      with_index && (!narrow || problem.length > std::numeric_limits<uint32_t>::max());
  const int64_t lanes = narrow && !with_index ? kLanes32 : kLanes64;
  if (problem.length <= kMaxNetworkLength && problem.rows >= lanes / 2 && !wide_records) {
    const int64_t groups = (problem.rows + lanes - 1) / lanes;
    ParallelFor(groups, std::max<int64_t>(1, kTaskElements / (problem.length * lanes)),
                [&](int64_t begin, int64_t end) {
                  const int64_t last = std::min(end * lanes, problem.rows);
                  if (narrow && !with_index) {
                    SortByNetwork<uint32_t>(problem, operands, results, begin * lanes, last, false);
                  } else {
                    SortByNetwork<uint64_t>(problem, operands, results, begin * lanes, last,
                                            with_index);
                  }
                });
    return OkStatus();
  }
  if (wide_records) return SortLongRows<KeyAndIndex>(context, problem, operands, results, true);
  if (narrow && !with_index)
    return SortLongRows<uint32_t>(context, problem, operands, results, false);
  return SortLongRows<uint64_t>(context, problem, operands, results, with_index);
}

// -------------------------------------------------------------------------------------------
// sorting by a comparator

// Merge sort of positions. An inconsistent comparator gives an unsorted row, never an access out of
// bounds.
class PositionSorter {
 public:
  PositionSorter(const Problem& problem, void* const* operands, int64_t row)
      : problem_(problem),
        pairs_(2 * problem.widths.size()),
        bases_(problem.widths.size()),
        steps_(problem.widths.size()) {
    for (size_t i = 0; i < bases_.size(); ++i) {
      const auto width = static_cast<int64_t>(problem.widths[i]);
      bases_[i] = static_cast<char*>(operands[i]) + problem.RowStart(row) * width;
      steps_[i] = problem.inner * width;
    }
  }

  // Sorts positions[0, n); `scratch` holds n. Returns where the result is.
  int64_t* Sort(int64_t* positions, int64_t* scratch, int64_t n) {
    for (int64_t begin = 0; begin < n; begin += kInsertionRun) {
      InsertionSort(positions + begin, std::min(kInsertionRun, n - begin));
    }
    for (int64_t run = kInsertionRun; run < n; run *= 2) {
      for (int64_t begin = 0; begin < n; begin += 2 * run) {
        Merge(positions, scratch, begin, std::min(begin + run, n), std::min(begin + 2 * run, n));
      }
      std::swap(positions, scratch);
    }
    return positions;
  }

  // Merges from[begin, middle) and from[middle, end) into to[begin, end).
  void Merge(const int64_t* from, int64_t* to, int64_t begin, int64_t middle, int64_t end) {
    int64_t a = begin;
    int64_t b = middle;
    for (int64_t i = begin; i < end; ++i) {
      const bool second = b < end && (a == middle || Before(from[b], from[a]));
      to[i] = second ? from[b++] : from[a++];
    }
  }

 private:
  bool Before(int64_t a, int64_t b) {
    for (size_t i = 0; i < bases_.size(); ++i) {
      pairs_[2 * i] = bases_[i] + a * steps_[i];
      pairs_[2 * i + 1] = bases_[i] + b * steps_[i];
    }
    return problem_.comparator(pairs_.data()) != 0;
  }
  void InsertionSort(int64_t* positions, int64_t n) {
    for (int64_t i = 1; i < n; ++i) {
      const int64_t moved = positions[i];
      int64_t place = i;
      for (; place > 0 && Before(moved, positions[place - 1]); --place)
        positions[place] = positions[place - 1];
      positions[place] = moved;
    }
  }

  const Problem& problem_;
  std::vector<void*> pairs_;
  std::vector<char*> bases_;
  std::vector<int64_t> steps_;
};

// One long row: chunks sorted in parallel, then merged pairwise in parallel.
int64_t* SortPositionsInParallel(const Problem& problem, void* const* operands, int64_t row,
                                 int64_t* positions, int64_t* scratch) {
  const int64_t n = problem.length;
  const auto chunks = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(NumThreads())) * 2);
  const int64_t chunk = (n + chunks - 1) / chunks;
  ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = std::min(c * chunk, n);
      const int64_t count = std::min(chunk, n - first);
      PositionSorter sorter(problem, operands, row);
      const int64_t* sorted = sorter.Sort(positions + first, scratch + first, count);
      if (sorted != positions + first) std::copy(sorted, sorted + count, positions + first);
    }
  });
  for (int64_t run = chunk; run < n; run *= 2) {
    ParallelFor((n + 2 * run - 1) / (2 * run), 1, [&](int64_t begin, int64_t end) {
      PositionSorter sorter(problem, operands, row);
      for (int64_t pair = begin; pair < end; ++pair) {
        const int64_t first = pair * 2 * run;
        sorter.Merge(positions, scratch, first, std::min(first + run, n),
                     std::min(first + 2 * run, n));
      }
    });
    std::swap(positions, scratch);
  }
  return positions;
}

Status SortByComparator(LibraryContext& context, const Problem& problem, void* const* operands,
                        void* const* results) {
  const int64_t n = problem.length;
  const auto bytes = 2 * static_cast<size_t>(n) * sizeof(int64_t);
  const bool parallel_rows = problem.rows >= NumThreads() || n < kTaskElements;
  std::atomic<bool> out_of_memory{false};
  const auto sort_rows = [&](int64_t begin, int64_t end) {
    StatusOr<Scratch> memory = context.AllocateScratch(bytes);
    if (!memory.ok()) {
      out_of_memory = true;
      return;
    }
    auto* positions = memory->as<int64_t>();
    for (int64_t row = begin; row < end; ++row) {
      std::iota(positions, positions + n, int64_t{0});
      const int64_t* sorted =
          parallel_rows ? PositionSorter(problem, operands, row).Sort(positions, positions + n, n)
                        : SortPositionsInParallel(problem, operands, row, positions, positions + n);
      ForEachPart(problem, !parallel_rows, [&](Range range) {
        Permute(problem, operands, results, row, range, [sorted](int64_t i) { return sorted[i]; });
      });
    }
  };
  if (parallel_rows) {
    ParallelFor(problem.rows, std::max<int64_t>(1, kTaskElements / 8 / n), sort_rows);
  } else {
    sort_rows(0, problem.rows);
  }
  if (out_of_memory) return ResourceExhausted("no memory to sort rows of ", n, " elements");
  return OkStatus();
}

// ----------------------------------------------------------------------------------------------------------
// the call

class Sort final : public LibraryCall {
 public:
  explicit Sort(Problem problem) : problem_(std::move(problem)) {}
  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    if (problem_.rows == 0 || problem_.length == 0) return OkStatus();
    return problem_.comparator != nullptr ? SortByComparator(context, problem_, operands, results)
                                          : SortByKeys(context, problem_, operands, results);
  }

 private:
  const Problem problem_;
};

Status ReadKeys(const LibraryCallSignature& signature, Problem& problem) {
  const LibraryAttributes& attributes = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> operands,
                           attributes.Integers("key_operands"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> descending,
                           attributes.Integers("key_descending"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> orders, attributes.Integers("key_orders"));
  if (operands.empty() || descending.size() != operands.size() ||
      orders.size() != operands.size()) {
    return InvalidArgument(
        "attributes key_operands, key_descending and key_orders must have the same number of "
        "numbers");
  }
  for (size_t i = operands.size(); i-- > 0;) {  // the last key has the lowest bits
    if (operands[i] < 0 || static_cast<size_t>(operands[i]) >= signature.operands.size()) {
      return InvalidArgument("there is no operand ", operands[i], " to sort by");
    }
    if (orders[i] != 0 && orders[i] != 1)
      return InvalidArgument("attribute key_orders holds ", orders[i]);
    const auto operand = static_cast<size_t>(operands[i]);
    const PrimitiveType type = signature.operands[operand].shape.type;
    if (!VisitKeyTraits(type, [](auto) {}))
      return Unimplemented("keys of type ", TypeName(type), " need a comparator");
    problem.keys.insert(problem.keys.begin(), Key{operand, type, static_cast<SortOrder>(orders[i]),
                                                  descending[i] != 0, problem.key_bits});
    problem.key_bits += static_cast<int>(8 * ByteWidth(type));
    if (problem.key_bits > 64) return Unimplemented("keys of more than 64 bits need a comparator");
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<LibraryCall>> MakeSort(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  if (signature.operands.empty() || signature.results.size() != signature.operands.size()) {
    return InvalidArgument("expected as many results as operands, at least 1");
  }
  const Shape& shape = signature.operands[0].shape;
  Problem problem{};
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    const Shape& operand = signature.operands[i].shape;
    if (!(operand.dimensions == shape.dimensions) || !(operand == signature.results[i])) {
      return InvalidArgument(
          "operands and results must have the same dimensions, and each pair the same type");
    }
    problem.widths.push_back(ByteWidth(operand.type));
  }
  TRIPONT_ASSIGN_OR_RETURN(const int64_t dimension, attributes.Integer("dimension"));
  TRIPONT_RETURN_IF_ERROR(attributes.IntegerOr("is_stable", 1).status());
  if (dimension < 0 || static_cast<size_t>(dimension) >= shape.rank()) {
    return InvalidArgument("dimension ", dimension, " of ", shape, " does not exist");
  }
  problem.length = shape.dimensions[static_cast<size_t>(dimension)];
  problem.inner = 1;
  for (size_t d = static_cast<size_t>(dimension) + 1; d < shape.rank(); ++d)
    problem.inner *= shape.dimensions[d];
  problem.rows = problem.length == 0 ? 0 : shape.ElementCount() / problem.length;
  if (attributes.Has("comparator")) {
    TRIPONT_ASSIGN_OR_RETURN(const void* function, attributes.Function("comparator"));
    problem.comparator = reinterpret_cast<Comparator>(const_cast<void*>(function));
  } else {
    TRIPONT_RETURN_IF_ERROR(ReadKeys(signature, problem));
  }
  TRIPONT_RETURN_IF_ERROR(attributes.CheckAllUsed());
  return std::unique_ptr<LibraryCall>(new Sort(std::move(problem)));
}

}  // namespace

void RegisterSort(LibraryRegistry& registry) { registry.Register("sort", MakeSort); }

}  // namespace tripont
