#include "core/runtime/ffi/kernel.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "core/runtime/backend.h"
#include "core/runtime/code_image.h"
#include "core/runtime/device.h"
#include "core/runtime/ffi/attributes.h"
#include "core/runtime/ffi/registry.h"
#include "core/runtime/parallel.h"

namespace tripont::ffi {
namespace {

using Kind = KernelParameter::Kind;

// A number of an attribute, wide enough for all types.
struct Number {
  bool is_float = false;
  double real = 0;
  int64_t integer = 0;  // of u64: the bits
  bool is_u64 = false;
};

template <typename T>
T Load(const void* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

StatusOr<Number> ReadNumber(const Scalar& scalar) {
  const void* const data = scalar.value;
  switch (static_cast<PrimitiveType>(scalar.dtype)) {
    case PrimitiveType::kPred:
      return Number{.integer = Load<uint8_t>(data)};
    case PrimitiveType::kS8:
      return Number{.integer = Load<int8_t>(data)};
    case PrimitiveType::kS16:
      return Number{.integer = Load<int16_t>(data)};
    case PrimitiveType::kS32:
      return Number{.integer = Load<int32_t>(data)};
    case PrimitiveType::kS64:
      return Number{.integer = Load<int64_t>(data)};
    case PrimitiveType::kU8:
      return Number{.integer = Load<uint8_t>(data)};
    case PrimitiveType::kU16:
      return Number{.integer = Load<uint16_t>(data)};
    case PrimitiveType::kU32:
      return Number{.integer = Load<uint32_t>(data)};
    case PrimitiveType::kU64:
      return Number{.integer = Load<int64_t>(data), .is_u64 = true};
    case PrimitiveType::kF32:
      return Number{.is_float = true, .real = Load<float>(data)};
    case PrimitiveType::kF64:
      return Number{.is_float = true, .real = Load<double>(data)};
    default:
      return InvalidArgument("is not a number of a type that kernels take");
  }
}

// The number as a value of `type`, in the low bytes of a slot.
StatusOr<uint64_t> ToSlot(const Number& number, PrimitiveType type) {
  const double real = number.is_float ? number.real
                      : number.is_u64 ? static_cast<double>(static_cast<uint64_t>(number.integer))
                                      : static_cast<double>(number.integer);
  if (type == PrimitiveType::kF64) return std::bit_cast<uint64_t>(real);
  if (type == PrimitiveType::kF32)
    return uint64_t{std::bit_cast<uint32_t>(static_cast<float>(real))};
  if (number.is_float) return InvalidArgument("is ", real, ", expected an integer");
  const int64_t value = number.integer;
  const bool huge = number.is_u64 && value < 0;
  const auto bits = static_cast<int>(8 * ByteWidth(type));
  switch (type) {
    case PrimitiveType::kPred:
      if (value == 0 || value == 1) return static_cast<uint64_t>(value);
      break;
    case PrimitiveType::kS8:
    case PrimitiveType::kS16:
    case PrimitiveType::kS32:
    case PrimitiveType::kS64: {
      const int64_t limit = std::numeric_limits<int64_t>::max() >> (64 - bits);
      if (!huge && value <= limit && value >= -limit - 1) return static_cast<uint64_t>(value);
      break;
    }
    case PrimitiveType::kU64:
      if (huge || value >= 0) return static_cast<uint64_t>(value);
      break;
    case PrimitiveType::kU8:
    case PrimitiveType::kU16:
    case PrimitiveType::kU32:
      if (!huge && value >= 0 && value < (int64_t{1} << bits)) return static_cast<uint64_t>(value);
      break;
    default:
      break;
  }
  return InvalidArgument("is ", real, ", which is no ", TypeName(type));
}

// What a call gives a kernel.
struct GivenToKernel {
  const std::vector<Shape>& operands;
  const std::vector<Shape>& results;
  const AttributeDictionary* attributes;  // null: none

  const Shape& ShapeOf(int64_t array, bool of_result) const {
    return (of_result ? results : operands)[static_cast<size_t>(array)];
  }
};

// INVALID_ARGUMENT if the array that `p` is has another element type than the kernel takes.
Status CheckArray(const KernelParameter& p, const GivenToKernel& given) {
  const bool is_result = p.kind == Kind::kResult;
  const Shape& shape = given.ShapeOf(p.array, is_result);
  if (p.type == PrimitiveType::kInvalid || p.type == shape.type) return OkStatus();
  return InvalidArgument(is_result ? "result" : "operand", " '", p.name, "' is ", shape,
                         ", the kernel takes ", TypeName(p.type));
}

StatusOr<uint64_t> AttributeSlot(const KernelParameter& p, const GivenToKernel& given) {
  const int64_t at = given.attributes == nullptr ? -1 : given.attributes->Find(p.name);
  if (at < 0) return InvalidArgument("the attribute '", p.name, "' is missing");
  const Attributes& attributes = given.attributes->attributes();
  if (attributes.types[at] != AttributeType::kScalar)
    return InvalidArgument("the attribute '", p.name, "' is not a number");
  const StatusOr<Number> number = ReadNumber(*static_cast<const Scalar*>(attributes.values[at]));
  StatusOr<uint64_t> slot =
      number.ok() ? ToSlot(*number, p.type) : StatusOr<uint64_t>(number.status());
  if (!slot.ok()) return InvalidArgument("the attribute '", p.name, "' ", slot.status().message());
  return slot;
}

StatusOr<uint64_t> DimensionSlot(const KernelParameter& p, const Shape& shape) {
  if (p.dimension < 0 || static_cast<size_t>(p.dimension) >= shape.rank()) {
    return InvalidArgument("the kernel's parameter '", p.name, "' asks for dimension ", p.dimension,
                           " of an array of shape ", shape);
  }
  return static_cast<uint64_t>(shape.dimensions[static_cast<size_t>(p.dimension)]);
}

class KernelCall : public LibraryCall {
 public:
  explicit KernelCall(std::shared_ptr<const Kernel> kernel) : kernel_(std::move(kernel)) {}

  Status Init(const LibraryCallSignature& signature, std::string_view config) {
    std::vector<Shape> operands;
    operands.reserve(signature.operands.size());
    for (const LibraryOperand& operand : signature.operands) operands.push_back(operand.shape);
    TRIPONT_RETURN_IF_ERROR(CheckCount(operands.size(), Kind::kOperand, "operands"));
    TRIPONT_RETURN_IF_ERROR(CheckCount(signature.results.size(), Kind::kResult, "results"));
    std::unique_ptr<AttributeDictionary> attributes;
    if (!config.empty()) {
      TRIPONT_ASSIGN_OR_RETURN(attributes, AttributeDictionary::Decode(config));
    }
    TRIPONT_RETURN_IF_ERROR(FillSlots({operands, signature.results, attributes.get()}));
    if (attributes != nullptr) TRIPONT_RETURN_IF_ERROR(CheckUnknown(attributes->attributes()));
    if (!kernel_->module.empty()) {
      TRIPONT_ASSIGN_OR_RETURN(
          on_device_, signature.backend->LoadUserKernel(kernel_->module_format, kernel_->module,
                                                        kernel_->entry_point));
    }
    return CountWork(signature.results[0]);
  }

  bool UsesQueue() const override { return on_device_ != nullptr; }

  Status Execute(LibraryContext& context, void* const* operands,
                 void* const* results) const override {
    if (UsesQueue()) return Launch(context.device()->queue(), operands, results);
    if (!parallel_) return Run(operands, results, 0, 0);
    std::mutex mutex;
    Status failure;
    ParallelFor(work_, kernel_->grain, [&](int64_t begin, int64_t end) {
      Status status = Run(operands, results, begin, end);
      if (status.ok()) return;
      const std::lock_guard<std::mutex> lock(mutex);
      if (failure.ok()) failure = std::move(status);
    });
    return failure;
  }

 private:
  Status CheckCount(size_t given, Kind kind, std::string_view what) const {
    const auto& parameters = kernel_->parameters;
    const auto expected = static_cast<size_t>(
        std::count_if(parameters.begin(), parameters.end(),
                      [kind](const KernelParameter& parameter) { return parameter.kind == kind; }));
    if (given == expected) return OkStatus();
    return InvalidArgument(given, " ", what, " given, the kernel has ", expected);
  }

  // Everything that is the same in each execution; the other slots are 0.
  Status FillSlots(const GivenToKernel& given) {
    for (const std::vector<Shape>* shapes : {&given.operands, &given.results}) {
      for (const Shape& shape : *shapes)
        dimensions_.emplace_back(shape.dimensions.begin(), shape.dimensions.end());
    }
    slots_.reserve(kernel_->parameters.size());
    for (const KernelParameter& p : kernel_->parameters) {
      uint64_t slot = 0;
      switch (p.kind) {
        case Kind::kOperand:
        case Kind::kResult:
          TRIPONT_RETURN_IF_ERROR(CheckArray(p, given));
          break;
        case Kind::kAttribute: {
          TRIPONT_ASSIGN_OR_RETURN(slot, AttributeSlot(p, given));
          break;
        }
        case Kind::kSize:
          slot = static_cast<uint64_t>(given.ShapeOf(p.array, p.of_result).ElementCount());
          break;
        case Kind::kRank:
          slot = given.ShapeOf(p.array, p.of_result).rank();
          break;
        case Kind::kDimension: {
          TRIPONT_ASSIGN_OR_RETURN(slot, DimensionSlot(p, given.ShapeOf(p.array, p.of_result)));
          break;
        }
        case Kind::kDimensions: {
          const size_t n = static_cast<size_t>(p.array) + (p.of_result ? given.operands.size() : 0);
          slot = reinterpret_cast<uintptr_t>(dimensions_[n].data());
          break;
        }
        case Kind::kBegin:
        case Kind::kEnd:
          parallel_ = true;
          break;
      }
      slots_.push_back(slot);
    }
    return OkStatus();
  }

  // The units of work that are shared out to threads or work-items, if they are.
  Status CountWork(const Shape& first_result) {
    if (!parallel_ && !UsesQueue()) return OkStatus();
    if (kernel_->rows && first_result.rank() == 0)
      return InvalidArgument("the first result is a scalar, it has no rows");
    work_ = kernel_->rows ? first_result.dimensions[0] : first_result.ElementCount();
    return OkStatus();
  }

  Status CheckUnknown(const Attributes& attributes) const {
    for (int64_t i = 0; i < attributes.size; ++i) {
      const std::string_view name(attributes.names[i]->ptr, attributes.names[i]->len);
      const bool known = std::any_of(
          kernel_->parameters.begin(), kernel_->parameters.end(),
          [&](const KernelParameter& p) { return p.kind == Kind::kAttribute && p.name == name; });
      if (!known) return InvalidArgument("the kernel has no attribute '", name, "'");
    }
    return OkStatus();
  }

  Status Launch(DeviceQueue& queue, void* const* operands, void* const* results) const {
    std::vector<KernelArgument> arguments;
    for (size_t i = 0; i < slots_.size(); ++i) {
      const KernelParameter& p = kernel_->parameters[i];
      const bool array = p.kind == Kind::kOperand || p.kind == Kind::kResult;
      const auto* const from = p.kind == Kind::kOperand ? operands : results;
      arguments.push_back({array ? PrimitiveType::kInvalid : p.type,
                           array ? reinterpret_cast<uintptr_t>(from[p.array]) : slots_[i]});
    }
    return on_device_->Launch(queue, arguments, static_cast<size_t>(work_), kernel_->group);
  }

  Status Run(void* const* operands, void* const* results, int64_t begin, int64_t end) const {
    std::vector<uint64_t> slots = slots_;
    for (size_t i = 0; i < slots.size(); ++i) {
      const KernelParameter& p = kernel_->parameters[i];
      switch (p.kind) {
        case Kind::kOperand:
          slots[i] = reinterpret_cast<uintptr_t>(operands[p.array]);
          break;
        case Kind::kResult:
          slots[i] = reinterpret_cast<uintptr_t>(results[p.array]);
          break;
        case Kind::kBegin:
          slots[i] = static_cast<uint64_t>(begin);
          break;
        case Kind::kEnd:
          slots[i] = static_cast<uint64_t>(end);
          break;
        default:
          break;
      }
    }
    const void* const failure = kernel_->entry(slots.data());
    if (failure == nullptr) return OkStatus();
    if (kernel_->returns_code) {
      return Internal("the kernel returned ", reinterpret_cast<intptr_t>(failure));
    }
    return Internal(static_cast<const char*>(failure));
  }

  const std::shared_ptr<const Kernel> kernel_;
  std::vector<std::vector<int64_t>> dimensions_;  // of the operands, then of the results
  std::vector<uint64_t> slots_;                   // what does not change from call to call
  bool parallel_ = false;
  int64_t work_ = 0;
  std::unique_ptr<UserKernel> on_device_;  // of a module
};

Status CheckPlan(const Kernel& kernel) {
  if ((kernel.entry == nullptr) == kernel.module.empty())
    return InvalidArgument("the kernel has no entry function, or a module beside it");
  if (kernel.grain < 1) return InvalidArgument("a grain of ", kernel.grain);
  int64_t operands = 0, results = 0;
  for (const KernelParameter& p : kernel.parameters) {
    if (p.kind == Kind::kOperand && p.array != operands++) return InvalidArgument("operand order");
    if (p.kind == Kind::kResult && p.array != results++) return InvalidArgument("result order");
  }
  if (results == 0) return InvalidArgument("the kernel has no result");
  for (const KernelParameter& p : kernel.parameters) {
    if (!kernel.module.empty() && p.kind >= Kind::kDimensions)
      return InvalidArgument("parameter '", p.name,
                             "' is of a kind that a kernel of a module cannot have");
    if (p.kind < Kind::kSize || p.kind > Kind::kDimensions) continue;
    if (p.array < 0 || p.array >= (p.of_result ? results : operands))
      return InvalidArgument("parameter '", p.name, "' is about an array that does not exist");
  }
  return OkStatus();
}

}  // namespace

Status RegisterKernel(std::string_view name, Kernel kernel) {
  if (const Status status = CheckPlan(kernel); !status.ok())
    return status.WithPrefix(StrCat("kernel '", name, "'"));
  auto shared = std::make_shared<const Kernel>(std::move(kernel));
  return RegisterFactory(
      name,
      [shared](const LibraryCallSignature& signature,
               std::string_view config) -> StatusOr<std::unique_ptr<LibraryCall>> {
        auto call = std::make_unique<KernelCall>(shared);
        TRIPONT_RETURN_IF_ERROR(call->Init(signature, config));
        return call;
      },
      /*replace=*/true);
}

StatusOr<const void*> MapKernelCode(std::string_view image, std::span<const schema::Import> imports,
                                    int64_t offset, std::shared_ptr<void>* code) {
  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<CodeImage> mapped, CodeImage::Map(image, imports));
  const void* const function = mapped->Function(offset);
  if (function == nullptr) return InvalidArgument("offset ", offset, " is outside the code");
  *code = std::shared_ptr<CodeImage>(std::move(mapped));
  return function;
}

}  // namespace tripont::ffi
