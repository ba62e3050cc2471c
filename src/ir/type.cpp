// Text and hash of types.
#include "ir/type.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace trine::ir {

static constexpr char kHex[] = "0123456789abcdef";

std::string quoted(std::string_view s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\') {
      append_text(out, cat('\\', char(c)));
    } else if (c < 32 || c >= 127) {
      append_text(out, cat("\\x", kHex[c >> 4], kHex[c & 15]));
    } else {
      out += char(c);
    }
  }
  return out + "\"";
}

bool is_countable(const Type& type) {
  constexpr int64_t kBytesMax = int64_t{1} << 46;
  int64_t n = bytes(type.dtype);
  for (int64_t d : type.dims) {
    if (d < 0 || (d > 0 && n > kBytesMax / d)) return false;
    n *= std::max<int64_t>(d, 1);
  }
  return true;
}

std::string text(const Type& type) {
  if (type.is_token) return "token";
  std::string out = shape_text(type.dtype, type.dims);
  if (!type.layout.empty()) {
    out += '{';
    for (size_t i = 0; i < type.layout.size(); ++i) append_text(out, cat(i ? "," : "", type.layout[i]));
    out += '}';
  }
  if (!type.sharding.empty()) append_text(out, cat("@", quoted(type.sharding)));
  return out;
}

size_t hash(const Type& type) {
  size_t h = size_t(type.dtype) * 31 + type.is_token;
  for (int64_t d : type.dims) h = h * 1000003 + size_t(d);
  for (int64_t d : type.layout) h = h * 1000003 + size_t(d);
  return h * 1000003 + std::hash<std::string>{}(type.sharding);
}

}  // namespace trine::ir
