// The job's thread: it asks the processes that waits wait for how they are, and answers the same
// questions of others. `outgoing_` and `last_look_ms_` are its own; what it shares with the threads
// that wait is under the job's mutex.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/runtime/exceptions.h"
#include "core/runtime/hosts/job.h"
#include "core/runtime/hosts/text.h"
#include "core/runtime/logging.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

constexpr int kQuestionTag = 1;
constexpr int kAnswerTag = 2;
// A process that did not answer for this long is taken for dead.
constexpr int64_t kDeadAfterMs = 8000;
constexpr int64_t kWarnAfterMs = 20000;
// A thread that looks every few milliseconds and did not for this long was stopped (Ctrl-Z, a
// debugger, a machine that slept), and the other processes probably with it.
constexpr int64_t kWasStoppedMs = 2000;
constexpr std::chrono::milliseconds kIdlePause{50};
constexpr std::chrono::milliseconds kBusyPause{5};

// Sizes of what a question and an answer tell: enough for a person, and little enough to be sent at
// once.
constexpr size_t kMaxWhat = 300;
constexpr size_t kMaxDevicesInQuestion = 256;
constexpr size_t kLongestMessage = 4096;

// The next message with `tag` that is there, and whose it is.
std::optional<std::pair<int, std::string>> TakeMessage(const MpiApi& mpi, MpiHandle communicator,
                                                       int tag) {
  int is_there = 0;
  MpiStatus status = {};
  if (mpi.iprobe(kMpiAnySource, tag, communicator, &is_there, &status) != kMpiSuccess ||
      is_there == 0) {
    return std::nullopt;
  }
  int size = 0;
  if (mpi.get_count(&status, kMpiByte, &size) != kMpiSuccess || size < 0) return std::nullopt;
  // To receive it might take the sender's help, and so as long as the sender likes.
  if (static_cast<size_t>(size) > kLongestMessage) return std::nullopt;
  std::string text(static_cast<size_t>(size), '\0');
  const int source = status.source;
  if (mpi.recv(text.data(), size, kMpiByte, source, tag, communicator, &status) != kMpiSuccess)
    return std::nullopt;
  return std::pair(source, std::move(text));
}

}  // namespace

void Job::Watch() {
  bool has_failed = false;
  while (use_of_mpi_.load(std::memory_order_acquire) == UseOfMpi::kCalled) {
    // There may be memory at the next look: an answer that is not sent now is awaited for seconds.
    const Status status =
        Guarded("while waits for other processes were watched", [this] { LookOnce(); });
    if (!status.ok() && !std::exchange(has_failed, true))
      LogText(LogLevel::kWarning, status.message(), "");
    bool busy = !outgoing_.empty();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const Wait* wait : waits_) busy = busy || NowMs() - wait->started_ms_ > kAskAfterMs / 2;
    }
    std::this_thread::sleep_for(busy ? kBusyPause : kIdlePause);
  }
}

void Job::LookOnce() {
  AnswerQuestions();
  ReadAnswers();
  LookAfterWaits();
  std::erase_if(outgoing_, [&](Outgoing& message) {
    int done = 0;
    MpiStatus status;
    (void)mpi_->test(&message.request, &done, &status);
    return done != 0;
  });
}

void Job::Send(int process, int tag, std::string text) {
  Outgoing& message = outgoing_.emplace_back();
  message.text = std::move(text);
  (void)mpi_->isend(message.text.data(), static_cast<int64_t>(message.text.size()), kMpiByte,
                    process, tag, communicator_, &message.request);
}

// A question: "NUMBER\tSEQUENCE\tUSE\tWHAT\tDEVICE DEVICE ...". Its answer: "NUMBER\t" and then nothing,
// if the asker shall wait on, or why what it waits for will not come.
void Job::AnswerQuestions() {
  while (auto question = TakeMessage(*mpi_, communicator_, kQuestionTag)) {
    const std::string number = question->second.substr(0, question->second.find('\t'));
    Send(question->first, kAnswerTag,
         StrCat(number, "\t", Shortened(AnswerTo(question->first, question->second))));
  }
}

std::string Job::AnswerTo(int asker, std::string_view question) {
  const std::vector<std::string> fields = Split(question, '\t');
  if (fields.size() != 5 || fields[2].size() != 1) return "";
  const auto sequence = static_cast<uint64_t>(ToNumber(fields[1]).value_or(0));
  const auto use = static_cast<ChannelUse>(fields[2][0]);
  std::vector<int> devices;
  for (const std::string& id : Split(fields[4], ' '))
    devices.push_back(static_cast<int>(ToNumber(id).value_or(-1)));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto channel = channels_.find({use, devices});
  if (channel != channels_.end() && sequence > 0 && channel->second->sequence >= sequence) {
    const uint64_t failed = channel->second->failed;
    if (failed == 0 || sequence < failed) return "";  // what it waits for is on its way
  }
  if (!broken_.ok()) return Plain(StrCat("it has failed: ", broken_.message()));
  // A transfer keeps no device from its collectives.
  if (use != ChannelUse::kCollectives) return "";
  // All of the asker's devices in the group wait for ours. If one of ours waits for one of the
  // asker's in another collective, neither will ever come.
  const auto in_question = [&](int device) {
    return std::find(devices.begin(), devices.end(), device) != devices.end();
  };
  for (const Wait* wait : waits_) {
    if (wait->use_ != use || wait->devices_ == devices ||
        NowMs() - wait->started_ms_ < kAskAfterMs / 2)
      continue;
    bool has_ours = false;
    bool has_theirs = false;
    for (const int device : wait->devices_) {
      if (!in_question(device)) continue;
      has_ours = has_ours || ProcessOf(device) == process_;
      has_theirs = has_theirs || ProcessOf(device) == asker;
    }
    if (has_ours && has_theirs) {
      return Plain(StrCat("it runs another program: ", DevicesOf(process_, wait->devices_),
                          " waits in ", wait->what_));
    }
  }
  return "";
}

void Job::ReadAnswers() {
  while (auto answer = TakeMessage(*mpi_, communicator_, kAnswerTag)) {
    const auto& [source, text] = *answer;
    const size_t tab = text.find('\t');
    if (tab == std::string::npos) continue;
    const std::optional<int64_t> number = ToNumber(std::string_view(text).substr(0, tab));
    const std::string_view reason = std::string_view(text).substr(tab + 1);
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Wait* const wait : waits_) {
      if (static_cast<int64_t>(wait->number_) != number) continue;
      for (Wait::Awaited& awaited : wait->awaited_) {
        if (awaited.process != source) continue;
        awaited.first_question_ms = 0;
        if (!reason.empty()) {
          Fail(*wait,
               FailedPrecondition(DevicesOf(process_, wait->devices_), " waits in ", wait->what_,
                                  " for ", DevicesOf(source, wait->devices_), " of ",
                                  NameOf(source), ", which will not come: ", reason));
        }
      }
    }
  }
}

void Job::LookAfterWaits() {
  const int64_t now = NowMs();
  const int64_t stopped = last_look_ms_ == 0 ? 0 : now - last_look_ms_;
  last_look_ms_ = now;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Wait* const wait : waits_) {
    if (stopped > kWasStoppedMs) {  // nobody could answer, and nobody is late by it
      wait->started_ms_ = std::min(now, wait->started_ms_ + stopped);
      for (Wait::Awaited& awaited : wait->awaited_) {
        if (awaited.first_question_ms != 0) awaited.first_question_ms = now;
      }
    }
    const int64_t waited = now - wait->started_ms_;
    if (waited < kAskAfterMs || wait->failed_ || wait->awaited_.empty()) continue;
    const auto text = [&](int process) {
      return StrCat(DevicesOf(process_, wait->devices_), " waits in ", wait->what_, " for ",
                    DevicesOf(process, wait->devices_), " of ", NameOf(process));
    };
    if (wait->timeout_seconds_ > 0 && waited > wait->timeout_seconds_ * 1000) {
      Fail(*wait, DeadlineExceeded(text(wait->awaited_[0].process), ", which has not come for ",
                                   waited / 1000,
                                   " s; every process must run the same programs in the same order "
                                   "(TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in "
                                   "seconds)"));
      continue;
    }
    if (waited > kWarnAfterMs && !wait->warned_) {
      wait->warned_ = true;
      TRIPONT_LOG(kWarning, text(wait->awaited_[0].process), " since ", waited / 1000, " s");
    }
    for (Wait::Awaited& awaited : wait->awaited_) {
      if (now - awaited.last_question_ms < kAskAfterMs) continue;
      if (IsGone(self_, processes_[static_cast<size_t>(awaited.process)])) {
        Fail(*wait, Unavailable(text(awaited.process), ", which has ended or died"));
        break;
      }
      if (awaited.first_question_ms != 0 && now - awaited.first_question_ms > kDeadAfterMs) {
        Fail(*wait, Unavailable(text(awaited.process), ", which did not answer for ",
                                kDeadAfterMs / 1000, " s: it has died, or the network is broken"));
        break;
      }
      awaited.last_question_ms = now;
      // One open question is enough: the next follows its answer.
      if (awaited.first_question_ms != 0) continue;
      awaited.first_question_ms = now;
      std::span<const int> devices = wait->devices_;
      if (devices.size() > kMaxDevicesInQuestion) devices = {};
      Send(awaited.process, kQuestionTag,
           StrCat(wait->number_, "\t", wait->sequence_, "\t", static_cast<char>(wait->use_), "\t",
                  Plain(wait->what_.substr(0, kMaxWhat)), "\t", StrJoin(devices, " ")));
    }
  }
}

}  // namespace tripont::hosts
