// DEFLATE (RFC 1951) inside gzip (RFC 1952) or zlib (RFC 1950): a writer only, in pieces or at once.
// Invariant: any inflate gives back exactly what was written; the output depends on the bytes, not on how they came.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

uint32_t crc32(std::string_view bytes, uint32_t before = 0);

class Deflater {
 public:
  enum class Wrap : uint8_t { gzip, zlib };

  explicit Deflater(Wrap wrap);
  void write(std::string_view bytes);
  std::string finish();  // the whole stream; call it once, last

 private:
  void compress(bool last);
  void find_tokens(size_t end);
  int longest_match(size_t at, size_t end, int& distance) const;
  void remember(size_t at, size_t end);
  void put_block(bool last);
  void put_bits(uint32_t value, int count);

  Wrap wrap_;
  std::string out_, data_;  // data_: up to 32 KiB already written, then what is still to be
  size_t done_ = 0;         // how much of data_ is written
  int64_t base_ = 0;        // of data_[0] in the input
  uint32_t crc_ = 0, adler_a_ = 1, adler_b_ = 0;
  uint64_t bits_ = 0;
  int bit_count_ = 0;
  std::vector<int64_t> head_, chain_;  // last position of a hash; the position before it
  std::vector<uint32_t> tokens_;       // length << 16 | distance, or a literal byte
};

std::string deflate(Deflater::Wrap wrap, std::string_view bytes);

}  // namespace trine
