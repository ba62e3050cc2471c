// The kernels of lines.h over vectors of four. Included by the files that compile it for one instruction set each;
// everything is in an unnamed namespace.
#include "ops/lines.h"

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

void turn_steps(double* x, double* y, int64_t n, double c, double s) {
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

constexpr LineKernels kKernels{dot_steps, subtract_steps, turn_steps};

}  // namespace
}  // namespace trine::ops
