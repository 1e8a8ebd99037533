#include <algorithm>
#include <array>
#include <span>

#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

// Where(input: T[d0, ...]) -> index: int64[n, rank], the places of the elements that are not zero,
// in row-major order.
template <typename T>
struct Where {
  void Compute(Context& context) {
    const Array input = context.Input(0);
    if (context.ok() && input.rank == 0) {
      return context.Fail(TF_INVALID_ARGUMENT, "Where of a scalar: Unhandled input dimensions: 0");
    }
    const T* values = input.data<T>();
    int64_t count = 0;
    for (int64_t i = 0; i < input.size; ++i) count += values[i] != T(0);
    const std::array<int64_t, 2> dims = {count, input.rank};
    const Array index = context.Output(0, TF_INT64, dims);
    if (!context.ok()) return;
    int64_t* place = index.data<int64_t>();
    const std::span<const int64_t> sizes = input.dims();
    std::array<int64_t, TRIPONT_MAX_RANK> at{};
    for (int64_t i = 0; i < input.size; ++i) {
      if (values[i] != T(0)) place = std::copy_n(at.data(), input.rank, place);
      for (size_t d = sizes.size(); d > 0 && ++at[d - 1] == sizes[d - 1]; --d) at[d - 1] = 0;
    }
  }
};

}  // namespace

void RegisterWhereKernels() {
  ForEachType([]<typename T>(TF_DataType type) {
    // TensorFlow's own kernel for int32 works in host memory, where it keeps such tensors.
    if (type != TF_INT32) Register<Where<T>>(Kernel("Where").Type("T", type));
  });
}

}  // namespace tripont::tensorflow
