// A backend outside of tripont, made as anybody else's would be: from the runtime's headers, in a
// shared library of its own that TRIPONT_BACKENDS names.
//
// Its devices are the CPU again, with code of the host's compiler, but they check what every device
// relies on:
//
//   * Nothing runs before it is waited for: what the host reads too early is not there yet.
//   * Kernels see copies of their arguments between pages that cannot be touched: what reads or
//     writes outside of its arrays ends the process, or is told of as an error.
//   * A kernel's units of work are done in reverse order, a grain at a time: they may not depend on
//     each other.
//   * The process's own memory is none of the devices': every address must be in memory that was
//     taken from them, and fresh memory holds garbage.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/backend_registry.h"
#include "core/runtime/backends/host/backend.h"
#include "core/runtime/client.h"
#include "core/runtime/code_image.h"

namespace {

using tripont::Artifact;
namespace schema = tripont::schema;
using tripont::KernelHandle;
using tripont::Status;
using tripont::StatusOr;
using tripont::StrCat;

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 64;
constexpr unsigned char kGarbage = 0xCB;
constexpr unsigned char kFence = 0xA5;
constexpr int kNumDevices = 2;

std::atomic<int64_t> launches{0}, copies{0}, waits{0};

size_t RoundUp(size_t size, size_t to) { return (size + to - 1) / to * to; }

// The memory of all devices.
class Memory final : public tripont::MemorySource {
 public:
  void* Map(size_t size) override {
    void* const data =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return nullptr;
    std::memset(data, kGarbage, size);
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_[reinterpret_cast<uintptr_t>(data)] = size;
    return data;
  }
  void Unmap(void* data, size_t size) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ranges_.erase(reinterpret_cast<uintptr_t>(data));
    }
    munmap(data, size);
  }
  bool Holds(const void* data, size_t size) {
    const auto address = reinterpret_cast<uintptr_t>(data);
    const std::lock_guard<std::mutex> lock(mutex_);
    auto after = ranges_.upper_bound(address);
    if (size == 0) return true;
    if (after == ranges_.begin()) return false;
    --after;
    return address + size <= after->first + after->second;
  }

 private:
  std::mutex mutex_;
  std::map<uintptr_t, size_t> ranges_;  // guarded by mutex_
};

Memory& TheMemory() {
  static auto* const memory = new Memory;
  return *memory;
}

// A copy of some bytes that ends, rounded up to a multiple of 64, where a page begins that cannot
// be touched, behind another such page.
class Fenced {
 public:
  Fenced(void* original, size_t size) : original_(original), size_(size) {
    padded_ = RoundUp(std::max<size_t>(size, 1), kAlignment);
    inside_ = RoundUp(padded_, kPage);
    mapping_ = static_cast<char*>(
        mmap(nullptr, inside_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (mapping_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapping_ + kPage, inside_, PROT_READ | PROT_WRITE);
    std::memset(mapping_ + kPage, kFence, inside_);
    std::memcpy(data(), original, size);
  }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  ~Fenced() { munmap(mapping_, inside_ + 2 * kPage); }
  char* data() { return mapping_ + kPage + inside_ - padded_; }
  const void* original() const { return original_; }
  size_t size() const { return size_; }
  // Whether nobody wrote between the page before it and it.
  bool IsIntact() {
    const auto* const start = reinterpret_cast<const unsigned char*>(mapping_) + kPage;
    return std::all_of(start, start + (inside_ - padded_),
                       [](unsigned char byte) { return byte == kFence; });
  }
  // What was only read is not written.
  void CopyBack() {
    if (std::memcmp(original_, data(), size_) != 0) std::memcpy(original_, data(), size_);
  }

 private:
  void* const original_;
  const size_t size_;
  size_t padded_ = 0;
  size_t inside_ = 0;
  char* mapping_ = nullptr;
};

class Queue final : public tripont::DeviceQueue {
 public:
  explicit Queue(int number) : number_(number), description_(StrCat("checks ", number)) {}
  int device_number() const override { return number_; }
  const std::string& description() const override { return description_; }
  Status Copy(void* destination, const void* source, size_t size) override {
    ++copies;
    Enqueue([=]() -> Status {
      if (!TheMemory().Holds(destination, size) || !TheMemory().Holds(source, size))
        return tripont::Internal("a copy of memory that is not the device's");
      std::memmove(destination, source, size);
      return Status();
    });
    return Status();
  }
  Status Wait() override {
    ++waits;
    const std::lock_guard<std::mutex> running(running_);
    std::vector<std::function<Status()>> work;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      work.swap(work_);
    }
    for (const auto& task : work) {
      if (Status status = task(); !status.ok()) return status;
    }
    return Status();
  }
  void Enqueue(std::function<Status()> task) {
    const std::lock_guard<std::mutex> lock(mutex_);
    work_.push_back(std::move(task));
  }

 private:
  const int number_;
  const std::string description_;
  std::mutex running_;
  std::mutex mutex_;
  std::vector<std::function<Status()>> work_;  // guarded by mutex_
};

class Program final : public tripont::DeviceProgram {
 public:
  static StatusOr<std::unique_ptr<tripont::DeviceProgram>> Load(const Artifact& artifact) {
    if (Status status = tripont::host::CheckCpu(artifact); !status.ok()) return status;
    auto code = tripont::CodeImage::Map(artifact.code, artifact.imports);
    if (!code.ok()) return code.status();
    auto program = std::make_unique<Program>(std::move(code).value());
    program->Learn(artifact.thunks);
    return std::unique_ptr<tripont::DeviceProgram>(std::move(program));
  }
  explicit Program(std::unique_ptr<tripont::CodeImage> code) : code_(std::move(code)) {}

  StatusOr<KernelHandle> FindKernel(int64_t function) override {
    if (HostFunction(function) == nullptr) return tripont::InvalidArgument("no kernel");
    return static_cast<KernelHandle>(function);
  }

  Status Launch(tripont::DeviceQueue& queue, KernelHandle kernel, void* const* arguments,
                size_t num_arguments, int64_t work_count, int64_t grain) const override {
    ++launches;
    std::vector<void*> given(arguments, arguments + num_arguments);
    static_cast<Queue&>(queue).Enqueue([this, kernel, given = std::move(given), work_count, grain] {
      return Run(static_cast<int64_t>(kernel), given, work_count, grain);
    });
    return Status();
  }

  const void* HostFunction(int64_t offset) const override { return code_->Function(offset); }

 private:
  // How large the arguments of each kernel are. (One function serves slices of one size only.)
  void Learn(const std::vector<schema::Thunk>& thunks) {
    for (const schema::Thunk& thunk : thunks) {
      if (const auto* const loop = std::get_if<schema::While>(&thunk)) {
        Learn(loop->condition);
        Learn(loop->body);
      } else if (const auto* const choice = std::get_if<schema::Conditional>(&thunk)) {
        for (const auto& branch : choice->branches) Learn(branch);
      } else if (const auto* const kernel = std::get_if<schema::Kernel>(&thunk)) {
        std::vector<size_t>& sizes = sizes_[kernel->function];
        sizes.resize(kernel->arguments.size());
        for (size_t i = 0; i < sizes.size(); ++i)
          sizes[i] = std::max(sizes[i], static_cast<size_t>(kernel->arguments[i].size));
      }
    }
  }

  Status Run(int64_t function, std::vector<void*> arguments, int64_t work_count,
             int64_t grain) const {
    const std::vector<size_t>& sizes = sizes_.at(function);
    std::vector<size_t> order(arguments.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return arguments[a] < arguments[b]; });
    // Arguments that overlap (a result in the place of an operand) share a copy.
    std::vector<std::unique_ptr<Fenced>> copies_of;
    for (size_t i = 0; i < order.size();) {
      char* const start = static_cast<char*>(arguments[order[i]]);
      char* end = start;
      size_t next = i;
      for (; next < order.size(); ++next) {
        char* const other = static_cast<char*>(arguments[order[next]]);
        if (next > i && other >= end && other != start) break;
        end = std::max(end, other + sizes[order[next]]);
      }
      const auto size = static_cast<size_t>(end - start);
      if (!TheMemory().Holds(start, size)) {
        return tripont::Internal("argument ", order[i], " of the kernel at ", function, ", ", size,
                                 " bytes, is not in the device's memory");
      }
      copies_of.push_back(std::make_unique<Fenced>(start, size));
      for (; i < next; ++i) {
        arguments[order[i]] =
            copies_of.back()->data() + (static_cast<char*>(arguments[order[i]]) - start);
      }
    }
    const auto kernel =
        reinterpret_cast<tripont::KernelFunction>(const_cast<void*>(code_->Function(function)));
    for (int64_t end = work_count; end > 0; end -= std::min(end, grain))
      kernel(arguments.data(), std::max<int64_t>(0, end - grain), end);
    for (const auto& copy : copies_of) {
      if (!copy->IsIntact()) {
        return tripont::Internal("the kernel at ", function, " wrote before an array of ",
                                 copy->size(), " bytes");
      }
      copy->CopyBack();
    }
    return Status();
  }

  const std::unique_ptr<tripont::CodeImage> code_;
  std::map<int64_t, std::vector<size_t>> sizes_;  // by function
};

class CheckedBackend final : public tripont::Backend {
 public:
  std::string_view target() const override { return "checked"; }
  std::map<std::string, std::string> compiler_options() const override {
    return {{"target", "checked"}};
  }
  int num_devices() const override { return kNumDevices; }
  StatusOr<std::unique_ptr<tripont::DeviceQueue>> MakeQueue(int index) override {
    return std::unique_ptr<tripont::DeviceQueue>(std::make_unique<Queue>(index % kNumDevices));
  }
  StatusOr<std::unique_ptr<tripont::DeviceProgram>> Load(const Artifact& artifact) override {
    return Program::Load(artifact);
  }
  tripont::MemorySource* memory_source(tripont::MemoryUse, int) override { return &TheMemory(); }
};

}  // namespace

extern "C" const char* tripont_backend_version() {
  static const std::string version(tripont::Version());
  return version.c_str();
}

extern "C" int tripont_backend_abi() { return tripont::kBackendAbi; }

extern "C" tripont::Status* tripont_register_backend() {
  tripont::BackendRegistration registration;
  registration.name = "checked";
  registration.title = "checked";
  registration.device_option = "device";
  registration.make = [](std::string_view, const std::string&) -> StatusOr<tripont::Backend*> {
    return new CheckedBackend;
  };
  registration.list = [](const std::string&) -> StatusOr<std::vector<tripont::DeviceFacts>> {
    std::vector<tripont::DeviceFacts> devices;
    devices.reserve(kNumDevices);
    for (int i = 0; i < kNumDevices; ++i) {
      devices.push_back({StrCat("checks ", i), {{"name", StrCat("checks ", i)}}});
    }
    return devices;
  };
  return new Status(tripont::RegisterBackend(std::move(registration)));
}

// Launches, copies and waits since the process started.
extern "C" void checked_counts(int64_t* counts) {
  counts[0] = launches;
  counts[1] = copies;
  counts[2] = waits;
}
