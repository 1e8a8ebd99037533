#include <algorithm>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

// RandomShuffle(value: T[n, ...]) -> the same rows in random order. The order is drawn from a
// generator of the kernel's own, seeded by the attributes `seed` and `seed2`, or by the system if
// both are 0; it is not the CPU kernel's order.
template <typename T>
class RandomShuffle {
 public:
  explicit RandomShuffle(Construction& node) : generator_(Seeded(node)) {}

  void Compute(Context& context) {
    const Array value = context.Input(0);
    if (!context.ok()) return;
    if (value.rank == 0 || value.dimensions[0] <= 1) return context.Forward(0, 0);
    const Array output = context.Output(0, value.dtype, value.dims());
    if (!context.ok()) return;
    const int64_t rows = value.dimensions[0];
    const int64_t row = value.size / rows;
    const std::vector<int64_t> order = Order(rows);
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, row));
    ParallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(output.data<T>() + i * row, value.data<T>() + order[i] * row,
                    static_cast<size_t>(row) * sizeof(T));
      }
    });
  }

 private:
  static constexpr int64_t kGrain = int64_t{64} * 1024;  // elements

  static std::mt19937_64 Seeded(Construction& node) {
    const auto seed = static_cast<uint64_t>(node.Int("seed"));
    const auto seed2 = static_cast<uint64_t>(node.Int("seed2"));
    if (seed == 0 && seed2 == 0) {
      std::random_device device;
      std::seed_seq sequence{device(), device(), device(), device()};
      return std::mt19937_64(sequence);
    }
    std::seed_seq sequence{seed, seed >> 32, seed2, seed2 >> 32};
    return std::mt19937_64(sequence);
  }

  // A random permutation of 0 .. rows - 1 (Fisher and Yates).
  std::vector<int64_t> Order(int64_t rows) {
    std::vector<int64_t> order(static_cast<size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int64_t i = rows - 1; i > 0; --i) {
      std::swap(order[i], order[std::uniform_int_distribution<int64_t>(0, i)(generator_)]);
    }
    return order;
  }

  std::mutex mutex_;
  std::mt19937_64 generator_;
};

}  // namespace

void RegisterRandomShuffleKernels() {
  ForEachType([]<typename T>(TF_DataType type) {
    Register<RandomShuffle<T>>(Kernel("RandomShuffle").Type("T", type));
  });
}

}  // namespace tripont::tensorflow
