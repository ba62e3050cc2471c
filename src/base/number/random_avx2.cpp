// Philox, sixteen counters at a time. Called only where simd_best() says avx2; equal to random_block word for word.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

namespace trine {
namespace {

// Four counters, a word in the low half of each 64-bit lane; the high halves hold leftovers that nothing reads.
struct Counters {
  __m256i c0, c1, c2, c3;
};

Counters counters_at(uint64_t block) {
  __m256i lanes = _mm256_setr_epi64x(0, 1, 2, 3);
  __m256i c = _mm256_add_epi64(_mm256_set1_epi64x(int64_t(block)), lanes);
  return {c, _mm256_srli_epi64(c, 32), _mm256_setzero_si256(), _mm256_setzero_si256()};
}

void round_once(Counters& c, __m256i key0, __m256i key1) {
  __m256i a = _mm256_mul_epu32(c.c0, _mm256_set1_epi64x(0xD2511F53));
  __m256i b = _mm256_mul_epu32(c.c2, _mm256_set1_epi64x(0xCD9E8D57));
  c.c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(b, 32), c.c1), key0);
  c.c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(a, 32), c.c3), key1);
  c.c1 = b;
  c.c3 = a;
}

// Sixteen words, block by block.
void store_words(const Counters& c, uint32_t* to) {
  __m256i first = _mm256_blend_epi32(c.c0, _mm256_slli_epi64(c.c1, 32), 0xaa);
  __m256i second = _mm256_blend_epi32(c.c2, _mm256_slli_epi64(c.c3, 32), 0xaa);
  __m256i even = _mm256_unpacklo_epi64(first, second), odd = _mm256_unpackhi_epi64(first, second);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
}

}  // namespace

size_t random_fill_avx2(uint64_t seed, uint64_t block, uint32_t* to, size_t blocks) {
  __m256i key0[10], key1[10];
  for (uint32_t r = 0; r < 10; ++r) {
    key0[r] = _mm256_set1_epi64x(uint32_t(seed) + r * 0x9E3779B9u);
    key1[r] = _mm256_set1_epi64x(uint32_t(seed >> 32) + r * 0xBB67AE85u);
  }
  size_t done = 0;
  for (; done + 16 <= blocks; done += 16, to += 64) {
    Counters c[4];
    for (uint64_t g = 0; g < 4; ++g) c[g] = counters_at(block + done + 4 * g);
    for (int r = 0; r < 10; ++r) {
      for (Counters& group : c) round_once(group, key0[r], key1[r]);
    }
    for (int g = 0; g < 4; ++g) store_words(c[g], to + 16 * g);
  }
  return done;
}

}  // namespace trine
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
