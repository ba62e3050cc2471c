// svd: singular values of each matrix in descending order, left singular vectors as columns and right ones as rows
// (conjugated): a = u diag(s) vh. `full` squares u and vh by any orthonormal rest. One-sided Jacobi rotations, which
// find small values to full accuracy; of larger matrices after their eigenvectors have done most of it. NaN where the
// input is not finite. C1: the input holds matrices.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/pool.h"
#include "ops/linalg/tridiagonal_form.h"

namespace trine::ops {

namespace {

constexpr int kSweeps = 60;          // convergence is quadratic; ten are many
constexpr double kNothing = 1e-140;  // of the largest value: products of such numbers still have all their bits
constexpr int64_t kJacobiMax = 16;   // rows; more are made almost orthogonal first

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_matrices(x));
  const Dtype real = is_complex(x.dtype) ? row(x.dtype).element : x.dtype;
  const Dims batch(x.dims.begin(), x.dims.end() - 2);
  const int64_t m = x.dims[x.dims.size() - 2], n = x.dims.back(), k = std::min(m, n);
  const bool is_full = call.attrs.flag("full");
  auto with = [&](std::initializer_list<int64_t> more) {
    Dims dims = batch;
    dims.insert(dims.end(), more);
    return dims;
  };
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, with({m, is_full ? m : k})), ir::tensor_type(real, with({k})),
                               ir::tensor_type(x.dtype, with({is_full ? n : k, n}))};
}

// Vectors are rows here, so that all loops run over neighbours.
template <class W>
double square_of_line(Matrix<W> a, int64_t r) {
  return real_of(dot_lines(&a(r, 0), &a(r, 0), a.columns));
}

// Rotates rows p and q of a (and of v alike) until they are orthogonal; false where they are already. Squares of
// lengths go along; rows of no more than `nothing` are left alone.
template <class W>
bool rotate(Matrix<W> a, Matrix<W> v, int64_t p, int64_t q, std::vector<double>& squares, double nothing) {
  double &alpha = squares[size_t(p)], &beta = squares[size_t(q)];
  if (std::min(alpha, beta) <= nothing) return false;
  const W gamma = dot_lines(&a(p, 0), &a(q, 0), a.columns);
  const double size = std::abs(gamma);
  if (size == 0 || size <= std::numeric_limits<double>::epsilon() * std::sqrt(alpha) * std::sqrt(beta)) return false;
  const W phase = gamma / size;
  const double zeta = (beta - alpha) / (2 * size);
  const double t = std::copysign(1, zeta) / (std::abs(zeta) + length_of(1, zeta));
  const double c = 1 / length_of(1, t), s = c * t;
  for (Matrix<W> m : {a, v}) {
    if (phase != W(1))
      for (int64_t i = 0; i < m.columns; ++i) m(q, i) = wide_multiply(conj_of(phase), m(q, i));
    rotate_lines(&m(p, 0), &m(q, 0), m.columns, c, s);
  }
  alpha = square_of_line(a, p);
  beta = square_of_line(a, q);
  return true;
}

// Makes rows from `known` on orthonormal to those before, from the unit vectors that lie least in their span.
template <class W>
void complete(Matrix<W> rows, int64_t known) {
  for (int64_t tries = 0; known < rows.rows && tries < rows.columns * (rows.rows + 1); ++tries) {
    const int64_t unit = tries % rows.columns;
    W* x = &rows(known, 0);
    std::fill_n(x, rows.columns, W(0));
    x[unit] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t r = 0; r < known; ++r) {
        const W part = dot_lines(&rows(r, 0), x, rows.columns);
        subtract_line(x, part, &rows(r, 0), rows.columns);
      }
    const double norm = std::sqrt(real_of(dot_lines(x, x, rows.columns)));
    // At least one unit vector left has this much outside the span of `known` others.
    if (norm * norm * double(rows.columns) < 0.5 * double(rows.columns - known)) continue;
    for (int64_t i = 0; i < rows.columns; ++i) x[i] /= norm;
    ++known;
  }
}

// Of the rows of `a` (no more than columns): left[r] holds combination r of them, s its length, right its direction.
template <class W>
struct Decomposition {
  int64_t count = 0, length = 0;
  WideArray<W> a{count * length}, left{count * count};
  std::vector<int64_t> order = std::vector<int64_t>(static_cast<size_t>(count));
  std::vector<double> values = std::vector<double>(static_cast<size_t>(count));

  void run() {
    const Matrix<W> x{a.data.get(), count, length}, v{left.data.get(), count, count};
    for (int64_t i = 0; i < count; ++i) v(i, i) = 1;
    if (count > kJacobiMax) come_near(x, v);
    std::vector<double> squares(static_cast<size_t>(count));
    for (int64_t r = 0; r < count; ++r) squares[size_t(r)] = square_of_line(x, r);
    double nothing = 0;
    for (double square : squares) nothing = std::max(nothing, square * kNothing * kNothing);
    bool moved = true;
    for (int sweep = 0; sweep < kSweeps && moved; ++sweep) {
      moved = false;
      for (int64_t p = 0; p < count; ++p)
        for (int64_t q = p + 1; q < count; ++q) moved |= rotate(x, v, p, q, squares, nothing);
    }
    for (int64_t r = 0; r < count; ++r) values[size_t(r)] = std::sqrt(real_of(dot_lines(&x(r, 0), &x(r, 0), length)));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t l, int64_t r) { return values[size_t(l)] > values[size_t(r)]; });
  }
  // Rows that the eigenvectors of their products make almost orthogonal: one or two sweeps do the rest.
  void come_near(Matrix<W> x, Matrix<W> v) {
    WideArray<W> products(count * count), vectors(count * count), rows(count * length);
    TridiagonalForm<W> form{{products.data.get(), count, count}, {vectors.data.get(), count, count}};
    double largest = 0;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c <= r; ++c) {
        form.a(r, c) = dot_lines(&x(c, 0), &x(r, 0), length);
        largest = std::max(largest, std::abs(form.a(r, c)));
      }
    if (!(largest > 0 && std::isfinite(largest))) return;
    form.reduce();
    if (!form.diagonalise()) return;
    for (int64_t r = 0; r < count; ++r)
      for (int64_t k = 0; k < count; ++k) {
        v(r, k) = conj_of(form.q(r, k));
        subtract_line(rows.at(r * length), -v(r, k), &x(k, 0), length);
      }
    std::copy_n(rows.data.get(), count * length, x.data);
  }
  // Directions as the first rows of `to`; those of values that are nothing, and the rest, are made up.
  void directions(Matrix<W> to) const {
    const double least = count ? values[size_t(order[0])] * kNothing : 0;
    int64_t known = 0;
    for (; known < count && values[size_t(order[size_t(known)])] > least; ++known)
      for (int64_t i = 0; i < length; ++i)
        to(known, i) = a[order[size_t(known)] * length + i] / values[size_t(order[size_t(known)])];
    complete(to, known);
  }
};

// u and vh of one matrix. The shorter side is rotated: columns of a tall matrix, else rows.
template <class W>
void decompose(Matrix<W> a, Matrix<W> u, double* s, Matrix<W> vh) {
  const bool is_tall = a.rows >= a.columns;
  Decomposition<W> d{.count = std::min(a.rows, a.columns), .length = std::max(a.rows, a.columns)};
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.columns; ++c) (is_tall ? d.a[c * d.length + r] : d.a[r * d.length + c]) = a(r, c);
  d.run();
  const int64_t wanted = is_tall ? u.columns : vh.rows;
  WideArray<W> long_rows(wanted * d.length);
  const Matrix<W> directions{long_rows.data.get(), wanted, d.length};
  d.directions(directions);
  for (int64_t k = 0; k < d.count; ++k) {
    const int64_t from = d.order[size_t(k)];
    s[k] = d.values[size_t(from)];
    // With columns x = a v: a = u s v^H. With rows x = v a: a = v^H s vh.
    for (int64_t i = 0; i < d.count; ++i) (is_tall ? vh(k, i) : u(i, k)) = conj_of(d.left[from * d.count + i]);
  }
  for (int64_t k = 0; k < wanted; ++k)
    for (int64_t i = 0; i < d.length; ++i) (is_tall ? u(i, k) : vh(k, i)) = directions(k, i);
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> in(e.in[0]), u(e.out[0].dims), vh(e.out[2].dims);
  WideArray<double> s(e.out[1].elements());
  const int64_t k = e.out[1].dims.back();
  parallel_for(in.count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Matrix<W> a = in.matrix(i), left = u.matrix(i), right = vh.matrix(i);
      const bool is_finite =
          std::all_of(a.data, a.data + a.rows * a.columns, [](const W& x) { return std::isfinite(square_of(x)); });
      if (is_finite) {
        decompose(a, left, s.at(i * k), right);
        continue;
      }
      const double nan = std::numeric_limits<double>::quiet_NaN();
      std::fill_n(left.data, left.rows * left.columns, W(nan));
      std::fill_n(right.data, right.rows * right.columns, W(nan));
      std::fill_n(s.at(i * k), k, nan);
    }
  });
  store_wide(u.values, e.out[0]);
  store_wide(s, e.out[1]);
  store_wide(vh.values, e.out[2]);
}

}  // namespace

extern const Op op_svd{.name = "svd",
                       .kind = OpKind::other,
                       .arity = 1,
                       .attrs = "full",
                       .infer = infer,
                       .eval = [](const Eval& e) -> Result<void> {
                         dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                         return {};
                       },
                       .cut = {.whole_last = 2}};

}  // namespace trine::ops
