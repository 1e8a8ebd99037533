#include "core/runtime/record_reader.h"

namespace tripont {

bool RecordReader::IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<uint8_t>(text[i++]);
    if (first < 0x80) continue;
    const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
    if (first < 0xC2 || first > 0xF4) return false;
    // What the second byte may be, so that the code point needs as many bytes as it has.
    uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (int n = 0; n < more; ++n, ++i) {
      if (i == text.size()) return false;
      const auto byte = static_cast<uint8_t>(text[i]);
      if (byte < low || byte > high) return false;
      low = 0x80;
      high = 0xBF;
    }
  }
  return true;
}

void RecordReader::Fail(std::string_view message) {
  if (failed()) return;
  std::string path;
  for (const Step& step : path_) {
    if (step.field == nullptr) {
      path += StrCat("[", step.index, "]");
    } else {
      path += StrCat(path.empty() ? "" : ".", step.field);
    }
  }
  status_ = InvalidArgument(name_, ": ", path, path.empty() ? "" : ": ", message);
}

}  // namespace tripont
