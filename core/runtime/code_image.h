// CodeImage: an artifact's machine code, mapped.
#ifndef TRIPONT_CORE_RUNTIME_CODE_IMAGE_H_
#define TRIPONT_CORE_RUNTIME_CODE_IMAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/export.h"
#include "core/runtime/status.h"
#include "core/schema/artifact.h"

namespace tripont {

// A kernel in such code: does units of work [begin, end). See core/compiler/formats/artifact.py.
using KernelFunction = void (*)(void* const* arguments, int64_t begin, int64_t end);

// The code is copied into fresh pages, the imports' slots are filled, then the pages become
// read-only and executable; they are never writable and executable at the same time. Unmapped when
// destroyed.
class TRIPONT_EXPORT CodeImage {
 public:
  // imports: (function name, offset of its 8-byte slot). UNIMPLEMENTED for a name that the runtime
  // does not provide, INVALID_ARGUMENT for a slot outside the code, RESOURCE_EXHAUSTED if the system
  // gives no memory, PERMISSION_DENIED if it forbids executable memory.
  static StatusOr<std::unique_ptr<CodeImage>> Map(std::string_view code,
                                                  std::span<const schema::Import> imports);
  ~CodeImage();
  CodeImage(const CodeImage&) = delete;
  CodeImage& operator=(const CodeImage&) = delete;

  size_t size() const { return size_; }
  // The function at `offset`; null if that lies outside the code.
  const void* Function(int64_t offset) const {
    return offset >= 0 && static_cast<size_t>(offset) < size_ ? data_ + offset : nullptr;
  }

 private:
  CodeImage(char* data, size_t size, size_t mapped) : data_(data), size_(size), mapped_(mapped) {}
  char* const data_;
  const size_t size_;
  const size_t mapped_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CODE_IMAGE_H_
