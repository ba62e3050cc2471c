// cholesky: the triangular factor of each Hermitian positive definite matrix; x = l l^H, or u^H u where not `lower`.
// Only that triangle of the input is read; the other of the result is zero. A matrix that is not positive definite
// gives NaN in its triangle. C1: the matrices are square.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/linalg/blocks.h"
#include "ops/linalg/matrix.h"

namespace trine::ops {

namespace {

constexpr int64_t kPanel = 8;  // columns of a tile of subtract_product: within a panel sums are too short for it

// A pivot that has no root.
bool is_bad(double pivot) { return !(pivot > 0) || std::isinf(pivot); }

// Columns [first, last) from row `first` on, of few rows.
template <class W>
bool factor_corner(Matrix<W> a, int64_t first, int64_t last) {
  for (int64_t c = first; c < last; ++c)
    for (int64_t r = c; r < a.rows; ++r) {
      W sum = a(r, c);
      for (int64_t k = first; k < c; ++k) sum -= wide_multiply(a(r, k), conj_of(a(c, k)));
      if (r == c && is_bad(real_of(sum))) return false;
      a(r, c) = r == c ? W(std::sqrt(real_of(sum))) : sum / real_of(a(c, c));
    }
  return true;
}

// The same as lines: each column is one, so that its numbers are neighbours.
template <class W>
bool factor_panel(Matrix<W> a, int64_t first, int64_t last, W* lines) {
  const int64_t rows = a.rows - first, count = last - first;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < count; ++c) lines[c * rows + r] = a(first + r, first + c);
  for (int64_t c = 0; c < count; ++c) {
    W* line = lines + c * rows;
    for (int64_t k = 0; k < c; ++k)
      subtract_line(line + c, conj_of(lines[k * rows + c]), lines + k * rows + c, rows - c);
    const double pivot = real_of(line[c]);
    if (is_bad(pivot)) return false;
    divide_line(line + c, std::sqrt(pivot), rows - c);
    line[c] = std::sqrt(pivot);
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < count; ++c) a(first + r, first + c) = lines[c * rows + r];
  return true;
}

// In place on the lower triangle; false where the matrix is not positive definite. `spare` holds kPanel lines.
template <class W>
bool factor(Matrix<W> a, WideArray<W>& spare) {
  for (int64_t first = 0; first < a.rows; first += kPanel) {
    const int64_t last = std::min(first + kPanel, a.rows);
    for (int64_t c = first; c < last; ++c)  // the panel's rows so far, as columns
      for (int64_t k = 0; k < first; ++k) spare[k * kPanel + c - first] = conj_of(a(c, k));
    if (first > 0)
      subtract_product<W>({&a(first, first), a.columns}, {&a(first, 0), a.columns}, {spare.at(0), kPanel},
                          a.rows - first, last - first, first);
    const bool is_corner = a.rows - first <= 2 * kPanel;
    if (!(is_corner ? factor_corner(a, first, last) : factor_panel(a, first, last, spare.at(0)))) return false;
  }
  return true;
}

constexpr int64_t kFewRows = 2 * kPanel;  // of a matrix that is all corner

// Small matrices, kMatrices at a time, in place; `good` says of each whether it was positive definite. Returns how many
// were factored.
int64_t factor_together(MatrixBatch<double>& in, std::vector<bool>& good) {
  const int64_t n = in.rows;
  if (n > kFewRows || in.count < kMatrices) return 0;
  alignas(32) double all[kFewRows * kFewRows * kMatrices];
  int64_t first = 0;
  for (; first + kMatrices <= in.count; first += kMatrices) {
    for (int64_t l = 0; l < kMatrices; ++l)
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c) all[(r * n + c) * kMatrices + l] = in.matrix(first + l)(r, c);
    const unsigned bad = line_kernels().cholesky(all, n);
    for (int64_t l = 0; l < kMatrices; ++l) {
      good[size_t(first + l)] = (bad >> l & 1) == 0;
      for (int64_t r = 0; r < n; ++r)
        for (int64_t c = 0; c <= r; ++c) in.matrix(first + l)(r, c) = all[(r * n + c) * kMatrices + l];
    }
  }
  return first;
}
int64_t factor_together(MatrixBatch<Complex128>&, std::vector<bool>&) { return 0; }

template <class W>
void run(const Eval& e) {
  const bool is_lower = e.node.attrs.flag("lower");
  MatrixBatch<W> in(e.in[0]), out(e.out[0].dims);
  WideArray<W> spare(in.rows * kPanel);
  for (int64_t i = 0; i < in.count && !is_lower; ++i)
    for (int64_t r = 0; r < in.rows; ++r)
      for (int64_t c = 0; c < r; ++c) in.matrix(i)(r, c) = conj_of(in.matrix(i)(c, r));
  std::vector<bool> good(static_cast<size_t>(in.count));
  const int64_t together = factor_together(in, good);
  for (int64_t i = 0; i < in.count; ++i) {
    Matrix<W> x = in.matrix(i), to = out.matrix(i);
    const bool is_good = i < together ? good[size_t(i)] : factor(x, spare);
    for (int64_t r = 0; r < x.rows; ++r) {
      if (!is_good) std::fill_n(&x(r, 0), r + 1, W(std::numeric_limits<double>::quiet_NaN()));
      if (is_lower) std::copy_n(&x(r, 0), r + 1, &to(r, 0));
      for (int64_t c = 0; c <= r && !is_lower; ++c) to(c, r) = conj_of(x(r, c));
    }
  }
  store_wide(out.values, e.out[0]);
}

}  // namespace

extern const Op op_cholesky{.name = "cholesky",
                            .kind = OpKind::other,
                            .arity = 1,
                            .attrs = "lower",
                            .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                              TRY(check_square(call.inputs[0]));
                              return same_as_first(call);
                            },
                            .eval = [](const Eval& e) -> Result<void> {
                              dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                              return {};
                            },
                            .cut = {.whole_last = 2}};

}  // namespace trine::ops
