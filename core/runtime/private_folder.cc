#include "core/runtime/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace tripont {
namespace {

constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

std::string Octal(mode_t mode) {
  char text[8];
  (void)std::snprintf(text, sizeof(text), "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

// Why what `info` is about is not trusted; empty if it is.
std::string Distrust(const struct stat& info) {
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return StrCat("it belongs to user ", info.st_uid, ", and this process runs as user ",
                  geteuid());
  }
  if ((info.st_mode & kWritableByOthers) != 0) {
    return StrCat("others may write to it (mode ", Octal(info.st_mode), ")");
  }
  return "";
}

Status FailedTo(std::string_view what, const std::string& path, int error) {
  const std::string message = StrCat("cannot ", what, " ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return NotFound(message);
  return Unavailable(message);
}

bool WriteWhole(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    content.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

}  // namespace

size_t ReadUpTo(int fd, char* data, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = read(fd, data + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

StatusOr<PrivateFolder> PrivateFolder::Open(const std::string& path, Sharing sharing) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) return FailedTo("open", path, errno);
  if (sharing == Sharing::kTighten && info.st_uid == geteuid() &&
      (info.st_mode & kWritableByOthers) != 0 && fchmod(fd.get(), S_IRWXU) == 0 &&
      fstat(fd.get(), &info) != 0) {  // some file systems say yes to any mode and keep their own
    return FailedTo("open", path, errno);
  }
  if (sharing != Sharing::kTrusted) {
    if (const std::string reason = Distrust(info); !reason.empty()) {
      return PermissionDenied("the cache folder ", path, " is not trusted: ", reason,
                              "; its files are run as code (TRIPONT_CACHE_SHARED=1 trusts it)");
    }
  }
  return PrivateFolder(std::move(fd), path, sharing);
}

StatusOr<PrivateFolder> PrivateFolder::Make(const std::string& path, Sharing sharing) {
  StatusOr<PrivateFolder> folder = Open(path, sharing);
  if (folder.ok() || folder.status().code() != StatusCode::kNotFound) return folder;
  const mode_t mode = sharing == Sharing::kTrusted ? 0777 : S_IRWXU;
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    mkdir(path.substr(0, slash).c_str(), mode);  // what fails shows in the last step
  }
  if (mkdir(path.c_str(), mode) != 0 && errno != EEXIST) {
    return Unavailable("cannot make the cache folder ", path, ": ", std::strerror(errno));
  }
  return Open(path, sharing);
}

StatusOr<FileDescriptor> PrivateFolder::OpenFile(const std::string& name, bool writable) const {
  // O_NONBLOCK: nobody waits for the other end of a FIFO.
  const int flags = (writable ? O_RDWR | O_CREAT : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const mode_t mode = sharing_ == Sharing::kTrusted ? 0666 : S_IRUSR | S_IWUSR;
  FileDescriptor fd(openat(fd_.get(), name.c_str(), flags, mode));
  if (!fd.valid()) {
    if (errno == ELOOP) return PermissionDenied("it is a symbolic link");
    if (errno == ENXIO) return PermissionDenied("it is not a regular file");
    return FailedTo("open", StrCat(path_, "/", name), errno);
  }
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return FailedTo("look at", StrCat(path_, "/", name), errno);
  if (!S_ISREG(info.st_mode)) return PermissionDenied("it is not a regular file");
  if (sharing_ != Sharing::kTrusted) {
    if (const std::string reason = Distrust(info); !reason.empty()) return PermissionDenied(reason);
  }
  return fd;
}

Status PrivateFolder::Write(const std::string& name, const std::string& temporary,
                            std::span<const std::string_view> parts) const {
  const mode_t mode = sharing_ == Sharing::kTrusted ? 0666 : S_IRUSR | S_IWUSR;
  FileDescriptor fd(openat(fd_.get(), temporary.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid()) return Unavailable(std::strerror(errno));
  bool ok = true;
  for (const std::string_view part : parts) ok = ok && WriteWhole(fd.get(), part);
  int error = errno;
  if (!fd.Close() && ok) {
    ok = false;
    error = errno;
  }
  if (ok && renameat(fd_.get(), temporary.c_str(), fd_.get(), name.c_str()) != 0) {
    ok = false;
    error = errno;
  }
  if (ok) return OkStatus();
  Remove(temporary);
  return Unavailable(std::strerror(error));
}

bool PrivateFolder::Remove(const std::string& name) const {
  return unlinkat(fd_.get(), name.c_str(), 0) == 0;
}

std::vector<PrivateFolder::File> PrivateFolder::List() const {
  std::vector<File> files;
  FileDescriptor own(openat(fd_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.valid()) return files;
  DIR* const directory = fdopendir(own.get());
  if (directory == nullptr) return files;
  const int fd = own.Release();  // now the directory's
  while (const dirent* const item = readdir(directory)) {
    struct stat info{};
    if (fstatat(fd, item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) files.push_back({item->d_name, info.st_size, info.st_mtim});
  }
  closedir(directory);
  return files;
}

}  // namespace tripont
