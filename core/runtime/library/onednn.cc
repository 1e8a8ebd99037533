#include "core/runtime/library/onednn.h"

#include <tbb/task_arena.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "core/runtime/backend.h"
#include "core/runtime/device.h"
#include "core/runtime/parallel.h"

namespace tripont::onednn {
namespace {

constexpr size_t kAlignment = 64;
// Execution states kept for the next call: as many as threads ever run one call at the same time,
// normally one.
constexpr size_t kKeptStates = 8;

size_t RoundUp(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

DataType DataTypeOf(PrimitiveType type) {
  constexpr std::pair<PrimitiveType, DataType> kTypes[] = {
      {PrimitiveType::kF32, DataType::kF32}, {PrimitiveType::kBF16, DataType::kBF16},
      {PrimitiveType::kF16, DataType::kF16}, {PrimitiveType::kF64, DataType::kF64},
      {PrimitiveType::kS8, DataType::kS8},   {PrimitiveType::kU8, DataType::kU8},
      {PrimitiveType::kS32, DataType::kS32}};
  for (const auto& [from, to] : kTypes) {
    if (from == type) return to;
  }
  return DataType::kUndefined;
}

StatusOr<OwnedMemoryDesc> StridedDesc(const Api& api, DataType type,
                                      std::span<const int64_t> dimensions,
                                      std::span<const int64_t> strides) {
  MemoryDesc desc = nullptr;
  TRIPONT_RETURN_IF_ERROR(
      Check(api.memory_desc_create_with_strides(&desc, static_cast<int>(dimensions.size()),
                                                dimensions.data(), type, strides.data()),
            "describing a strided array"));
  return OwnedMemoryDesc(desc);
}

StatusOr<OwnedMemoryDesc> AnyDesc(const Api& api, DataType type,
                                  std::span<const int64_t> dimensions) {
  MemoryDesc desc = nullptr;
  TRIPONT_RETURN_IF_ERROR(
      Check(api.memory_desc_create_with_tag(&desc, static_cast<int>(dimensions.size()),
                                            dimensions.data(), type, FormatTag::kAny),
            "describing an array"));
  return OwnedMemoryDesc(desc);
}

StatusOr<OwnedAttributes> MakeAttributes(const Api& api, std::span<const PostOp> post_ops) {
  PrimitiveAttributes created = nullptr;
  TRIPONT_RETURN_IF_ERROR(Check(api.primitive_attr_create(&created), "creating attributes"));
  OwnedAttributes attributes(created);
  TRIPONT_RETURN_IF_ERROR(
      Check(api.primitive_attr_set_scratchpad_mode(created, ScratchpadMode::kUser),
            "setting the scratchpad mode"));
  if (post_ops.empty()) return attributes;
  PostOps list = nullptr;
  TRIPONT_RETURN_IF_ERROR(Check(api.post_ops_create(&list), "creating post-ops"));
  Owned<PostOps> owner(list);
  const auto append = [&](const PostOp& op) {
    switch (op.kind) {
      case PostOp::Kind::kElementwise:
        return api.post_ops_append_eltwise(list, op.algorithm, op.alpha, op.beta);
      case PostOp::Kind::kBinary:
        return api.post_ops_append_binary(list, op.algorithm, op.operand);
      case PostOp::Kind::kSum:
        return api.post_ops_append_sum(list, 1.0F, 0, DataType::kUndefined);
    }
    return StatusCode::kInvalidArguments;
  };
  for (const PostOp& op : post_ops) TRIPONT_RETURN_IF_ERROR(Check(append(op), "adding a post-op"));
  TRIPONT_RETURN_IF_ERROR(
      Check(api.primitive_attr_set_post_ops(created, list), "setting post-ops"));
  return attributes;
}

std::string_view ImplementationName(const Api& api, ConstPrimitiveDesc desc) {
  const char* name = nullptr;
  if (api.primitive_desc_query(desc, Query::kImplementationName, 0, &name) != StatusCode::kSuccess)
    return "";
  return name == nullptr ? "" : name;
}

bool IsReference(const Api& api, ConstPrimitiveDesc desc) {
  return ImplementationName(api, desc).find("ref:") != std::string_view::npos;
}

StatusOr<std::unique_ptr<Plan>> Plan::Create(const Api& api, OwnedPrimitiveDesc desc,
                                             std::vector<PlanArray> arrays, int64_t pieces) {
  std::unique_ptr<Plan> plan(new Plan(api));
  plan->pieces_ = pieces;
  plan->arrays_ = std::move(arrays);
  plan->packed_.resize(plan->arrays_.size());
  plan->memory_source_ = api.port->memory_source();

  std::vector<int> args;
  std::vector<OwnedMemoryDesc> layouts;
  for (const PlanArray& array : plan->arrays_) {
    MemoryDesc wanted = nullptr;
    TRIPONT_RETURN_IF_ERROR(
        Check(api.memory_desc_clone(
                  &wanted, api.primitive_desc_query_md(desc.get(), Query::kArgument, array.arg)),
              "reading an argument's layout"));
    args.push_back(array.arg);
    layouts.emplace_back(wanted);
  }
  TRIPONT_RETURN_IF_ERROR(plan->AddStep(desc.get(), std::move(args), std::move(layouts)));

  size_t offset = 0;
  for (size_t i = 0; i < plan->arrays_.size(); ++i) {
    const PlanArray& array = plan->arrays_[i];
    ConstMemoryDesc wanted = plan->steps_[0].layouts[i].get();
    if (api.memory_desc_equal(wanted, array.layout.get()) != 0) continue;
    if (array.constant != nullptr && !array.is_output) {
      TRIPONT_RETURN_IF_ERROR(plan->PackConstant(i, wanted));
      continue;
    }
    plan->staged_.push_back({i, plan->steps_.size(), offset});
    offset += RoundUp(api.memory_desc_get_size(wanted));
    TRIPONT_RETURN_IF_ERROR(array.is_output ? plan->AddReorder(wanted, array.layout.get())
                                            : plan->AddReorder(array.layout.get(), wanted));
  }
  plan->scratchpad_offset_ = offset;
  size_t scratchpad = 0;
  size_t memories = 0;
  for (const Step& step : plan->steps_) {
    scratchpad = std::max(scratchpad, step.scratchpad_size);
    plan->first_.push_back(memories);
    memories += step.args.size();
  }
  plan->scratch_size_ = offset + scratchpad;
  return plan;
}

Plan::~Plan() {
  for (const Packed& packed : packed_) {
    if (memory_source_ == nullptr) {
      std::free(packed.data);
    } else if (packed.data != nullptr) {
      memory_source_->Unmap(packed.data, packed.size);
    }
  }
}

Status Plan::AddStep(ConstPrimitiveDesc desc, std::vector<int> args,
                     std::vector<OwnedMemoryDesc> layouts) {
  Step step;
  Primitive primitive = nullptr;
  TRIPONT_RETURN_IF_ERROR(Check(api_.primitive_create(&primitive, desc), "creating a primitive"));
  step.primitive.reset(primitive);
  step.args = std::move(args);
  step.layouts = std::move(layouts);
  ConstMemoryDesc scratchpad = api_.primitive_desc_query_md(desc, Query::kScratchpad, 0);
  if (scratchpad != nullptr) step.scratchpad_size = api_.memory_desc_get_size(scratchpad);
  if (step.scratchpad_size > 0) {
    MemoryDesc layout = nullptr;
    TRIPONT_RETURN_IF_ERROR(
        Check(api_.memory_desc_clone(&layout, scratchpad), "reading the scratchpad's size"));
    step.args.push_back(kArgScratchpad);
    step.layouts.emplace_back(layout);
  }
  steps_.push_back(std::move(step));
  return OkStatus();
}

Status Plan::AddReorder(ConstMemoryDesc from, ConstMemoryDesc to) {
  TRIPONT_ASSIGN_OR_RETURN(OwnedAttributes attributes, MakeAttributes(api_));
  PrimitiveDesc created = nullptr;
  TRIPONT_RETURN_IF_ERROR(Check(api_.reorder_primitive_desc_create(&created, from, api_.engine, to,
                                                                   api_.engine, attributes.get()),
                                "describing a reorder"));
  OwnedPrimitiveDesc desc(created);
  std::vector<OwnedMemoryDesc> layouts;
  for (ConstMemoryDesc layout : {from, to}) {
    MemoryDesc copy = nullptr;
    TRIPONT_RETURN_IF_ERROR(Check(api_.memory_desc_clone(&copy, layout), "copying a layout"));
    layouts.emplace_back(copy);
  }
  return AddStep(desc.get(), {kArgSource, kArgDestination}, std::move(layouts));
}

Status Plan::PackConstant(size_t index, ConstMemoryDesc to) {
  // A plan of its own, run once, whose only step is the reorder.
  Plan reorder(api_);
  reorder.memory_source_ = memory_source_;
  TRIPONT_RETURN_IF_ERROR(reorder.AddReorder(arrays_[index].layout.get(), to));
  reorder.first_ = {0};
  reorder.packed_.resize(1);  // the scratchpad, freed with that plan
  const auto allocate = [this](Packed& packed, size_t size) -> Status {
    packed.size = std::max(RoundUp(size), kAlignment);
    packed.data = memory_source_ != nullptr ? memory_source_->Map(packed.size)
                                            : std::aligned_alloc(kAlignment, packed.size);
    if (packed.data == nullptr)
      return ResourceExhausted("no memory for ", size, " bytes to pack weights");
    return OkStatus();
  };
  Packed& scratchpad = reorder.packed_[0];
  TRIPONT_RETURN_IF_ERROR(allocate(packed_[index], api_.memory_desc_get_size(to)));
  TRIPONT_RETURN_IF_ERROR(allocate(scratchpad, reorder.steps_[0].scratchpad_size));
  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<State> state, reorder.MakeState());
  void* const handles[] = {const_cast<void*>(arrays_[index].constant), packed_[index].data,
                           scratchpad.data};
  TRIPONT_RETURN_IF_ERROR(reorder.Run(*state, 0, handles, api_.stream));
  return api_.port->FinishLoading(api_);
}

StatusOr<std::unique_ptr<Plan::State>> Plan::MakeState() const {
  auto state = std::make_unique<State>();
  for (const Step& step : steps_) {
    for (size_t i = 0; i < step.args.size(); ++i) {
      Memory memory = nullptr;
      TRIPONT_RETURN_IF_ERROR(Check(api_.port->MakeMemory(api_, &memory, step.layouts[i].get()),
                                    "creating a memory object"));
      state->memories.emplace_back(memory);
      state->arguments.push_back({step.args[i], memory});
    }
  }
  return state;
}

StatusOr<std::unique_ptr<Plan::State>> Plan::TakeState() const {
  {
    std::lock_guard lock(mutex_);
    if (!free_states_.empty()) {
      std::unique_ptr<State> state = std::move(free_states_.back());
      free_states_.pop_back();
      return state;
    }
  }
  return MakeState();
}

void Plan::GiveBack(std::unique_ptr<State> state) const {
  std::lock_guard lock(mutex_);
  if (free_states_.size() < kKeptStates) free_states_.push_back(std::move(state));
}

Status Plan::Run(const State& state, size_t index, std::span<void* const> handles,
                 Stream stream) const {
  const Step& step = steps_[index];
  const size_t first = first_[index];
  for (size_t i = 0; i < step.args.size(); ++i) {
    TRIPONT_RETURN_IF_ERROR(
        Check(api_.memory_set_data_handle(state.arguments[first + i].memory, handles[i]),
              "setting an address"));
  }
  const auto run = [&] {
    return Check(
        api_.primitive_execute(step.primitive.get(), stream, static_cast<int>(step.args.size()),
                               state.arguments.data() + first),
        "executing a primitive");
  };
  if (!InForkedChild()) return run();
  // TBB's threads did not survive the fork: an arena of one thread never waits for them.
  tbb::task_arena arena(1);
  return arena.execute(run);
}

bool Plan::StagesOutputs() const {
  return std::any_of(staged_.begin(), staged_.end(),
                     [this](const Staged& staged) { return arrays_[staged.array].is_output; });
}

Status Plan::Execute(LibraryContext& context, void* const* operands, void* const* results) const {
  TRIPONT_ASSIGN_OR_RETURN(const Stream stream,
                           api_.port->StreamOf(api_, context.device()->queue()));
  TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<State> taken, TakeState());
  // In a queue the work is done later, with these objects; whatever happens, they are kept.
  const std::shared_ptr<State> state(
      taken.release(), [this](State* used) { GiveBack(std::unique_ptr<State>(used)); });
  auto scratch = std::make_shared<Scratch>();
  if (scratch_size_ > 0) {
    TRIPONT_ASSIGN_OR_RETURN(*scratch, context.AllocateScratch(scratch_size_));
  }
  if (api_.port->UsesQueue()) {
    context.KeepUntilDone(state);
    context.KeepUntilDone(scratch);
  }

  std::vector<char*> outside;
  for (const PlanArray& array : arrays_) {
    void* const data = array.is_output ? results[array.index] : operands[array.index];
    outside.push_back(static_cast<char*>(data));
  }
  for (int64_t piece = 0; piece < pieces_; ++piece) {
    TRIPONT_RETURN_IF_ERROR(RunPiece(*state, piece, outside, scratch->as<char>(), stream));
    for (size_t i = 0; i < arrays_.size(); ++i) outside[i] += arrays_[i].piece_bytes;
  }
  return OkStatus();
}

Status Plan::RunPiece(const State& state, int64_t piece, std::span<char* const> outside,
                      char* scratch, Stream stream) const {
  std::vector<void*> handles(arrays_.size() + 1);
  for (size_t i = 0; i < arrays_.size(); ++i) {
    handles[i] = packed_[i].data != nullptr ? packed_[i].data : outside[i];
  }
  void* scratchpad = nullptr;
  if (scratch != nullptr) {
    scratchpad = scratch + scratchpad_offset_;
    for (const Staged& staged : staged_) handles[staged.array] = scratch + staged.offset;
  }
  handles.back() = scratchpad;

  for (const Staged& staged : staged_) {
    const PlanArray& array = arrays_[staged.array];
    const bool is_there = piece > 0 && array.piece_bytes == 0;
    if (array.is_output || is_there) continue;
    void* const ends[] = {outside[staged.array], handles[staged.array], scratchpad};
    TRIPONT_RETURN_IF_ERROR(Run(state, staged.step, ends, stream));
  }
  TRIPONT_RETURN_IF_ERROR(Run(state, 0, handles, stream));
  for (const Staged& staged : staged_) {
    if (!arrays_[staged.array].is_output) continue;
    void* const ends[] = {handles[staged.array], outside[staged.array], scratchpad};
    TRIPONT_RETURN_IF_ERROR(Run(state, staged.step, ends, stream));
  }
  return OkStatus();
}

StatusOr<std::unique_ptr<Plans>> Plans::Create(const Backend& backend, const Maker& make) {
  TRIPONT_ASSIGN_OR_RETURN(const Apis* const apis, Load(backend));
  auto plans = std::make_unique<Plans>();
  for (const Api* const api : *apis) {
    TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, make(*api));
    plans->plans_.push_back(std::move(plan));
    plans->uses_queue_ = api->port->UsesQueue();
  }
  return plans;
}

Status Plans::Execute(LibraryContext& context, void* const* operands, void* const* results) const {
  const int device = uses_queue_ ? context.device()->queue().device_number() : 0;
  return plans_[static_cast<size_t>(device)]->Execute(context, operands, results);
}

bool Plans::StagesOutputs() const {
  return std::any_of(plans_.begin(), plans_.end(),
                     [](const std::unique_ptr<Plan>& plan) { return plan->StagesOutputs(); });
}

}  // namespace tripont::onednn
