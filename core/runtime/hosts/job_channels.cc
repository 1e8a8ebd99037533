// The channels of a job: the groups of devices whose messages follow one another.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "core/runtime/checksum.h"
#include "core/runtime/hosts/job.h"
#include "core/runtime/hosts/text.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

constexpr int kFirstChannelTag = 16;  // the job's own messages have those below

}  // namespace

std::string Job::KeyOfChannel(ChannelUse use, const std::vector<int>& devices) const {
  Sha256 hash;
  for (const int device : devices) hash.UpdateField(StrCat(device));
  return StrCat("tripont/channel/", name_, "/", static_cast<char>(use), "/", hash.FinishHex());
}

StatusOr<int64_t> Job::AwaitTag(ChannelUse use, const std::vector<int>& devices,
                                const std::string& what, int64_t timeout_seconds) {
  const std::string key = KeyOfChannel(use, devices);
  Wait wait(this, use, devices, {ProcessOf(devices[0])}, 0, what, timeout_seconds);
  while (true) {
    TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
    StatusOr<std::string> text = store->Get(key, std::chrono::milliseconds(kAskAfterMs));
    if (text.ok()) return ToNumber(*text).value_or(0);
    if (wait.has_failed()) return wait.status();
    TRIPONT_RETURN_IF_ERROR(MayCallMpi());
    if (text.status().code() == StatusCode::kCancelled) {
      const StatusOr<std::shared_ptr<KeyValueStore>> now = this->store();
      if (!now.ok() || *now == store) return text.status().WithPrefix(what);
    }
    // The store may be gone, with the process that keeps it: the wait finds out.
    if (text.status().code() != StatusCode::kDeadlineExceeded)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

std::unique_ptr<Channel> Job::MakeChannel(ChannelUse use, const std::vector<int>& devices,
                                          int tag) const {
  auto channel = std::make_unique<Channel>();
  channel->use = use;
  channel->devices = devices;
  channel->tag = tag;
  for (const int device : devices) {
    const int process = ProcessOf(device);
    if (process != process_) channel->processes.push_back(process);
  }
  std::sort(channel->processes.begin(), channel->processes.end());
  channel->processes.erase(std::unique(channel->processes.begin(), channel->processes.end()),
                           channel->processes.end());
  return channel;
}

StatusOr<Channel*> Job::GetChannel(ChannelUse use, const std::vector<int>& devices,
                                   const std::string& what, int64_t timeout_seconds) {
  if (!mpi_status_.ok()) return mpi_status_.WithPrefix(what);
  TRIPONT_RETURN_IF_ERROR(MayCallMpi());
  const int first = ProcessOf(devices[0]);
  int number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = channels_.find({use, devices});
    if (found != channels_.end()) return found->second.get();
    if (first == process_) number = channels_named_++;
  }
  // Each process names the channels whose first device is its own, from a range of tags that is
  // its own.
  const int range = (largest_tag_ - kFirstChannelTag) / num_processes();
  if (number >= range) {
    return ResourceExhausted("MPI has ", largest_tag_,
                             " tags, too few for the groups of devices "
                             "of this program and ",
                             num_processes(), " processes");
  }
  int64_t tag = kFirstChannelTag + int64_t{first} * range + number;
  if (first == process_) {
    TRIPONT_ASSIGN_OR_RETURN(const std::shared_ptr<KeyValueStore> store, this->store());
    TRIPONT_RETURN_IF_ERROR(store->Put(KeyOfChannel(use, devices), StrCat(tag)));
  } else {
    TRIPONT_ASSIGN_OR_RETURN(tag, AwaitTag(use, devices, what, timeout_seconds));
  }
  if (tag < kFirstChannelTag || tag > largest_tag_) {
    return Internal(what, ": the coordinator's store has the tag ", tag, " for ",
                    StrJoin(devices, ", "), ", but MPI's tags go from ", kFirstChannelTag, " to ",
                    largest_tag_);
  }
  std::unique_ptr<Channel> channel = MakeChannel(use, devices, static_cast<int>(tag));
  const std::lock_guard<std::mutex> lock(mutex_);
  return channels_.emplace(std::pair(use, devices), std::move(channel)).first->second.get();
}

}  // namespace tripont::hosts
