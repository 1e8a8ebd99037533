#include <algorithm>
#include <array>
#include <unordered_map>

#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

// Unique(x: T[n]) -> y: T[m], idx: out_idx[n]; WithCounts also count: out_idx[m]. The values of x
// in the order in which they first appear, and for each element the place of its value. NaNs are
// not equal to each other.
template <typename T, typename Index, TF_DataType kIndexType, bool kWithCounts>
struct Unique {
  void Compute(Context& context) {
    const Array x = context.Input(0);
    if (context.ok() && x.rank != 1) {
      return context.Fail(TF_INVALID_ARGUMENT, "unique expects a 1D vector.");
    }
    const Array idx = context.Output(1, kIndexType, x.dims());
    if (!context.ok()) return;
    std::unordered_map<T, Index> places;
    std::vector<T> values;
    std::vector<Index> counts;
    for (int64_t i = 0; i < x.size; ++i) {
      const auto [entry, is_new] =
          places.try_emplace(x.data<T>()[i], static_cast<Index>(values.size()));
      if (is_new) {
        values.push_back(x.data<T>()[i]);
        counts.push_back(0);
      }
      ++counts[entry->second];
      idx.data<Index>()[i] = entry->second;
    }
    const std::array<int64_t, 1> dims = {static_cast<int64_t>(values.size())};
    const Array y = context.Output(0, x.dtype, dims);
    if (context.ok()) std::copy(values.begin(), values.end(), y.data<T>());
    if constexpr (kWithCounts) {
      const Array count = context.Output(2, kIndexType, dims);
      if (context.ok()) std::copy(counts.begin(), counts.end(), count.data<Index>());
    }
  }
};

template <typename T, bool kWithCounts>
void RegisterBoth(const char* op, TF_DataType type) {
  for (const TF_DataType index : {TF_INT32, TF_INT64}) {
    // TensorFlow's own, which host_int32.h registers.
    if (type == TF_INT32 && index == TF_INT32 && !kWithCounts) continue;
    Kernel kernel = Kernel(op).Type("T", type).Type("out_idx", index);
    // Vectors of int32 stay in host memory, as on TensorFlow's other devices.
    if (type == TF_INT32) kernel.HostMemory("x").HostMemory("y").HostMemory("idx");
    if (type == TF_INT32 && kWithCounts) kernel.HostMemory("count");
    index == TF_INT32 ? Register<Unique<T, int32_t, TF_INT32, kWithCounts>>(kernel)
                      : Register<Unique<T, int64_t, TF_INT64, kWithCounts>>(kernel);
  }
}

}  // namespace

void RegisterUniqueKernels() {
  ForEachType([]<typename T>(TF_DataType type) {
    if constexpr (!std::is_same_v<T, bool>) {
      RegisterBoth<T, false>("Unique", type);
      RegisterBoth<T, true>("UniqueWithCounts", type);
    }
  });
}

}  // namespace tripont::tensorflow
