// Filling rows with Philox words; the vector twin is in random_avx2.cpp.
#include "base/number/random.h"

#include <algorithm>

namespace trine {

size_t random_fill_avx2(uint64_t seed, uint64_t block, uint32_t* to, size_t blocks);  // returns the blocks it filled

void random_fill(uint64_t seed, uint64_t index, uint32_t* to, size_t n, Simd simd) {
  size_t head = std::min<size_t>((4 - index % 4) % 4, n);
  for (size_t i = 0; i < head; ++i) to[i] = random_at(seed, index + i);
  size_t done = head;
#if defined(__x86_64__)
  if (simd == Simd::avx2) done += 4 * random_fill_avx2(seed, (index + done) / 4, to + done, (n - done) / 4);
#else
  (void)simd;
#endif
  for (; done < n; done += std::min<size_t>(4, n - done)) {
    auto words = random_block(seed, (index + done) / 4);
    std::copy_n(words.begin(), std::min<size_t>(4, n - done), to + done);
  }
}

}  // namespace trine
