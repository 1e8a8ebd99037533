// RunLengthEncode(x: T[n]) -> values: T[m], lengths: int64[m]
//
// A compiled program must know the size of its results before it runs, and m depends on the values
// of x. So this op is a kernel written by hand. It reads the buffer that the program before it
// wrote, and the program after it reads the buffers that it writes: no copies.

#include <array>
#include <vector>

#include "tripont/tensorflow_kernel.h"

namespace {

template <typename T, TF_DataType kType>
struct RunLengthEncode {
  void Compute(tripont::Context& context) {
    const tripont::Array x = context.Input(0);  // on the device
    if (!context.ok()) return;
    if (x.rank != 1) {
      return context.Fail(TF_INVALID_ARGUMENT,
                          "RunLengthEncode wants a vector, and got rank " + std::to_string(x.rank));
    }
    std::vector<int64_t> ends;  // one after the last element of each run
    for (int64_t i = 0; i < x.size; ++i) {
      if (i + 1 == x.size || x.data<T>()[i] != x.data<T>()[i + 1]) ends.push_back(i + 1);
    }
    const std::array<int64_t, 1> dims = {static_cast<int64_t>(ends.size())};
    const tripont::Array values = context.Output(0, kType, dims);
    const tripont::Array lengths = context.Output(1, TF_INT64, dims);
    if (!context.ok()) return;
    for (size_t run = 0; run < ends.size(); ++run) {
      values.data<T>()[run] = x.data<T>()[ends[run] - 1];
      lengths.data<int64_t>()[run] = ends[run] - (run == 0 ? 0 : ends[run - 1]);
    }
  }
};

TRIPONT_REGISTER_OP(tripont::Op{.name = "RunLengthEncode",
                                .inputs = {"x: T"},
                                .outputs = {"values: T", "lengths: int64"},
                                .attributes = {"T: {float, int64}"}});

// A class for each type it is registered for.
using EncodeFloat = RunLengthEncode<float, TF_FLOAT>;
using EncodeInt64 = RunLengthEncode<int64_t, TF_INT64>;
TRIPONT_REGISTER_KERNEL(EncodeFloat, tripont::Kernel("RunLengthEncode").Type("T", TF_FLOAT));
TRIPONT_REGISTER_KERNEL(EncodeInt64, tripont::Kernel("RunLengthEncode").Type("T", TF_INT64));

}  // namespace
