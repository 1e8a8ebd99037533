#include "nextpluggable/host_int32.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nextpluggable/kernel_of.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/op.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The ops that work on shapes and have no kernel on DEFAULT, because TensorFlow's own kernels for
// GPUs do this for them.
constexpr std::array<std::string_view, 4> kOnlyOnCpu = {"Pack", "Prod", "StridedSlice", "Sum"};

// The kernel of the same node that `kDevice` has. All its tensors are in host memory, so it does
// not notice where it is.
template <const char* const* kDevice>
class HostKernel : public KernelOf<> {
 public:
  explicit HostKernel(tf::OpKernelConstruction* construction) : KernelOf(construction, *kDevice) {}
  void Compute(tf::OpKernelContext* context) override { kernel_->Compute(context); }
};

// Registers for XPU what `kernel` is registered for.
template <const char* const* kDevice>
void RegisterAs(const tf::KernelDef& kernel) {
  RegisterKernel<HostKernel<kDevice>>(ForXpu(kernel), "TripontHostKernel");
}

// Whether the kernel takes int32 tensors only, and has all of them in host memory.
bool ComputesHostInt32(const tf::KernelDef& kernel) {
  if (kernel.constraint_size() == 0) return false;
  for (const auto& constraint : kernel.constraint()) {
    const auto& types = constraint.allowed_values().list().type();
    if (types.size() != 1 || types[0] != tf::DT_INT32) return false;
  }
  const tf::OpDef* op = nullptr;
  if (!tf::OpRegistry::Global()->LookUpOpDef(kernel.op(), &op).ok()) return false;
  const auto on_host = [&](const tf::OpDef::ArgDef& argument) {
    const auto& names = kernel.host_memory_arg();
    return std::find(names.begin(), names.end(), argument.name()) != names.end();
  };
  return std::all_of(op->input_arg().begin(), op->input_arg().end(), on_host) &&
         std::all_of(op->output_arg().begin(), op->output_arg().end(), on_host);
}

}  // namespace

void RegisterHostInt32Kernels() {
  // The ops that TensorFlow will register for XPU; those that it does not are DEFAULT's anyway.
  std::set<std::string> compiled;
  for (const tf::KernelDef* kernel : tf::XlaOpRegistry::DeviceKernels(
           kCompilationDevice, /*include_compilation_only_kernels=*/false)) {
    compiled.insert(kernel->op());
  }
  const tf::KernelList kernels = tf::GetAllRegisteredKernels();
  for (const tf::KernelDef& kernel : kernels.kernel()) {
    // TensorFlow's own host kernel of _EagerConst would allocate; host_memory.cc has one.
    if (kernel.device_type() == tf::DEVICE_DEFAULT && kernel.op() != "_EagerConst" &&
        compiled.contains(kernel.op()) && ComputesHostInt32(kernel)) {
      RegisterAs<&tf::DEVICE_DEFAULT>(kernel);
    }
  }
  for (const std::string_view op : kOnlyOnCpu) {
    const tf::OpDef* definition = nullptr;
    if (!tf::OpRegistry::Global()->LookUpOpDef(std::string(op), &definition).ok()) continue;
    tf::KernelDef kernel;
    kernel.set_op(std::string(op));
    auto* constraint = kernel.add_constraint();
    constraint->set_name("T");
    constraint->mutable_allowed_values()->mutable_list()->add_type(tf::DT_INT32);
    PutInHostMemory(*definition, &kernel);
    RegisterAs<&tf::DEVICE_CPU>(kernel);
  }
}

}  // namespace tripont::tensorflow
