// Philox, eight counters at a time. Called only where simd_best() says avx2; equal to random_block word for word.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#pragma GCC target("avx2")

namespace trine {
namespace {

struct Product {
  __m256i high, low;
};

Product multiply(__m256i a, uint32_t by) {
  __m256i m = _mm256_set1_epi32(int(by));
  __m256i even = _mm256_mul_epu32(a, m);
  __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
  return {_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa),
          _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)};
}

// Eight vectors' worth of words in index order: lane l of c[w] is word w of block l.
void store_blocks(const __m256i c[4], uint32_t* to) {
  __m256i a = _mm256_unpacklo_epi32(c[0], c[1]), b = _mm256_unpackhi_epi32(c[0], c[1]);
  __m256i d = _mm256_unpacklo_epi32(c[2], c[3]), e = _mm256_unpackhi_epi32(c[2], c[3]);
  __m256i rows[4] = {_mm256_unpacklo_epi64(a, d), _mm256_unpackhi_epi64(a, d), _mm256_unpacklo_epi64(b, e),
                     _mm256_unpackhi_epi64(b, e)};  // row r: blocks r and r+4
  for (int r = 0; r < 4; ++r) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 4 * r), _mm256_castsi256_si128(rows[r]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 + 4 * r), _mm256_extracti128_si256(rows[r], 1));
  }
}

}  // namespace

size_t random_fill_avx2(uint64_t seed, uint64_t block, uint32_t* to, size_t blocks) {
  size_t done = 0;
  for (; done + 8 <= blocks; done += 8, to += 32) {
    alignas(32) uint32_t low[8], high[8];
    for (uint64_t l = 0; l < 8; ++l) {
      low[l] = uint32_t(block + done + l);
      high[l] = uint32_t((block + done + l) >> 32);
    }
    __m256i c[4] = {_mm256_load_si256(reinterpret_cast<const __m256i*>(low)),
                    _mm256_load_si256(reinterpret_cast<const __m256i*>(high)), _mm256_setzero_si256(),
                    _mm256_setzero_si256()};
    uint32_t key0 = uint32_t(seed), key1 = uint32_t(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      Product a = multiply(c[0], 0xD2511F53), b = multiply(c[2], 0xCD9E8D57);
      c[0] = _mm256_xor_si256(_mm256_xor_si256(b.high, c[1]), _mm256_set1_epi32(int(key0)));
      c[2] = _mm256_xor_si256(_mm256_xor_si256(a.high, c[3]), _mm256_set1_epi32(int(key1)));
      c[1] = b.low;
      c[3] = a.low;
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    store_blocks(c, to);
  }
  return done;
}

}  // namespace trine
#endif
