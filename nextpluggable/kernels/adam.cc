#include <algorithm>
#include <cmath>

#include "nextpluggable/kernels/kernels.h"

namespace tripont::tensorflow {
namespace {

// One step of Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2014) on n
// elements: var, m and v are read once and written once.
template <typename T>
struct Step {
  T* var;
  T* m;
  T* v;
  const T* grad;
  T alpha;  // the learning rate, with the bias corrections
  T beta1;
  T beta2;
  T epsilon;
};

template <typename T, bool kNesterov>
[[gnu::always_inline]] inline void Update(const Step<T>& step, int64_t begin, int64_t end) {
  const auto [var, m, v, grad, alpha, beta1, beta2, epsilon] = step;
#pragma GCC ivdep
  for (int64_t i = begin; i < end; ++i) {
    const T g = grad[i];
    const T first = m[i] + (g - m[i]) * (1 - beta1);
    const T second = v[i] + (g * g - v[i]) * (1 - beta2);
    const T direction = kNesterov ? g * (1 - beta1) + beta1 * first : first;
    var[i] -= direction * alpha / (std::sqrt(second) + epsilon);
    m[i] = first;
    v[i] = second;
  }
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define TRIPONT_FOR_EACH_CPU [[gnu::target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")]]
#else
#define TRIPONT_FOR_EACH_CPU
#endif

TRIPONT_FOR_EACH_CPU void Run(const Step<float>& step, bool nesterov, int64_t begin, int64_t end) {
  nesterov ? Update<float, true>(step, begin, end) : Update<float, false>(step, begin, end);
}
TRIPONT_FOR_EACH_CPU void Run(const Step<double>& step, bool nesterov, int64_t begin, int64_t end) {
  nesterov ? Update<double, true>(step, begin, end) : Update<double, false>(step, begin, end);
}

// ResourceApplyAdam(var, m, v, beta1_power, beta2_power, lr, beta1, beta2, epsilon, grad).
template <typename T>
struct ResourceApplyAdam {
  explicit ResourceApplyAdam(Construction& node) : nesterov(node.Bool("use_nesterov")) {}

  void Compute(Context& context) {
    const Array grad = context.Input(9);
    T scalars[6];
    for (int i = 0; i < 6; ++i) {
      const Array scalar = context.Input(3 + i);
      if (!context.ok()) return;
      if (scalar.rank != 0) {
        return context.Fail(TF_INVALID_ARGUMENT, std::string(kNames[i]) +
                                                     " is not a scalar: its rank is " +
                                                     std::to_string(scalar.rank));
      }
      scalars[i] = *scalar.data<T>();
    }
    const std::vector<Array> variables = context.Variables({0, 1, 2});
    if (!context.ok()) return;
    for (const Array& variable : variables) {
      if (variable.dtype != grad.dtype ||
          !std::equal(variable.dims().begin(), variable.dims().end(), grad.dims().begin(),
                      grad.dims().end())) {
        return context.Fail(TF_INVALID_ARGUMENT,
                            "var, m, v and grad do not have the same shape and type");
      }
    }
    const auto [beta1_power, beta2_power, lr, beta1, beta2, epsilon] = scalars;
    const Step<T> step{variables[0].data<T>(),
                       variables[1].data<T>(),
                       variables[2].data<T>(),
                       grad.data<T>(),
                       lr * std::sqrt(1 - beta2_power) / (1 - beta1_power),
                       beta1,
                       beta2,
                       epsilon};
    ParallelFor(grad.size, kGrain,
                [&](int64_t begin, int64_t end) { Run(step, nesterov, begin, end); });
  }

  static constexpr int64_t kGrain = int64_t{32} * 1024;  // elements
  static constexpr const char* kNames[] = {"beta1_power", "beta2_power", "lr",
                                           "beta1",       "beta2",       "epsilon"};
  bool nesterov;
};

}  // namespace

void RegisterAdamKernels() {
  Register<ResourceApplyAdam<float>>(Kernel("ResourceApplyAdam").Type("T", TF_FLOAT));
  Register<ResourceApplyAdam<double>>(Kernel("ResourceApplyAdam").Type("T", TF_DOUBLE));
}

}  // namespace tripont::tensorflow
