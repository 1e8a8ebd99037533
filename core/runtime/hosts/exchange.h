// Exchange: the messages of one collective between this process and the others of its group.
//
// A collective says what goes where, and Run does it: small things in one message to each process,
// larger ones without copies. Every message begins with what it belongs to, so that a process that
// runs another program is an error at once and never a wrong number. How the bytes get there is
// MPI's business.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_EXCHANGE_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_EXCHANGE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/hosts/job.h"
#include "core/runtime/status.h"

namespace tripont::hosts {

// Messages up to this many bytes to one process are copied into one.
inline constexpr size_t kPackedBytes = 16 << 10;

// Used by one thread.
class Exchange {
 public:
  // `what`: "all-reduce.1 of program jit_f". `identity`: a number of the collective that is the
  // same in all processes that run the same program. `waiting`: how many threads wait for its end;
  // while that is 0, Run leaves the core to those who compute. Null: its caller waits.
  // `collectives`: those of the program, a line each; where two processes find that they run
  // different programs, they compare these. Blocks while the processes agree on a channel.
  static StatusOr<Exchange> Begin(Job* job, ChannelUse use, const std::vector<int>& devices,
                                  std::string what, uint64_t identity, int64_t timeout_seconds,
                                  const std::atomic<int>* waiting = nullptr,
                                  std::shared_ptr<const std::string> collectives = nullptr);

  Job& job() const { return *job_; }
  // The other processes of the group; ascending.
  const std::vector<int>& processes() const { return channel_->processes; }

  // To be sent to `process`, and to be received from it, in the order in which the other side adds
  // the same things. The memory is used until Run returns. What is sent and what is received must
  // not overlap.
  void Send(int process, const void* data, size_t size);
  void Receive(int process, void* data, size_t size);
  // Does it, then forgets it: the next round of the same collective can follow. On an error the
  // contents of what was to be received are undefined, and the job is broken.
  Status Run();

 private:
  struct Piece {
    char* data;
    size_t size;
  };
  // What goes to one process and comes from it.
  struct Peer {
    std::vector<Piece> send;
    std::vector<Piece> receive;
    size_t bytes_to_send = 0;
    size_t bytes_to_receive = 0;
  };
  struct Traffic;  // the messages of one Run that are under way
  Exchange(Job* job, Channel* channel, std::string what, uint64_t identity, int64_t timeout_seconds,
           const std::atomic<int>* waiting, std::shared_ptr<const std::string> collectives)
      : job_(job),
        channel_(channel),
        what_(std::move(what)),
        identity_(identity),
        timeout_seconds_(timeout_seconds),
        waiting_(waiting),
        collectives_(std::move(collectives)),
        peers_(channel->processes.size()) {}
  bool IsWaitedFor() const {
    return waiting_ == nullptr || waiting_->load(std::memory_order_relaxed) > 0;
  }
  Peer& PeerOf(int process);

  // The steps of Run. A peer is named by its position in processes().
  Status PostReceives(Traffic& traffic) const;
  Status PostSends(Traffic& traffic) const;
  Status PostReceive(Traffic& traffic, size_t peer, void* data, size_t size, bool is_header) const;
  Status PostSend(Traffic& traffic, size_t peer, const void* data, size_t size) const;
  // Until all messages that were posted are done.
  Status Await(Traffic& traffic);
  // Looks at the messages one by one, to tell `wait` which processes it need not wait for any more.
  // The error of a process that runs another program, as soon as its first message is there.
  Status TestEach(Traffic& traffic, Job::Wait& wait, bool* done);
  // Puts what came in one message with its header to where it shall be received.
  Status Unpack(const Traffic& traffic);
  // Tells the receivers of what was sent straight from the caller's memory that all of it is sent, and
  // waits until the senders of what was received into that memory have said so: a sender that gave up
  // before may have freed what MPI was still reading, and says nothing.
  Status ExchangeReceipts(Traffic& traffic);
  // A clearer reason than `status`, with which MPI failed: that of the first header that has come
  // from another program. `status` itself if there is none.
  Status ReasonInHeaders(Traffic& traffic, const Status& status);
  // Ends what is under way, so that nothing writes into the caller's memory, and breaks the job.
  // What the caller is told, which says where the two programs differ if that is the reason.
  Status GiveUp(Traffic& traffic, const Status& status);
  // Cancels what is to be received, and waits for a short time until MPI has let go of it.
  void CancelReceives(Traffic& traffic, const Status& reason) const;

  Status CheckHeader(size_t peer, const char* message, size_t expected);
  // OK for kMpiSuccess, else INTERNAL with the devices and processes of this exchange.
  Status Check(int code, std::string_view call) const;

  Job* job_;
  Channel* channel_;
  std::string what_;
  uint64_t identity_;
  int64_t timeout_seconds_;
  const std::atomic<int>* waiting_;
  std::shared_ptr<const std::string> collectives_;  // may be null
  // A process that runs another program, and its number of the collective.
  std::optional<std::pair<int, uint64_t>> other_;
  std::vector<Peer> peers_;  // by position in processes()
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_EXCHANGE_H_
