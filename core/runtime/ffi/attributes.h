// The attributes of a custom call: a dictionary as an artifact holds it, and as handlers read it.
//
// core/compiler/formats/ffi_attributes.py writes the bytes and defines the format.
#ifndef TRIPONT_CORE_RUNTIME_FFI_ATTRIBUTES_H_
#define TRIPONT_CORE_RUNTIME_FFI_ATTRIBUTES_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/export.h"
#include "core/runtime/ffi/c_api.h"
#include "core/runtime/status.h"

namespace tripont::ffi {

// Owns everything that `attributes()` points to. Immutable once decoded.
class TRIPONT_EXPORT AttributeDictionary {
 public:
  // INVALID_ARGUMENT for bytes that are not a dictionary. Never reads outside `bytes`.
  static StatusOr<std::unique_ptr<AttributeDictionary>> Decode(std::string_view bytes);

  const Attributes& attributes() const { return attributes_; }
  // The position of an attribute of that name; -1 if there is none.
  int64_t Find(std::string_view name) const;

 private:
  class Decoder;
  AttributeDictionary() = default;

  std::deque<std::string> texts_;
  std::deque<ByteSpan> spans_;
  std::deque<Scalar> scalars_;
  std::deque<Array> arrays_;
  std::deque<std::vector<uint64_t>> values_;  // 8-byte aligned content of scalars and arrays
  std::deque<Attributes> dictionaries_;
  std::deque<std::vector<AttributeType>> types_;
  std::deque<std::vector<ByteSpan*>> names_;
  std::deque<std::vector<void*>> pointers_;
  Attributes attributes_{};
};

}  // namespace tripont::ffi

#endif  // TRIPONT_CORE_RUNTIME_FFI_ATTRIBUTES_H_
