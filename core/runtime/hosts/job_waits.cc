// Waits for other processes, and their end: by an answer, or by the error that breaks the job.
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/runtime/hosts/job.h"
#include "core/runtime/strings.h"

namespace tripont::hosts {

Job::Wait::Wait(Job* job, ChannelUse use, const std::vector<int>& devices,
                const std::vector<int>& processes, uint64_t sequence, std::string what,
                int64_t timeout_seconds)
    : job_(job),
      use_(use),
      devices_(devices),
      sequence_(sequence),
      what_(std::move(what)),
      timeout_seconds_(timeout_seconds),
      started_ms_(NowMs()) {
  for (const int process : processes) awaited_.push_back({process});
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  number_ = ++job_->waits_begun_;
  position_ = job_->waits_.insert(job_->waits_.end(), this);
  // Nobody watches over waits any more.
  if (job_->use_of_mpi_ == UseOfMpi::kAbandoned) job_->Fail(*this, job_->broken_);
}

Job::Wait::~Wait() {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  job_->waits_.erase(position_);
}

void Job::Wait::Heard(int process) {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  std::erase_if(awaited_, [&](const Awaited& one) { return one.process == process; });
}

Status Job::Wait::status() const {
  const std::lock_guard<std::mutex> lock(job_->mutex_);
  return status_;
}

void Job::Fail(Wait& wait, Status status) {
  if (!wait.status_.ok()) return;
  if (broken_.ok()) broken_ = status;
  wait.status_ = std::move(status);
  wait.failed_.store(true, std::memory_order_release);
}

void Job::Break(const Status& status) {
  if (!CheckNotForked().ok())
    return;  // before the lock, which a thread of the parent may have held
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.ok()) broken_ = status;
}

void Job::BreakMoreClearly(const Status& status, const Status& clearer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.message() == status.message()) broken_ = clearer;
}

Status Job::broken() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return broken_;
}

Status Job::CheckNotForked() const {
  if (getpid() == self_.pid) [[likely]]
    return OkStatus();
  return FailedPrecondition("process ", getpid(), " was forked from ", NameOf(process_),
                            " of a job: it cannot take part in programs that span processes");
}

void Job::AbandonMpi(const Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (broken_.ok()) broken_ = status;
  UseOfMpi use = UseOfMpi::kCalled;  // if the process exits already, that counts
  use_of_mpi_.compare_exchange_strong(use, UseOfMpi::kAbandoned);
  for (Wait* const wait : waits_) Fail(*wait, broken_);
}

Status Job::WhyNotMpi() const {
  while (use_of_mpi_.load(std::memory_order_acquire) == UseOfMpi::kOver)
    std::this_thread::sleep_for(std::chrono::hours(1));
  return broken();
}

}  // namespace tripont::hosts
