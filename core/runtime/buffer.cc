#include "core/runtime/buffer.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/exceptions.h"
#include "core/runtime/object_pool.h"
#include "core/runtime/parallel.h"
#include "core/runtime/profile.h"
#include "core/runtime/strided_copy.h"

namespace tripont {
namespace {

// Copies between memories below this many bytes are made on the caller's thread.
constexpr size_t kInlineCopyBytes = 256 << 10;

// What an error of a copy begins with.
constexpr std::string_view kCopying = "copying an array";

// The number of this thread among the threads that borrowed buffers; 0 if it borrowed none. Two
// threads of a process never have the same number.
thread_local uint64_t this_thread = 0;

uint64_t NewThread() {
  static std::atomic<uint64_t> threads{0};
  return threads.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Calls `copy`, which reads the buffer's memory and gives a status, when the content is there: now (and gives null), or
// later. The event says when it is done, or has the producer's error.
template <typename Copy>
StatusOr<Ref<Event>> ReadWhenReady(Buffer& buffer, const Copy& copy) {
  TRIPONT_ASSIGN_OR_RETURN(Hold hold, buffer.Acquire());
  if (buffer.IsReady()) {
    TRIPONT_RETURN_IF_ERROR(copy());
    return Ref<Event>();
  }
  auto done = MakeRef<Event>();
  buffer.definition_event()->OnReady(
      [copy, done, hold = std::make_shared<Hold>(std::move(hold))](const Status& made) {
        const Status status = made.ok() ? Guarded(kCopying, copy) : made;
        hold->Release();
        status.ok() ? done->SetReady() : done->SetError(status);
      });
  return done;
}

// Empty if dense.
StatusOr<std::vector<int64_t>> CheckStrides(const Shape& shape,
                                            std::span<const int64_t> byte_strides) {
  if (byte_strides.empty()) return std::vector<int64_t>();
  if (byte_strides.size() != shape.rank()) {
    return InvalidArgument(byte_strides.size(), " byte strides given for an array of shape ",
                           shape);
  }
  if (IsDense(byte_strides, shape.dimensions, ByteWidth(shape.type))) return std::vector<int64_t>();
  return std::vector<int64_t>(byte_strides.begin(), byte_strides.end());
}

}  // namespace

// ------------------------------------------------------------------------------------------------------
// Hold, Donation

Hold& Hold::operator=(Hold&& other) noexcept {
  Release();
  buffer_ = std::move(other.buffer_);
  return *this;
}

void* Hold::data() const { return buffer_ ? buffer_->data_ : nullptr; }

void Hold::Release() {
  if (!buffer_) return;
  buffer_->DropHold(Buffer::kHold);
  buffer_ = nullptr;
}

Donation::Donation(Donation&& other) noexcept
    : buffer_(std::move(other.buffer_)),
      data_(std::exchange(other.data_, nullptr)),
      exclusive_(other.exclusive_) {}

Donation& Donation::operator=(Donation&& other) noexcept {
  std::swap(buffer_, other.buffer_);
  std::swap(data_, other.data_);
  std::swap(exclusive_, other.exclusive_);
  return *this;
}

Donation::~Donation() {
  if (!buffer_) return;
  if (exclusive_) {
    // Nobody took the memory over: it is the deleted buffer's again, and goes with its last hold.
    const uint64_t before = buffer_->state_.fetch_and(~Buffer::kTaken, std::memory_order_acq_rel);
    buffer_->FreeMemoryIfUnused(before & ~Buffer::kTaken);
  } else {
    buffer_->DropHold(Buffer::kHold);
  }
}

void Donation::Undo() {
  if (!buffer_) return;
  const uint64_t flags = Buffer::kDeleted | Buffer::kDonated | (exclusive_ ? Buffer::kTaken : 0);
  buffer_->state_.fetch_and(~flags, std::memory_order_acq_rel);
  if (!exclusive_) buffer_->DropHold(Buffer::kHold);
  buffer_ = nullptr;
}

// -------------------------------------------------------------------------------------------------------------
// Buffer

Buffer::Buffer(Memory* memory, const Shape& shape, size_t byte_size, Ref<Event> definition)
    : memory_(memory), byte_size_(byte_size), definition_(std::move(definition)), shape_(shape) {}

Buffer::~Buffer() {
  if ((state_.load(std::memory_order_acquire) & kTaken) == 0) FreeMemory();
}

void* Buffer::operator new(size_t) { return ObjectPool<Buffer>::Allocate(); }
void Buffer::operator delete(void* memory) { ObjectPool<Buffer>::Free(memory); }

Ref<Buffer> Buffer::TryAllocate(Memory* memory, const Shape& shape, size_t byte_size,
                                Ref<Event> definition) {
  Ref<Buffer> buffer(new Buffer(memory, shape, byte_size, std::move(definition)));
  const Block block = memory->allocator().TryAllocate(byte_size);
  if (block.data == nullptr) return nullptr;
  buffer->data_ = block.data;
  buffer->block_ = block;
  buffer->allocator_ = &memory->allocator();
  return buffer;
}

StatusOr<Ref<Buffer>> Buffer::Allocate(Memory* memory, const Shape& shape, Ref<Event> definition) {
  TRIPONT_ASSIGN_OR_RETURN(const size_t size, shape.ByteSize());
  Ref<Buffer> buffer = TryAllocate(memory, shape, size, std::move(definition));
  if (!buffer)
    return memory->allocator().Exhausted(size).WithPrefix(StrCat("array of shape ", shape));
  return buffer;
}

StatusOr<Ref<Buffer>> Buffer::FromHost(Memory* memory, const Shape& shape, const void* data,
                                       std::span<const int64_t> byte_strides) {
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<int64_t> strides, CheckStrides(shape, byte_strides));
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer, Allocate(memory, shape));
  if (data == nullptr && buffer->byte_size() != 0) {
    return InvalidArgument("no host memory given for an array of shape ", shape);
  }
  const HostActivity activity(kHostToDevice, static_cast<int64_t>(buffer->byte_size()));
  if (strides.empty()) {
    ParallelCopy(buffer->data_, data, buffer->byte_size());
  } else {
    StridedCopy(buffer->data_, shape.DenseByteStrides(), data, strides, shape.dimensions,
                ByteWidth(shape.type));
  }
  return buffer;
}

StatusOr<Ref<Buffer>> Buffer::FromExternal(Memory* memory, const Shape& shape, void* data,
                                           std::function<void()> on_delete) {
  TRIPONT_ASSIGN_OR_RETURN(const size_t size, shape.ByteSize());
  if (data == nullptr && size != 0)
    return InvalidArgument("no memory given for an array of shape ", shape);
  if (!CanViewInPlace(memory, data)) {
    return InvalidArgument("memory at ", data, " for an array of shape ", shape,
                           " is not aligned to 64 bytes, or ", memory->device()->description(),
                           " cannot access it");
  }
  Ref<Buffer> buffer(new Buffer(memory, shape, size, nullptr));
  buffer->data_ = data;
  buffer->on_delete_ = std::move(on_delete);
  return buffer;
}

StatusOr<Ref<Buffer>> Buffer::Borrow(Memory* memory, const Shape& shape, void* data,
                                     std::function<void()> on_delete) {
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer,
                           FromExternal(memory, shape, data, std::move(on_delete)));
  if (this_thread == 0) this_thread = NewThread();
  buffer->lender_.store(this_thread, std::memory_order_relaxed);
  return buffer;
}

bool Buffer::IsLentByThisThread() const {
  const uint64_t lender = lender_.load(std::memory_order_relaxed);
  return lender != 0 && lender == this_thread;
}

StatusOr<Ref<Buffer>> Buffer::Share(Buffer& source) {
  // Counted as seen from outside, so that no execution takes the memory over meanwhile.
  if (!source.TryHoldToEnqueue()) return source.HoldError();
  const std::unique_ptr<Buffer, void (*)(Buffer*)> held(
      &source, [](Buffer* buffer) { buffer->ReleaseHoldToEnqueue(); });
  Ref<Buffer> share(
      new Buffer(source.memory_, source.shape_, source.byte_size_, source.definition_));
  share->data_ = source.data_;
  // Shares of shares share with the first one, so that no chain of them keeps the others alive.
  share->root_ = source.root_ ? source.root_ : Ref<Buffer>(&source);
  share->root_->state_.fetch_add(kExternal, std::memory_order_acq_rel);
  return share;
}

StatusOr<Ref<Buffer>> Buffer::Deferred(Buffer& source, const Shape& shape,
                                       std::vector<int64_t> byte_strides) {
  TRIPONT_ASSIGN_OR_RETURN(const size_t size, shape.ByteSize());
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> share, Share(source));
  const Ref<Event> made = share->definition_;
  Ref<Buffer> buffer(new Buffer(source.memory_, shape, size, made ? MakeRef<Event>() : nullptr));
  buffer->deferred_ = std::make_unique<DeferredContent>();
  buffer->deferred_->byte_strides = std::move(byte_strides);
  buffer->deferred_->source = std::move(share);
  buffer->state_.store(kDeferred, std::memory_order_release);
  if (made) made->OnReady([buffer](const Status& status) { buffer->SourceDecided(status); });
  return buffer;
}

Status Buffer::CopyFromSource(const Buffer& source) {
  const HostActivity activity(kDeviceToDevice, static_cast<int64_t>(byte_size_));
  StridedCopy(data_, shape_.DenseByteStrides(), source.data_, deferred_->byte_strides,
              shape_.dimensions, ByteWidth(shape_.type));
  return OkStatus();
}

// Under a hold or an external reference. False if there is no room.
bool Buffer::MakeContent() {
  DeferredContent& deferred = *deferred_;
  const std::lock_guard lock(deferred.mutex);
  if ((state_.load(std::memory_order_acquire) & kDeferred) == 0) return true;
  if (!deferred.failed) {
    if (block_.data == nullptr) {  // else an exception has ended the copy into it
      const Block block = memory_->allocator().TryAllocate(byte_size_);
      if (block.data == nullptr) return false;
      data_ = block.data;
      block_ = block;
      allocator_ = &memory_->allocator();
    }
    if (deferred.source->IsReady()) {
      (void)CopyFromSource(*deferred.source);
      deferred.source = nullptr;
    } else {
      deferred.wanted = true;
      state_.fetch_add(kHold, std::memory_order_acq_rel);
    }
  }
  state_.fetch_and(~kDeferred, std::memory_order_acq_rel);
  return true;
}

// The source's content is there, or never will be.
void Buffer::SourceDecided(const Status& decided) {
  DeferredContent& deferred = *deferred_;
  Status status = decided;
  bool wanted;
  {
    const std::lock_guard lock(deferred.mutex);
    wanted = deferred.wanted;
    if (wanted) {
      if (status.ok()) status = Guarded(kCopying, [&] { return CopyFromSource(*deferred.source); });
      deferred.source = nullptr;
    }
    deferred.failed = !status.ok();
  }
  if (wanted) DropHold(kHold);
  status.ok() ? definition_->SetReady() : definition_->SetError(status);
}

Ref<Buffer> Buffer::Failed(Memory* memory, const Shape& shape, const Status& status) {
  const StatusOr<size_t> size = shape.ByteSize();
  return Ref<Buffer>(new Buffer(memory, shape, size.ok() ? *size : 0, Event::Failed(status)));
}

Ref<Buffer> Buffer::ForDonation(Memory* memory, const Shape& shape, const Donation& donation,
                                Ref<Event> definition) {
  const size_t size = donation.buffer_->byte_size_;
  Ref<Buffer> buffer(new Buffer(memory, shape, size, std::move(definition)));
  buffer->data_ = donation.data_;
  return buffer;
}

void Buffer::TakeOver(Donation donation) noexcept {
  Buffer& donated = *donation.buffer_;
  block_ = std::exchange(donated.block_, Block{});
  allocator_ = donated.allocator_;
  donation.buffer_ = nullptr;  // kTaken stays set: the old buffer has nothing to free
}

Status Buffer::HoldError() const {
  if (!IsDeleted()) {
    return memory_->allocator().Exhausted(byte_size_).WithPrefix(StrCat("array of shape ", shape_));
  }
  return InvalidArgument("the array of shape ", shape_, " has been ",
                         IsDonated() ? "donated" : "deleted",
                         IsDonated() ? " to an earlier computation and cannot be used again" : "");
}

bool Buffer::TryAdd(uint64_t what) {
  const uint64_t before = state_.fetch_add(what, std::memory_order_acq_rel);
  if ((before & (kDeleted | kDeferred)) == 0) return true;
  if ((before & kDeleted) == 0 && MakeContentFor(what)) return true;
  DropHold(what);
  return false;
}

// MakeContent, which must not leave the hold behind if it throws.
bool Buffer::MakeContentFor(uint64_t what) {
  try {
    return MakeContent();
  } catch (...) {
    DropHold(what);
    throw;
  }
}

StatusOr<Hold> Buffer::Acquire() {
  if (!TryHold()) return HoldError();
  return Hold(Ref<Buffer>(this));
}

void Buffer::DropHold(uint64_t what) {
  HoldDropped(state_.fetch_sub(what, std::memory_order_acq_rel) - what);
}

void Buffer::HoldDropped(uint64_t now) {
  if ((now & (kDeleted | kWaiter)) == 0) return;
  if ((now & kWaiter) != 0 && (now & kHoldMask) == 0) state_.notify_all();
  FreeMemoryIfUnused(now);
}

void Buffer::FreeMemoryIfUnused(uint64_t state) {
  // Two holds that go at the same time may both see zero: kTaken lets one of them through.
  while ((state & kDeleted) != 0 && (state & (kHoldMask | kExternalMask | kTaken)) == 0) {
    if (state_.compare_exchange_weak(state, state | kTaken, std::memory_order_acq_rel))
      return FreeMemory();
  }
}

void Buffer::FreeMemory() {
  data_ = nullptr;
  if (allocator_ != nullptr) allocator_->Free(std::exchange(block_, Block{}));
  if (on_delete_) std::exchange(on_delete_, nullptr)();
  if (root_) std::exchange(root_, nullptr)->DropHold(kExternal);
  if (deferred_) deferred_->source = nullptr;
}

// Makes a share own its memory, if nobody else sees that. Only while nobody can share or free this
// buffer: deleted, with a hold, and without external references.
bool Buffer::TakeOverFromRoot() {
  if (!root_ || root_->allocator_ == nullptr) return false;
  uint64_t state = root_->state_.load(std::memory_order_acquire);
  do {
    if ((state & (kDeleted | kTaken)) != kDeleted) return false;
    if ((state & (kHoldMask | kExternalMask)) != kExternal) return false;
  } while (!root_->state_.compare_exchange_weak(state, state | kTaken, std::memory_order_acq_rel));
  block_ = std::exchange(root_->block_, Block{});
  allocator_ = root_->allocator_;
  std::exchange(root_, nullptr)->DropHold(kExternal);
  return true;
}

void Buffer::Delete() {
  const uint64_t before = state_.fetch_or(kDeleted, std::memory_order_acq_rel);
  if ((before & kDeleted) == 0) FreeMemoryIfUnused(before | kDeleted);
}

StatusOr<Donation> Buffer::Donate() {
  if (IsDeferred()) TRIPONT_RETURN_IF_ERROR(Acquire().status());
  uint64_t state = state_.load(std::memory_order_acquire);
  Donation donation;
  uint64_t wanted;
  do {
    if ((state & kDeleted) != 0) return HoldError();
    donation.exclusive_ = allocator_ != nullptr && (state & kExternalMask) == 0;
    wanted = (state | kDeleted | kDonated) + (donation.exclusive_ ? kTaken : kHold);
  } while (!state_.compare_exchange_weak(state, wanted, std::memory_order_acq_rel));
  if (!donation.exclusive_ && (state & kExternalMask) == 0 && TakeOverFromRoot()) {
    state_.fetch_add(kTaken - kHold, std::memory_order_acq_rel);
    donation.exclusive_ = true;
  }
  donation.buffer_ = Ref<Buffer>(this);
  donation.data_ = data_;
  return donation;
}

void Buffer::WaitForHolds() {
  for (int i = 0; (state_.load(std::memory_order_acquire) & kHoldMask) != 0; ++i) {
    if (i < 200) continue;
    const uint64_t seen = state_.fetch_or(kWaiter, std::memory_order_acq_rel) | kWaiter;
    if ((seen & kHoldMask) != 0) state_.wait(seen, std::memory_order_acquire);
  }
}

Status Buffer::AddExternalReference() { return TryAdd(kExternal) ? OkStatus() : HoldError(); }

Status Buffer::DropExternalReference() {
  // Each of several callers at the same time takes one that is there, or none.
  uint64_t state = state_.load(std::memory_order_acquire);
  do {
    if ((state & kExternalMask) == 0) {
      return FailedPrecondition("the array of shape ", shape_,
                                " has no external reference to drop");
    }
  } while (!state_.compare_exchange_weak(state, state - kExternal, std::memory_order_acq_rel));
  HoldDropped(state - kExternal);
  return OkStatus();
}

StatusOr<Ref<Event>> Buffer::CopyToHost(void* destination, size_t size,
                                        std::span<const int64_t> byte_strides) {
  TRIPONT_ASSIGN_OR_RETURN(std::vector<int64_t> strides, CheckStrides(shape_, byte_strides));
  if (strides.empty()) {
    if (size < byte_size_) {
      return InvalidArgument("an array of shape ", shape_, " has ", byte_size_,
                             " bytes, the destination ", size);
    }
    return CopyRawToHost(destination, 0, byte_size_);
  }
  const auto copy = [this, destination, strides = std::move(strides)] {
    const HostActivity activity(kDeviceToHost, static_cast<int64_t>(byte_size_));
    StridedCopy(destination, strides, data_, shape_.DenseByteStrides(), shape_.dimensions,
                ByteWidth(shape_.type));
    return OkStatus();
  };
  return ReadWhenReady(*this, copy);
}

StatusOr<Ref<Event>> Buffer::CopyRawToHost(void* destination, size_t offset, size_t size) {
  if (offset > byte_size_ || size > byte_size_ - offset) {
    return InvalidArgument("bytes ", offset, " to ", offset, " + ", size,
                           " are outside the array of shape ", shape_, " (", byte_size_, " bytes)");
  }
  const auto copy = [this, destination, offset, size] {
    const HostActivity activity(kDeviceToHost, static_cast<int64_t>(size));
    ParallelCopy(destination, static_cast<const char*>(data_) + offset, size);
    return OkStatus();
  };
  return ReadWhenReady(*this, copy);
}

StatusOr<Ref<Buffer>> Buffer::CopyToMemory(Memory* destination) {
  if (!TryHoldToEnqueue()) return HoldError();
  // Runs last: with the copy enqueued, made, or failed.
  const std::unique_ptr<Buffer, void (*)(Buffer*)> enqueued(
      this, [](Buffer* buffer) { buffer->HoldEnqueued(); });
  Hold hold{Ref<Buffer>(this)};
  Stream& stream = destination->device()->stream();
  const bool ready = IsReady();
  if (!ready) TRIPONT_RETURN_IF_ERROR(stream.EnsureThread());
  Ref<Event> copied;
  if (!ready || byte_size_ > kInlineCopyBytes || !stream.IsIdle()) copied = MakeRef<Event>();
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> copy, Allocate(destination, shape_, copied));
  if (!copied) {
    const HostActivity activity(kDeviceToDevice, static_cast<int64_t>(byte_size_));
    if (byte_size_ > 0) std::memcpy(copy->data_, data_, byte_size_);
    return copy;
  }
  TRIPONT_ASSIGN_OR_RETURN(Hold copy_hold, copy->Acquire());
  auto holds = std::make_shared<std::pair<Hold, Hold>>(std::move(hold), std::move(copy_hold));
  stream.Enqueue(
      [holds, copied, &stream] {
        auto& [from, to] = *holds;
        const Status status = from.buffer()->definition_event()->Await();
        if (status.ok()) {
          const size_t size = from.buffer()->byte_size();
          const HostActivity activity(kDeviceToDevice, static_cast<int64_t>(size));
          ParallelCopy(to.data(), from.data(), size);
        }
        from.Release();
        to.Release();
        stream.FinishWork();
        status.ok() ? copied->SetReady() : copied->SetError(status);
      },
      [copied](const Status& status) { copied->SetError(status); });
  return copy;
}

}  // namespace tripont
