#ifndef TRIPONT_CORE_RUNTIME_FILE_DESCRIPTOR_H_
#define TRIPONT_CORE_RUNTIME_FILE_DESCRIPTOR_H_

#include <fcntl.h>
#include <unistd.h>

#include <utility>

namespace tripont {

// A descriptor that is closed with its owner; -1: none.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives it to the caller, who closes it.
  int Release() { return std::exchange(fd_, -1); }
  // Closes it now; false if the content may not have been written.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }
  // Moves the descriptor to a number of at least `first`. False, with errno, if there is none.
  bool MoveUp(int first) {
    if (fd_ < 0) return false;
    const int moved = fcntl(fd_, F_DUPFD_CLOEXEC, first);
    if (moved < 0) return false;
    close(std::exchange(fd_, moved));
    return true;
  }

 private:
  int fd_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_FILE_DESCRIPTOR_H_
