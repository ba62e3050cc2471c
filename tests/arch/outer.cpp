// The fast multiply against the portable one, bit for bit, at every tail of its 6×16 block.
#include "arch/insns/outer.h"

#include <cstring>
#include <random>
#include <vector>

#include "tests/testing.h"

namespace trine::arch {
namespace {

TEST_CASE("outer: the fast form has the portable form's bits") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int m : {1, 2, 5, 6, 7, 12, 13, 128})
    for (int n : {1, 7, 15, 16, 17, 48, 63, 512})
      for (int k : {1, 3, 32, 128, 512}) {
        std::vector<float> a(static_cast<size_t>(k * m)), b(static_cast<size_t>(k * n));
        std::vector<float> fast(static_cast<size_t>(m * n)), slow(fast.size());
        for (float& v : a) v = normal(random);
        for (float& v : b) v = normal(random);
        outer_product_sum(a.data(), b.data(), fast.data(), k, m, n);
        outer_product_sum_portable(a.data(), b.data(), slow.data(), k, m, n);
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(k);
        CHECK(std::memcmp(fast.data(), slow.data(), fast.size() * sizeof(float)) == 0);
        if (k >= 128 && n >= 48 && m < 128) break;  // the portable form is slow
      }
}

TEST_CASE("outer: infinities and NaN spread as multiplication says") {
  const float inf = std::numeric_limits<float>::infinity();
  const float a[] = {1, 0, inf, 2};  // k = 2, m = 2
  const float b[] = {1, 0, 0, 1};    // identity
  float c[4];
  outer_product_sum(a, b, c, 2, 2, 2);
  CHECK(std::isnan(c[0]));  // 1·1 + inf·0
  CHECK(c[1] == inf);
  CHECK(c[2] == 0);
  CHECK(c[3] == 2);
}

}  // namespace
}  // namespace trine::arch
