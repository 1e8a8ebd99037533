// Buffer: an array in a device's memory.
//
// Life of a buffer. It is made with its memory, and a definition event that says when the content
// is there (null: it is there already). Everybody who reads or writes the memory has a Hold for as
// long as that takes; several may. Delete() makes the buffer unusable at once; the memory goes when
// the last hold goes. Donating a buffer to an execution deletes it at once too, and the execution
// takes the memory over if nobody outside can see it (see Donation).
//
// All functions may be called from any thread.
#ifndef TRIPONT_CORE_RUNTIME_BUFFER_H_
#define TRIPONT_CORE_RUNTIME_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/runtime/allocator.h"
#include "core/runtime/device.h"
#include "core/runtime/event.h"
#include "core/runtime/export.h"
#include "core/runtime/memory.h"
#include "core/runtime/ref_counted.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont {

class Buffer;

// Keeps a buffer's memory alive and where it is. Movable; released when destroyed.
class TRIPONT_EXPORT Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept : buffer_(std::move(other.buffer_)) {}
  Hold& operator=(Hold&& other) noexcept;
  ~Hold() { Release(); }
  // Address of the first byte: a multiple of 64, except for external memory that is not. Null if
  // there is no hold.
  void* data() const;
  Buffer* buffer() const { return buffer_.get(); }
  void Release();

  // Takes over a hold that Buffer::TryHold took.
  explicit Hold(Ref<Buffer> buffer) : buffer_(std::move(buffer)) {}

 private:
  Ref<Buffer> buffer_;
};

// A buffer that was given up to an execution. If `exclusive`, the memory is the execution's:
// Buffer::TakeOver gives it to a result, or it is freed with the donation. If not (external
// memory, or external references exist), the memory may only be read, and only while the donation
// lives.
class TRIPONT_EXPORT Donation {
 public:
  Donation() = default;
  Donation(Donation&& other) noexcept;
  Donation& operator=(Donation&& other) noexcept;
  ~Donation();
  bool exclusive() const { return exclusive_; }
  void* data() const { return data_; }
  Buffer* buffer() const { return buffer_.get(); }
  // Makes the buffer as it was before; only if nothing has been written.
  void Undo();

 private:
  friend class Buffer;
  Ref<Buffer> buffer_;
  void* data_ = nullptr;
  bool exclusive_ = false;
};

class TRIPONT_EXPORT Buffer final : public RefCounted<Buffer> {
 public:
  // Fresh memory, content undefined; `definition` (null: now) says when somebody has filled it.
  // RESOURCE_EXHAUSTED if there is no room, INVALID_ARGUMENT for an impossible shape.
  static StatusOr<Ref<Buffer>> Allocate(Memory* memory, const Shape& shape,
                                        Ref<Event> definition = nullptr);
  // The same when the byte size (of shape.ByteSize()) is known already; null if there is no room.
  static Ref<Buffer> TryAllocate(Memory* memory, const Shape& shape, size_t byte_size,
                                 Ref<Event> definition);
  // A copy of host memory, made before this returns. byte_strides: of each dimension (may be
  // negative or 0, `data` is the address of element [0,...,0]), or empty for dense row-major. Large
  // arrays are copied by several threads.
  static StatusOr<Ref<Buffer>> FromHost(Memory* memory, const Shape& shape, const void* data,
                                        std::span<const int64_t> byte_strides = {});
  // A view of memory that somebody else owns: dense, readable until `on_delete` is called (once,
  // from any thread, when the buffer is deleted and nobody reads it any more), never written by us.
  // Memory that kernels cannot read in place (CanViewInPlace) is refused with INVALID_ARGUMENT.
  static StatusOr<Ref<Buffer>> FromExternal(Memory* memory, const Shape& shape, void* data,
                                            std::function<void()> on_delete);
  // The same for memory of a caller who may only want to hand it to one execution that this thread
  // starts, and writes to it again as soon as that call returns: NumPy's arrays that are arguments
  // of JAX's functions. An execution that ends within the call reads it in place; the first other
  // one copies it, and with that the loan is over: a caller who uses the buffer again has kept it,
  // and it is one of FromExternal's. What else the thread executes or compiles meanwhile does not
  // end the loan: JAX may do both between lending an array and starting the program that takes it.
  static StatusOr<Ref<Buffer>> Borrow(Memory* memory, const Shape& shape, void* data,
                                      std::function<void()> on_delete);
  // Whether the buffer was borrowed on this thread, and the loan goes on.
  bool IsLentByThisThread() const;
  // The one call is over that the buffer was borrowed for.
  void EndLoan() { lender_.store(0, std::memory_order_relaxed); }
  // Whether kernels of the memory's device can read `data` in place: they need 64-byte alignment,
  // and a device that can access all of the process's memory.
  static bool CanViewInPlace(const Memory* memory, const void* data) {
    return reinterpret_cast<uintptr_t>(data) % 64 == 0 && memory->device()->uses_host_memory();
  }
  // Another buffer on the memory of `source`, with its definition event: nothing is copied and
  // nobody waits. Each is deleted or donated for itself; the memory goes with the last one, and is
  // overwritten by nobody while there are two. A share that is left alone with memory that we
  // allocated owns it, so that donating it hands it over. INVALID_ARGUMENT if `source` was deleted.
  static StatusOr<Ref<Buffer>> Share(Buffer& source);
  // A copy of `source` with another shape and other strides, which is made when somebody first
  // takes a hold or an external reference: until then it has no memory, and `source` keeps its own
  // as with a share. Element i of the result is what lies sum(i[d] * byte_strides[d]) bytes behind
  // the start of `source`; all of that must be inside of it. It is as ready as `source`: a copy
  // that is asked for earlier is made before the definition event says so. Where there is no room
  // for the copy, whoever asks gets RESOURCE_EXHAUSTED and may ask again. INVALID_ARGUMENT if
  // `source` was deleted.
  static StatusOr<Ref<Buffer>> Deferred(Buffer& source, const Shape& shape,
                                        std::vector<int64_t> byte_strides);
  // A buffer without memory whose definition event failed with `status`.
  static Ref<Buffer> Failed(Memory* memory, const Shape& shape, const Status& status);
  // A result that is to live in the memory of an exclusive donation of the same size: it has the
  // address, and TakeOver gives it the memory. Until then the donation can be undone.
  static Ref<Buffer> ForDonation(Memory* memory, const Shape& shape, const Donation& donation,
                                 Ref<Event> definition);
  void TakeOver(Donation donation) noexcept;

  const Shape& shape() const { return shape_; }
  // Bytes of the array (dense).
  size_t byte_size() const { return byte_size_; }
  Memory* memory() const { return memory_; }
  Device* device() const { return memory_->device(); }

  // When the content is there, or why it never will be. Never null.
  Event* definition_event() const { return definition_ ? definition_.get() : Event::AlwaysReady(); }
  // Content there, without error. Cheap.
  bool IsReady() const {
    return !definition_ || (definition_->IsReady() && definition_->status().ok());
  }

  // Address of the memory, or null once it is freed. Only meaningful under a hold or an external
  // reference.
  void* data() const { return data_; }
  // A hold for reading. INVALID_ARGUMENT if the buffer was deleted or donated; of a deferred buffer
  // RESOURCE_EXHAUSTED if there is no room for its content.
  StatusOr<Hold> Acquire();
  // Deletes the buffer. Calling it again does nothing.
  void Delete();
  bool IsDeleted() const { return (state_.load(std::memory_order_acquire) & kDeleted) != 0; }
  // Whether it is a deferred buffer that nobody has read yet.
  bool IsDeferred() const { return (state_.load(std::memory_order_acquire) & kDeferred) != 0; }
  bool IsDonated() const { return (state_.load(std::memory_order_acquire) & kDonated) != 0; }
  // Whether the memory is the buffer's own, and nobody outside knows its address.
  bool IsExclusive() const {
    return allocator_ != nullptr && (state_.load(std::memory_order_acquire) & kExternalMask) == 0;
  }
  // Deletes the buffer and hands its memory over. The errors of Acquire.
  StatusOr<Donation> Donate();
  // Whether somebody has a hold. Nobody takes a new hold on a donated buffer.
  bool HasHolds() const { return (state_.load(std::memory_order_acquire) & kHoldMask) != 0; }
  // Blocks until the last hold goes. Before the first write into a donated buffer's memory, with no
  // hold of one's own.
  void WaitForHolds();

  // What Acquire does, for callers that keep a reference to the buffer themselves until
  // ReleaseHold: false where Acquire fails.
  bool TryHold() { return TryAdd(kHold); }
  // The error that Acquire returns, after TryHold was false.
  Status HoldError() const;
  // The same for work that is about to be enqueued. Until it is (HoldEnqueued) the buffer counts as
  // seen from outside: an execution that takes it over meanwhile, and may come earlier in the
  // stream, does not wait for this hold, which would be for ever.
  bool TryHoldToEnqueue() { return TryAdd(kHold + kExternal); }
  void HoldEnqueued() { DropHold(kExternal); }
  // In place of HoldEnqueued, for work that was not enqueued after all.
  void ReleaseHoldToEnqueue() { DropHold(kHold + kExternal); }

  // External references: somebody outside knows the address. They keep the memory like holds, and a
  // donated buffer that has one is not overwritten. Add fails as Acquire does; Drop without Add
  // with FAILED_PRECONDITION.
  Status AddExternalReference();
  Status DropExternalReference();

  // Copies the content to dense (or, with byte_strides, strided) host memory of at least `size`
  // bytes once it is there; the event (null: done already) says when. INVALID_ARGUMENT if deleted
  // or `size` is too small; errors of the producer come through the event. `destination` must stay
  // valid until then.
  StatusOr<Ref<Event>> CopyToHost(void* destination, size_t size,
                                  std::span<const int64_t> byte_strides = {});
  // Copies bytes [offset, offset + size).
  StatusOr<Ref<Event>> CopyRawToHost(void* destination, size_t offset, size_t size);
  // A copy in another memory, of the same or another device. In order on that device's stream.
  StatusOr<Ref<Buffer>> CopyToMemory(Memory* destination);

 private:
  friend class Hold;
  friend class Donation;
  friend class RefCounted<Buffer>;
  // state_: the number of holds, the number of external references, and flags.
  static constexpr uint64_t kHold = 1;
  static constexpr uint64_t kHoldMask = (1ull << 28) - 1;
  static constexpr uint64_t kExternal = 1ull << 28;
  static constexpr uint64_t kExternalMask = ((1ull << 28) - 1) << 28;
  static constexpr uint64_t kDeferred = 1ull << 59;  // the content is still to be made
  static constexpr uint64_t kDeleted = 1ull << 60;
  static constexpr uint64_t kDonated = 1ull << 61;
  static constexpr uint64_t kTaken = 1ull << 62;   // the memory is freed, or a donation's
  static constexpr uint64_t kWaiter = 1ull << 63;  // somebody waits for the holds to go

  Buffer(Memory* memory, const Shape& shape, size_t byte_size, Ref<Event> definition);
  ~Buffer();
  static void* operator new(size_t size);  // from a pool of the thread (object_pool.h)
  static void operator delete(void* memory);
  bool TryAdd(uint64_t what);
  bool MakeContentFor(uint64_t what);
  bool MakeContent();
  Status CopyFromSource(const Buffer& source);
  void SourceDecided(const Status& status);
  void DropHold(uint64_t what);
  void HoldDropped(uint64_t now);  // what follows, with the state afterwards
  void FreeMemoryIfUnused(uint64_t state);
  void FreeMemory();
  bool TakeOverFromRoot();

  // What a deferred buffer is computed from.
  struct DeferredContent {
    std::vector<int64_t> byte_strides;
    std::mutex mutex;     // of what follows
    Ref<Buffer> source;   // null once it has been copied, or never will be
    bool wanted = false;  // there is memory, and a hold: the content is made with the source's
    bool failed = false;  // there will be none
  };

  std::atomic<uint64_t> state_{0};
  void* data_ = nullptr;
  Block block_;                     // what to give back; empty for external memory
  Allocator* allocator_ = nullptr;  // to whom
  Memory* const memory_;
  const size_t byte_size_;
  const Ref<Event> definition_;
  const Shape shape_;
  std::function<void()> on_delete_;  // external memory
  std::atomic<uint64_t> lender_{0};  // of a borrowed buffer: the thread, until the loan is over
  Ref<Buffer> root_;  // of a share: whose memory it is, kept by an external reference
  std::unique_ptr<DeferredContent> deferred_;  // null: an ordinary buffer
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_BUFFER_H_
