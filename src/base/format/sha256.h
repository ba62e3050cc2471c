// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104): names of cached results, and signatures of requests.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace trine {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void add(std::string_view bytes);
  Digest finish();  // once, at the end

 private:
  void block(const uint8_t* at);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_ = {};
  size_t rest_bytes_ = 0;
  uint64_t bytes_ = 0;
};

Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view key, std::string_view bytes);
std::string hex(const Digest& digest);
std::string_view view(const Digest& digest);

}  // namespace trine
