// The library call "custom-call": one call site of a custom call in a program.
//
// Attributes (core/compiler/thunks/lowering.py writes them): target, the name; api_version, of StableHLO's
// custom_call: 1 is the old kind, 4 the XLA FFI; backend_config, the encoded attribute dictionary
// (version 4); token_operands and token_results: the positions of tokens among operands and
// results, which arrays only are given for.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/ffi/api.h"
#include "core/runtime/ffi/attributes.h"
#include "core/runtime/ffi/registry.h"
#include "core/runtime/library/calls.h"

namespace tripont {
namespace ffi {
namespace {

constexpr int64_t kUntypedVersion = 1;
constexpr int64_t kTypedVersion = 4;

// What the handler sees of its operands, or of its results.
class BufferList {
 public:
  // `tokens`: ascending positions in the handler's list.
  Status Init(const std::vector<Shape>& shapes, const std::vector<int64_t>& tokens) {
    const size_t count = shapes.size() + tokens.size();
    for (const int64_t token : tokens) {
      if (token < 0 || static_cast<size_t>(token) >= count) {
        return InvalidArgument("token ", token, " of ", count, " values");
      }
    }
    dimensions_.reserve(shapes.size());
    for (size_t i = 0, array = 0, token = 0; i < count; ++i) {
      Buffer buffer{};
      buffer.struct_size = sizeof(Buffer);
      const bool is_token = token < tokens.size() && static_cast<size_t>(tokens[token]) == i;
      if (!is_token && array == shapes.size())
        return InvalidArgument("the tokens are not in order");
      if (is_token) {
        ++token;
        buffer.dtype = static_cast<int32_t>(PrimitiveType::kToken);
        array_of_.push_back(-1);
      } else {
        const Shape& shape = shapes[array];
        buffer.dtype = static_cast<int32_t>(shape.type);
        buffer.rank = static_cast<int64_t>(shape.rank());
        dimensions_.emplace_back(shape.dimensions.begin(), shape.dimensions.end());
        buffer.dims = dimensions_.back().data();
        array_of_.push_back(static_cast<int>(array++));
      }
      buffers_.push_back(buffer);
    }
    types_.assign(count, kBuffer);
    return OkStatus();
  }

  // A copy for one call, with addresses. `data`: of the arrays; null: none yet.
  struct Frame {
    std::vector<Buffer> buffers;
    std::vector<void*> pointers;
  };
  Arguments Fill(void* const* data, Frame& frame) const {
    frame.buffers = buffers_;
    frame.pointers.resize(buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      if (data != nullptr && array_of_[i] >= 0) frame.buffers[i].data = data[array_of_[i]];
      frame.pointers[i] = &frame.buffers[i];
    }
    return {sizeof(Arguments), nullptr, static_cast<int64_t>(buffers_.size()),
            const_cast<int32_t*>(types_.data()), frame.pointers.data()};
  }

 private:
  std::vector<std::vector<int64_t>> dimensions_;
  std::vector<Buffer> buffers_;
  std::vector<int> array_of_;
  std::vector<int32_t> types_;
};

class TypedCall : public LibraryCall {
 public:
  TypedCall(std::string name, const HandlerBundle& bundle)
      : name_(std::move(name)), bundle_(bundle) {}

  Status Init(const std::vector<Shape>& operands, const std::vector<int64_t>& token_operands,
              const std::vector<Shape>& results, const std::vector<int64_t>& token_results,
              std::string_view config) {
    TRIPONT_RETURN_IF_ERROR(operands_.Init(operands, token_operands));
    TRIPONT_RETURN_IF_ERROR(results_.Init(results, token_results));
    TRIPONT_ASSIGN_OR_RETURN(attributes_, AttributeDictionary::Decode(config));
    if (bundle_.instantiate == nullptr) return OkStatus();
    ExecutionContext context;
    context.states[0] = &instance_;
    // This stage gets attributes only.
    return Call(bundle_.instantiate, Stage::kInstantiate, context, nullptr, nullptr, false);
  }

  bool NeedsPrepare() const override {
    return bundle_.prepare != nullptr || bundle_.initialize != nullptr;
  }

  Status Prepare(LibraryContext& library, PrepareStep step, void* const* operands,
                 void* const* results) const override {
    const bool initialize = step == PrepareStep::kInitialize;
    Handler* const handler = initialize ? bundle_.initialize : bundle_.prepare;
    if (handler == nullptr) return OkStatus();
    ExecutionContext context = MakeContext(library);
    return Call(handler, initialize ? Stage::kInitialize : Stage::kPrepare, context, operands,
                results, true);
  }

  Status Execute(LibraryContext& library, void* const* operands,
                 void* const* results) const override {
    ExecutionContext context = MakeContext(library);
    return Call(bundle_.execute, Stage::kExecute, context, operands, results, true);
  }

 private:
  // State of one execution.
  struct ExecutionStates {
    State prepared;
    State initialized;
  };

  ExecutionContext MakeContext(LibraryContext& library) const {
    ExecutionContext context;
    context.library = &library;
    context.states[0] = &instance_;
    if (NeedsPrepare()) {
      std::shared_ptr<void>& kept = library.KeptFor(this);
      if (kept == nullptr) kept = std::make_shared<ExecutionStates>();
      auto* const states = static_cast<ExecutionStates*>(kept.get());
      context.states[1] = &states->prepared;
      context.states[2] = &states->initialized;
    }
    return context;
  }

  Status Call(Handler* handler, Stage stage, ExecutionContext& context, void* const* operands,
              void* const* results, bool with_arrays) const {
    BufferList::Frame operand_frame, result_frame;
    CallFrame frame{};
    frame.struct_size = kCallFrameSize;
    frame.api = &GetApi();
    frame.context = &context;
    frame.stage = stage;
    frame.arguments.struct_size = frame.results.struct_size = sizeof(Arguments);
    if (with_arrays) {
      frame.arguments = operands_.Fill(operands, operand_frame);
      frame.results = results_.Fill(results, result_frame);
    }
    frame.attributes = attributes_->attributes();
    Status status = TakeError(handler(&frame));
    if (frame.future != nullptr) {
      const std::unique_ptr<Future> future(frame.future);
      const Status later = future->event->Await();
      if (status.ok()) status = later;
    }
    return status.ok() ? status : status.WithPrefix(name_);
  }

  const std::string name_;
  const HandlerBundle bundle_;
  BufferList operands_;
  BufferList results_;
  std::unique_ptr<AttributeDictionary> attributes_;
  mutable State instance_;  // set while loading, only read afterwards
};

class UntypedCall : public LibraryCall {
 public:
  UntypedCall(UntypedFunction function, size_t num_operands, size_t num_results)
      : function_(function), num_operands_(num_operands), num_results_(num_results) {}
  Status Execute(LibraryContext&, void* const* operands, void* const* results) const override {
    std::vector<const void*> inputs(operands, operands + num_operands_);
    std::vector<void*> outputs(results, results + num_results_);
    function_(num_results_ == 1 ? outputs[0] : static_cast<void*>(outputs.data()), inputs.data());
    return OkStatus();
  }

 private:
  const UntypedFunction function_;
  const size_t num_operands_;
  const size_t num_results_;
};

// "(f32[3], s32[]) -> (f32[3])"
std::string Describe(const LibraryCallSignature& signature) {
  std::vector<std::string> operands, results;
  for (const LibraryOperand& operand : signature.operands)
    operands.push_back(operand.shape.ToString());
  for (const Shape& result : signature.results) results.push_back(result.ToString());
  return StrCat("(", StrJoin(operands, ", "), ") -> (", StrJoin(results, ", "), ")");
}

StatusOr<std::unique_ptr<LibraryCall>> MakeCall(const LibraryCallSignature& signature) {
  const LibraryAttributes& given = signature.attributes;
  TRIPONT_ASSIGN_OR_RETURN(const std::string name, given.Bytes("target"));
  TRIPONT_ASSIGN_OR_RETURN(const int64_t version, given.Integer("api_version"));
  TRIPONT_ASSIGN_OR_RETURN(const std::string config, given.Bytes("backend_config"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> token_operands,
                           given.Integers("token_operands"));
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> token_results,
                           given.Integers("token_results"));
  const Target* const target = FindTarget(name);
  if (target == nullptr) {
    return NotFound("no custom call named '", name,
                    "' is registered for the platform xpu: ", Describe(signature),
                    " needs jax.ffi.register_ffi_target('", name,
                    "', ..., platform='xpu'), or a kernel of that name made with tripont.kernels "
                    "(handlers of other platforms are not used)");
  }
  if (target->factory != nullptr) {
    StatusOr<std::unique_ptr<LibraryCall>> call =
        target->factory(signature, version == kTypedVersion ? config : std::string_view());
    if (!call.ok()) return call.status().WithPrefix(StrCat("custom call '", name, "'"));
    return call;
  }
  const bool typed = target->untyped == nullptr;
  if (version != (typed ? kTypedVersion : kUntypedVersion)) {
    return Unimplemented("custom call '", name, "' of API version ", version, ", but '", name,
                         "' is registered ",
                         typed ? "for the XLA FFI (version 4)"
                               : "as an untyped function (version 1; versions 2 and 3 need a "
                                 "status object of XLA's: use the XLA FFI)");
  }
  if (!typed) {
    if (!config.empty()) {
      return Unimplemented("custom call '", name,
                           "': untyped functions get no backend_config on xpu");
    }
    return std::make_unique<UntypedCall>(target->untyped, signature.operands.size(),
                                         signature.results.size());
  }
  std::vector<Shape> operands;
  operands.reserve(signature.operands.size());
  for (const LibraryOperand& operand : signature.operands) operands.push_back(operand.shape);
  auto call = std::make_unique<TypedCall>(StrCat("'", name, "'"), target->bundle);
  TRIPONT_RETURN_IF_ERROR(
      call->Init(operands, token_operands, signature.results, token_results, config));
  return call;
}

}  // namespace
}  // namespace ffi

void RegisterCustomCall(LibraryRegistry& registry) {
  registry.Register("custom-call", ffi::MakeCall);
}

}  // namespace tripont
