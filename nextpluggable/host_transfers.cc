#include "nextpluggable/host_transfers.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "nextpluggable/kernel_of.h"
#include "nextpluggable/placement.h"
#include "tensorflow/core/common_runtime/optimization_registry.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/graph/graph.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// The ops stay TensorFlow's, by which it orders the parts of a function: _HostSend and _HostRecv,
// and on the CPU, whose own memory it is, _Send and _Recv too. A node with this label in the
// attribute "_kernel" gets the kernels below.
constexpr char kLabel[] = "tripont";

// What the two ends of a transfer have in common.
class Channel {
 public:
  explicit Channel(tf::OpKernelConstruction* construction) {
    int64_t incarnation = 0;
    OP_REQUIRES_OK(construction, construction->GetAttr("send_device", &send_device_));
    OP_REQUIRES_OK(construction, construction->GetAttr("recv_device", &recv_device_));
    OP_REQUIRES_OK(construction, construction->GetAttr("send_device_incarnation", &incarnation));
    OP_REQUIRES_OK(construction, construction->GetAttr("tensor_name", &tensor_name_));
    incarnation_ = static_cast<uint64_t>(incarnation);
  }

  absl::Status Key(const tf::OpKernelContext& context, tf::Rendezvous::ParsedKey* key) const {
    return tf::Rendezvous::ParseKey(
        tf::Rendezvous::CreateKey(send_device_, incarnation_, recv_device_,
                                  absl::StrCat(tensor_name_, "_call_", context.step_id()),
                                  context.frame_iter()),
        key);
  }

 private:
  std::string send_device_;
  std::string recv_device_;
  std::string tensor_name_;
  uint64_t incarnation_ = 0;
};

class Send : public tf::OpKernel {
 public:
  explicit Send(tf::OpKernelConstruction* construction)
      : tf::OpKernel(construction), channel_(construction) {}

  void Compute(tf::OpKernelContext* context) override {
    tf::Rendezvous::ParsedKey key;
    OP_REQUIRES_OK(context, channel_.Key(*context, &key));
    tf::Rendezvous::Args args;
    args.device_context = context->op_device_context();
    args.alloc_attrs = context->input_alloc_attr(0);
    const absl::Status sent =
        context->rendezvous()->Send(key, args, context->input(0), context->is_input_dead());
    context->SetStatus(sent);
  }

 private:
  Channel channel_;
};

class Recv : public tf::AsyncOpKernel {
 public:
  explicit Recv(tf::OpKernelConstruction* construction)
      : tf::AsyncOpKernel(construction), channel_(construction) {}

  void ComputeAsync(tf::OpKernelContext* context, DoneCallback done) override {
    tf::Rendezvous::ParsedKey key;
    OP_REQUIRES_OK_ASYNC(context, channel_.Key(*context, &key), done);
    tf::Rendezvous::Args args;
    args.device_context = context->op_device_context();
    args.alloc_attrs = context->output_alloc_attr(0);
    args.cancellation_manager = context->cancellation_manager();
    context->rendezvous()->RecvAsync(
        key, args,
        [context, done = std::move(done)](const absl::Status& received, const auto& /*sender*/,
                                          const auto& /*receiver*/, const tf::Tensor& tensor,
                                          bool is_dead) {
          context->SetStatus(received);
          if (received.ok() && !is_dead) context->set_output(0, tensor);
          done();
        });
  }

 private:
  Channel channel_;
};

template <typename Implementation>
void Register(tf::KernelDefBuilder& kernel) {
  RegisterKernel<Implementation>(kernel.Label(kLabel).Build(), "TripontHostTransfer");
}

bool IsOnXpu(const tf::Node& node) { return IsOn(kDeviceType, node.assigned_device_name()); }

// Whether the node is one end of a transfer in host memory.
bool IsEnd(const tf::Node& node) {
  if (IsOnXpu(node)) return node.IsHostSend() || node.IsHostRecv();
  return IsOn(tf::DEVICE_CPU, node.assigned_device_name()) && (node.IsSend() || node.IsRecv());
}

class Separate : public tf::GraphOptimizationPass {
 public:
  absl::Status Run(const tf::GraphOptimizationPassOptions& options) override {
    if (options.partition_graphs == nullptr) return absl::OkStatus();
    // By name. The other end may be in another process, or in device memory.
    std::unordered_map<std::string, tf::Node*> ends;
    for (const auto& [_, graph] : *options.partition_graphs) {
      for (tf::Node* node : graph->op_nodes()) {
        if (!IsEnd(*node)) continue;
        const auto [other, is_first] =
            ends.try_emplace(node->attrs().Find("tensor_name")->s(), node);
        if (is_first || !(IsOnXpu(*node) || IsOnXpu(*other->second))) continue;
        node->AddAttr("_kernel", kLabel);
        other->second->AddAttr("_kernel", kLabel);
      }
    }
    return absl::OkStatus();
  }
};

}  // namespace

void SeparateHostTransfers() {
  using Kernel = tf::KernelDefBuilder;
  Register<Send>(Kernel("_HostSend").Device(kDeviceType).HostMemory("tensor"));
  Register<Recv>(Kernel("_HostRecv").Device(kDeviceType).HostMemory("tensor"));
  for (const char* send : {"_Send", "_HostSend"})
    Register<Send>(Kernel(send).Device(tf::DEVICE_CPU));
  for (const char* recv : {"_Recv", "_HostRecv"})
    Register<Recv>(Kernel(recv).Device(tf::DEVICE_CPU));
  using Passes = tf::OptimizationPassRegistry;
  Passes::Global()->Register(Passes::POST_PARTITIONING, 1000, std::make_unique<Separate>());
}

}  // namespace tripont::tensorflow
