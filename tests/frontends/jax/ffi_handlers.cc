// Handlers of the XLA FFI as a user writes them: against jaxlib's headers alone. test_ffi.py
// compiles this file and registers what it exports.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

// y = factor * x + offset
static ffi::Error Axpb(float factor, int64_t offset, ffi::Buffer<ffi::F32> x,
                       ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = factor * x.typed_data()[i] + static_cast<float>(offset);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(axpb, Axpb,
                              ffi::Ffi::Bind()
                                  .Attr<float>("factor")
                                  .Attr<int64_t>("offset")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// Any buffer: (element type, rank, bytes, sum of dimensions)
static ffi::Error Describe(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::S64> y) {
  int64_t* const out = y->typed_data();
  out[0] = static_cast<int64_t>(x.element_type());
  out[1] = static_cast<int64_t>(x.dimensions().size());
  out[2] = static_cast<int64_t>(x.size_bytes());
  out[3] = std::accumulate(x.dimensions().begin(), x.dimensions().end(), int64_t{0});
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(describe, Describe,
                              ffi::Ffi::Bind().Arg<ffi::AnyBuffer>().Ret<ffi::Buffer<ffi::S64>>());

// Attributes of every kind.
static ffi::Error Attributes(bool b, int8_t i8, uint32_t u32, double f64, std::string_view text,
                             ffi::Span<const int64_t> array, ffi::Span<const float> floats,
                             ffi::Dictionary dictionary, ffi::ResultBuffer<ffi::F64> y) {
  const auto inner = dictionary.get<int32_t>("inner");
  if (!inner.has_value()) return ffi::Error::InvalidArgument("no inner");
  double* const out = y->typed_data();
  out[0] = b;
  out[1] = i8;
  out[2] = u32;
  out[3] = f64;
  out[4] = static_cast<double>(text.size());
  out[5] = static_cast<double>(std::accumulate(array.begin(), array.end(), int64_t{0}));
  out[6] = std::accumulate(floats.begin(), floats.end(), 0.0);
  out[7] = *inner;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("b")
                                  .Attr<int8_t>("i8")
                                  .Attr<uint32_t>("u32")
                                  .Attr<double>("f64")
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("array")
                                  .Attr<ffi::Span<const float>>("floats")
                                  .Attr<ffi::Dictionary>("dictionary")
                                  .Ret<ffi::Buffer<ffi::F64>>());

// Fails for negative numbers.
static ffi::Error Sqrt(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) {
    if (x.typed_data()[i] < 0) {
      std::stringstream message;
      message << "element " << i << " is negative: " << x.typed_data()[i];
      return ffi::Error(ffi::ErrorCode::kOutOfRange, message.str());
    }
    y->typed_data()[i] = std::sqrt(x.typed_data()[i]);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    checked_sqrt, Sqrt, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Adds 1 in place: operand and result are the same buffer.
static ffi::Error Increment(ffi::Buffer<ffi::S32> x, ffi::ResultBuffer<ffi::S32> y,
                            ffi::ResultBuffer<ffi::S32> same) {
  same->typed_data()[0] = x.untyped_data() == y->untyped_data();
  for (size_t i = 0; i < x.element_count(); ++i)
    y->typed_data()[i] = (same->typed_data()[0] ? y->typed_data()[i] : 1000) + 1;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(increment, Increment,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

// Counts its calls: whoever drops it, changes the count.
static std::atomic<int64_t> counted{0};
static ffi::Error Count(ffi::RemainingArgs) {
  counted.fetch_add(1);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind().RemainingArgs());
extern "C" int64_t NumCounted() { return counted.exchange(0); }

// The same through tokens.
static ffi::Error CountToken(ffi::Token, ffi::Result<ffi::Token>) {
  counted.fetch_add(1);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count_token, CountToken,
                              ffi::Ffi::Bind().Arg<ffi::Token>().Ret<ffi::Token>());

#if XLA_FFI_API_MINOR >= 5
// What version 0.5 has added: no options, no extension, and the code of an error.
static ffi::Error Newest(ffi::Dictionary options, ffi::Result<ffi::AnyBuffer> y) {
  y->typed_data<int64_t>()[0] = static_cast<int64_t>(options.size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(newest_handler, Newest,
                       ffi::Ffi::Bind().Ctx<ffi::CustomOptions>().Ret<ffi::AnyBuffer>());
extern "C" XLA_FFI_Error* newest(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* const error = newest_handler(frame);
  if (error != nullptr || frame->extension_start != nullptr) return error;
  XLA_FFI_InvokeContext_FindExtension_Args find{
      XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE, nullptr, frame->ctx, 1234, nullptr};
  if (XLA_FFI_Error* const failed = frame->api->XLA_FFI_InvokeContext_FindExtension(&find))
    return failed;
  XLA_FFI_Error_Create_Args create{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, "gone",
                                   XLA_FFI_Error_Code_NOT_FOUND};
  XLA_FFI_Error* const made = frame->api->XLA_FFI_Error_Create(&create);
  const auto details = ffi::internal::GetErrorDetails(frame->api, made);
  auto* const y = static_cast<int64_t*>(static_cast<XLA_FFI_Buffer*>(frame->rets.rets[0])->data);
  y[1] = find.extension == nullptr;
  y[2] = details.errc;
  y[3] = std::string_view(details.message) == "gone";
  ffi::internal::DestroyError(frame->api, made);
  return nullptr;
}
#endif

// The execution context: device, run, scratch memory, threads.
static ffi::Error Context(int32_t device, ffi::RunId run, ffi::ScratchAllocator scratch,
                          ffi::ThreadPool pool, ffi::Buffer<ffi::S64> x,
                          ffi::ResultBuffer<ffi::S64> y) {
  const std::optional<void*> memory = scratch.Allocate(1 << 20);
  if (!memory.has_value()) return ffi::Error::Internal("no scratch memory");
  std::memset(*memory, 1, 1 << 20);
  constexpr int kTasks = 8;
  std::atomic<int> left{kTasks};
  std::atomic<int64_t> sum{0};
  std::mutex mutex;
  std::condition_variable done;
  for (int i = 0; i < kTasks; ++i) {
    pool.Schedule([&, i] {
      sum += x.typed_data()[0] * i;
      const std::lock_guard<std::mutex> lock(mutex);
      if (--left == 0) done.notify_all();
    });
  }
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return left == 0; });
  int64_t* const out = y->typed_data();
  out[0] = device;
  out[1] = run.run_id;
  out[2] = static_cast<unsigned char*>(*memory)[12345];
  out[3] = sum;
  out[4] = pool.num_threads();
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(context, Context,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::DeviceOrdinal>()
                                  .Ctx<ffi::RunId>()
                                  .Ctx<ffi::ScratchAllocator>()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::S64>>());

// Stages: state made when the program is loaded, and state of each execution.
struct Instance {
  static ffi::TypeId id;
  static std::atomic<int64_t> alive;
  explicit Instance(int64_t value) : value(value) { ++alive; }
  ~Instance() { --alive; }
  int64_t value;
};
ffi::TypeId Instance::id = {};
std::atomic<int64_t> Instance::alive{0};
struct PerRun {
  static ffi::TypeId id;
  int64_t value;
};
ffi::TypeId PerRun::id = {};
static std::atomic<int64_t> prepared{0};

static ffi::ErrorOr<std::unique_ptr<Instance>> Instantiate(int64_t value) {
  if (value < 0) return ffi::Unexpected(ffi::Error::InvalidArgument("value is negative"));
  return std::make_unique<Instance>(value);
}
static ffi::Error Prepare(Instance*) {
  prepared.fetch_add(1);
  return ffi::Error::Success();
}
static ffi::ErrorOr<std::unique_ptr<PerRun>> Initialize(Instance* instance) {
  auto state = std::make_unique<PerRun>();
  state->value = 10 * instance->value;
  return state;
}
static ffi::Error Execute(Instance* instance, PerRun* run, ffi::Buffer<ffi::S64> x,
                          ffi::ResultBuffer<ffi::S64> y) {
  run->value += 1;
  y->typed_data()[0] = x.typed_data()[0] + instance->value + run->value;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(staged_instantiate, Instantiate,
                              ffi::Ffi::BindInstantiate().Attr<int64_t>("value"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(staged_prepare, Prepare,
                              ffi::Ffi::BindPrepare().Ctx<ffi::State<Instance>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(staged_initialize, Initialize,
                              ffi::Ffi::BindInitialize().Ctx<ffi::State<Instance>>());
XLA_FFI_DEFINE_HANDLER_SYMBOL(staged_execute, Execute,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::State<Instance>>()
                                  .Ctx<ffi::Initialized<PerRun>>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::S64>>());
extern "C" {
void* InstanceTypeId() { return &Instance::id; }
void* PerRunTypeId() { return &PerRun::id; }
const void* InstanceTypeInfo() {
  static const ffi::TypeInfo info = ffi::MakeTypeInfo<Instance>();
  return &info;
}
const void* PerRunTypeInfo() {
  static const ffi::TypeInfo info = ffi::MakeTypeInfo<PerRun>();
  return &info;
}
int64_t NumAlive() { return Instance::alive; }
int64_t NumPrepared() { return prepared.exchange(0); }
}

// Asynchronous: done when a thread of its own is.
static ffi::Future Later(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([x, y, promise = std::move(promise)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (x.typed_data()[0] < 0) {
      promise.SetError(ffi::Error(ffi::ErrorCode::kAborted, "lost it later"));
      return;
    }
    y->typed_data()[0] = x.typed_data()[0] + 1;
    promise.SetAvailable();
  }).detach();
  return future;
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    later, Later, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Wants a stream, which there is not.
static ffi::Error Streamed(void*, ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>) {
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(streamed, Streamed,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::PlatformStream<void*>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>());

// The old kind: no types, no errors.
extern "C" void UntypedAdd(void* out, const void** in) {
  static_cast<float*>(out)[0] =
      static_cast<const float*>(in[0])[0] + static_cast<const float*>(in[1])[0];
}
