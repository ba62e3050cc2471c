// The kernels of lines.h over vectors of four, or of eight where there are such. Included by the files that compile it
// for one instruction set each, and say how long its vectors are; everything is in an unnamed namespace.
#include "ops/linalg/lines.h"

#pragma GCC diagnostic ignored "-Wpsabi"  // vectors are passed between inlined functions alone

namespace trine::ops {
namespace {

typedef double Four __attribute__((vector_size(32), aligned(8), may_alias));
constexpr int64_t kFour = 4, kSums = 4;

// A vector, or a number, at p, which is aligned as doubles are: a vector type that says so is none as a template's
// argument.
template <class V>
V load(const double* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <class V>
void store(double* p, V v) {
  __builtin_memcpy(p, &v, sizeof(v));
}
template <class V>
void subtract_one(double* y, double a, const double* x) {
  store<V>(y, load<V>(y) - a * load<V>(x));
}

const Four* four(const double* p) { return reinterpret_cast<const Four*>(p); }
Four* four(double* p) { return reinterpret_cast<Four*>(p); }

template <class V>
void rotate_one(double* x, double* y, double c, double s) {
  const V a = load<V>(x), b = load<V>(y);
  store<V>(x, c * a - s * b);
  store<V>(y, s * a + c * b);
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
template <class V, int kRows, int kWide>
void subtract_tile(const Product& p, int64_t i, int64_t j) {
  double* c = p.c + i * p.c_step + j;
  const double *a = p.a + i * p.a_step, *b = p.b + j;
  constexpr int64_t kEach = sizeof(V) / sizeof(double);
  V sums[kRows][kWide];
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kWide; ++h) sums[r][h] = load<V>(c + r * p.c_step + h * kEach);
  for (int64_t d = 0; d < p.k; ++d) {
    V line[kWide];
    for (int h = 0; h < kWide; ++h) line[h] = load<V>(b + d * p.b_step + h * kEach);
    for (int r = 0; r < kRows; ++r) {
      const double x = a[r * p.a_step + d];
      for (int h = 0; h < kWide; ++h) sums[r][h] -= x * line[h];
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int h = 0; h < kWide; ++h) store<V>(c + r * p.c_step + h * kEach, sums[r][h]);
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

// Element by element as one matrix is factored, so that a batch's bits do not depend on who is whose neighbour.
inline unsigned cholesky_steps(double* all, int64_t n) {
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

typedef double Vector32 __attribute__((vector_size(32)));
typedef double Vector64 __attribute__((vector_size(64)));

template <class Wide>
struct LineSteps {
  static constexpr int64_t kLanes = sizeof(Wide) / sizeof(double);

  static double dot_steps(const double* x, const double* y, int64_t n) {
    constexpr int64_t kWides = kSums * kFour / kLanes;
    Wide wides[kWides] = {};
    int64_t i = 0;
    for (; i + kSums * kFour <= n; i += kSums * kFour)
      for (int64_t k = 0; k < kWides; ++k) wides[k] += load<Wide>(x + i + k * kLanes) * load<Wide>(y + i + k * kLanes);
    Four sums[kSums];
    __builtin_memcpy(sums, wides, sizeof(sums));
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

  static void subtract_steps(double* y, double a, const double* x, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) subtract_one<Wide>(y + i, a, x + i);
    for (; i + kFour <= n; i += kFour) subtract_one<Four>(y + i, a, x + i);
    for (; i < n; ++i) y[i] -= a * x[i];
  }

  static void rotate_steps(double* x, double* y, int64_t n, double c, double s) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) rotate_one<Wide>(x + i, y + i, c, s);
    for (; i + kFour <= n; i += kFour) rotate_one<Four>(x + i, y + i, c, s);
    for (; i < n; ++i) rotate_one<double>(x + i, y + i, c, s);
  }

  static void divide_steps(double* y, double a, int64_t n) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store<Wide>(y + i, load<Wide>(y + i) / a);
    for (; i + kFour <= n; i += kFour) store<Four>(y + i, load<Four>(y + i) / a);
    for (; i < n; ++i) y[i] /= a;
  }

  // kRows rows over all columns, the widest tiles first.
  template <int kRows, int kWide>
  static void subtract_rows(const Product& p, int64_t i, int64_t n) {
    int64_t j = 0;
    for (; j + kWide * kLanes <= n; j += kWide * kLanes) subtract_tile<Wide, kRows, kWide>(p, i, j);
    for (; j + kLanes <= n; j += kLanes) subtract_tile<Wide, kRows, 1>(p, i, j);
    for (; j + kFour <= n; j += kFour) subtract_tile<Four, kRows, 1>(p, i, j);
    for (; j < n; ++j) subtract_column<kRows>(p, i, j);
  }

  // Thin: so few columns of b stay in the first cache while rows go by. Eight rows at a time where there are registers
  // for two vectors of each, or columns for one alone.
  static void subtract_product_steps(double* c, int64_t c_step, const double* a, int64_t a_step, const double* b,
                                     int64_t b_step, int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kDepth = 128, kColumns = 16;
    for (int64_t first = 0; first < k; first += kDepth)
      for (int64_t j = 0; j < n; j += kColumns) {
        const Product p{
            c + j, c_step, a + first, a_step, b + first * b_step + j, b_step, k - first < kDepth ? k - first : kDepth};
        const int64_t columns = n - j < kColumns ? n - j : kColumns;
        int64_t i = 0;
        if (kLanes > kFour || columns < 2 * kLanes)
          for (; i + 8 <= m; i += 8) subtract_rows<8, kLanes / kFour>(p, i, columns);
        for (; i + 4 <= m; i += 4) subtract_rows<4, 2>(p, i, columns);
        for (; i < m; ++i) subtract_rows<1, kColumns / kLanes>(p, i, columns);
      }
  }

  static constexpr LineKernels kKernels{dot_steps,    subtract_steps,         divide_steps,
                                        rotate_steps, subtract_product_steps, cholesky_steps};
};

}  // namespace
}  // namespace trine::ops
