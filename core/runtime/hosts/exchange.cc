#include "core/runtime/hosts/exchange.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/logging.h"

namespace tripont::hosts {
namespace {

// What every message begins with.
struct Header {
  uint64_t identity;  // of the collective
  uint64_t sequence;  // of the exchange in its channel
  uint64_t bytes;     // of the data, whether it follows here or in messages of its own
  char what[104];     // for the error of a process that expected something else
};
static_assert(sizeof(Header) == 128);
constexpr size_t kMessageBytes = sizeof(Header) + kPackedBytes;

// Looking again and again is how a thread hears of a message first. It lends its core in between very
// soon: the process that it waits for may have no other one, and a thread that lends its core gets it
// back at once if nobody wants it.
constexpr std::chrono::microseconds kSpin{4};
constexpr std::chrono::milliseconds kYield{2};
constexpr std::chrono::microseconds kNap{50};
// How long what was begun with others may take to end after an error.
constexpr std::chrono::seconds kFarewell{2};

// Says that what was sent before it has arrived: if the sender gives up in between, its memory may
// be read when it is something else already, and this is not sent.
constexpr char kReceipt = 'r';

size_t Total(const auto& pieces) {
  size_t total = 0;
  for (const auto& piece : pieces) total += piece.size;
  return total;
}

// Whether a receive that is over has brought no header.
bool IsBlank(const char* message) {
  return std::all_of(message, message + sizeof(Header), [](char c) { return c == 0; });
}

}  // namespace

// The messages of one Run that are under way.
struct Exchange::Traffic {
  std::unique_ptr<char[]> out;  // a message for each peer
  std::unique_ptr<char[]> in;
  std::vector<MpiHandle> requests;
  struct Request {
    size_t peer;
    bool is_receive;
    bool is_header;  // and what follows it in the same message
  };
  std::vector<Request> about;  // each of `requests`
  std::vector<bool> heard;     // by peer: all that goes to it and comes from it is done

  char* Out(size_t peer) const { return out.get() + peer * kMessageBytes; }
  char* In(size_t peer) const { return in.get() + peer * kMessageBytes; }
};

StatusOr<Exchange> Exchange::Begin(Job* job, ChannelUse use, const std::vector<int>& devices,
                                   std::string what, uint64_t identity, int64_t timeout_seconds,
                                   const std::atomic<int>* waiting,
                                   std::shared_ptr<const std::string> collectives) {
  TRIPONT_RETURN_IF_ERROR(job->CheckNotForked());  // before any lock, which the parent may hold
  TRIPONT_RETURN_IF_ERROR(job->broken());
  TRIPONT_ASSIGN_OR_RETURN(Channel* const channel,
                           job->GetChannel(use, devices, what, timeout_seconds));
  return Exchange(job, channel, std::move(what), identity, timeout_seconds, waiting,
                  std::move(collectives));
}

Exchange::Peer& Exchange::PeerOf(int process) {
  const auto found =
      std::lower_bound(channel_->processes.begin(), channel_->processes.end(), process);
  return peers_[static_cast<size_t>(found - channel_->processes.begin())];
}

void Exchange::Send(int process, const void* data, size_t size) {
  if (size > 0) PeerOf(process).send.push_back({static_cast<char*>(const_cast<void*>(data)), size});
}

void Exchange::Receive(int process, void* data, size_t size) {
  if (size > 0) PeerOf(process).receive.push_back({static_cast<char*>(data), size});
}

Status Exchange::CheckHeader(size_t peer, const char* message, size_t expected) {
  Header header;
  std::memcpy(&header, message, sizeof(header));
  if (header.identity == identity_ && header.sequence == channel_->sequence &&
      header.bytes == expected) {
    return OkStatus();
  }
  header.what[sizeof(header.what) - 1] = '\0';
  const int process = channel_->processes[peer];
  if (header.identity != identity_) other_ = {process, header.identity};
  return FailedPrecondition(
      job_->DevicesOf(job_->process(), channel_->devices), " is in ", what_, " (exchange ",
      channel_->sequence.load(), ", ", expected, " bytes to receive), but ",
      job_->DevicesOf(process, channel_->devices), " of ", job_->NameOf(process), " is in ",
      static_cast<const char*>(header.what), " (exchange ", header.sequence, ", ", header.bytes,
      " bytes): the processes do not run the same programs in the same order");
}

// Looks at the messages one by one, to tell `wait` which processes it need not wait for any more.
// The error of a process that runs another program, as soon as its first message is there.
Status Exchange::TestEach(Traffic& traffic, Job::Wait& wait, bool* done) {
  const MpiApi& mpi = job_->mpi();
  std::vector<bool> is_open(peers_.size(), false);
  *done = true;
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    const auto [peer, is_receive, is_header] = traffic.about[i];
    if (traffic.requests[i] == kMpiRequestNull) continue;
    int is_done = 0;
    TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.test(&traffic.requests[i], &is_done, nullptr), what_));
    if (is_done == 0) {
      is_open[peer] = true;
      *done = false;
    } else if (is_header) {
      TRIPONT_RETURN_IF_ERROR(CheckHeader(peer, traffic.In(peer), Total(peers_[peer].receive)));
    }
  }
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (is_open[peer] || traffic.heard[peer]) continue;
    traffic.heard[peer] = true;
    wait.Heard(channel_->processes[peer]);
  }
  return OkStatus();
}

Status Exchange::Run() {
  const MpiApi& mpi = job_->mpi();
  const MpiHandle communicator = job_->communicator();
  const uint64_t sequence = ++channel_->sequence;
  Traffic traffic;
  traffic.out = std::make_unique_for_overwrite<char[]>(peers_.size() * kMessageBytes);
  traffic.in = std::make_unique_for_overwrite<char[]>(peers_.size() * kMessageBytes);
  Status status;
  const auto receive = [&](size_t peer, void* data, size_t size, bool is_header = false) {
    MpiHandle request = kMpiRequestNull;
    const int code = mpi.irecv(data, static_cast<int64_t>(size), kMpiByte,
                               channel_->processes[peer], channel_->tag, communicator, &request);
    if (status.ok()) status = mpi.Check(code, "MPI_Irecv");
    traffic.requests.push_back(request);
    traffic.about.push_back({peer, true, is_header});
  };
  const auto send = [&](size_t peer, const void* data, size_t size) {
    MpiHandle request = kMpiRequestNull;
    const int code = mpi.isend(data, static_cast<int64_t>(size), kMpiByte,
                               channel_->processes[peer], channel_->tag, communicator, &request);
    if (status.ok()) status = mpi.Check(code, "MPI_Isend");
    traffic.requests.push_back(request);
    traffic.about.push_back({peer, false, false});
  };
  for (size_t i = 0; i < peers_.size(); ++i) {
    const size_t bytes = Total(peers_[i].receive);
    if (bytes == 0) continue;
    std::memset(traffic.In(i), 0, sizeof(Header));
    receive(i, traffic.In(i), kMessageBytes, /*is_header=*/true);
    if (bytes <= kPackedBytes) continue;
    for (const Piece& piece : peers_[i].receive) receive(i, piece.data, piece.size);
  }
  bool has_receipts = false;
  // To the next process first, and round to the one before: not all of them to the same one at once.
  const auto after = static_cast<size_t>(
      std::lower_bound(channel_->processes.begin(), channel_->processes.end(), job_->process()) -
      channel_->processes.begin());
  for (size_t n = 0; n < peers_.size(); ++n) {
    const size_t i = (after + n) % peers_.size();
    const size_t bytes = Total(peers_[i].send);
    if (bytes == 0) continue;
    Header header{identity_, sequence, bytes, {}};
    what_.copy(header.what, sizeof(header.what) - 1);
    char* const message = traffic.Out(i);
    std::memcpy(message, &header, sizeof(header));
    size_t size = sizeof(header);
    if (bytes <= kPackedBytes) {
      for (const Piece& piece : peers_[i].send) {
        std::memcpy(message + size, piece.data, piece.size);
        size += piece.size;
      }
    }
    send(i, message, size);
    if (bytes <= kPackedBytes) continue;
    has_receipts = true;
    for (const Piece& piece : peers_[i].send) send(i, piece.data, piece.size);
  }
  // A wait is registered only when it is not over at once.
  std::optional<Job::Wait> wait;
  const auto await = [&]() -> Status {
    if (!status.ok()) return status;
    const auto start = std::chrono::steady_clock::now();
    while (true) {
      TRIPONT_RETURN_IF_ERROR(job_->MayCallMpi());
      if (wait.has_value()) {
        bool done = false;
        TRIPONT_RETURN_IF_ERROR(TestEach(traffic, *wait, &done));
        if (done) return OkStatus();
        if (wait->has_failed()) return wait->status();
        std::this_thread::sleep_for(kNap);
        continue;
      }
      int done = 0;
      TRIPONT_RETURN_IF_ERROR(mpi.Check(mpi.testall(static_cast<int>(traffic.requests.size()),
                                                    traffic.requests.data(), &done, nullptr),
                                        what_));
      if (done != 0) return OkStatus();
      const auto waited = std::chrono::steady_clock::now() - start;
      if (waited < kSpin) continue;
      if (waited < kYield) {
        if (IsWaitedFor()) {
          sched_yield();
        } else {
          std::this_thread::sleep_for(kNap);
        }
        continue;
      }
      // TestEach takes those out with whom nothing is exchanged.
      traffic.heard.assign(peers_.size(), false);
      wait.emplace(job_, channel_->use, channel_->devices, channel_->processes, sequence, what_,
                   timeout_seconds_);
    }
  };
  status = await();
  // A message of another size than was expected fails in MPI's words; its header says what it is.
  for (size_t i = 0; i < traffic.requests.size() && !status.ok(); ++i) {
    if (!traffic.about[i].is_header || !job_->MayCallMpi().ok()) continue;
    int done = traffic.requests[i] == kMpiRequestNull ? 1 : 0;
    if (done == 0 && mpi.test(&traffic.requests[i], &done, nullptr) != kMpiSuccess) continue;
    const size_t peer = traffic.about[i].peer;
    if (done == 0 || IsBlank(traffic.In(peer))) continue;
    const Status header = CheckHeader(peer, traffic.In(peer), Total(peers_[peer].receive));
    if (header.ok()) continue;
    status = header;
    break;
  }
  for (size_t i = 0; i < peers_.size() && status.ok(); ++i) {
    const size_t bytes = Total(peers_[i].receive);
    if (bytes == 0) continue;
    status = CheckHeader(i, traffic.In(i), bytes);
    if (!status.ok() || bytes > kPackedBytes) {
      has_receipts = has_receipts || bytes > kPackedBytes;
      continue;
    }
    const char* next = traffic.In(i) + sizeof(Header);
    for (const Piece& piece : peers_[i].receive) {
      std::memcpy(piece.data, next, piece.size);
      next += piece.size;
    }
  }
  if (status.ok() && has_receipts) {
    traffic.requests.clear();
    traffic.about.clear();
    wait.reset();
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (Total(peers_[i].receive) > kPackedBytes) receive(i, traffic.In(i), 1);
      if (Total(peers_[i].send) > kPackedBytes) send(i, &kReceipt, 1);
    }
    status = await();
  }
  for (Peer& peer : peers_) peer = Peer();
  if (status.ok()) [[likely]]
    return status;

  // Nothing may write into the caller's memory when this returns.
  channel_->failed = sequence;
  job_->Break(status);
  // Before anything is waited for: the other process waits for it.
  const bool is_other_program = collectives_ != nullptr && other_.has_value();
  if (is_other_program) job_->TellCollectives(identity_, *collectives_);
  const auto end = std::chrono::steady_clock::now() + kFarewell;
  for (size_t i = 0; i < traffic.requests.size() && job_->MayCallMpi().ok(); ++i) {
    if (traffic.about[i].is_receive && traffic.requests[i] != kMpiRequestNull)
      (void)mpi.cancel(&traffic.requests[i]);
  }
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    if (!traffic.about[i].is_receive) continue;
    int done = traffic.requests[i] == kMpiRequestNull ? 1 : 0;
    while (done == 0 && std::chrono::steady_clock::now() < end && job_->MayCallMpi().ok()) {
      (void)mpi.test(&traffic.requests[i], &done, nullptr);
      if (done == 0) std::this_thread::sleep_for(kNap);
    }
    if (done == 0) {
      TRIPONT_LOG(kDebug, what_, ": a message that was under way has not ended; MPI is left alone");
      job_->AbandonMpi(status);
      break;
    }
  }
  // What MPI may still send from stays where it is.
  (void)traffic.out.release();
  if (!is_other_program) return status;
  const Status clearer = FailedPrecondition(
      status.message(), job_->FirstDifference(*collectives_, other_->first, other_->second));
  job_->BreakMoreClearly(status, clearer);
  return clearer;
}

}  // namespace tripont::hosts
