// The kernels of lines.h over vectors of four. Included by the files that compile it for one instruction set each;
// everything is in an unnamed namespace.
#include "ops/linalg/lines.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions alone

namespace trine::ops {
namespace {

typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
constexpr int64_t kFour = 4, kSums = 4;

const Four* four(const double* p) { return reinterpret_cast<const Four*>(p); }
Four* four(double* p) { return reinterpret_cast<Four*>(p); }

double dot_steps(const double* x, const double* y, int64_t n) {
  Four sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums * kFour <= n; i += kSums * kFour)
    for (int64_t k = 0; k < kSums; ++k) sums[k] += *four(x + i + k * kFour) * *four(y + i + k * kFour);
  for (int64_t k = 0; i + kFour <= n; i += kFour, ++k) sums[k] += *four(x + i) * *four(y + i);
  const Four all = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  double sum = (all[0] + all[2]) + (all[1] + all[3]);
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

void subtract_steps(double* y, double a, const double* x, int64_t n) {
  const Four factor = {a, a, a, a};
  int64_t i = 0;
  for (; i + kFour <= n; i += kFour) *four(y + i) -= factor * *four(x + i);
  for (; i < n; ++i) y[i] -= a * x[i];
}

void rotate_steps(double* x, double* y, int64_t n, double c, double s) {
  const Four cs = {c, c, c, c}, ss = {s, s, s, s};
  int64_t i = 0;
  for (; i + kFour <= n; i += kFour) {
    const Four a = *four(x + i), b = *four(y + i);
    *four(x + i) = cs * a - ss * b;
    *four(y + i) = ss * a + cs * b;
  }
  for (; i < n; ++i) {
    const double a = x[i], b = y[i];
    x[i] = c * a - s * b;
    y[i] = s * a + c * b;
  }
}

// kRows rows of eight columns stay in registers.
template <int kRows>
void subtract_tile(double* c, int64_t c_step, const double* a, int64_t a_step, const double* b, int64_t b_step,
                   int64_t k) {
  Four sums[kRows][2];
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < 2; ++h) sums[r][h] = *four(c + r * c_step + h * kFour);
  for (int64_t i = 0; i < k; ++i) {
    const Four low = *four(b + i * b_step), high = *four(b + i * b_step + kFour);
    for (int r = 0; r < kRows; ++r) {
      const double x = a[r * a_step + i];
      const Four factor = {x, x, x, x};
      sums[r][0] -= factor * low;
      sums[r][1] -= factor * high;
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < 2; ++h) *four(c + r * c_step + h * kFour) = sums[r][h];
}

void subtract_product_steps(double* c, int64_t c_step, const double* a, int64_t a_step, const double* b, int64_t b_step,
                            int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kDepth = 128, kRows = 4, kColumns = 2 * kFour;  // so much of b stays in the first cache
  for (int64_t first = 0; first < k; first += kDepth) {
    const int64_t depth = k - first < kDepth ? k - first : kDepth;
    const double *from = a + first, *by = b + first * b_step;
    int64_t j = 0;
    for (; j + kColumns <= n; j += kColumns) {
      int64_t i = 0;
      for (; i + kRows <= m; i += kRows)
        subtract_tile<kRows>(c + i * c_step + j, c_step, from + i * a_step, a_step, by + j, b_step, depth);
      for (; i < m; ++i) subtract_tile<1>(c + i * c_step + j, c_step, from + i * a_step, a_step, by + j, b_step, depth);
    }
    for (int64_t i = 0; i < m && j < n; ++i)
      for (int64_t d = 0; d < depth; ++d)
        for (int64_t q = j; q < n; ++q) c[i * c_step + q] -= from[i * a_step + d] * by[d * b_step + q];
  }
}

constexpr LineKernels kKernels{dot_steps, subtract_steps, rotate_steps, subtract_product_steps};

}  // namespace
}  // namespace trine::ops
