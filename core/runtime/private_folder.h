// A folder of files that this process trusts as it trusts its own code, because it will run what
// they hold: the cache of compiled programs.
//
// Everything is checked on open descriptors, so that what was checked is what is read. A folder or
// file is trusted if it belongs to the process's effective user or to root, and if nobody else may
// write to it (access control lists show in the group's bits). Files are regular ones, never
// symbolic links, devices or FIFOs. With Sharing::kTrusted owners and modes are not looked at: the
// user says that everybody who can write there may run code as this user.
//
// No locks, no state but the descriptor: several processes and threads may use one folder.
#ifndef TRIPONT_CORE_RUNTIME_PRIVATE_FOLDER_H_
#define TRIPONT_CORE_RUNTIME_PRIVATE_FOLDER_H_

#include <time.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/file_descriptor.h"
#include "core/runtime/status.h"

namespace tripont {

class PrivateFolder {
 public:
  enum class Sharing {
    kNone,     // PERMISSION_DENIED if others may write to the folder
    kTighten,  // the same, but a folder of this user is made private: mode 0700
    kTrusted,  // anybody may write to it
  };
  struct File {
    std::string name;
    int64_t size;
    timespec modified;
  };

  // NOT_FOUND if it does not exist (or a part of the path is not a folder), PERMISSION_DENIED if it
  // is not trusted, UNAVAILABLE otherwise. Messages hold the path.
  static StatusOr<PrivateFolder> Open(const std::string& path, Sharing sharing);
  // The same; makes the folder, and those above it, if they are not there.
  static StatusOr<PrivateFolder> Make(const std::string& path, Sharing sharing);

  // A regular file that is trusted, open for reading (and writing: made if it is not there).
  // NOT_FOUND, PERMISSION_DENIED if it is not trusted, UNAVAILABLE. Never blocks.
  StatusOr<FileDescriptor> OpenFile(const std::string& name, bool writable = false) const;
  // `parts` one after the other as the file `name`, which appears whole or not at all; `temporary`
  // is the name until then. UNAVAILABLE.
  Status Write(const std::string& name, const std::string& temporary,
               std::span<const std::string_view> parts) const;
  bool Remove(const std::string& name) const;
  // The regular files; empty if the folder cannot be read.
  std::vector<File> List() const;

 private:
  PrivateFolder(FileDescriptor fd, std::string path, Sharing sharing)
      : fd_(std::move(fd)), path_(std::move(path)), sharing_(sharing) {}

  FileDescriptor fd_;
  std::string path_;
  Sharing sharing_;
};

// Up to `size` bytes from the descriptor's position, fewer if the file ends or cannot be read.
size_t ReadUpTo(int fd, char* data, size_t size);

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_PRIVATE_FOLDER_H_
