// Elementary reflectors I - tau v v^H with v[0] = 1, as LAPACK makes and stores them.
#pragma once

#include <vector>

#include "ops/linalg/blocks.h"
#include "ops/linalg/matrix.h"

namespace trine::ops {

constexpr int64_t kReflectors = 16;  // applied as one: more of them take longer to make one by one

// sqrt(x^2 + y^2), where squares leave the range too.
inline double length_of(double x, double y) {
  const double sum = x * x + y * y;
  return sum > 0x1p-900 && sum < 0x1p1000 ? std::sqrt(sum) : std::hypot(x, y);
}

// The length of column `c` from row `r` on. Squares that leave the range are taken one by one.
template <class W>
double norm_below(Matrix<W> a, int64_t r, int64_t c) {
  double sum = 0;
  for (int64_t i = r; i < a.rows; ++i) sum += square_of(a(i, c));
  if (sum > 0x1p-900 && sum < 0x1p1000) return std::sqrt(sum);
  double length = 0;
  for (int64_t i = r; i < a.rows; ++i) length = std::hypot(length, std::abs(a(i, c)));
  return length;
}

// Makes the reflector that maps column `c` of `a`, from row `r` on, to (beta, 0, ...): beta and the rest of v take its
// place. Returns tau; zero where nothing needs to be done.
template <class W>
W make_reflector(Matrix<W> a, int64_t r, int64_t c) {
  const double rest = norm_below(a, r + 1, c);
  const W alpha = a(r, c);
  if (rest == 0 && imag_of(alpha) == 0) return W(0);
  const double beta = -std::copysign(length_of(std::abs(alpha), rest), real_of(alpha));
  const W scale = W(1) / (alpha - beta);
  for (int64_t i = r + 1; i < a.rows; ++i) a(i, c) = wide_multiply(a(i, c), scale);
  a(r, c) = beta;
  return (W(beta) - alpha) / beta;
}

// x := (I - tau v v^H) x on rows `r` and below, columns from `first` to `last`; v is stored in column `c` of `a`, below
// row r.
template <class W>
void reflect(Matrix<W> a, int64_t r, int64_t c, W tau, Matrix<W> x, int64_t first, int64_t last) {
  if (tau == W(0) || first >= last) return;
  // dots[k] is v^H x of column first + k.
  const int64_t count = last - first, below = a.rows - r - 1;
  std::vector<W> dots(&x(r, first), &x(r, first) + count), v(static_cast<size_t>(below));
  for (int64_t i = 0; i < below; ++i) v[size_t(i)] = -conj_of(a(r + 1 + i, c));
  subtract_product<W>({dots.data(), count}, {v.data(), below}, {&x(r, first) + x.columns, x.columns}, 1, count, below);
  for (W& dot : dots) dot = wide_multiply(tau, dot);
  for (int64_t k = 0; k < count; ++k) x(r, first + k) -= dots[size_t(k)];
  subtract_product<W>({&x(r, first) + x.columns, x.columns}, {&a(r, c) + a.columns, a.columns}, {dots.data(), count},
                      below, count, 1);
}

template <class W>
void reflect(Matrix<W> a, int64_t r, int64_t c, W tau, Matrix<W> x, int64_t first) {
  reflect(a, r, c, tau, x, first, x.columns);
}

// The product of reflectors stored in columns [first, last) of `a`, each from its diagonal on: I - V T V^H.
template <class W>
struct Reflectors {
  int64_t rows = 0, count = 0;
  WideArray<W> v = {}, v_adjoint = {};  // V by rows, and V^H
  WideArray<W> t = {}, t_adjoint = {};  // T and T^H

  Reflectors(Matrix<W> a, int64_t first, int64_t last, const W* taus)
      : rows(a.rows - first),
        count(last - first),
        v(rows * count),
        v_adjoint(rows * count),
        t(count * count),
        t_adjoint(count * count) {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = j; i < rows; ++i) {
        const W x = i == j ? W(1) : a(first + i, first + j);
        v[i * count + j] = x;
        v_adjoint[j * rows + i] = conj_of(x);
      }
    // The inner products below the diagonal, negated; then column by column.
    WideArray<W> products(count * count);
    subtract_product<W>({products.at(0), count}, {v_adjoint.at(0), rows}, {v.at(0), count}, count, count, rows);
    for (int64_t j = 0; j < count; ++j) {
      for (int64_t i = 0; i < j; ++i) {
        W sum(0);
        for (int64_t k = i; k < j; ++k) sum += wide_multiply(t[i * count + k], products[k * count + j]);
        t[i * count + j] = wide_multiply(taus[j], sum);
      }
      t[j * count + j] = taus[j];
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < count; ++j) t_adjoint[j * count + i] = conj_of(t[i * count + j]);
  }

  // x := (I - V T V^H) x, or with T^H, on `columns` columns.
  void apply(Block<W> x, int64_t columns, bool is_adjoint) {
    if (columns <= 0) return;
    WideArray<W> dots(count * columns), scaled(count * columns);  // -V^H x, and T V^H x
    subtract_product<W>({dots.at(0), columns}, {v_adjoint.at(0), rows}, x, count, columns, rows);
    subtract_product<W>({scaled.at(0), columns}, {is_adjoint ? t_adjoint.at(0) : t.at(0), count}, {dots.at(0), columns},
                        count, columns, count);
    subtract_product<W>(x, {v.at(0), count}, {scaled.at(0), columns}, rows, columns, count);
  }
};

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
