// Random numbers: Philox for stochastic rounding, and the generators of the engines (XORWOW, LFSR).
// Philox is a pure function of (seed, index), so results do not depend on order, blocks or threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/simd.h"

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

// Words 4*block to 4*block+3 of the sequence `seed`.
constexpr std::array<uint32_t, 4> random_block(uint64_t seed, uint64_t block) {
  return philox({uint32_t(block), uint32_t(block >> 32), 0, 0}, {uint32_t(seed), uint32_t(seed >> 32)});
}

// Word `index` of the sequence `seed`.
constexpr uint32_t random_at(uint64_t seed, uint64_t index) { return random_block(seed, index / 4)[index % 4]; }

// Words index to index+n-1.
void random_fill(uint64_t seed, uint64_t index, uint32_t* to, size_t n, Simd simd = simd_best());

// XORWOW (Marsaglia 2003): five xorshift words and a Weyl word. One of these is a GpSimd lane's state (6 words);
// a Vector lane of NeuronCore v4 has four (24 words). The order of words and the seeding are estimates.
struct Xorwow {
  std::array<uint32_t, 6> words{};  // x, y, z, w, v, d

  static constexpr Xorwow seeded(uint64_t seed, uint64_t lane) {
    auto a = philox({uint32_t(lane), uint32_t(lane >> 32), 0, 1}, {uint32_t(seed), uint32_t(seed >> 32)});
    auto b = philox({uint32_t(lane), uint32_t(lane >> 32), 1, 1}, {uint32_t(seed), uint32_t(seed >> 32)});
    return {{a[0] | 1, a[1], a[2], a[3], b[0], b[1]}};  // the xorshift words may not all be zero
  }
  constexpr uint32_t next() {
    auto& [x, y, z, w, v, d] = words;
    uint32_t t = x ^ (x >> 2);
    x = y;
    y = z;
    z = w;
    w = v;
    v = (v ^ (v << 4)) ^ (t ^ (t << 1));
    d += 362437;
    return v + d;
  }
};

// The Vector lane of NeuronCore v4: four generators that take turns, so four words a cycle.
struct XorwowLane {
  std::array<Xorwow, 4> states{};
  uint32_t next_state = 0;

  static constexpr XorwowLane seeded(uint64_t seed, uint64_t lane) {
    XorwowLane out;
    for (uint64_t i = 0; i < 4; ++i) out.states[i] = Xorwow::seeded(seed, lane * 4 + i);
    return out;
  }
  constexpr uint32_t next() { return states[next_state++ % 4].next(); }
};

// The generator before v4: a 32-bit Galois LFSR, x^32+x^22+x^2+x+1 (maximal), 32 steps a word.
// The hardware's polynomial is not published: estimate.
struct Lfsr {
  uint32_t state = 1;  // never zero

  static constexpr Lfsr seeded(uint64_t seed, uint64_t lane) {
    uint32_t first = philox({uint32_t(lane), uint32_t(lane >> 32), 2, 1}, {uint32_t(seed), uint32_t(seed >> 32)})[0];
    return {first ? first : 1};
  }
  constexpr uint32_t next() {
    for (int step = 0; step < 32; ++step) state = (state >> 1) ^ (state & 1 ? 0x80200003u : 0);
    return state;
  }
};

// Uniform in [0, 1) with 24 bits, as an f32 holds them.
constexpr float uniform(uint32_t word) { return float(word >> 8) * 0x1p-24f; }

}  // namespace trine
