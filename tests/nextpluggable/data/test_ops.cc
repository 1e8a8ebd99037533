// Ops that show where arrays are, for the tests of zero copies.

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "tripont/tensorflow_kernel.h"

namespace {

int64_t AddressOf(const tripont::Array& array) {
  return reinterpret_cast<int64_t>(array.data<char>());
}

void SetScalar(tripont::Context& context, int output, int64_t value) {
  const tripont::Array scalar = context.Output(output, TF_INT64, {});
  if (context.ok()) *scalar.data<int64_t>() = value;
}

// The address of x's first element.
struct TripontAddress {
  void Compute(tripont::Context& context) {
    const tripont::Array x = context.Input(0);
    SetScalar(context, 0, AddressOf(x));
  }
};
TRIPONT_REGISTER_OP(tripont::Op{.name = "TripontAddress",
                                .inputs = {"x: float"},
                                .outputs = {"address: int64"},
                                .stateful = true});
TRIPONT_REGISTER_KERNEL(TripontAddress, tripont::Kernel("TripontAddress").HostMemory("address"));

// y = x + amount, and where y is.
struct TripontMake {
  explicit TripontMake(tripont::Construction& node) : amount(node.Float("amount")) {
    if (amount < 0) node.Fail(TF_INVALID_ARGUMENT, "amount is negative");
  }
  void Compute(tripont::Context& context) {
    const tripont::Array x = context.Input(0);
    const tripont::Array y = context.Output(0, TF_FLOAT, x.dims());
    if (!context.ok()) return;
    tripont::ParallelFor(x.size, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y.data<float>()[i] = x.data<float>()[i] + amount;
    });
    SetScalar(context, 1, AddressOf(y));
  }
  float amount;
};
TRIPONT_REGISTER_OP(tripont::Op{.name = "TripontMake",
                                .inputs = {"x: float"},
                                .outputs = {"y: float", "address: int64"},
                                .attributes = {"amount: float = 1"},
                                .stateful = true});
TRIPONT_REGISTER_KERNEL(TripontMake, tripont::Kernel("TripontMake").HostMemory("address"));

// Keeps x until tripont_test_let_go is called, as one of TensorFlow's threads may.
std::vector<TF_Tensor*>& Held() {
  static auto* const held = new std::vector<TF_Tensor*>();
  return *held;
}
struct TripontHold {
  void Compute(tripont::Context& context) {
    TF_Tensor* x = nullptr;
    TF_Status* status = TF_NewStatus();
    TF_GetInput(context.get(), 0, &x, status);
    TF_DeleteStatus(status);
    if (x != nullptr) Held().push_back(x);
    context.Forward(0, 0);
  }
};
TRIPONT_REGISTER_OP(tripont::Op{
    .name = "TripontHold", .inputs = {"x: float"}, .outputs = {"y: float"}, .stateful = true});
TRIPONT_REGISTER_KERNEL(TripontHold, tripont::Kernel("TripontHold"));

// Doubles variables in place, and says where they are.
struct TripontDouble {
  void Compute(tripont::Context& context) {
    const std::vector<tripont::Array> variables = context.Variables({0, 1});
    if (!context.ok()) return;
    for (const tripont::Array& variable : variables) {
      for (int64_t i = 0; i < variable.size; ++i) variable.data<float>()[i] *= 2;
    }
    SetScalar(context, 0, AddressOf(variables[0]));
    SetScalar(context, 1, AddressOf(variables[1]));
  }
};
TRIPONT_REGISTER_OP(tripont::Op{.name = "TripontDouble",
                                .inputs = {"first: resource", "second: resource"},
                                .outputs = {"address_of_first: int64", "address_of_second: int64"},
                                .stateful = true});
TRIPONT_REGISTER_KERNEL(TripontDouble, tripont::Kernel("TripontDouble")
                                           .HostMemory("address_of_first")
                                           .HostMemory("address_of_second"));

// Fails in the ways that a kernel can.
struct TripontFail {
  explicit TripontFail(tripont::Construction& node) : way(node.Int("way")) {}
  void Compute(tripont::Context& context) {
    if (way == 0) throw std::runtime_error("thrown by a kernel");
    if (way == 1) return context.Fail(TF_OUT_OF_RANGE, "said by a kernel");
    if (way == 2) context.Input(7);
    if (way == 3) context.Output(0, TF_INT64, {});
    if (way == 4) context.Output(0, TF_FLOAT, std::array<int64_t, 2>{int64_t{1} << 40, 1 << 20});
  }
  int64_t way;
};
TRIPONT_REGISTER_OP(tripont::Op{.name = "TripontFail",
                                .inputs = {"x: float"},
                                .outputs = {"y: float"},
                                .attributes = {"way: int"},
                                .stateful = true});
TRIPONT_REGISTER_KERNEL(TripontFail, tripont::Kernel("TripontFail"));

}  // namespace

extern "C" int tripont_test_let_go() {
  const int count = static_cast<int>(Held().size());
  for (TF_Tensor* tensor : Held()) TF_DeleteTensor(tensor);
  Held().clear();
  return count;
}
