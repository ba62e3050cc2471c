// Three bytes are four letters; see base64.h.
#include "base/format/base64.h"

#include <cstdint>

namespace trine {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string to_base64(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (i + k < bytes.size() ? uint32_t(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kLetters[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<std::vector<std::byte>> from_base64(std::string_view text) {
  if (text.size() % 4) return {};
  std::vector<std::byte> out;
  out.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t group = 0;
    size_t given = 4;
    for (size_t k = 0; k < 4; ++k) {
      const bool is_end = text[i + k] == '=' && i + 4 == text.size() && k >= 2;
      const size_t letter = is_end ? 0 : kLetters.find(text[i + k]);
      if (letter == std::string_view::npos || (!is_end && given < 4)) return {};
      if (is_end && given == 4) given = k;
      group = group << 6 | uint32_t(letter);
    }
    for (size_t k = 0; k + 1 < given; ++k) out.push_back(std::byte(group >> (16 - 8 * k)));
  }
  return out;
}

}  // namespace trine
