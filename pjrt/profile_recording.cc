#include "pjrt/profile_recording.h"

#include <pthread.h>

#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <utility>

namespace tripont::pjrt {
namespace {

// FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv
uint64_t Hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

int64_t EpochOffsetNs() {
  const int64_t before = ProfileClockNs();
  const int64_t epoch = std::chrono::duration_cast<std::chrono::nanoseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
  return epoch - (before + (ProfileClockNs() - before) / 2);
}

}  // namespace

ProfileRecording::ProfileRecording(const ProfileOptions& options, size_t limit)
    : options_(options), room_(limit) {
  profile_.start_ns = ProfileClockNs();
  profile_.epoch_offset_ns = EpochOffsetNs();
}

template <typename Add>
void ProfileRecording::Record(Add add) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (room_ == 0) {
    ++profile_.dropped;
    return;
  }
  try {
    add();
    --room_;
  } catch (const std::exception&) {  // no memory for more
    ++profile_.dropped;
  }
}

size_t ProfileRecording::Program(const Artifact& artifact, int64_t number) {
  if (const auto found = programs_.find(number); found != programs_.end()) return found->second;
  RecordedProfile::Program program;
  // Half of the numbers: some tools read them as signed.
  program.id = Hash(artifact.name + artifact.fingerprint) >> 1;
  program.name = artifact.name;
  program.debug = artifact.debug;
  if (options_.programs) program.module = artifact.program;
  profile_.programs.push_back(std::move(program));
  return programs_[number] = profile_.programs.size() - 1;
}

size_t ProfileRecording::CurrentThread() {
  // The number that XLA's profiler gives a thread, so that its events and ours share a line.
  const auto id = static_cast<int64_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
  if (const auto found = threads_.find(id); found != threads_.end()) return found->second;
  char name[16] = "";
  (void)pthread_getname_np(pthread_self(), name, sizeof(name));
  profile_.threads.push_back({id, name});
  return threads_[id] = profile_.threads.size() - 1;
}

void ProfileRecording::RecordThunk(const ThunkEvent& event) noexcept {
  if (!options_.device) return;
  Record([&] {
    profile_.thunks.push_back({Program(*event.artifact, event.program), event.device, event.debug,
                               event.kind, event.start_ns, event.end_ns});
  });
}

void ProfileRecording::RecordExecution(const ExecutionEvent& event) noexcept {
  if (!options_.device) return;
  Record([&] {
    profile_.executions.push_back({Program(*event.artifact, event.program), event.device,
                                   event.caller, event.start_ns, event.end_ns});
  });
}

void ProfileRecording::RecordHost(const HostEvent& event) noexcept {
  if (!options_.host) return;
  Record([&] {
    profile_.host.push_back({CurrentThread(), event.name, std::string(event.about), event.bytes,
                             event.caller, event.start_ns, event.end_ns});
  });
}

RecordedProfile ProfileRecording::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  room_ = 0;
  return std::exchange(profile_, {});
}

}  // namespace tripont::pjrt
