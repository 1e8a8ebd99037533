// Library call "topk": the k largest (or smallest) elements along the last dimension, best first,
// and their positions.
//
// Attributes: "k", "largest". Operand [..., n]; results [..., k] of the operand's type, and s32
// [..., k]. Floating-point numbers compare in total order (-NaN < -inf < ... < -0 < 0 < ... < NaN);
// of equal elements the first comes first.
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/library/sort_keys.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

// Elements that make a task worth another thread.
constexpr int64_t kTaskElements = 1 << 14;

struct Problem {
  PrimitiveType type;
  int64_t rows;
  int64_t length;
  int64_t k;
  bool largest;
};

// An element as it is ranked: less is better. Key and position are one number, the key above.
template <typename Bits>
class Candidate {
 public:
  Candidate() = default;
  Candidate(Bits key, int64_t index) : rank_(Rank{key} << 32 | static_cast<uint32_t>(index)) {}

  Bits key() const { return static_cast<Bits>(rank_ >> 32); }
  int32_t index() const { return static_cast<int32_t>(static_cast<uint32_t>(rank_)); }
  bool operator<(const Candidate& other) const { return rank_ < other.rank_; }

 private:
  __extension__ using Wide = unsigned __int128;
  using Rank = std::conditional_t<(sizeof(Bits) > 4), Wide, uint64_t>;
  Rank rank_ = ~Rank{0};  // worse than all others
};

template <typename Traits>
typename Traits::Unsigned KeyOf(const Problem& problem, typename Traits::Unsigned element) {
  return Traits::Encode(element, SortOrder::kTotal, problem.largest);
}

// Elements that are compared with a limit at once.
constexpr int64_t kBlock = 16;

// The first place from `i` on, in steps of kBlock, whose block has a key below `limit`; a place
// less than kBlock before `end` otherwise.
template <typename Traits>
int64_t SkipBlocks(const Problem& problem, const typename Traits::Unsigned* source, int64_t i,
                   int64_t end, typename Traits::Unsigned limit) {
  for (; i + kBlock <= end; i += kBlock) {
    int below = 0;
    for (int64_t n = 0; n < kBlock; ++n)
      below |= static_cast<int>(KeyOf<Traits>(problem, source[i + n]) < limit);
    if (below != 0) break;
  }
  return i;
}

// A selection of at most so many elements keeps them in order.
constexpr int64_t kFew = 16;

// The best k <= 2 of source[begin, end), best first, appended to `best`. The best two so far are in
// registers, and an element goes through both places without a branch: whether it is among them is
// unpredictable in a short row.
template <typename Traits>
void SelectTwo(const Problem& problem, const typename Traits::Unsigned* source, int64_t begin,
               int64_t end, std::vector<Candidate<typename Traits::Unsigned>>& best) {
  using Bits = typename Traits::Unsigned;
  std::array<Candidate<Bits>, 2> two;
  for (int64_t i = begin; i < end;) {
    // The first block leaves real elements in as many places as there are.
    if (i > begin) i = SkipBlocks<Traits>(problem, source, i, end, two[1].key());
    for (const int64_t stop = std::min(i + kBlock, end); i < stop; ++i) {
      Candidate<Bits> candidate(KeyOf<Traits>(problem, source[i]), i);
      for (Candidate<Bits>& place : two) {
        const bool is_better = candidate < place;
        const Candidate<Bits> better = is_better ? candidate : place;
        candidate = is_better ? place : candidate;
        place = better;
      }
    }
  }
  best.insert(best.end(), two.begin(), two.begin() + static_cast<ptrdiff_t>(problem.k));
}

// The same for k <= kFew: an element that is among them is put into its place.
template <typename Traits>
void SelectFew(const Problem& problem, const typename Traits::Unsigned* source, int64_t begin,
               int64_t end, std::vector<Candidate<typename Traits::Unsigned>>& best) {
  using Bits = typename Traits::Unsigned;
  std::array<Candidate<Bits>, kFew> few;
  const auto k = static_cast<size_t>(problem.k);
  size_t count = 0;
  for (int64_t i = begin; i < end;) {
    if (count == k) i = SkipBlocks<Traits>(problem, source, i, end, few[k - 1].key());
    for (const int64_t stop = std::min(i + kBlock, end); i < stop; ++i) {
      const Candidate<Bits> candidate(KeyOf<Traits>(problem, source[i]), i);
      if (count == k && !(candidate < few[k - 1])) continue;
      size_t place = count < k ? count++ : k - 1;
      for (; place > 0 && candidate < few[place - 1]; --place) few[place] = few[place - 1];
      few[place] = candidate;
    }
  }
  best.insert(best.end(), few.begin(), few.begin() + static_cast<ptrdiff_t>(count));
}

// The best k of source[begin, end), appended to `best` (at most k of them). One pass: elements that
// are not better than the worst of the best so far are skipped; the others collect until there are
// enough to select again.
template <typename Traits>
void Select(const Problem& problem, const typename Traits::Unsigned* source, int64_t begin,
            int64_t end, std::vector<Candidate<typename Traits::Unsigned>>& best) {
  using Bits = typename Traits::Unsigned;
  if (problem.k <= 2) return SelectTwo<Traits>(problem, source, begin, end, best);
  if (problem.k <= kFew) return SelectFew<Traits>(problem, source, begin, end, best);
  const auto k = static_cast<size_t>(problem.k);
  const size_t capacity = 2 * k;
  std::vector<Candidate<Bits>> candidates;
  candidates.reserve(capacity);
  const auto keep_the_best = [&] {
    std::nth_element(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(k - 1),
                     candidates.end());
    candidates.resize(k);
    return candidates[k - 1].key();
  };
  Bits limit = std::numeric_limits<Bits>::max();
  bool limited = false;  // `limit` is the key of the k-th best so far
  for (int64_t i = begin; i < end;) {
    if (limited) i = SkipBlocks<Traits>(problem, source, i, end, limit);
    for (const int64_t stop = std::min(i + kBlock, end); i < stop; ++i) {
      const Bits key = KeyOf<Traits>(problem, source[i]);
      if (limited && key >= limit) continue;  // later positions lose ties
      candidates.emplace_back(key, i);
      if (candidates.size() == capacity) {
        limit = keep_the_best();
        limited = true;
      }
    }
  }
  if (candidates.size() > k) keep_the_best();
  best.insert(best.end(), candidates.begin(), candidates.end());
}

template <typename Traits>
void Write(const Problem& problem, std::vector<Candidate<typename Traits::Unsigned>>& best,
           const typename Traits::Unsigned* source, typename Traits::Unsigned* values,
           int32_t* indices) {
  if (best.size() > static_cast<size_t>(problem.k)) {
    std::partial_sort(best.begin(), best.begin() + static_cast<ptrdiff_t>(problem.k), best.end());
  } else if (problem.k > kFew) {  // a few of one selection are in order
    std::sort(best.begin(), best.end());
  }
  for (int64_t i = 0; i < problem.k; ++i) {
    indices[i] = best[static_cast<size_t>(i)].index();
    values[i] = source[indices[i]];
  }
}

class TopK final : public LibraryCall {
 public:
  explicit TopK(const Problem& problem) : problem_(problem) {}

  Status Execute(LibraryContext& /*context*/, void* const* operands,
                 void* const* results) const override {
    if (problem_.rows == 0 || problem_.k == 0) return OkStatus();
    VisitKeyTraits(problem_.type,
                   [&](auto traits) { Run<decltype(traits)>(operands[0], results); });
    return OkStatus();
  }

 private:
  template <typename Traits>
  void Run(const void* operand, void* const* results) const {
    using Bits = typename Traits::Unsigned;
    const auto* source = static_cast<const Bits*>(operand);
    auto* values = static_cast<Bits*>(results[0]);
    auto* indices = static_cast<int32_t*>(results[1]);
    const int64_t n = problem_.length;
    const int64_t k = problem_.k;
    const int64_t chunks = std::min(int64_t{2} * NumThreads(), n / kTaskElements);
    if (problem_.rows < NumThreads() && chunks > 1 && k < n / chunks / 4) {
      for (int64_t row = 0; row < problem_.rows; ++row) {
        std::vector<std::vector<Candidate<Bits>>> found(static_cast<size_t>(chunks));
        ParallelFor(chunks, 1, [&](int64_t begin, int64_t end) {
          for (int64_t chunk = begin; chunk < end; ++chunk) {
            Select<Traits>(problem_, source + row * n, n * chunk / chunks, n * (chunk + 1) / chunks,
                           found[static_cast<size_t>(chunk)]);
          }
        });
        std::vector<Candidate<Bits>> best;
        for (const auto& part : found) best.insert(best.end(), part.begin(), part.end());
        Write<Traits>(problem_, best, source + row * n, values + row * k, indices + row * k);
      }
      return;
    }
    ParallelFor(
        problem_.rows, std::max<int64_t>(1, kTaskElements / n), [&](int64_t begin, int64_t end) {
          std::vector<Candidate<Bits>> best;
          for (int64_t row = begin; row < end; ++row) {
            best.clear();
            Select<Traits>(problem_, source + row * n, 0, n, best);
            Write<Traits>(problem_, best, source + row * n, values + row * k, indices + row * k);
          }
        });
  }

  const Problem problem_;
};

StatusOr<std::unique_ptr<LibraryCall>> MakeTopK(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  if (signature.operands.size() != 1 || signature.results.size() != 2 ||
      signature.operands[0].shape.rank() == 0) {
    return InvalidArgument("expected 1 operand of at least 1 dimension, and 2 results");
  }
  const Shape& shape = signature.operands[0].shape;
  Problem problem{};
  problem.type = shape.type;
  problem.length = shape.dimensions[shape.rank() - 1];
  problem.rows = problem.length == 0 ? 0 : shape.ElementCount() / problem.length;
  TRIPONT_ASSIGN_OR_RETURN(problem.k, attributes.Integer("k"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t largest, attributes.Integer("largest"));
  problem.largest = largest != 0;
  TRIPONT_RETURN_IF_ERROR(attributes.CheckAllUsed());
  if (problem.k < 0 || problem.k > problem.length) {
    return InvalidArgument("k = ", problem.k, " of ", problem.length, " elements");
  }
  if (problem.length > std::numeric_limits<int32_t>::max())
    return Unimplemented("rows of more than 2^31 - 1 elements");
  if (!VisitKeyTraits(problem.type, [](auto) {}))
    return Unimplemented("element type ", TypeName(problem.type));
  if (signature.results[0].type != shape.type || signature.results[1].type != PrimitiveType::kS32 ||
      signature.results[0].ElementCount() != problem.rows * problem.k ||
      signature.results[1].ElementCount() != problem.rows * problem.k) {
    return InvalidArgument("results ", signature.results[0], " and ", signature.results[1],
                           " do not fit ", shape);
  }
  return std::unique_ptr<LibraryCall>(new TopK(problem));
}

}  // namespace

void RegisterTopK(LibraryRegistry& registry) { registry.Register("topk", MakeTopK); }

}  // namespace tripont
