// A Hermitian matrix as q t q^H, t real and tridiagonal, and the eigenvalues of t by the implicit QL method. Vectors
// are rows, so that all loops run over neighbours.
#pragma once

#include <vector>

#include "ops/linalg/householder.h"
#include "ops/linalg/lines.h"

namespace trine::ops {

template <class W>
struct TridiagonalForm {
  Matrix<W> a;  // its lower triangle is read, and written over
  Matrix<W> q;  // becomes q transposed
  std::vector<double> diagonal = std::vector<double>(size_t(a.rows)), beside = std::vector<double>(size_t(a.rows));

  // beside[i] is between i - 1 and i; beside[0] is nothing.
  void reduce() {
    const int64_t n = a.rows;
    std::vector<W> taus(static_cast<size_t>(n));
    WideArray<W> vectors(n * n);
    for (int64_t k = 0; k + 1 < n; ++k) {
      taus[size_t(k)] = make_reflector(a, k + 1, k);
      beside[size_t(k) + 1] = real_of(a(k + 1, k));
      W* v = vectors.at(k * n);
      v[k + 1] = 1;
      for (int64_t r = k + 2; r < n; ++r) v[r] = a(r, k);
      if (taus[size_t(k)] != W(0)) reflect_both(k + 1, v, taus[size_t(k)]);
    }
    for (int64_t i = 0; i < n; ++i) diagonal[size_t(i)] = real_of(a(i, i));
    std::fill_n(q.data, n * n, W(0));
    for (int64_t i = 0; i < n; ++i) q(i, i) = 1;
    for (int64_t k = n - 2; k >= 0; --k) {
      const W* v = vectors.at(k * n);
      for (int64_t r = k + 1; r < n; ++r) {
        W* row = &q(r, k + 1);
        const W dot = dot_lines(v + k + 1, row, n - k - 1);
        subtract_line(row, wide_multiply(dot, taus[size_t(k)]), v + k + 1, n - k - 1);
      }
    }
  }

  // a := h^H a h, h = 1 - tau v v^H, on rows and columns from `first`: a - w v^H - v w^H.
  void reflect_both(int64_t first, const W* v, W tau) {
    const int64_t n = a.rows;
    std::vector<W> w(static_cast<size_t>(n), W(0));
    for (int64_t r = first; r < n; ++r) {
      const W* row = &a(r, 0);
      W dot = wide_multiply(row[r], v[r]);
      if constexpr (std::is_same_v<W, double>) {
        dot += dot_lines(row + first, v + first, r - first);
        subtract_line(w.data() + first, -v[r], row + first, r - first);
      } else {
        for (int64_t c = first; c < r; ++c) {
          dot += wide_multiply(row[c], v[c]);
          w[size_t(c)] += wide_multiply(conj_of(row[c]), v[r]);
        }
      }
      w[size_t(r)] += dot;
    }
    W both(0);
    for (int64_t r = first; r < n; ++r) {
      w[size_t(r)] = wide_multiply(tau, w[size_t(r)]);
      both += wide_multiply(conj_of(v[r]), w[size_t(r)]);
    }
    both = wide_multiply(conj_of(tau), both) * 0.5;
    for (int64_t r = first; r < n; ++r) w[size_t(r)] -= wide_multiply(both, v[r]);
    for (int64_t r = first; r < n; ++r) {
      W* row = &a(r, 0);
      const W x = w[size_t(r)], y = v[r];
      if constexpr (std::is_same_v<W, double>) {
        subtract_line(row + first, x, v + first, r - first + 1);
        subtract_line(row + first, y, w.data() + first, r - first + 1);
      } else {
        for (int64_t c = first; c <= r; ++c)
          row[c] -= wide_multiply(x, conj_of(v[c])) + wide_multiply(y, conj_of(w[size_t(c)]));
      }
    }
  }

  // The diagonal becomes the eigenvalues, row i of q the vector of the i-th. False where that does not end.
  bool diagonalise() {
    constexpr int kIterationsMax = 60;  // per eigenvalue; two are usual
    const int64_t n = a.rows;
    std::vector<double>& d = diagonal;
    std::vector<double> e(beside.begin() + (n > 0), beside.end());  // e[i] is between i and i + 1
    e.push_back(0);
    for (int64_t l = 0; l < n; ++l) {
      for (int iterations = 0;; ++iterations) {
        int64_t m = l;
        for (; m + 1 < n; ++m) {
          const double near = std::abs(d[size_t(m)]) + std::abs(d[size_t(m) + 1]);
          if (std::abs(e[size_t(m)]) <= 0x1p-53 * near) break;
        }
        if (m == l) break;
        if (iterations == kIterationsMax) return false;
        sweep(d, e, l, m);
      }
    }
    return true;
  }

  // One step from m up to l, shifted by the eigenvalue of the first two that is nearer to the first.
  void sweep(std::vector<double>& d, std::vector<double>& e, int64_t l, int64_t m) {
    double g = (d[size_t(l) + 1] - d[size_t(l)]) / (2 * e[size_t(l)]);
    const double r0 = length_of(g, 1.0);
    g = d[size_t(m)] - d[size_t(l)] + e[size_t(l)] / (g + std::copysign(r0, g));
    double s = 1, c = 1, p = 0;
    for (int64_t i = m - 1; i >= l; --i) {
      const double f = s * e[size_t(i)], b = c * e[size_t(i)];
      const double r = length_of(f, g);
      e[size_t(i) + 1] = r;
      if (r == 0) {  // it has come apart here
        d[size_t(i) + 1] -= p;
        e[size_t(m)] = 0;
        return;
      }
      s = f / r;
      c = g / r;
      g = d[size_t(i) + 1] - p;
      const double t = (d[size_t(i)] - g) * s + 2 * c * b;
      p = s * t;
      d[size_t(i) + 1] = g + p;
      g = c * t - b;
      rotate_lines(&q(i, 0), &q(i + 1, 0), q.columns, c, s);
    }
    d[size_t(l)] -= p;
    e[size_t(l)] = g;
    e[size_t(m)] = 0;
  }
};

}  // namespace trine::ops
