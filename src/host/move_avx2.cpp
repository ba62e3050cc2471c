// Pieces of few bytes in reverse order, several in a vector. Called only where simd_best() says avx2. Everything lives
// in an unnamed namespace, so no function compiled for AVX2 can stand in for a portable one at link.
#if defined(__x86_64__)
#include <immintrin.h>

#include <cstring>

#include "host/move.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC target("avx2")
#endif

namespace trine::host {
namespace {

// Where each of `units` numbers of a vector comes from: pieces of `each`, the last first; what is left stays.
template <class T, int kUnits>
struct Order {
  alignas(32) T from[kUnits];
  explicit Order(int each) {
    const int pieces = kUnits / each;
    for (int i = 0; i < kUnits; ++i) from[i] = T(i < pieces * each ? (pieces - 1 - i / each) * each + i % each : i);
  }
};

// A vector is read from its lowest piece on, which is the last of its pieces; what it holds beyond them is written
// where the next piece will be. So the first and the last piece of all are copied by themselves.
template <int kBytes, class F>
void by_vectors(std::byte* to, const std::byte* from, int64_t count, int64_t piece, F move) {
  const int64_t many = kBytes / piece;
  const auto one = [&](int64_t i) { std::memcpy(to + i * piece, from - i * piece, size_t(piece)); };
  one(0);
  int64_t i = 1;
  for (; i + many < count; i += many) move(to + i * piece, from - (i + many - 1) * piece);
  for (; i < count; ++i) one(i);
}

void reverse(std::byte* to, const std::byte* from, int64_t count, int64_t piece) {
  if (piece % 4 == 0) {
    const Order<int32_t, 8> words{int(piece / 4)};
    const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(words.from));
    return by_vectors<32>(to, from, count, piece, [&](std::byte* t, const std::byte* f) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(f));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(t), _mm256_permutevar8x32_epi32(x, order));
    });
  }
  const Order<int8_t, 16> bytes{int(piece)};
  const __m128i order = _mm_load_si128(reinterpret_cast<const __m128i*>(bytes.from));
  by_vectors<16>(to, from, count, piece, [&](std::byte* t, const std::byte* f) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(f));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(t), _mm_shuffle_epi8(x, order));
  });
}

}  // namespace

ReversePieces reverse_pieces_avx2() { return reverse; }

}  // namespace trine::host

#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
