// Lines of doubles side by side in memory, and what factorisations do to them most. Bit-equal with and without vector
// instructions: a product's sums are 16, added in a fixed order.
#pragma once

#include <cstdint>

#include "ops/wide.h"

namespace trine::ops {

struct LineKernels {
  double (*dot)(const double* x, const double* y, int64_t n) = nullptr;
  void (*subtract)(double* y, double a, const double* x, int64_t n) = nullptr;    // y -= a x
  void (*divide)(double* y, double a, int64_t n) = nullptr;                       // y /= a
  void (*rotate)(double* x, double* y, int64_t n, double c, double s) = nullptr;  // x := c x - s y, y := s x + c y
  // c[m, n] -= a[m, k] b[k, n], one product after the other; rows lie c_step, a_step and b_step apart.
  void (*subtract_product)(double* c, int64_t c_step, const double* a, int64_t a_step, const double* b, int64_t b_step,
                           int64_t m, int64_t n, int64_t k) = nullptr;
  // The lower triangles' Cholesky factors of kMatrices matrices of n rows, element by element side by side, in place.
  // A bit of the result for each that is not positive definite: its numbers mean nothing.
  unsigned (*cholesky)(double* all, int64_t n) = nullptr;
};
constexpr int64_t kMatrices = 4;

const LineKernels& line_kernels();  // of this processor
const LineKernels& line_kernels_portable();
const LineKernels& line_kernels_avx2();    // only where simd_best() says avx2
const LineKernels& line_kernels_avx512();  // only where has_avx512_dq()

// Sum of x y, the first conjugated.
inline double dot_lines(const double* x, const double* y, int64_t n) { return line_kernels().dot(x, y, n); }
Complex128 dot_lines(const Complex128* x, const Complex128* y, int64_t n);

constexpr int64_t kLineMin = 4;  // of fewer numbers a call is most of the work

inline void subtract_line(double* y, double a, const double* x, int64_t n) {
  if (n >= kLineMin) return line_kernels().subtract(y, a, x, n);
  for (int64_t i = 0; i < n; ++i) y[i] -= a * x[i];
}
inline void subtract_line(Complex128* y, const Complex128& a, const Complex128* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] -= wide_multiply(a, x[i]);
}

inline void divide_line(double* y, double a, int64_t n) {
  if (n >= kLineMin) return line_kernels().divide(y, a, n);
  for (int64_t i = 0; i < n; ++i) y[i] /= a;
}
template <class A>  // a real number, or a complex one
void divide_line(Complex128* y, const A& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] /= a;
}

inline void rotate_lines(double* x, double* y, int64_t n, double c, double s) { line_kernels().rotate(x, y, n, c, s); }
// c and s are real: a complex line is twice as many numbers.
inline void rotate_lines(Complex128* x, Complex128* y, int64_t n, double c, double s) {
  rotate_lines(reinterpret_cast<double*>(x), reinterpret_cast<double*>(y), 2 * n, c, s);
}

}  // namespace trine::ops
