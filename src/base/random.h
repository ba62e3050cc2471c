// Random numbers: Philox for stochastic rounding, and the generators of the engines (XORWOW, LFSR).
// Philox is a pure function of (seed, index), so results do not depend on order or threads.
#pragma once

#include <array>
#include <cstdint>

namespace trine {

// Philox4x32-10 (Salmon et al., SC'11): four words for one counter and key.
constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t{0xD2511F53} * counter[0];
    uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key[1],
               uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Words 4*block .. 4*block+3 of the sequence `seed`.
constexpr std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t block) {
  return philox({uint32_t(block), uint32_t(block >> 32), 0, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
}

// Word `index` of the sequence `seed`.
constexpr uint32_t random_at(uint64_t seed, uint64_t index) { return random_block(seed, index / 4)[index % 4]; }

}  // namespace trine
