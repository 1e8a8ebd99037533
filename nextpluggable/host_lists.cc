#include "nextpluggable/host_lists.h"

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "nextpluggable/adapter.h"
#include "nextpluggable/cpu_kernels.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_def.pb.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The CPU's kernel of a node: what it allocates on the way is host memory, which XPU's own
// allocator would not give.
class ListKernel : public tf::OpKernel {
 public:
  explicit ListKernel(tf::OpKernelConstruction* construction)
      : tf::OpKernel(construction), kernel_(MakeCpuKernel(construction)) {}

  void Compute(tf::OpKernelContext* context) override {
    std::vector<tf::Tensor> inputs;
    inputs.reserve(static_cast<size_t>(context->num_inputs()));
    for (int i = 0; i < context->num_inputs(); ++i) inputs.push_back(context->input(i));
    std::vector<tf::Tensor> outputs;
    OP_REQUIRES_OK(context, RunOnCpu(context, kernel_.get(), std::move(inputs), &outputs));
    for (int i = 0; i < context->num_outputs(); ++i) {
      const tf::Tensor& output = outputs[static_cast<size_t>(i)];
      if (output.IsInitialized()) context->set_output(i, output);
    }
  }
  bool IsExpensive() override { return kernel_->IsExpensive(); }

 private:
  std::unique_ptr<tf::OpKernel> kernel_;
};

// What gradients of lists need beside the ops on lists themselves.
bool IsForVariants(const tf::KernelDef& kernel) {
  if (kernel.op() != "ZerosLike" && kernel.op() != "AddN") return false;
  for (const auto& constraint : kernel.constraint()) {
    const auto& types = constraint.allowed_values().list().type();
    if (types.size() == 1 && types[0] == tf::DT_VARIANT) return true;
  }
  return false;
}

}  // namespace

void RegisterHostListKernels() {
  const tf::KernelList kernels = tf::GetAllRegisteredKernels();
  for (const tf::KernelDef& kernel : kernels.kernel()) {
    const std::string_view op = kernel.op();
    if (kernel.device_type() != tf::DEVICE_CPU ||
        !(op.starts_with("TensorList") || op == "EmptyTensorList" || IsForVariants(kernel))) {
      continue;
    }
    const tf::OpDef* definition = nullptr;
    if (!tf::OpRegistry::Global()->LookUpOpDef(kernel.op(), &definition).ok()) continue;
    auto* own = new tf::KernelDef(kernel);  // the registrar's
    own->set_device_type(kDeviceType);
    own->set_priority(2);
    own->clear_host_memory_arg();
    for (const auto& argument : definition->input_arg()) own->add_host_memory_arg(argument.name());
    for (const auto& argument : definition->output_arg()) own->add_host_memory_arg(argument.name());
    tf::kernel_factory::OpKernelRegistrar(
        own, "TripontListKernel", [](tf::OpKernelConstruction* construction) -> tf::OpKernel* {
          return new ListKernel(construction);
        });
  }
}

}  // namespace tripont::tensorflow
