// Lines: the same bits with and without vector instructions, at every length.
#include "ops/linalg/lines.h"

#include <cstring>
#include <random>
#include <vector>

#include "base/simd.h"
#include "tests/testing.h"

namespace trine::ops {

// Those of vector instructions that this processor has.
static std::vector<const LineKernels*> vector_kernels() {
  std::vector<const LineKernels*> out;
  if (simd_best() == Simd::avx2) out.push_back(&line_kernels_avx2());
  if (has_avx512_dq()) out.push_back(&line_kernels_avx512());
  return out;
}

static void check_lines(const LineKernels& other) {
  const LineKernels& one = line_kernels_portable();
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int64_t n = 0; n < 70; ++n) {
    CAPTURE(n);
    std::vector<double> x(static_cast<size_t>(n) + 1), y(static_cast<size_t>(n) + 1);
    for (double& v : x) v = normal(random);
    for (double& v : y) v = normal(random);
    auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
    };
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[size_t(i)] * y[size_t(i)];
    const double a = one.dot(x.data(), y.data(), n), b = other.dot(x.data(), y.data(), n);
    CHECK(a == b);
    CHECK(std::abs(a - sum) < 1e-13);
    std::vector<double> x2 = x, y2 = y, before = y;
    one.subtract(y.data(), 0.3, x.data(), n);
    other.subtract(y2.data(), 0.3, x.data(), n);
    CHECK(same(y, y2));
    for (int64_t i = 0; i < n; ++i) CHECK(y[size_t(i)] == before[size_t(i)] - 0.3 * x[size_t(i)]);
    CHECK(y.back() == before.back());
    y2 = before = y;
    one.divide(y.data(), 0.7, n);
    other.divide(y2.data(), 0.7, n);
    CHECK(same(y, y2));
    for (int64_t i = 0; i < n; ++i) CHECK(y[size_t(i)] == before[size_t(i)] / 0.7);
    CHECK(y.back() == before.back());
    one.rotate(x.data(), y.data(), n, 0.8, 0.6);
    other.rotate(x2.data(), y2.data(), n, 0.8, 0.6);
    CHECK(same(x, x2));
    CHECK(same(y, y2));
  }
}

TEST_CASE("lines have the same bits with and without vector instructions") {
  for (const LineKernels* kernels : vector_kernels()) check_lines(*kernels);
}

TEST_CASE("products are taken off one after the other, with and without vector instructions") {
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  auto numbers = [&](size_t n) {
    std::vector<double> out(n);
    for (double& v : out) v = normal(random);
    return out;
  };
  for (int64_t m : {1, 4, 7, 13})
    for (int64_t n : {1, 6, 8, 13, 24, 35})
      for (int64_t k : {0, 3, 130}) {
        const int64_t step = n + 3;
        const auto a = numbers(size_t(m * k)), b = numbers(size_t(k * step));
        auto c = numbers(size_t(m * step)), one = c, before = c;
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j)
            for (int64_t d = 0; d < k; ++d) c[size_t(i * step + j)] -= a[size_t(i * k + d)] * b[size_t(d * step + j)];
        line_kernels_portable().subtract_product(one.data(), step, a.data(), k, b.data(), step, m, n, k);
        CHECK(one == c);
        for (const LineKernels* kernels : vector_kernels()) {
          auto other = before;
          kernels->subtract_product(other.data(), step, a.data(), k, b.data(), step, m, n, k);
          CHECK(other == c);
        }
      }
}

}  // namespace trine::ops
