// The rounds of SHA-256, as the standard writes them.
#include "base/format/sha256.h"

#include <bit>
#include <cstring>

namespace trine {

namespace {

constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t word_at(const uint8_t* at) {
  return uint32_t(at[0]) << 24 | uint32_t(at[1]) << 16 | uint32_t(at[2]) << 8 | uint32_t(at[3]);
}

}  // namespace

void Sha256::block(const uint8_t* at) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) w[i] = word_at(at + 4 * i);
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t one = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t two = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
  }
  const uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < 8; ++i) state_[i] += add[i];
}

void Sha256::add(std::string_view bytes) {
  bytes_ += bytes.size();
  const auto* at = reinterpret_cast<const uint8_t*>(bytes.data());
  size_t left = bytes.size();
  while (left > 0) {
    if (rest_bytes_ == 0 && left >= 64) {
      block(at);
      at += 64, left -= 64;
      continue;
    }
    const size_t take = std::min(left, 64 - rest_bytes_);
    std::memcpy(rest_.data() + rest_bytes_, at, take);
    rest_bytes_ += take, at += take, left -= take;
    if (rest_bytes_ == 64) {
      block(rest_.data());
      rest_bytes_ = 0;
    }
  }
}

Digest Sha256::finish() {
  const uint64_t bits = bytes_ * 8;
  std::string end(1 + (119 - bytes_ % 64) % 64, '\0');  // up to 56 bytes of a block
  end[0] = char(0x80);
  for (int i = 7; i >= 0; --i) end += char(bits >> (8 * i));
  add(end);
  Digest out;
  for (size_t i = 0; i < 32; ++i) out[i] = uint8_t(state_[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

Digest sha256(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

Digest hmac_sha256(std::string_view key, std::string_view bytes) {
  std::string block(64, '\0');
  const Digest hashed = key.size() > 64 ? sha256(key) : Digest{};
  if (key.size() > 64) key = view(hashed);
  std::memcpy(block.data(), key.data(), key.size());
  std::string inner = block, outer = block;
  for (char& c : inner) c = char(c ^ 0x36);
  for (char& c : outer) c = char(c ^ 0x5c);
  Sha256 first, second;
  first.add(inner);
  first.add(bytes);
  second.add(outer);
  second.add(view(first.finish()));
  return second.finish();
}

std::string hex(const Digest& digest) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (uint8_t byte : digest) out += kHex[byte >> 4], out += kHex[byte & 15];
  return out;
}

std::string_view view(const Digest& digest) { return {reinterpret_cast<const char*>(digest.data()), digest.size()}; }

}  // namespace trine
