// CRC-32 (zlib's) and SHA-256 (FIPS 180-4).
#ifndef TRIPONT_CORE_RUNTIME_CHECKSUM_H_
#define TRIPONT_CORE_RUNTIME_CHECKSUM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/runtime/export.h"

namespace tripont {

TRIPONT_EXPORT uint32_t Crc32(std::string_view data);

class TRIPONT_EXPORT Sha256 {
 public:
  Sha256();
  void Update(std::string_view data);
  // Length as 8 bytes, then the data: so that neighbouring fields cannot run into each other.
  void UpdateField(std::string_view data);
  // The digest. Ends the computation.
  std::array<uint8_t, 32> Finish();
  // The digest as 64 lower-case hexadecimal digits. Ends the computation.
  std::string FinishHex();

 private:
  void Block(const uint8_t* data);
  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;
  size_t pending_size_ = 0;
  uint64_t total_ = 0;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_CHECKSUM_H_
