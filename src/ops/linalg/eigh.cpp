// eigh: eigenvectors (columns) and real eigenvalues of each Hermitian matrix, of which one triangle is read (`lower`),
// in ascending order unless `sort` is false. Small matrices by Jacobi rotations, which are accurate for small
// eigenvalues too; large ones are made tridiagonal first. C1: the matrices are square.
#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/linalg/tridiagonal_form.h"

namespace trine::ops {

namespace {

constexpr int kSweeps = 60;  // convergence is quadratic; a handful is usual
// Rows; of more, a tridiagonal matrix takes less work. Narrower numbers than doubles have no bits that it could lose.
constexpr int64_t kJacobiMax = 16, kJacobiNarrowMax = 4;

Dtype real_dtype(Dtype dtype) { return is_complex(dtype) ? row(dtype).element : dtype; }

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_square(x));
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims),
                               ir::tensor_type(real_dtype(x.dtype), Dims(x.dims.begin(), x.dims.end() - 1))};
}

// Makes a(p, q) zero by a rotation of rows and columns p and q; the rows of v collect the rotations. Columns of a
// Hermitian matrix are its rows, conjugated.
template <class W>
void rotate(Matrix<W> a, Matrix<W> v, int64_t p, int64_t q) {
  const double size = std::abs(a(p, q));
  const W phase = a(p, q) / size;
  const double theta = (real_of(a(q, q)) - real_of(a(p, p))) / (2 * size);
  const double t = std::copysign(1.0, theta) / (std::abs(theta) + length_of(theta, 1.0));
  const double c = 1 / length_of(t, 1.0), s = t * c;
  const W s_in = s * phase, s_out = s * conj_of(phase);
  const auto rotate_rows = [&](Matrix<W> m, const W& from_q, const W& from_p) {
    W *x = &m(p, 0), *y = &m(q, 0);
    for (int64_t k = 0; k < m.columns; ++k) {
      const W before = x[k];
      x[k] = c * before - wide_multiply(from_q, y[k]);
      y[k] = wide_multiply(from_p, before) + c * y[k];
    }
  };
  const double of_p = real_of(a(p, p)) - t * size, of_q = real_of(a(q, q)) + t * size;
  rotate_rows(a, s_in, s_out);
  for (int64_t k = 0; k < a.rows; ++k) {
    a(k, p) = conj_of(a(p, k));
    a(k, q) = conj_of(a(q, k));
  }
  a(p, p) = of_p;
  a(q, q) = of_q;
  a(p, q) = a(q, p) = W(0);
  rotate_rows(v, s_out, s_in);
}

// False, and nothing changed, where it does not converge.
template <class W>
bool by_tridiagonal(Matrix<W> a, Matrix<W> v) {
  const int64_t n = a.rows;
  WideArray<W> copy(n * n), vectors(n * n);
  std::copy_n(a.data, n * n, copy.data.get());
  TridiagonalForm<W> form{{copy.data.get(), n, n}, {vectors.data.get(), n, n}};
  form.reduce();
  if (!form.diagonalise()) return false;
  std::fill_n(a.data, n * n, W(0));
  for (int64_t i = 0; i < n; ++i) a(i, i) = form.diagonal[size_t(i)];
  std::copy_n(vectors.data.get(), n * n, v.data);
  return true;
}

template <class W>
void diagonalise(Matrix<W> a, Matrix<W> v, int64_t jacobi_max) {
  for (int64_t i = 0; i < a.rows; ++i) v(i, i) = 1;
  double norm = 0;
  for (int64_t i = 0; i < a.rows * a.rows; ++i) norm += square_of(a.data[i]);
  if (!std::isfinite(norm)) {
    std::fill_n(a.data, a.rows * a.rows, W(std::numeric_limits<double>::quiet_NaN()));
    std::fill_n(v.data, a.rows * a.rows, W(std::numeric_limits<double>::quiet_NaN()));
    return;
  }
  if (a.rows > jacobi_max && by_tridiagonal(a, v)) return;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    double rest = 0;
    for (int64_t p = 0; p < a.rows; ++p)
      for (int64_t q = p + 1; q < a.rows; ++q) rest += square_of(a(p, q));
    if (rest <= norm * 1e-34) return;  // below what a double of the norm can show
    for (int64_t p = 0; p < a.rows; ++p)
      for (int64_t q = p + 1; q < a.rows; ++q)
        if (square_of(a(p, q)) > norm * 1e-38) rotate(a, v, p, q);
  }
}

template <class W>
void run(const Eval& e) {
  const bool is_lower = e.node.attrs.flag("lower", true), is_sorted = e.node.attrs.flag("sort", true);
  MatrixBatch<W> in(e.in[0]), vectors(e.out[0].dims), out(e.out[0].dims);
  WideArray<double> values(e.out[1].elements());
  const int64_t n = in.rows, jacobi_max = bits(real_dtype(e.in[0].dtype)) < 64 ? kJacobiNarrowMax : kJacobiMax;
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < in.count; ++i) {
    const Matrix<W> a = in.matrix(i), v = vectors.matrix(i), to = out.matrix(i);
    for (int64_t r = 0; r < n; ++r) {
      a(r, r) = real_of(a(r, r));
      for (int64_t c = 0; c < r; ++c) is_lower ? a(c, r) = conj_of(a(r, c)) : a(r, c) = conj_of(a(c, r));
    }
    diagonalise(a, v, jacobi_max);
    std::iota(order.begin(), order.end(), 0);
    if (is_sorted)
      std::stable_sort(order.begin(), order.end(), [&](int64_t x, int64_t y) {
        const double l = real_of(a(x, x)), r = real_of(a(y, y));
        return l < r || (std::isnan(r) && !std::isnan(l));
      });
    for (int64_t c = 0; c < n; ++c) {
      const int64_t from = order[size_t(c)];
      values[i * n + c] = real_of(a(from, from));
      for (int64_t r = 0; r < n; ++r) to(r, c) = v(from, r);
    }
  }
  store_wide(out.values, e.out[0]);
  store_wide(values, e.out[1]);
}

}  // namespace

extern const Op op_eigh{.name = "eigh",
                        .kind = OpKind::other,
                        .arity = 1,
                        .attrs = "lower sort",
                        .infer = infer,
                        .eval = [](const Eval& e) -> Result<void> {
                          dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                          return {};
                        },
                        .cut = {.whole_last = 2}};

}  // namespace trine::ops
