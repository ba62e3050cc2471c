// Elementary reflectors I - tau v v^H with v[0] = 1, as LAPACK makes and stores them.
#pragma once

#include <vector>

#include "ops/matrix.h"

namespace trine::ops {

// Makes the reflector that maps column `c` of `a`, from row `r` on, to (beta, 0, ...): beta and the rest of v take its
// place. Returns tau; zero where nothing needs to be done.
template <class W>
W make_reflector(Matrix<W> a, int64_t r, int64_t c) {
  double rest = 0;
  for (int64_t i = r + 1; i < a.rows; ++i) rest = std::hypot(rest, std::abs(a(i, c)));
  const W alpha = a(r, c);
  if (rest == 0 && imag_of(alpha) == 0) return W(0);
  const double beta = -std::copysign(std::hypot(std::abs(alpha), rest), real_of(alpha));
  const W scale = alpha - beta;
  for (int64_t i = r + 1; i < a.rows; ++i) a(i, c) /= scale;
  a(r, c) = beta;
  return (W(beta) - alpha) / beta;
}

// x := (I - tau v v^H) x on rows `r` and below, columns from `first`; v is stored in column `c` of `a`, below row r.
template <class W>
void reflect(Matrix<W> a, int64_t r, int64_t c, W tau, Matrix<W> x, int64_t first) {
  if (tau == W(0) || first >= x.columns) return;
  // Row by row, as x lies in memory; dots[k] is v^H x of column first + k.
  const int64_t count = x.columns - first;
  std::vector<W> dots(&x(r, first), &x(r, first) + count);
  for (int64_t i = r + 1; i < a.rows; ++i) {
    const W v = conj_of(a(i, c));
    for (int64_t k = 0; k < count; ++k) dots[size_t(k)] += wide_multiply(v, x(i, first + k));
  }
  for (W& dot : dots) dot = wide_multiply(tau, dot);
  for (int64_t k = 0; k < count; ++k) x(r, first + k) -= dots[size_t(k)];
  for (int64_t i = r + 1; i < a.rows; ++i) {
    const W v = a(i, c);
    for (int64_t k = 0; k < count; ++k) x(i, first + k) -= wide_multiply(v, dots[size_t(k)]);
  }
}

// x := x (I - tau v v^H) on columns `r` and beyond, rows from `first`; v as above.
template <class W>
void reflect_right(Matrix<W> a, int64_t r, int64_t c, W tau, Matrix<W> x, int64_t first) {
  if (tau == W(0)) return;
  for (int64_t k = first; k < x.rows; ++k) {
    W dot = x(k, r);
    for (int64_t i = r + 1; i < a.rows; ++i) dot += wide_multiply(x(k, i), a(i, c));
    dot = wide_multiply(tau, dot);
    x(k, r) -= dot;
    for (int64_t i = r + 1; i < a.rows; ++i) x(k, i) -= wide_multiply(dot, conj_of(a(i, c)));
  }
}

}  // namespace trine::ops
