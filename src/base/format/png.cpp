// Chunks, row filters and zlib; see png.h.
#include "base/format/png.h"

#include <cstdlib>
#include <string_view>

#include "base/format/deflate.h"

namespace trine {

namespace {

std::string big_endian(uint32_t v) {
  std::string out(4, '\0');
  for (size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(v >> (24 - 8 * i));
  return out;
}

void add_chunk(std::string& out, std::string_view type, std::string_view data) {
  out += big_endian(static_cast<uint32_t>(data.size()));
  const size_t begin = out.size();
  out += type;
  out += data;
  out += big_endian(crc32(std::string_view(out).substr(begin)));
}

// A row under filter 0 (none), 1 (minus the left pixel) or 2 (minus the row above).
std::string filtered(const uint8_t* row, const uint8_t* above, size_t bytes, char filter) {
  std::string out(1, filter);
  for (size_t i = 0; i < bytes; ++i) {
    const int before = filter == 1 ? (i >= 3 ? row[i - 3] : 0) : filter == 2 && above ? above[i] : 0;
    out += static_cast<char>(row[i] - before);
  }
  return out;
}

int64_t roughness(std::string_view row) {
  int64_t sum = 0;
  for (const char c : row.substr(1)) sum += std::abs(static_cast<int>(static_cast<signed char>(c)));
  return sum;
}

}  // namespace

std::string png(const Pixels& image) {
  const size_t bytes = static_cast<size_t>(image.width) * 3;
  Deflater body(Deflater::Wrap::zlib);
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* row = image.rgb.data() + static_cast<size_t>(y) * bytes;
    const uint8_t* above = y ? row - bytes : nullptr;
    std::string best = filtered(row, above, bytes, 0);
    for (const char filter : {1, 2})
      if (std::string other = filtered(row, above, bytes, filter); roughness(other) < roughness(best))
        best = std::move(other);
    body.write(best);
  }
  std::string out = "\x89PNG\r\n\x1a\n";
  add_chunk(out, "IHDR",
            big_endian(static_cast<uint32_t>(image.width)) + big_endian(static_cast<uint32_t>(image.height)) +
                std::string("\x08\x02\0\0\0", 5));
  add_chunk(out, "IDAT", body.finish());
  add_chunk(out, "IEND", "");
  return out;
}

}  // namespace trine
