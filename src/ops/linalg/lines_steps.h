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
  // Written out: sums at an index that is not a constant would lie in memory.
  const auto one_more = [&](Four& sum) {
    if (i + kFour > n) return;
    sum += *four(x + i) * *four(y + i);
    i += kFour;
  };
  one_more(sums[0]);
  one_more(sums[1]);
  one_more(sums[2]);
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

void divide_steps(double* y, double a, int64_t n) {
  const Four divisor = {a, a, a, a};
  int64_t i = 0;
  for (; i + kFour <= n; i += kFour) *four(y + i) /= divisor;
  for (; i < n; ++i) y[i] /= a;
}

// c[m, n] -= a[m, k] b[k, n]: where each lies, and the steps from row to row.
struct Product {
  double* c;
  int64_t c_step;
  const double* a;
  int64_t a_step;
  const double* b;
  int64_t b_step;
  int64_t k;
};

// kRows rows of kWide vectors stay in registers.
template <int kRows, int kWide>
void subtract_tile(const Product& p, int64_t i, int64_t j) {
  double* c = p.c + i * p.c_step + j;
  const double *a = p.a + i * p.a_step, *b = p.b + j;
  Four sums[kRows][kWide];
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kWide; ++h) sums[r][h] = *four(c + r * p.c_step + h * kFour);
  for (int64_t d = 0; d < p.k; ++d) {
    Four line[kWide];
    for (int h = 0; h < kWide; ++h) line[h] = *four(b + d * p.b_step + h * kFour);
    for (int r = 0; r < kRows; ++r) {
      const double x = a[r * p.a_step + d];
      const Four factor = {x, x, x, x};
      for (int h = 0; h < kWide; ++h) sums[r][h] -= factor * line[h];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kWide; ++h) *four(c + r * p.c_step + h * kFour) = sums[r][h];
}

// The same of a single column.
template <int kRows>
void subtract_column(const Product& p, int64_t i, int64_t j) {
  double sums[kRows];
  for (int r = 0; r < kRows; ++r) sums[r] = p.c[(i + r) * p.c_step + j];
  for (int64_t d = 0; d < p.k; ++d)
    for (int r = 0; r < kRows; ++r) sums[r] -= p.a[(i + r) * p.a_step + d] * p.b[d * p.b_step + j];
  for (int r = 0; r < kRows; ++r) p.c[(i + r) * p.c_step + j] = sums[r];
}

// kRows rows over all columns, the widest tiles first.
template <int kRows, int kWide>
void subtract_rows(const Product& p, int64_t i, int64_t n) {
  int64_t j = 0;
  for (; j + kWide * kFour <= n; j += kWide * kFour) subtract_tile<kRows, kWide>(p, i, j);
  for (; j + kFour <= n; j += kFour) subtract_tile<kRows, 1>(p, i, j);
  for (; j < n; ++j) subtract_column<kRows>(p, i, j);
}

// Thin: so few columns of b stay in the first cache while rows go by.
void subtract_product_steps(double* c, int64_t c_step, const double* a, int64_t a_step, const double* b, int64_t b_step,
                            int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kDepth = 128, kColumns = 16;
  for (int64_t first = 0; first < k; first += kDepth)
    for (int64_t j = 0; j < n; j += kColumns) {
      const Product p{
          c + j, c_step, a + first, a_step, b + first * b_step + j, b_step, k - first < kDepth ? k - first : kDepth};
      const int64_t columns = n - j < kColumns ? n - j : kColumns;
      int64_t i = 0;
      for (; i + 4 <= m; i += 4) subtract_rows<4, 2>(p, i, columns);
      for (; i < m; ++i) subtract_rows<1, 4>(p, i, columns);
    }
}

// Element by element as one matrix is factored, so that a batch's bits do not depend on who is whose neighbour.
unsigned cholesky_steps(double* all, int64_t n) {
  static_assert(kMatrices == kFour);
  const auto at = [&](int64_t r, int64_t c) -> Four* { return four(all + (r * n + c) * kFour); };
  unsigned bad = 0;
  for (int64_t c = 0; c < n; ++c) {
    Four root = {};
    for (int64_t r = c; r < n; ++r) {
      Four sum = *at(r, c);
      for (int64_t k = 0; k < c; ++k) sum -= *at(r, k) * *at(c, k);
      for (int l = 0; r == c && l < kFour; ++l) {
        bad |= unsigned(!(sum[l] > 0 && sum[l] < __builtin_inf())) << l;
        root[l] = __builtin_sqrt(sum[l]);
      }
      *at(r, c) = r == c ? root : sum / root;
    }
  }
  return bad;
}

constexpr LineKernels kKernels{dot_steps,    subtract_steps,         divide_steps,
                               rotate_steps, subtract_product_steps, cholesky_steps};

}  // namespace
}  // namespace trine::ops
