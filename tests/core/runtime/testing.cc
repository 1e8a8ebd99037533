// The Python module tripont.core._tripont.testing: parts of the runtime by themselves, for its tests
// and benchmarks. Wheels do not have it (TRIPONT_TESTING).
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

#include "core/bindings/arrays.h"
#include "core/bindings/parts.h"
#include "core/runtime/allocator.h"
#include "core/runtime/callback_names.h"
#include "core/runtime/checksum.h"
#include "core/runtime/client.h"
#include "core/runtime/collectives.h"
#include "core/runtime/collectives_in_flight.h"
#include "core/runtime/computed_once.h"
#include "core/runtime/device.h"
#include "core/runtime/event.h"
#include "core/runtime/exchange.h"
#include "core/runtime/executable.h"
#include "core/runtime/library/tile_product.h"
#include "core/runtime/parallel.h"
#include "core/runtime/stream.h"
#include "core/runtime/wait_history.h"

namespace tripont::python {
namespace py = pybind11;
namespace {

// An allocator with a budget of its own.
class TestAllocator {
 public:
  TestAllocator(int64_t limit, int64_t cache_limit)
      : budget_(limit), allocator_(&budget_, cache_limit) {}
  std::pair<uintptr_t, size_t> Allocate(uint64_t size) {
    const Block block = Value(allocator_.Allocate(size));
    return {reinterpret_cast<uintptr_t>(block.data), block.size};
  }
  void Free(std::pair<uintptr_t, size_t> block) {
    allocator_.Free({reinterpret_cast<void*>(block.first), block.second});
  }
  void Trim() { allocator_.Trim(); }
  py::dict Stats() const { return StatsDict(allocator_.stats()); }
  void ResetPeak() { allocator_.ResetPeak(); }
  double NanosecondsPerPair(size_t size, int64_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) allocator_.Free(allocator_.TryAllocate(size));
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    return elapsed.count() / static_cast<double>(count);
  }
  // Threads that allocate, fill, check and free blocks at random; how many blocks were found
  // overwritten.
  int64_t Stress(int threads, int64_t rounds) {
    std::atomic<int64_t> damaged{0};
    std::vector<std::thread> workers;
    workers.reserve(static_cast<size_t>(threads));
    for (int t = 0; t < threads; ++t) {
      workers.emplace_back([&, t] {
        std::mt19937_64 random(static_cast<uint64_t>(t));
        std::vector<std::pair<Block, uint8_t>> live;
        for (int64_t i = 0; i < rounds; ++i) {
          if (live.size() < 16) {
            const size_t size = size_t{1} << (random() % 18);
            const Block block = allocator_.TryAllocate(size);
            if (block.data == nullptr) continue;
            const auto mark = static_cast<uint8_t>(random());
            std::memset(block.data, mark, block.size);
            live.emplace_back(block, mark);
          } else {
            std::swap(live[random() % live.size()], live.back());
            const auto [block, mark] = live.back();
            live.pop_back();
            const auto* const bytes = static_cast<const uint8_t*>(block.data);
            for (size_t k = 0; k < block.size; k += 61) damaged += bytes[k] != mark;
            allocator_.Free(block);
          }
        }
        for (const auto& [block, mark] : live) allocator_.Free(block);
      });
    }
    for (std::thread& worker : workers) worker.join();
    return damaged;
  }

 private:
  MemoryBudget budget_;
  Allocator allocator_;
};

class TestStream {
 public:
  TestStream() : stream_("tripont-test") {}
  void Sleep(double seconds, int mark) {
    stream_.Enqueue([this, seconds, mark] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      const std::lock_guard<std::mutex> lock(mutex_);
      marks_.push_back(mark);
    });
  }
  // The event of a task that throws.
  Ref<Event> Throw(bool of_memory) {
    auto event = MakeRef<Event>();
    stream_.Enqueue(
        [of_memory] {
          if (of_memory) throw std::bad_alloc();
          throw std::runtime_error("thrown on request");
        },
        [event](const Status& status) { event->SetError(status); });
    return event;
  }
  std::vector<int> Marks() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return marks_;
  }
  bool IsIdle() const { return stream_.IsIdle(); }
  void Synchronize() { stream_.Synchronize(); }
  void SetUnbounded(bool unbounded) { stream_.SetUnbounded(unbounded); }

 private:
  std::mutex mutex_;
  std::vector<int> marks_;
  Stream stream_;  // last: its destructor runs what is queued
};

std::pair<std::string, std::string> StatusParts(const Status& status);

// The flights of an execution on the first device.
class TestFlights {
 public:
  TestFlights() : flights_(Core::GetIfCreated()->device(0)->wire()) {}
  void Begin(int64_t meeting, double seconds) {
    Check(flights_.Begin(meeting, [seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return OkStatus();
    }));
  }
  std::pair<std::string, std::string> Await(int64_t meeting) {
    return StatusParts(flights_.Await(meeting));
  }
  std::pair<std::string, std::string> AwaitAll() { return StatusParts(flights_.AwaitAll()); }

 private:
  CollectivesInFlight flights_;
};

std::pair<std::string, std::string> StatusParts(const Status& status) {
  return {std::string(StatusCodeName(status.code())), status.message()};
}

// ns per execution, results dropped at once.
double NanosecondsPerExecution(Executable& executable, Device* device,
                               const std::vector<Ref<Buffer>>& arguments, int64_t count) {
  std::vector<Buffer*> pointers;
  pointers.reserve(arguments.size());
  for (const Ref<Buffer>& argument : arguments) pointers.push_back(argument.get());
  std::vector<Ref<Buffer>> results(executable.artifact().results.size());
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    Check(executable.Execute(device, pointers, {}, results));
    for (Ref<Buffer>& result : results) result = nullptr;
  }
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(count);
}

// Which of `count` executions ran on this thread. Each is waited for before the next; `tells`: the
// events hear that their caller waits, as soon as the call has returned.
std::vector<bool> RunHere(Executable& executable, Device* device,
                          const std::vector<Ref<Buffer>>& arguments, int64_t count, bool tells) {
  const py::gil_scoped_release release;
  std::vector<Buffer*> pointers;
  pointers.reserve(arguments.size());
  for (const Ref<Buffer>& argument : arguments) pointers.push_back(argument.get());
  std::vector<Ref<Buffer>> results(executable.artifact().results.size());
  std::vector<bool> here;
  for (int64_t i = 0; i < count; ++i) {
    Ref<Event> done;
    Check(executable.Execute(device, pointers, {}, results, &done));
    here.push_back(!done);
    if (!done) continue;
    if (tells) done->NoteCallerWaits();
    Check(done->Await());
  }
  return here;
}

// What two devices are told if the work of their collective throws.
std::vector<std::pair<std::string, std::string>> FailingMeeting() {
  const py::gil_scoped_release release;
  const auto launch = MakeRef<Launch>("p", Placement{{0, 1}}, 0, 0);
  const std::vector<int64_t> members = {0, 1};
  std::vector<std::pair<std::string, std::string>> told(members.size());
  std::vector<std::thread> threads;
  threads.reserve(members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    threads.emplace_back([&, i] {
      told[i] = StatusParts(launch->Meet(
          0, "all-reduce", members, i, nullptr, {},
          [](std::span<const Launch::Contribution>) -> Status { throw std::bad_alloc(); }));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return told;
}

template <typename T>
lapack::Strided<T> StridedOf(const py::array_t<T>& matrix) {
  const auto size = static_cast<int64_t>(sizeof(T));
  return {matrix.data(), matrix.strides(0) / size, matrix.strides(1) / size};
}

// Of NumPy's matrices at any strides; c's columns are contiguous.
template <typename T>
void DefineTileProduct(py::module_& m) {
  m.def("subtract_product", [](py::array_t<T> c, const py::array_t<T>& a, const py::array_t<T>& b) {
    lapack::SubtractProduct<T>(c.shape(0), c.shape(1), a.shape(1), StridedOf(a), StridedOf(b),
                               c.mutable_data(), StridedOf(c).column);
  });
  m.def("solve_small", [](const py::array_t<T>& a, bool forward, bool unit, py::array_t<T> x) {
    const lapack::Strided<T> place = StridedOf(x);
    lapack::SolveSmall<T>(x.shape(0), x.shape(1), StridedOf(a), forward, unit, x.mutable_data(),
                          place.row, place.column);
  });
}

void DefineAllocator(py::module_& m) {
  py::class_<TestAllocator>(m, "Allocator")
      .def(py::init<int64_t, int64_t>(), py::arg("limit"), py::arg("cache_limit"))
      .def("allocate", &TestAllocator::Allocate)
      .def("free", &TestAllocator::Free)
      .def("trim", &TestAllocator::Trim)
      .def("stats", &TestAllocator::Stats)
      .def("reset_peak", &TestAllocator::ResetPeak)
      .def("stress", &TestAllocator::Stress, py::call_guard<py::gil_scoped_release>())
      .def("nanoseconds_per_pair", &TestAllocator::NanosecondsPerPair,
           py::call_guard<py::gil_scoped_release>());
  m.def("available_in_group", &AvailableInGroup, py::arg("folder"));
}

void DefineEvent(py::module_& m) {
  py::class_<Event, Ref<Event>>(m, "Event")
      .def(py::init([] { return MakeRef<Event>(); }))
      .def_static("always_ready", [] { return Ref<Event>(Event::AlwaysReady()); })
      .def("is_ready", &Event::IsReady)
      .def("set_ready", &Event::SetReady, py::call_guard<py::gil_scoped_release>())
      .def(
          "set_error",
          [](Event& event, int code, const std::string& message) {
            event.SetError(Status(StatusCodeFromInt(code), message));
          },
          py::call_guard<py::gil_scoped_release>())
      .def(
          "wait",
          [](const Event& event) { return StatusParts(WithoutGil([&] { return event.Await(); })); })
      .def("on_ready",
           [](Event& event,
              const std::function<void(const std::string&, const std::string&)>& callback) {
             event.OnReady([callback](const Status& status) {
               const py::gil_scoped_acquire acquire;
               const auto [code, message] = StatusParts(status);
               callback(code, message);
             });
           });
}

void DefineStream(py::module_& m) {
  py::class_<TestStream>(m, "Stream")
      .def(py::init<>())
      .def("sleep", &TestStream::Sleep, py::call_guard<py::gil_scoped_release>())
      .def("throw", &TestStream::Throw, py::arg("of_memory"))
      .def("marks", &TestStream::Marks)
      .def("is_idle", &TestStream::IsIdle)
      .def("synchronize", &TestStream::Synchronize, py::call_guard<py::gil_scoped_release>())
      .def("set_unbounded", &TestStream::SetUnbounded);
  m.def(
      "occupy",
      [](Device& device, const Ref<Event>& until) {
        device.stream().Enqueue([until] { (void)until->Await(); });
      },
      "Keeps the device's stream busy until the event is decided.");
}

void DefineCollectives(py::module_& m) {
  py::class_<TestFlights>(m, "CollectivesInFlight")
      .def(py::init<>())
      .def("begin", &TestFlights::Begin)
      .def("wait", &TestFlights::Await, py::call_guard<py::gil_scoped_release>())
      .def("wait_all", &TestFlights::AwaitAll, py::call_guard<py::gil_scoped_release>());
  m.def("failing_meeting", &FailingMeeting);
}

void DefineBuffers(py::module_& m) {
  m.def(
      "pending_buffer",
      [](Device& device, const py::array& like, const Ref<Event>& definition) {
        Ref<Buffer> filled = BufferFromArray(device.default_memory(), like);
        Ref<Buffer> buffer =
            Value(Buffer::Allocate(device.default_memory(), filled->shape(), definition));
        std::memcpy(buffer->data(), filled->data(), filled->byte_size());
        return buffer;
      },
      "A buffer whose content is there when the event says so.");
  m.def(
      "external_buffer",
      [](Device& device, const py::array& array, const std::function<void()>& on_delete) {
        return Value(Buffer::FromExternal(device.default_memory(), ShapeOfArray(array),
                                          const_cast<void*>(array.data()), [on_delete] {
                                            const py::gil_scoped_acquire acquire;
                                            on_delete();
                                          }));
      },
      "A view of an array's memory.");
  m.def(
      "borrowed_buffer",
      [](Device& device, const py::array& array) {
        return Value(Buffer::Borrow(device.default_memory(), ShapeOfArray(array),
                                    const_cast<void*>(array.data()), [] {}));
      },
      "A view of an array's memory that is lent for one execution that this thread starts.");
  m.def("deposit", [](Buffer& source) { return exchange::Deposit(Value(Buffer::Share(source))); });
  m.def("collect", [](int64_t ticket) { return Value(exchange::Collect(ticket)); });
}

void DefineTesting(py::module_& module) {
  py::module_ m = module.def_submodule("testing", "Parts of the runtime by themselves.");
  using Text = ComputedOnce<std::string>;
  py::class_<Text>(m, "ComputedOnce")
      .def(py::init<>())
      .def("get", [](Text& text, const std::function<std::string()>& compute) {
        return text.Get(compute);
      });
  DefineAllocator(m);
  DefineEvent(m);
  DefineStream(m);
  DefineCollectives(m);
  DefineBuffers(m);
  m.def(
      "without_callback_names",
      [](const std::string& program, std::string artifact, const std::vector<uint64_t>& numbers) {
        for (const uint64_t number : numbers) AddCallbackNumber(number);
        const CallbackNames names(program);
        for (const uint64_t number : numbers) RemoveCallbackNumber(number);
        names.PutBack(artifact);
        return std::pair(py::bytes(std::string(names.program())), py::bytes(artifact));
      },
      "The program that is compiled, and an artifact with the names put back, where these numbers "
      "name functions.");
  m.def("crc32", [](const py::bytes& data) { return Crc32(std::string_view(data)); });
  m.def("sha256", [](const std::vector<std::string>& parts) {
    Sha256 sha;
    for (const std::string& part : parts) sha.Update(part);
    return sha.FinishHex();
  });
  m.def("nanoseconds_per_execution", &NanosecondsPerExecution);
  m.def("run_here", &RunHere);
  py::class_<WaitHistory>(m, "WaitHistory")
      .def(py::init<>())
      .def("take_call_here", &WaitHistory::TakeCallHere)
      .def("enqueued", &WaitHistory::Enqueued)
      .def("ran_here", &WaitHistory::RanHere)
      .def_readonly_static("soon", &WaitHistory::kSoon)
      .def_readonly_static("longest", &WaitHistory::kLongest)
      .def_readonly_static("seen", &WaitHistory::kSeen)
      .def_readonly_static("calls_here", &WaitHistory::kCallsHere);
  m.def("in_forked_child", &InForkedChild);
  m.def("has_tile_product", &lapack::HasTileProduct);
  DefineTileProduct<float>(m);
  DefineTileProduct<double>(m);
}

const Part testing_part(&DefineTesting);

}  // namespace

}  // namespace tripont::python
