// Reading and writing the protocol-buffer wire format, as much of it as the PJRT API needs.
//
// PJRT passes a few protobuf messages as bytes (CompileOptionsProto, DeviceAssignmentProto,
// HloModuleProtoWithConfig). Linking libprotobuf would put a second copy of it into processes that
// already hold one, so the handful of fields we use are read by hand. Field numbers are named where
// they are used.
#ifndef TRIPONT_PJRT_WIRE_H_
#define TRIPONT_PJRT_WIRE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/runtime/status.h"

namespace tripont::pjrt {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Walks the fields of one message in the order they stand. `bytes` must outlive the reader and
// every string_view it returns. Never reads out of bounds: malformed input ends the walk with ok()
// == false.
//
//   for (WireReader reader(bytes); reader.Next();) { switch (reader.field()) ... }
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}

  // Moves to the next field. False at the end of the message, or when it is malformed.
  bool Next();

  uint32_t field() const { return field_; }
  WireType type() const { return type_; }

  // The value of a varint, fixed64 or fixed32 field; 0 for a bytes field.
  uint64_t number() const { return number_; }
  int64_t signed_number() const { return static_cast<int64_t>(number_); }

  // The value of a bytes field (string, message, packed numbers); empty for the others.
  std::string_view bytes() const { return bytes_; }

  // False once the input turned out to be malformed.
  bool ok() const { return ok_; }

  // Appends this field of type `repeated int64` to `out`, whether it is packed or not.
  // False if the packed bytes are malformed.
  bool AppendTo(std::vector<int64_t>* out) const;

 private:
  bool Fail();

  std::string_view rest_;
  std::string_view bytes_;
  uint64_t number_ = 0;
  uint32_t field_ = 0;
  WireType type_ = WireType::kVarint;
  bool ok_ = true;
};

// Where the values of a field go. If a field stands several times its last value stays, but a list
// gets all of them, and a function is given the bytes of each.
struct WireField {
  uint32_t number;
  std::variant<bool*, int64_t*, std::string*, std::string_view*, std::vector<int64_t>*,
               std::function<Status(std::string_view)>>
      target;
};

// Reads a message; fields that are not named are passed over. INVALID_ARGUMENT with the message's
// name if it is malformed, or the error of a function.
Status ReadMessage(std::string_view bytes, std::string_view name,
                   std::initializer_list<WireField> fields);

// Appends fields to a message.
class WireWriter {
 public:
  void Varint(uint32_t field, uint64_t value);
  void Bytes(uint32_t field, std::string_view value);
  // The tag and length of a bytes field whose `size` bytes the caller puts after str() itself.
  void BytesHeader(uint32_t field, size_t size);
  // Fields that are encoded already.
  void Append(std::string_view encoded) { out_.append(encoded); }
  void PackedVarints(uint32_t field, const std::vector<int64_t>& values);

  const std::string& str() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  void RawVarint(uint64_t value);

  std::string out_;
};

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_WIRE_H_
