#include "core/runtime/hosts/exchange.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/logging.h"
#include "core/runtime/strings.h"

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

// A sender says with it that what it sent before is sent: if it gives up in between, its memory may be
// read when it is something else already, and this is not sent. The receiver waits for it.
constexpr char kReceipt = 'r';

// Whether a receive that is over has brought no header.
bool IsBlank(const char* message) {
  return std::all_of(message, message + sizeof(Header), [](char c) { return c == 0; });
}

}  // namespace

struct Exchange::Traffic {
  Traffic(size_t num_peers, uint64_t number)
      : sequence(number),
        out(std::make_unique_for_overwrite<char[]>(num_peers * kMessageBytes)),
        in(std::make_unique_for_overwrite<char[]>(num_peers * kMessageBytes)) {}

  uint64_t sequence;            // of the exchange in its channel
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
  // Whether request i has not ended: MPI makes it null when it has.
  bool IsOpen(size_t i) const { return requests[i] != kMpiRequestNull; }
};

StatusOr<Exchange> Exchange::Begin(Job* job, ChannelUse use, const std::vector<int>& devices,
                                   std::string what, uint64_t identity, int64_t timeout_seconds,
                                   const std::atomic<int>* waiting,
                                   std::shared_ptr<const std::string> collectives) {
  TRIPONT_RETURN_IF_ERROR(job->CheckNotForked());  // before any lock, which the parent may hold
  if (const Status reason = job->broken(); !reason.ok()) {
    return reason.WithPrefix(StrCat(what, " cannot begin on ",
                                    job->DevicesOf(job->process(), devices),
                                    ", because the job has failed before"));
  }
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
  if (size == 0) return;
  Peer& peer = PeerOf(process);
  peer.send.push_back({static_cast<char*>(const_cast<void*>(data)), size});
  peer.bytes_to_send += size;
}

void Exchange::Receive(int process, void* data, size_t size) {
  if (size == 0) return;
  Peer& peer = PeerOf(process);
  peer.receive.push_back({static_cast<char*>(data), size});
  peer.bytes_to_receive += size;
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

Status Exchange::Check(int code, std::string_view call) const {
  if (code == kMpiSuccess) [[likely]]
    return OkStatus();
  constexpr size_t kMaxNames = 4;
  std::vector<std::string> names;
  for (const int process : channel_->processes) {
    if (names.size() == kMaxNames) {
      names.push_back(StrCat("of ", channel_->processes.size() - kMaxNames, " other processes"));
      break;
    }
    names.push_back(
        StrCat(job_->DevicesOf(process, channel_->devices), " of ", job_->NameOf(process)));
  }
  return job_->mpi()
      .Check(code, call)
      .WithPrefix(StrCat(job_->DevicesOf(job_->process(), channel_->devices), " of ",
                         job_->NameOf(job_->process()), " is in ", what_, " with ",
                         StrJoin(names, ", ")));
}

// ---------------------------------------------------------------------------------------------------------------
// The steps of an exchange

Status Exchange::Run() {
  Traffic traffic(peers_.size(), ++channel_->sequence);
  Status status = PostReceives(traffic);
  if (status.ok()) status = PostSends(traffic);
  if (status.ok()) status = Await(traffic);
  if (!status.ok()) status = ReasonInHeaders(traffic, status);
  if (status.ok()) status = Unpack(traffic);
  if (status.ok()) status = ExchangeReceipts(traffic);
  if (!status.ok()) [[unlikely]]
    status = GiveUp(traffic, status);
  for (Peer& peer : peers_) peer = Peer();
  return status;
}

Status Exchange::PostReceive(Traffic& traffic, size_t peer, void* data, size_t size,
                             bool is_header) const {
  MpiHandle request = kMpiRequestNull;
  const int code =
      job_->mpi().irecv(data, static_cast<int64_t>(size), kMpiByte, channel_->processes[peer],
                        channel_->tag, job_->communicator(), &request);
  traffic.requests.push_back(request);
  traffic.about.push_back({peer, /*is_receive=*/true, is_header});
  return Check(code, "MPI_Irecv");
}

Status Exchange::PostSend(Traffic& traffic, size_t peer, const void* data, size_t size) const {
  MpiHandle request = kMpiRequestNull;
  const int code =
      job_->mpi().isend(data, static_cast<int64_t>(size), kMpiByte, channel_->processes[peer],
                        channel_->tag, job_->communicator(), &request);
  traffic.requests.push_back(request);
  traffic.about.push_back({peer, /*is_receive=*/false, /*is_header=*/false});
  return Check(code, "MPI_Isend");
}

Status Exchange::PostReceives(Traffic& traffic) const {
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].bytes_to_receive == 0) continue;
    std::memset(traffic.In(i), 0, sizeof(Header));
    TRIPONT_RETURN_IF_ERROR(
        PostReceive(traffic, i, traffic.In(i), kMessageBytes, /*is_header=*/true));
    if (peers_[i].bytes_to_receive <= kPackedBytes) continue;
    for (const Piece& piece : peers_[i].receive)
      TRIPONT_RETURN_IF_ERROR(PostReceive(traffic, i, piece.data, piece.size, false));
  }
  return OkStatus();
}

Status Exchange::PostSends(Traffic& traffic) const {
  // To the next process first, and round to the one before: not all of them to the same one at once.
  const auto after = static_cast<size_t>(
      std::lower_bound(channel_->processes.begin(), channel_->processes.end(), job_->process()) -
      channel_->processes.begin());
  for (size_t n = 0; n < peers_.size(); ++n) {
    const size_t i = (after + n) % peers_.size();
    const size_t bytes = peers_[i].bytes_to_send;
    if (bytes == 0) continue;
    Header header{identity_, traffic.sequence, bytes, {}};
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
    TRIPONT_RETURN_IF_ERROR(PostSend(traffic, i, message, size));
    if (bytes <= kPackedBytes) continue;
    for (const Piece& piece : peers_[i].send)
      TRIPONT_RETURN_IF_ERROR(PostSend(traffic, i, piece.data, piece.size));
  }
  return OkStatus();
}

Status Exchange::Await(Traffic& traffic) {
  const auto start = std::chrono::steady_clock::now();
  // A wait is registered only when it is not over at once.
  while (true) {
    TRIPONT_RETURN_IF_ERROR(job_->MayCallMpi());
    int done = 0;
    TRIPONT_RETURN_IF_ERROR(Check(job_->mpi().testall(static_cast<int>(traffic.requests.size()),
                                                      traffic.requests.data(), &done, nullptr),
                                  "MPI_Testall"));
    if (done != 0) return OkStatus();
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited < kSpin) continue;
    if (waited >= kYield) break;
    if (IsWaitedFor()) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  traffic.heard.assign(peers_.size(), false);
  Job::Wait wait(job_, channel_->use, channel_->devices, channel_->processes, traffic.sequence,
                 what_, timeout_seconds_);
  while (true) {
    bool done = false;
    TRIPONT_RETURN_IF_ERROR(TestEach(traffic, wait, &done));
    if (done) return OkStatus();
    if (wait.has_failed()) return wait.status();
    std::this_thread::sleep_for(kNap);
    TRIPONT_RETURN_IF_ERROR(job_->MayCallMpi());
  }
}

Status Exchange::TestEach(Traffic& traffic, Job::Wait& wait, bool* done) {
  std::vector<bool> is_open(peers_.size(), false);
  *done = true;
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    if (!traffic.IsOpen(i)) continue;
    const auto [peer, is_receive, is_header] = traffic.about[i];
    int is_done = 0;
    TRIPONT_RETURN_IF_ERROR(
        Check(job_->mpi().test(&traffic.requests[i], &is_done, nullptr), "MPI_Test"));
    if (is_done == 0) {
      is_open[peer] = true;
      *done = false;
    } else if (is_header) {
      TRIPONT_RETURN_IF_ERROR(CheckHeader(peer, traffic.In(peer), peers_[peer].bytes_to_receive));
    }
  }
  // Those too with whom nothing is exchanged.
  for (size_t peer = 0; peer < peers_.size(); ++peer) {
    if (is_open[peer] || traffic.heard[peer]) continue;
    traffic.heard[peer] = true;
    wait.Heard(channel_->processes[peer]);
  }
  return OkStatus();
}

Status Exchange::ReasonInHeaders(Traffic& traffic, const Status& status) {
  // A message of another size than was expected fails in MPI's words; its header says what it is.
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    const auto [peer, is_receive, is_header] = traffic.about[i];
    if (!is_header || !job_->MayCallMpi().ok()) continue;
    int done = traffic.IsOpen(i) ? 0 : 1;
    if (done == 0 && job_->mpi().test(&traffic.requests[i], &done, nullptr) != kMpiSuccess) {
      continue;
    }
    if (done == 0 || IsBlank(traffic.In(peer))) continue;
    Status reason = CheckHeader(peer, traffic.In(peer), peers_[peer].bytes_to_receive);
    if (!reason.ok()) return reason;
  }
  return status;
}

Status Exchange::Unpack(const Traffic& traffic) {
  for (size_t i = 0; i < peers_.size(); ++i) {
    const size_t bytes = peers_[i].bytes_to_receive;
    if (bytes == 0) continue;
    TRIPONT_RETURN_IF_ERROR(CheckHeader(i, traffic.In(i), bytes));
    if (bytes > kPackedBytes) continue;  // it is where it shall be
    const char* next = traffic.In(i) + sizeof(Header);
    for (const Piece& piece : peers_[i].receive) {
      std::memcpy(piece.data, next, piece.size);
      next += piece.size;
    }
  }
  return OkStatus();
}

Status Exchange::ExchangeReceipts(Traffic& traffic) {
  traffic.requests.clear();
  traffic.about.clear();
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i].bytes_to_receive > kPackedBytes)
      TRIPONT_RETURN_IF_ERROR(PostReceive(traffic, i, traffic.In(i), 1, /*is_header=*/false));
    if (peers_[i].bytes_to_send > kPackedBytes)
      TRIPONT_RETURN_IF_ERROR(PostSend(traffic, i, &kReceipt, 1));
  }
  return traffic.requests.empty() ? OkStatus() : Await(traffic);
}

Status Exchange::GiveUp(Traffic& traffic, const Status& status) {
  channel_->failed = traffic.sequence;
  job_->Break(status);
  const bool is_other_program = collectives_ != nullptr && other_.has_value();
  // Before anything is waited for: the other process waits for it.
  if (is_other_program) job_->TellCollectives(identity_, *collectives_);
  CancelReceives(traffic, status);
  // What MPI may still read or write stays where it is.
  (void)traffic.out.release();
  (void)traffic.in.release();
  if (!is_other_program) return status;
  const Status clearer = FailedPrecondition(
      status.message(), job_->FirstDifference(*collectives_, other_->first, other_->second));
  job_->BreakMoreClearly(status, clearer);
  return clearer;
}

void Exchange::CancelReceives(Traffic& traffic, const Status& reason) const {
  const auto end = std::chrono::steady_clock::now() + kFarewell;
  for (size_t i = 0; i < traffic.requests.size() && job_->MayCallMpi().ok(); ++i) {
    if (traffic.about[i].is_receive && traffic.IsOpen(i))
      (void)job_->mpi().cancel(&traffic.requests[i]);
  }
  for (size_t i = 0; i < traffic.requests.size(); ++i) {
    if (!traffic.about[i].is_receive) continue;
    int done = traffic.IsOpen(i) ? 0 : 1;
    while (done == 0 && std::chrono::steady_clock::now() < end && job_->MayCallMpi().ok()) {
      (void)job_->mpi().test(&traffic.requests[i], &done, nullptr);
      if (done == 0) std::this_thread::sleep_for(kNap);
    }
    if (done == 0) {
      TRIPONT_LOG(kDebug, what_, ": a message that was under way has not ended; MPI is left alone");
      job_->AbandonMpi(reason);
      return;
    }
  }
}

}  // namespace tripont::hosts
