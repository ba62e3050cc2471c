// eig: eigenvalues of each matrix, and its left and right eigenvectors as columns, all complex. Vectors have norm one,
// and their largest element is real, as LAPACK's geev leaves them. NaN where the iteration does not end.
// C1: the matrices are square.
#include <algorithm>
#include <limits>

#include "ops/linalg/schur_form.h"

namespace trine::ops {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_square(x));
  const Dtype dtype = x.dtype == Dtype::f64 || x.dtype == Dtype::c128 ? Dtype::c128 : Dtype::c64;
  const ir::Type vectors = ir::tensor_type(dtype, x.dims);
  return std::vector<ir::Type>{ir::tensor_type(dtype, Dims(x.dims.begin(), x.dims.end() - 1)), vectors, vectors};
}

// A real Schur form with its blocks of two made triangular; eigenvalues of a pair stay conjugate to the last bit.
void to_complex(Matrix<double> t, Matrix<double> z, Matrix<Complex128> to, Matrix<Complex128> to_z) {
  const int64_t n = t.rows;
  std::copy_n(t.data, n * n, to.data);
  std::copy_n(z.data, n * n, to_z.data);
  for (int64_t p = 0; p + 1 < n; ++p) {
    if (t(p + 1, p) == 0) continue;
    const double a = t(p, p), imaginary = std::sqrt(std::abs(t(p, p + 1))) * std::sqrt(std::abs(t(p + 1, p)));
    const Complex128 first = {a, imaginary};
    // (first - a, c) is an eigenvector of the block, rotated into the first axis.
    const Complex128 x = first - a, y = t(p + 1, p);
    const double size = std::hypot(std::abs(x), std::abs(y));
    const Complex128 c = x / size, s = y / size;
    for (int64_t k = p; k < n; ++k) {
      const Complex128 u = to(p, k), v = to(p + 1, k);
      to(p, k) = std::conj(c) * u + std::conj(s) * v;
      to(p + 1, k) = c * v - s * u;
    }
    auto columns = [&](Matrix<Complex128> m, int64_t end) {
      for (int64_t k = 0; k < end; ++k) {
        const Complex128 u = m(k, p), v = m(k, p + 1);
        m(k, p) = u * c + v * s;
        m(k, p + 1) = v * std::conj(c) - u * std::conj(s);
      }
    };
    columns(to, p + 2);
    columns(to_z, n);
    to(p + 1, p) = 0;
    to(p, p) = first;
    to(p + 1, p + 1) = std::conj(first);
  }
}

bool complex_schur(Matrix<double> a, Matrix<Complex128> t, Matrix<Complex128> z) {
  WideArray<double> scratch(a.rows * a.rows);
  const Matrix<double> vectors{scratch.data.get(), a.rows, a.rows};
  if (!schur_form(a, vectors)) return false;
  to_complex(a, vectors, t, z);
  return true;
}

bool complex_schur(Matrix<Complex128> a, Matrix<Complex128> t, Matrix<Complex128> z) {
  std::copy_n(a.data, a.rows * a.rows, t.data);
  return schur_form(t, z);
}

// v = z x, of norm one and with a real largest element.
void finish(Matrix<Complex128> z, const std::vector<Complex128>& x, Matrix<Complex128> to, int64_t column) {
  double norm = 0;
  Complex128 largest = 0;
  for (int64_t r = 0; r < z.rows; ++r) {
    Complex128 sum = 0;
    for (int64_t k = 0; k < z.rows; ++k) sum += wide_multiply(z(r, k), x[size_t(k)]);
    to(r, column) = sum;
    norm = std::hypot(norm, std::abs(sum));
    if (std::abs(sum) > std::abs(largest)) largest = sum;
  }
  const Complex128 scale = norm == 0 ? Complex128(1) : std::conj(largest) / std::abs(largest) / norm;
  for (int64_t r = 0; r < z.rows; ++r) to(r, column) *= scale;
}

// Eigenvectors of the triangle by substitution, above the diagonal (right) or below it (left).
void vectors_of(Matrix<Complex128> t, Matrix<Complex128> z, Matrix<Complex128> right, Matrix<Complex128> left) {
  const int64_t n = t.rows;
  double size = 0;
  for (int64_t i = 0; i < n * n; ++i) size = std::max(size, std::abs(t.data[i]));
  const double least = std::max(size * std::numeric_limits<double>::epsilon(), std::numeric_limits<double>::min());
  auto apart = [&](Complex128 d) { return std::abs(d) < least ? Complex128(least) : d; };
  std::vector<Complex128> x(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    std::fill(x.begin(), x.end(), 0);
    x[size_t(k)] = 1;
    for (int64_t r = k - 1; r >= 0; --r) {
      Complex128 sum = 0;
      for (int64_t c = r + 1; c <= k; ++c) sum += wide_multiply(t(r, c), x[size_t(c)]);
      x[size_t(r)] = sum / apart(t(k, k) - t(r, r));
    }
    finish(z, x, right, k);
    std::fill(x.begin(), x.end(), 0);
    x[size_t(k)] = 1;
    for (int64_t r = k + 1; r < n; ++r) {
      Complex128 sum = 0;
      for (int64_t c = k; c < r; ++c) sum += wide_multiply(std::conj(t(c, r)), x[size_t(c)]);
      x[size_t(r)] = sum / apart(std::conj(t(k, k) - t(r, r)));
    }
    finish(z, x, left, k);
  }
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> in(e.in[0]);
  MatrixBatch<Complex128> left(e.out[1].dims), right(e.out[2].dims);
  WideArray<Complex128> values(e.out[0].elements()), t_data(in.rows * in.rows), z_data(in.rows * in.rows);
  const Matrix<Complex128> t{t_data.data.get(), in.rows, in.rows}, z{z_data.data.get(), in.rows, in.rows};
  for (int64_t i = 0; i < in.count; ++i) {
    if (complex_schur(in.matrix(i), t, z)) {
      vectors_of(t, z, right.matrix(i), left.matrix(i));
      for (int64_t k = 0; k < in.rows; ++k) values[i * in.rows + k] = t(k, k);
    } else {
      for (Complex128* data : {left.matrix(i).data, right.matrix(i).data})
        std::fill_n(data, in.rows * in.rows, Complex128(kNan, kNan));
      std::fill_n(values.at(i * in.rows), in.rows, Complex128(kNan, kNan));
    }
  }
  store_wide(values, e.out[0]);
  store_wide(left.values, e.out[1]);
  store_wide(right.values, e.out[2]);
}

}  // namespace

extern const Op op_eig{.name = "eig",
                       .kind = OpKind::other,
                       .arity = 1,
                       .infer = infer,
                       .eval = [](const Eval& e) -> Result<void> {
                         dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                         return {};
                       },
                       .cut = {.whole_last = 2}};

}  // namespace trine::ops
