// Library call "fft": discrete Fourier transforms over the last one to three dimensions.
//
// Attributes: "fft_type" ("FFT", "IFFT", "RFFT", "IRFFT") and "fft_length" (one number a
// transformed dimension). Element types c64 and c128, with f32 and f64 on the real side of RFFT and
// IRFFT. Inverse transforms are scaled by 1 / length.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "core/runtime/library/calls.h"
#include "core/runtime/library/fft_lanes.h"
#include "core/runtime/library/fft_plan.h"
#include "core/runtime/library/registry.h"
#include "core/runtime/parallel.h"

namespace tripont {
namespace {

// Elements that make a task worth another thread.
constexpr int64_t kTaskElements = 1 << 12;
// Rows from which on it is worth to transform as many at a time as vectors have lanes.
constexpr int64_t kFewestRows = 4;

enum class Kind { kForward, kInverse, kFromReal, kToReal };

struct Problem {
  Kind kind;
  std::vector<int64_t> operand;  // dimensions
  std::vector<int64_t> result;
  std::vector<int64_t> lengths;  // of the transformed dimensions, the last ones
};

int64_t Product(const std::vector<int64_t>& values, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= values[i];
  return product;
}

template <typename T>
class Fft final : public LibraryCall {
 public:
  explicit Fft(Problem problem) : problem_(std::move(problem)) {
    using LaneKind = typename LaneFft<T>::Kind;
    const bool inverse = problem_.kind == Kind::kInverse || problem_.kind == Kind::kToReal;
    const size_t count = problem_.lengths.size();
    for (size_t d = 0; d < count; ++d) {
      LaneKind kind = inverse ? LaneKind::kInverse : LaneKind::kComplex;
      if (d + 1 == count && problem_.kind == Kind::kFromReal) kind = LaneKind::kFromReal;
      if (d + 1 == count && problem_.kind == Kind::kToReal) kind = LaneKind::kToReal;
      const int64_t n = problem_.lengths[d];
      const int64_t rows =
          Product(problem_.result, 0, problem_.result.size()) /
          std::max<int64_t>(1, problem_.result[problem_.result.size() - count + d]);
      if (rows >= kFewestRows && LaneFft<T>::Has(kind, n)) {
        lanes_.push_back(std::make_unique<LaneFft<T>>(kind, n));
        plans_.push_back(nullptr);
      } else {
        lanes_.push_back(nullptr);
        plans_.push_back(std::make_unique<FftPlan<T>>(n));
      }
    }
  }

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    const int64_t size = Product(problem_.result, 0, problem_.result.size());
    if (size == 0) return OkStatus();
    const size_t last = lanes_.size() - 1;
    switch (problem_.kind) {
      case Kind::kForward:
      case Kind::kInverse: {
        const auto* from = static_cast<const Complex<T>*>(operands[0]);
        auto* data = static_cast<Complex<T>*>(results[0]);
        for (size_t d = 0; d <= last; ++d) {
          TRIPONT_RETURN_IF_ERROR(TransformDimension(context, d == 0 ? from : data, data,
                                                     problem_.result, d,
                                                     problem_.kind == Kind::kInverse));
        }
        return OkStatus();
      }
      case Kind::kFromReal: {
        auto* data = static_cast<Complex<T>*>(results[0]);
        TRIPONT_RETURN_IF_ERROR(
            TransformFromReal(context, static_cast<const T*>(operands[0]), data));
        for (size_t d = 0; d < last; ++d) {
          TRIPONT_RETURN_IF_ERROR(
              TransformDimension(context, data, data, problem_.result, d, false));
        }
        return OkStatus();
      }
      case Kind::kToReal: {
        const auto* from = static_cast<const Complex<T>*>(operands[0]);
        if (last == 0) return TransformToReal(context, from, static_cast<T*>(results[0]));
        const size_t bytes =
            static_cast<size_t>(Product(problem_.operand, 0, problem_.operand.size())) *
            sizeof(Complex<T>);
        TRIPONT_ASSIGN_OR_RETURN(const Scratch copy, context.AllocateScratch(bytes));
        auto* data = copy.as<Complex<T>>();
        for (size_t d = 0; d < last; ++d) {
          TRIPONT_RETURN_IF_ERROR(
              TransformDimension(context, d == 0 ? from : data, data, problem_.operand, d, true));
        }
        return TransformToReal(context, data, static_cast<T*>(results[0]));
      }
    }
    return Internal("unknown kind of fft");
  }

 private:
  // Calls body(row, buffer, scratch) for rows [0, rows), each with a buffer of the plan's length.
  template <typename Body>
  Status ForEachRow(LibraryContext& context, const FftPlan<T>& plan, int64_t rows,
                    const Body& body) const {
    const int64_t n = plan.length();
    const size_t bytes = static_cast<size_t>(n + plan.scratch_size()) * sizeof(Complex<T>);
    std::atomic<bool> out_of_memory{false};
    ParallelFor(rows, std::max<int64_t>(1, kTaskElements / n), [&](int64_t begin, int64_t end) {
      StatusOr<Scratch> memory = context.AllocateScratch(bytes);
      if (!memory.ok()) {
        out_of_memory = true;
        return;
      }
      auto* buffer = memory->template as<Complex<T>>();
      for (int64_t row = begin; row < end; ++row) body(row, buffer, buffer + n);
    });
    if (out_of_memory) return ResourceExhausted("no memory for transforms of length ", n);
    return OkStatus();
  }

  // Transforms `rows` rows, as many at a time as vectors have lanes: groups of `inner` interleaved
  // complex ones, or real or complex ones (`inner` is 1). A group takes `from_pitch` and `to_pitch`
  // T's.
  Status TransformLanes(LibraryContext& context, const LaneFft<T>& fft, const T* from, T* to,
                        int64_t rows, int64_t inner, int64_t from_pitch, int64_t to_pitch) const {
    const int64_t lanes = LaneFft<T>::lanes();
    // Interleaved rows are read and written as vectors where there are enough of them.
    const bool neighbours = inner >= lanes / 2 && inner > 1;
    const int64_t line = neighbours ? inner : rows;  // rows that are done together are of one line
    const int64_t pieces = (line + lanes - 1) / lanes;
    const int64_t numbers = std::max<int64_t>(1, from_pitch / (2 * inner)) * lanes;
    std::atomic<bool> out_of_memory{false};
    const auto transform = [&](int64_t begin, int64_t end) {
      StatusOr<Scratch> memory = context.AllocateScratch(static_cast<size_t>(fft.scratch_bytes()));
      if (!memory.ok()) {
        out_of_memory = true;
        return;
      }
      FftRows<T> together;
      together.step = inner;
      together.neighbours = neighbours;
      for (int64_t piece = begin; piece < end; ++piece) {
        const int64_t done = piece % pieces * lanes;  // of this line
        const int64_t first = piece / pieces * line + done;
        together.count = static_cast<int>(std::min(lanes, line - done));
        for (int64_t l = 0; l < together.count; ++l) {
          const int64_t group = (first + l) / inner;
          const int64_t column = 2 * ((first + l) % inner);
          together.from[static_cast<size_t>(l)] = from + group * from_pitch + column;
          together.to[static_cast<size_t>(l)] = to + group * to_pitch + column;
        }
        fft.Transform(together, memory->template as<std::byte>());
      }
    };
    ParallelFor(rows / line * pieces, std::max<int64_t>(1, kTaskElements / numbers), transform);
    if (out_of_memory) return ResourceExhausted("no memory for ", lanes, " transforms at a time");
    return OkStatus();
  }

  // Transforms dimension `index` of the transformed ones from `from` to `data`, which may be the
  // same.
  Status TransformDimension(LibraryContext& context, const Complex<T>* from, Complex<T>* data,
                            const std::vector<int64_t>& dimensions, size_t index,
                            bool inverse) const {
    const size_t dimension = dimensions.size() - plans_.size() + index;
    const int64_t n = dimensions[dimension];
    const int64_t inner = Product(dimensions, dimension + 1, dimensions.size());
    const int64_t rows = Product(dimensions, 0, dimension) * inner;
    if (lanes_[index] != nullptr) {
      return TransformLanes(context, *lanes_[index], reinterpret_cast<const T*>(from),
                            reinterpret_cast<T*>(data), rows, inner, 2 * n * inner, 2 * n * inner);
    }
    const FftPlan<T>& plan = *plans_[index];
    if (from != data) {
      ParallelCopy(data, from, static_cast<size_t>(rows * n) * sizeof(Complex<T>));
    }
    const T scale = inverse ? T{1} / static_cast<T>(n) : T{1};
    return ForEachRow(context, plan, rows,
                      [&](int64_t row, Complex<T>* buffer, Complex<T>* scratch) {
                        Complex<T>* start = data + row / inner * n * inner + row % inner;
                        for (int64_t i = 0; i < n; ++i) buffer[i] = start[i * inner];
                        plan.Transform(buffer, scratch, inverse);
                        for (int64_t i = 0; i < n; ++i)
                          start[i * inner] = inverse ? buffer[i] * scale : buffer[i];
                      });
  }

  Status TransformFromReal(LibraryContext& context, const T* from, Complex<T>* to) const {
    const int64_t n = problem_.lengths.back();
    const int64_t half = n / 2 + 1;
    const int64_t rows = Product(problem_.operand, 0, problem_.operand.size() - 1);
    if (lanes_.back() != nullptr) {
      return TransformLanes(context, *lanes_.back(), from, reinterpret_cast<T*>(to), rows, 1, n,
                            2 * half);
    }
    const FftPlan<T>& plan = *plans_.back();
    return ForEachRow(context, plan, rows,
                      [&](int64_t row, Complex<T>* buffer, Complex<T>* scratch) {
                        for (int64_t i = 0; i < n; ++i) buffer[i] = {from[row * n + i], T{0}};
                        plan.Transform(buffer, scratch, false);
                        std::copy(buffer, buffer + half, to + row * half);
                      });
  }

  // The other half of the spectrum is the conjugate of the first; imaginary parts that a real
  // signal cannot have are ignored.
  Status TransformToReal(LibraryContext& context, const Complex<T>* from, T* to) const {
    const int64_t n = problem_.lengths.back();
    const int64_t half = n / 2 + 1;
    const int64_t rows = Product(problem_.result, 0, problem_.result.size() - 1);
    if (lanes_.back() != nullptr) {
      return TransformLanes(context, *lanes_.back(), reinterpret_cast<const T*>(from), to, rows, 1,
                            2 * half, n);
    }
    const FftPlan<T>& plan = *plans_.back();
    const T scale = T{1} / static_cast<T>(n);
    return ForEachRow(context, plan, rows,
                      [&](int64_t row, Complex<T>* buffer, Complex<T>* scratch) {
                        const Complex<T>* in = from + row * half;
                        buffer[0] = {in[0].real, T{0}};
                        for (int64_t i = 1; i < half; ++i) {
                          buffer[i] = in[i];
                          buffer[n - i] = {in[i].real, -in[i].imaginary};
                        }
                        if (n % 2 == 0) buffer[n / 2] = {in[n / 2].real, T{0}};
                        plan.Transform(buffer, scratch, true);
                        for (int64_t i = 0; i < n; ++i) to[row * n + i] = buffer[i].real * scale;
                      });
  }

  const Problem problem_;
  // For each transformed dimension one of the two.
  std::vector<std::unique_ptr<LaneFft<T>>> lanes_;
  std::vector<std::unique_ptr<FftPlan<T>>> plans_;
};

StatusOr<Kind> ReadKind(const LibraryAttributes& attributes) {
  TRIPONT_ASSIGN_OR_RETURN(const std::string kind, attributes.Bytes("fft_type"));
  if (kind == "FFT") return Kind::kForward;
  if (kind == "IFFT") return Kind::kInverse;
  if (kind == "RFFT") return Kind::kFromReal;
  if (kind == "IRFFT") return Kind::kToReal;
  return InvalidArgument("attribute fft_type is '", kind, "'");
}

StatusOr<std::unique_ptr<LibraryCall>> MakeFft(const LibraryCallSignature& signature) {
  const LibraryAttributes& attributes = signature.attributes;
  if (signature.operands.size() != 1 || signature.results.size() != 1) {
    return InvalidArgument("expected 1 operand and 1 result");
  }
  const Shape& operand = signature.operands[0].shape;
  const Shape& result = signature.results[0];
  Problem problem{};
  TRIPONT_ASSIGN_OR_RETURN(problem.kind, ReadKind(attributes));
  TRIPONT_ASSIGN_OR_RETURN(problem.lengths, attributes.Integers("fft_length"));
  TRIPONT_RETURN_IF_ERROR(attributes.CheckAllUsed());
  problem.operand.assign(operand.dimensions.begin(), operand.dimensions.end());
  problem.result.assign(result.dimensions.begin(), result.dimensions.end());
  const size_t rank = problem.operand.size();
  const size_t count = problem.lengths.size();
  if (count < 1 || count > 3 || count > rank || problem.result.size() != rank) {
    return InvalidArgument("fft_length has ", count, " numbers for ", operand);
  }
  // What the dimensions of operand and result must be.
  std::vector<int64_t> from = problem.result;
  std::copy(problem.lengths.begin(), problem.lengths.end(),
            from.end() - static_cast<ptrdiff_t>(count));
  std::vector<int64_t> to = from;
  if (problem.kind == Kind::kFromReal) to.back() = to.back() / 2 + 1;
  if (problem.kind == Kind::kToReal) from.back() = from.back() / 2 + 1;
  const bool fits =
      std::all_of(problem.lengths.begin(), problem.lengths.end(), [](int64_t n) { return n > 0; });
  if (!fits || from != problem.operand || to != problem.result) {
    return InvalidArgument("fft_length does not fit ", operand, " and ", result);
  }
  const PrimitiveType complex_type = problem.kind == Kind::kToReal ? operand.type : result.type;
  const bool wide = complex_type == PrimitiveType::kC128;
  const PrimitiveType real_type = wide ? PrimitiveType::kF64 : PrimitiveType::kF32;
  if ((!wide && complex_type != PrimitiveType::kC64) ||
      operand.type != (problem.kind == Kind::kFromReal ? real_type : complex_type) ||
      result.type != (problem.kind == Kind::kToReal ? real_type : complex_type)) {
    return Unimplemented("no transform from ", operand, " to ", result);
  }
  if (wide) return std::unique_ptr<LibraryCall>(new Fft<double>(std::move(problem)));
  return std::unique_ptr<LibraryCall>(new Fft<float>(std::move(problem)));
}

}  // namespace

void RegisterFft(LibraryRegistry& registry) { registry.Register("fft", MakeFft); }

}  // namespace tripont
