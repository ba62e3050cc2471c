// QR iteration on the Hessenberg form: single shifts for complex matrices, Francis' double shifts for real ones
// (Golub and Van Loan, Matrix Computations, 7.5); pairs are put in LAPACK's standard form (dlanv2).
#include "ops/linalg/schur_form.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace trine::ops {

namespace {

constexpr double kTiny = std::numeric_limits<double>::epsilon();
constexpr int kSteps = 60;  // per eigenvalue; 2 or 3 are usual

template <class W>
void to_hessenberg(Matrix<W> a, Matrix<W> z) {
  const int64_t n = a.rows;
  std::fill_n(z.data, n * n, W(0));
  for (int64_t i = 0; i < n; ++i) z(i, i) = 1;
  for (int64_t k = 0; k + 2 < n; ++k) {
    const W tau = make_reflector(a, k + 1, k);
    reflect_right(a, k + 1, k, tau, a, 0);
    reflect(a, k + 1, k, conj_of(tau), a, k + 1);
    reflect_right(a, k + 1, k, tau, z, 0);
    for (int64_t i = k + 2; i < n; ++i) a(i, k) = 0;
  }
}

// The first row of the block that ends at `last`: above it the subdiagonal is nothing, and is made so.
template <class W>
int64_t block_start(Matrix<W> a, int64_t last) {
  int64_t l = last;
  for (; l > 0; --l) {
    double scale = std::abs(a(l - 1, l - 1)) + std::abs(a(l, l));
    if (scale == 0) scale = 1;
    if (std::abs(a(l, l - 1)) > kTiny * scale) continue;
    a(l, l - 1) = 0;
    break;
  }
  return l;
}

// A rotation of rows p, p+1 and, inverse, of columns: [c s; -conj(s) c].
template <class W>
struct Rotation {
  double c = 1;
  W s = 0;

  // Takes (x, y) to (r, 0).
  static Rotation to_zero(W x, W y) {
    const double size = std::hypot(std::abs(x), std::abs(y));
    if (std::abs(y) == 0) return {};
    if (std::abs(x) == 0) return {0, W(1)};
    return {std::abs(x) / size, wide_multiply(x / std::abs(x), conj_of(y)) / size};
  }
  void rows(Matrix<W> a, int64_t p, int64_t first, int64_t end) const {
    for (int64_t k = first; k < end; ++k) {
      const W x = a(p, k), y = a(p + 1, k);
      a(p, k) = c * x + wide_multiply(s, y);
      a(p + 1, k) = c * y - wide_multiply(conj_of(s), x);
    }
  }
  void columns(Matrix<W> a, int64_t p, int64_t end) const {
    for (int64_t k = 0; k < end; ++k) {
      const W x = a(k, p), y = a(k, p + 1);
      a(k, p) = c * x + wide_multiply(conj_of(s), y);
      a(k, p + 1) = c * y - wide_multiply(s, x);
    }
  }
};

// The eigenvalue of the last two rows of the block that is nearer to its last element (Wilkinson).
Complex128 shift_of(Matrix<Complex128> a, int64_t last) {
  const Complex128 d = a(last, last), bc = a(last - 1, last) * a(last, last - 1);
  const Complex128 half = (a(last - 1, last - 1) - d) / 2.0, root = std::sqrt(half * half + bc);
  const Complex128 sum = std::real(std::conj(half) * root) < 0 ? half - root : half + root;
  return std::abs(sum) == 0 ? d : d - bc / sum;
}

// Four numbers to dlanv2's standard form; gives the rotation that takes them there.
Rotation<double> standardise(double a, double b, double c, double d) {
  if (c == 0) return {};
  if (b == 0) return {0, 1};
  if (a == d && std::signbit(b) != std::signbit(c)) return {};
  const double p = (a - d) / 2, large = std::max(std::abs(b), std::abs(c));
  const double small = std::min(std::abs(b), std::abs(c)) * std::copysign(1, b) * std::copysign(1, c);
  const double scale = std::max(std::abs(p), large), z = p / scale * p + large / scale * small;
  if (z >= 4 * kTiny) {  // real eigenvalues
    const double root = p + std::copysign(std::sqrt(scale) * std::sqrt(z), p), size = std::hypot(c, root);
    return {root / size, c / size};
  }
  const double sigma = b + c, size = std::hypot(sigma, a - d);
  const double cs = std::sqrt((1 + std::abs(sigma) / size) / 2);
  const double sn = -(p / (size * cs)) * std::copysign(1, sigma);
  // What that rotation leaves beside the equal diagonal; of one sign, the eigenvalues are real after all.
  const double bb = (b * cs - a * sn) * cs + (d * cs - c * sn) * sn;
  const double cc = (c * cs + d * sn) * cs - (a * cs + b * sn) * sn;
  if (cc == 0) return {cs, sn};
  if (bb == 0) return {-sn, cs};
  if (std::signbit(bb) != std::signbit(cc)) return {cs, sn};
  const double size2 = std::sqrt(std::abs(bb + cc));
  const double c1 = std::sqrt(std::abs(bb)) / size2, s1 = std::sqrt(std::abs(cc)) / size2;
  return {cs * c1 - sn * s1, cs * s1 + sn * c1};
}

void split_pair(Matrix<double> a, Matrix<double> z, int64_t p) {
  const Rotation<double> rotation = standardise(a(p, p), a(p, p + 1), a(p + 1, p), a(p + 1, p + 1));
  rotation.rows(a, p, p, a.columns);
  rotation.columns(a, p, p + 2);
  rotation.columns(z, p, z.rows);
  const double scale = std::abs(a(p, p)) + std::abs(a(p + 1, p + 1)) + std::abs(a(p, p + 1));
  if (std::abs(a(p + 1, p)) <= 4 * kTiny * scale) {
    a(p + 1, p) = 0;
  } else {
    a(p, p) = a(p + 1, p + 1) = (a(p, p) + a(p + 1, p + 1)) / 2;
  }
}

// One reflector of `size` (2 or 3) rows from p on that takes v to (r, 0, 0), on both sides.
void bulge(Matrix<double> a, Matrix<double> z, int64_t p, int size, std::array<double, 3> v, int64_t first,
           int64_t last) {
  const double norm = size == 3 ? std::hypot(v[0], v[1], v[2]) : std::hypot(v[0], v[1]);
  if (norm == 0) return;
  const double beta = -std::copysign(norm, v[0]), tau = (beta - v[0]) / beta, lead = v[0] - beta;
  const double u[3] = {1, v[1] / lead, size == 3 ? v[2] / lead : 0};
  for (int64_t k = first; k < a.columns; ++k) {
    double dot = 0;
    for (int i = 0; i < size; ++i) dot += u[i] * a(p + i, k);
    for (int i = 0; i < size; ++i) a(p + i, k) -= tau * dot * u[i];
  }
  auto right = [&](Matrix<double> x, int64_t end) {
    for (int64_t k = 0; k < end; ++k) {
      double dot = 0;
      for (int i = 0; i < size; ++i) dot += x(k, p + i) * u[i];
      for (int i = 0; i < size; ++i) x(k, p + i) -= tau * dot * u[i];
    }
  };
  right(a, std::min(p + 4, last + 1));
  right(z, z.rows);
}

void francis_step(Matrix<double> a, Matrix<double> z, int64_t l, int64_t last, bool is_stuck) {
  double sum = a(last - 1, last - 1) + a(last, last);
  double product = a(last - 1, last - 1) * a(last, last) - a(last - 1, last) * a(last, last - 1);
  if (is_stuck) {  // shifts of no meaning, to leave a cycle
    const double size = std::abs(a(last, last - 1)) + std::abs(a(last - 1, last - 2));
    sum = 1.5 * size;
    product = size * size;
  }
  std::array<double, 3> v = {a(l, l) * a(l, l) + a(l, l + 1) * a(l + 1, l) - sum * a(l, l) + product,
                             a(l + 1, l) * (a(l, l) + a(l + 1, l + 1) - sum), a(l + 1, l) * a(l + 2, l + 1)};
  for (int64_t k = l; k < last; ++k) {
    const int size = k + 2 <= last ? 3 : 2;
    bulge(a, z, k, size, v, std::max(k - 1, l), last);
    if (k > l)
      for (int i = 1; i < size; ++i) a(k + i, k - 1) = 0;
    v = {a(k + 1, k), k + 2 <= last ? a(k + 2, k) : 0, k + 3 <= last ? a(k + 3, k) : 0};
  }
}

}  // namespace

template <class W>
static bool is_finite(Matrix<W> a) {
  return std::all_of(a.data, a.data + a.rows * a.rows, [](const W& x) { return std::isfinite(std::abs(x)); });
}

bool schur_form(Matrix<double> a, Matrix<double> z) {
  if (!is_finite(a)) return false;
  to_hessenberg(a, z);
  int step = 0;
  for (int64_t last = a.rows - 1; last > 0;) {
    const int64_t l = block_start(a, last);
    if (last - l < 2) {
      if (l < last) split_pair(a, z, l);
      last = l - 1;
      step = 0;
      continue;
    }
    if (++step > kSteps) return false;
    francis_step(a, z, l, last, step % 10 == 0);
  }
  return true;
}

bool schur_form(Matrix<Complex128> a, Matrix<Complex128> z) {
  if (!is_finite(a)) return false;
  to_hessenberg(a, z);
  std::vector<Rotation<Complex128>> rotations(size_t(a.rows));
  int step = 0;
  for (int64_t last = a.rows - 1; last > 0;) {
    const int64_t l = block_start(a, last);
    if (l == last) {
      --last;
      step = 0;
      continue;
    }
    if (++step > kSteps) return false;
    const Complex128 shift = step % 10 == 0 ? a(last, last) + std::abs(a(last, last - 1)) : shift_of(a, last);
    for (int64_t i = l; i <= last; ++i) a(i, i) -= shift;
    for (int64_t k = l; k < last; ++k) {
      rotations[size_t(k)] = Rotation<Complex128>::to_zero(a(k, k), a(k + 1, k));
      rotations[size_t(k)].rows(a, k, k, a.columns);
      a(k + 1, k) = 0;
    }
    for (int64_t k = l; k < last; ++k) {
      rotations[size_t(k)].columns(a, k, k + 2);
      rotations[size_t(k)].columns(z, k, z.rows);
    }
    for (int64_t i = l; i <= last; ++i) a(i, i) += shift;
  }
  return true;
}

}  // namespace trine::ops
