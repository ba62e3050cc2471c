// base/deflate, base/png: an independent inflater written from RFC 1951 gives back what was written.
#include "base/format/deflate.h"

#include <array>
#include <string>
#include <vector>

#include "base/format/png.h"
#include "tests/testing.h"

using namespace trine;

namespace {

struct Inflater {
  std::string_view in;
  size_t at = 0;
  int bit = 0;
  std::string out = {};

  int take(int n) {
    int v = 0;
    for (int i = 0; i < n; ++i) {
      v |= (static_cast<unsigned char>(in.at(at)) >> bit & 1) << i;
      if (++bit == 8) bit = 0, ++at;
    }
    return v;
  }

  struct Code {
    std::array<int, 16> count{};
    std::vector<int> symbols;
    explicit Code(const std::vector<int>& lengths) {
      for (int l = 1; l < 16; ++l)
        for (size_t s = 0; s < lengths.size(); ++s)
          if (lengths[s] == l) ++count[static_cast<size_t>(l)], symbols.push_back(static_cast<int>(s));
    }
  };
  int symbol(const Code& c) {
    int code = 0, first = 0, index = 0;
    for (size_t l = 1; l < 16; ++l) {
      code |= take(1);
      if (code - first < c.count[l]) return c.symbols.at(static_cast<size_t>(index + code - first));
      index += c.count[l];
      first = (first + c.count[l]) << 1;
      code <<= 1;
    }
    FAIL("no such code");
    return 0;
  }

  void block() {
    const int literals = take(5) + 257, distances = take(5) + 1, n = take(4) + 4;
    constexpr int order[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    std::vector<int> lengths(19), all;
    for (int i = 0; i < n; ++i) lengths[static_cast<size_t>(order[i])] = take(3);
    const Code header(lengths);
    while (static_cast<int>(all.size()) < literals + distances) {
      const int s = symbol(header);
      if (s < 16) all.push_back(s);
      if (s == 16) all.insert(all.end(), static_cast<size_t>(take(2) + 3), int{all.back()});
      if (s == 17) all.insert(all.end(), static_cast<size_t>(take(3) + 3), 0);
      if (s == 18) all.insert(all.end(), static_cast<size_t>(take(7) + 11), 0);
    }
    const Code literal({all.begin(), all.begin() + literals}), distance({all.begin() + literals, all.end()});
    for (int s = symbol(literal); s != 256; s = symbol(literal)) {
      if (s < 256) {
        out += static_cast<char>(s);
        continue;
      }
      int length = 3, base = 1;
      for (int k = 257; k < s; ++k) length += 1 << (k < 265 ? 0 : (k - 261) / 4);
      length = s == 285 ? 258 : length + take(s < 265 ? 0 : (s - 261) / 4);
      const int d = symbol(distance);
      for (int k = 0; k < d; ++k) base += 1 << (k < 4 ? 0 : (k - 2) / 2);
      const size_t back = static_cast<size_t>(base + take(d < 4 ? 0 : (d - 2) / 2));
      REQUIRE(back <= out.size());
      for (int i = 0; i < length; ++i) out += out[out.size() - back];
    }
  }

  std::string run() {
    for (bool last = false; !last;) {
      last = take(1);
      REQUIRE_EQ(take(2), 2);
      block();
    }
    return out;
  }
};

std::string inflated(std::string_view gzip) { return Inflater{gzip.substr(10, gzip.size() - 18)}.run(); }

uint32_t little(std::string_view s, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v |= static_cast<uint32_t>(static_cast<unsigned char>(s[at + i])) << (8 * i);
  return v;
}

// Bytes of `kinds` values, in runs, so that both literals and matches of all lengths appear.
std::string noise(uint64_t seed, size_t size, uint64_t kinds) {
  std::string out;
  for (uint64_t state = seed; out.size() < size;) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const uint64_t r = state >> 33;
    if (r % 3 == 0 && out.size() > 300) {
      const size_t back = 1 + r % std::min<size_t>(out.size() - 1, 40000), n = 1 + (r >> 8) % 300;
      for (size_t i = 0; i < n; ++i) out += out[out.size() - back];
    } else {
      out += static_cast<char>(r % kinds);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("crc32 of the well-known check string") { CHECK_EQ(crc32("123456789"), 0xCBF43926u); }

TEST_CASE("inflate gives back what was deflated") {
  std::vector<std::string> inputs = {"", "a", "ab", std::string(1000, 'x'), std::string(700000, '\0')};
  for (uint64_t seed = 1; seed <= 12; ++seed)
    inputs.push_back(noise(seed, seed < 8 ? seed * 1000 : seed * 70000, seed % 2 ? 256 : 4));
  for (const std::string& s : inputs) {
    const std::string z = deflate(Deflater::Wrap::gzip, s);
    CHECK(inflated(z) == s);
    CHECK_EQ(little(z, z.size() - 8), crc32(s));
    CHECK_EQ(little(z, z.size() - 4), s.size());
  }
  CHECK(deflate(Deflater::Wrap::gzip, std::string(700000, '\0')).size() < 1500);
}

TEST_CASE("pieces make no difference") {
  const std::string s = noise(5, 900000, 16);
  Deflater d(Deflater::Wrap::gzip);
  for (size_t at = 0, n = 1; at < s.size(); at += n, n = n * 3 % 100003 + 1) d.write(std::string_view(s).substr(at, n));
  CHECK(d.finish() == deflate(Deflater::Wrap::gzip, s));
}

// Very unequal counts ask for codes longer than 15 bits.
TEST_CASE("Fibonacci counts stay within 15 bits") {
  std::string s;
  for (int i = 0, a = 1, b = 1; i < 24; ++i, b += a, a = b - a)
    for (int k = 0; k < a; ++k) s += static_cast<char>('A' + i);
  uint64_t state = 1;
  for (size_t i = s.size() - 1; i > 0; --i) {
    state = state * 6364136223846793005ull + 1;
    std::swap(s[i], s[(state >> 33) % (i + 1)]);
  }
  CHECK(inflated(deflate(Deflater::Wrap::gzip, s)) == s);
}

TEST_CASE("a PNG holds its chunks and pixels") {
  Pixels image(3, 2);
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(40 * i);
  const std::string file = png(image);
  CHECK(file.starts_with("\x89PNG\r\n\x1a\n"));
  CHECK_EQ(file.substr(12, 4), "IHDR");
  CHECK_EQ(file.substr(16, 8), std::string("\0\0\0\3\0\0\0\2", 8));
  const size_t data = file.find("IDAT") + 4;
  const std::string rows = Inflater{std::string_view(file).substr(data + 2)}.run();
  REQUIRE_EQ(rows.size(), 2 * (1 + 9));
  std::vector<uint8_t> seen;
  for (size_t y = 0; y < 2; ++y)
    for (size_t x = 0; x < 9; ++x) {
      const char filter = rows[y * 10];
      const int before = filter == 1 && x >= 3 ? seen[y * 9 + x - 3] : filter == 2 && y ? seen[(y - 1) * 9 + x] : 0;
      seen.push_back(static_cast<uint8_t>(rows[y * 10 + 1 + x] + before));
    }
  CHECK(seen == image.rgb);
}
