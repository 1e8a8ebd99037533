#include "pjrt/wire.h"

#include <cstring>
#include <type_traits>

namespace tripont::pjrt {
namespace {

// Takes a varint off the front of `*rest`. False if it is cut short or longer than 64 bits.
bool TakeVarint(std::string_view* rest, uint64_t* value) {
  uint64_t result = 0;
  for (unsigned i = 0; i < 10 && i < rest->size(); ++i) {
    const auto byte = static_cast<uint8_t>((*rest)[i]);
    // The tenth byte may only carry the one bit that is left.
    if (i == 9 && byte > 1) return false;
    result |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) {
      rest->remove_prefix(i + 1);
      *value = result;
      return true;
    }
  }
  return false;
}

Status Malformed(std::string_view message) {
  return InvalidArgument("the serialized ", message, " is malformed");
}

template <typename T>
bool TakeFixed(std::string_view* rest, uint64_t* value) {
  if (rest->size() < sizeof(T)) return false;
  T fixed;
  std::memcpy(&fixed, rest->data(), sizeof(T));
  rest->remove_prefix(sizeof(T));
  *value = fixed;
  return true;
}

}  // namespace

bool WireReader::Fail() {
  ok_ = false;
  rest_ = {};
  return false;
}

bool WireReader::Next() {
  if (rest_.empty()) return false;
  uint64_t tag;
  if (!TakeVarint(&rest_, &tag)) return Fail();
  field_ = static_cast<uint32_t>(tag >> 3);
  if (field_ == 0 || (tag >> 3) > 0x1fffffff) return Fail();
  number_ = 0;
  bytes_ = {};
  type_ = static_cast<WireType>(tag & 7);
  switch (type_) {
    case WireType::kVarint:
      return TakeVarint(&rest_, &number_) || Fail();
    case WireType::kFixed64:
      return TakeFixed<uint64_t>(&rest_, &number_) || Fail();
    case WireType::kFixed32:
      return TakeFixed<uint32_t>(&rest_, &number_) || Fail();
    case WireType::kBytes: {
      uint64_t size;
      if (!TakeVarint(&rest_, &size) || size > rest_.size()) return Fail();
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
  }
  return Fail();  // groups and reserved wire types
}

bool WireReader::AppendTo(std::vector<int64_t>* out) const {
  if (type_ == WireType::kVarint) {
    out->push_back(signed_number());
    return true;
  }
  if (type_ != WireType::kBytes) return false;
  std::string_view rest = bytes_;
  while (!rest.empty()) {
    uint64_t value;
    if (!TakeVarint(&rest, &value)) return false;
    out->push_back(static_cast<int64_t>(value));
  }
  return true;
}

Status ReadMessage(std::string_view bytes, std::string_view name,
                   std::initializer_list<WireField> fields) {
  WireReader reader(bytes);
  while (reader.Next()) {
    for (const WireField& field : fields) {
      if (field.number != reader.field()) continue;
      TRIPONT_RETURN_IF_ERROR(std::visit(
          [&](const auto& target) -> Status {
            using Target = std::decay_t<decltype(target)>;
            if constexpr (std::is_same_v<Target, bool*>) {
              *target = reader.number() != 0;
            } else if constexpr (std::is_same_v<Target, int64_t*>) {
              *target = reader.signed_number();
            } else if constexpr (std::is_same_v<Target, std::vector<int64_t>*>) {
              if (!reader.AppendTo(target)) return Malformed(name);
            } else if constexpr (std::is_pointer_v<Target>) {
              *target = reader.bytes();
            } else {
              return target(reader.bytes());
            }
            return OkStatus();
          },
          field.target));
    }
  }
  return reader.ok() ? OkStatus() : Malformed(name);
}

void WireWriter::RawVarint(uint64_t value) {
  while (value >= 0x80) {
    out_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out_.push_back(static_cast<char>(value));
}

void WireWriter::Varint(uint32_t field, uint64_t value) {
  RawVarint(uint64_t{field} << 3 | static_cast<uint64_t>(WireType::kVarint));
  RawVarint(value);
}

void WireWriter::BytesHeader(uint32_t field, size_t size) {
  RawVarint(uint64_t{field} << 3 | static_cast<uint64_t>(WireType::kBytes));
  RawVarint(size);
}

void WireWriter::Bytes(uint32_t field, std::string_view value) {
  BytesHeader(field, value.size());
  out_.append(value);
}

void WireWriter::PackedVarints(uint32_t field, const std::vector<int64_t>& values) {
  WireWriter packed;
  for (int64_t value : values) packed.RawVarint(static_cast<uint64_t>(value));
  Bytes(field, packed.str());
}

}  // namespace tripont::pjrt
