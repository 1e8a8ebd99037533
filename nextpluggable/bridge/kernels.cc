#include "nextpluggable/bridge/kernels.h"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/bridge/empty_results.h"
#include "nextpluggable/bridge/rules.h"
#include "nextpluggable/bridge/shape_check.h"
#include "nextpluggable/bridge/sizes.h"
#include "tensorflow/compiler/tf2xla/type_util.h"
#include "tensorflow/compiler/tf2xla/xla_expression.h"
#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/platform/mutex.h"
#include "tensorflow/core/util/determinism.h"
#include "xla/hlo/builder/xla_builder.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// How an op is registered: what may be constant, which types it takes, and the kernel's factory.
using Registration =
    std::remove_reference_t<decltype(*std::declval<tf::XlaOpRegistrationBuilder&>().Build(
        nullptr))>;
using Registrations = std::unordered_map<std::string, std::vector<std::unique_ptr<Registration>>>;

// A second registration of an op has to repeat the first, which the registry shows to nobody. An
// explicit instantiation may name private members, so here are three: the registry, its table, and
// the lock of the table.
struct Registry {
  using Type = tf::XlaOpRegistry& (*)();
  friend Type Private(Registry);
};
struct Table {
  using Type = Registrations tf::XlaOpRegistry::*;
  friend Type Private(Table);
};
struct Lock {
  using Type = tf::mutex tf::XlaOpRegistry::*;
  friend Type Private(Lock);
};
template <typename Member, typename Member::Type kPointer>
struct Expose {
  friend typename Member::Type Private(Member) { return kPointer; }
};
template struct Expose<Registry, &tf::XlaOpRegistry::Instance>;
template struct Expose<Table, &tf::XlaOpRegistry::ops_>;
template struct Expose<Lock, &tf::XlaOpRegistry::mutex_>;

// TensorFlow's kernels by op. Filled before any is made, and never changed.
std::unordered_map<std::string, tf::XlaOpRegistry::Factory>& Originals() {
  static auto* const originals = new std::unordered_map<std::string, tf::XlaOpRegistry::Factory>();
  return *originals;
}

// Gives results the types that the op says, where the kernel's are others: eigenvalues of a complex
// matrix are real for the bridge, and the gradient of a resized image of doubles is one of floats.
// Who reads them would read past their end.
void ConvertResults(tf::XlaOpKernelContext* context) {
  tf::OpKernelContext* const results = context->op_kernel_context();
  for (int i = 0; i < context->num_outputs(); ++i) {
    const tf::Tensor* const result = results->mutable_output(i);
    if (result == nullptr) continue;
    const tf::XlaExpression* const expression =
        tf::XlaExpression::CastExpressionFromTensor(*result);
    if (expression == nullptr || expression->kind() != tf::XlaExpression::Kind::kXlaOp) continue;
    xla::PrimitiveType wanted = xla::PRIMITIVE_TYPE_INVALID;
    const auto shape = context->builder()->GetShape(expression->handle());
    if (!shape.ok() || !shape->IsArray() ||
        !tf::DataTypeToPrimitiveType(context->expected_output_dtype(i), &wanted).ok() ||
        shape->element_type() == wanted) {
      continue;
    }
    const xla::XlaOp converted = xla::ConvertElementType(expression->handle(), wanted);
    delete results->release_output(i).tensor;
    context->SetOutput(i, converted);
  }
}

// A kernel of the bridge, and what is done instead of it: always, or if it is given sizes that
// depend on values.
class Guarded : public tf::XlaOpKernel {
 public:
  Guarded(tf::OpKernelConstruction* construction, std::unique_ptr<tf::OpKernel> original)
      : XlaOpKernel(construction),
        original_(std::move(original)),
        translation_(FindTranslation(type_string())),
        rule_(FindRule(type_string())) {}

  // XLA throws what a kernel of the bridge would not look at, such as the status of a shape too large to
  // count. Nobody above catches it: TensorFlow would translate it into an error of Python without Python's
  // lock, and so end the process.
  void Compile(tf::XlaOpKernelContext* context) override {
    try {
      CompileOrThrow(context);
    } catch (const std::bad_alloc&) {
      context->CtxFailure(absl::ResourceExhaustedError(
          absl::StrCat(type_string(), ": there is not enough memory to compile it")));
    } catch (const std::exception& error) {
      context->CtxFailure(
          absl::InvalidArgumentError(absl::StrCat(type_string(), ": ", error.what())));
    }
  }

 private:
  void CompileOrThrow(tf::XlaOpKernelContext* context) {
    const bool is_computed = HasComputedSize(context) || HasComputedConstant(context);
    if (!is_computed) {
      const auto shapes = CheckShapes(context);
      OP_REQUIRES_OK(context, shapes.status());
      if (SetEmptyResults(context, *shapes)) return;
    }
    const bool has_rule = rule_ != nullptr && is_computed;
    if (translation_ == nullptr && !has_rule) {
      original_->Compute(context->op_kernel_context());
    } else {
      OP_REQUIRES_OK(context,
                     (translation_ != nullptr ? translation_ : rule_)(context, *original_));
    }
    if (context->status().ok()) ConvertResults(context);
  }

  const std::unique_ptr<tf::OpKernel> original_;
  const Rule translation_;
  const Rule rule_;
};

bool IsGradientOfMaximum(std::string_view op) {
  return op == "MaxPoolGrad" || op == "MaxPoolGradV2";
}

// Whether a kernel refuses to be made as it might not give the same numbers in every run. Those of this
// device are the same, and the kernel is complete all the same.
bool IsRefusedAsNotTheSame(std::string_view op, const absl::Status& status) {
  return absl::IsUnimplemented(status) && IsGradientOfMaximum(op) && tsl::OpDeterminismRequired();
}

// The original kernel for a node that differs from `construction`'s, and for a device of another type.
std::unique_ptr<tf::OpKernel> MakeOriginal(tf::OpKernelConstruction* construction,
                                           tf::XlaOpRegistry::Factory factory,
                                           const tf::NodeDef& node, const tf::DeviceType& device) {
  std::shared_ptr<const tf::NodeProperties> properties;
  absl::Status status =
      tf::NodeProperties::CreateFromNodeDef(node, tf::OpRegistry::Global(), &properties);
  std::unique_ptr<tf::OpKernel> original;
  if (status.ok()) {
    tf::OpKernelConstruction other(
        device, construction->device(), tf::cpu_allocator(), construction->function_library(),
        construction->resource_manager(), properties, construction->input_memory_types(),
        construction->output_memory_types(), construction->graph_def_version(), &status);
    original.reset(factory(&other));
  }
  if (!status.ok() && !IsRefusedAsNotTheSame(node.op(), status)) construction->SetStatus(status);
  return original;
}

tf::OpKernel* MakeGuarded(tf::OpKernelConstruction* construction) {
  const std::string& op = construction->def().op();
  const auto factory = Originals().at(op);
  tf::NodeDef node = construction->def();
  std::string padding;
  std::unique_ptr<tf::OpKernel> original;
  if (op == "XlaCallModule") {
    // It asks which of XLA's devices it is for, and knows no other than TensorFlow's own. It is told
    // that it is for the CPU: it holds a program that JAX or PyTorch/XLA exported for that platform, in
    // StableHLO, which means the same on every device.
    original = MakeOriginal(construction, factory, node, tf::DeviceType(tf::DEVICE_CPU_XLA_JIT));
  } else if (FindTranslation(op) != nullptr && tf::TryGetNodeAttr(node, "padding", &padding) &&
             padding == "EXPLICIT") {
    // The kernels of pools refuse it when they are made; the translations do not need them then.
    (*node.mutable_attr())["padding"].set_s("VALID");
    node.mutable_attr()->erase("explicit_paddings");
    original = MakeOriginal(construction, factory, node, construction->device_type());
  } else if (IsGradientOfMaximum(op)) {
    original = MakeOriginal(construction, factory, node, construction->device_type());
  } else {
    original.reset(factory(construction));
  }
  return new Guarded(construction, std::move(original));
}

// The registration that holds for this device: the one for all of them, if none is for it alone.
const Registration* ForThisDevice(const std::vector<std::unique_ptr<Registration>>& all) {
  for (const auto& one : all) {
    if (!one->has_device_allowlist) return one.get();
  }
  return nullptr;
}

}  // namespace

void RegisterBridgeKernels() {
  std::vector<std::unique_ptr<Registration>> guarded;
  {
    tf::XlaOpRegistry& registry = Private(Registry())();
    const tf::mutex_lock lock(registry.*Private(Lock()));
    for (const auto& [op, all] : registry.*Private(Table())) {
      const Registration* original = ForThisDevice(all);
      if (original == nullptr) continue;
      auto own = std::make_unique<Registration>(*original);
      own->has_device_allowlist = true;
      own->device_allowlist = {kCompilationDevice};
      own->factory = MakeGuarded;
      Originals().emplace(op, original->factory);
      guarded.push_back(std::move(own));
    }
  }
  for (const OwnKernel& own : OwnKernels()) {
    if (!Originals().emplace(own.op, own.make).second) continue;
    guarded.push_back(
        tf::XlaOpRegistrationBuilder::Name(own.op).Device(kCompilationDevice).Build(MakeGuarded));
  }
  // Each takes the lock.
  for (auto& own : guarded) tf::XlaOpRegistrar(std::move(own));
}

}  // namespace tripont::tensorflow
