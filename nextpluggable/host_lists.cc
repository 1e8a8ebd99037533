#include "nextpluggable/host_lists.h"

#include <string_view>
#include <utility>
#include <vector>

#include "nextpluggable/cpu_kernels.h"
#include "nextpluggable/kernel_of.h"
#include "tensorflow/core/framework/op.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The CPU's kernel of a node: what it allocates on the way is host memory, which XPU's own
// allocator would not give.
class ListKernel : public KernelOf<> {
 public:
  explicit ListKernel(tf::OpKernelConstruction* construction)
      : KernelOf(construction, tf::DEVICE_CPU) {}

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
};

// Lists by a handle, which are resources of the CPU device: TensorFlow 1's, and those of sessions.
bool IsOfHandles(std::string_view op) {
  return op.starts_with("TensorArray") && op.ends_with("V3");
}

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
        !(op.starts_with("TensorList") || op == "EmptyTensorList" || IsOfHandles(op) ||
          IsForVariants(kernel))) {
      continue;
    }
    const tf::OpDef* definition = nullptr;
    if (!tf::OpRegistry::Global()->LookUpOpDef(kernel.op(), &definition).ok()) continue;
    tf::KernelDef* const own = ForXpu(kernel);
    PutInHostMemory(*definition, own);
    RegisterKernel<ListKernel>(own, "TripontListKernel");
  }
}

}  // namespace tripont::tensorflow
