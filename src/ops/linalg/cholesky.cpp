// cholesky: the triangular factor of each Hermitian positive definite matrix; x = l l^H, or u^H u where not `lower`.
// Only that triangle of the input is read; the other of the result is zero. A matrix that is not positive definite
// gives NaN in its triangle. C1: the matrices are square.
#include <algorithm>
#include <limits>

#include "ops/linalg/blocks.h"
#include "ops/linalg/matrix.h"

namespace trine::ops {

namespace {

constexpr int64_t kPanel = 8;  // columns of a tile of subtract_product: within a panel sums are too short for it

// a(r, c) less the products of rows r and c over columns [first, last), both factored there.
template <class W>
void subtract_dot(Matrix<W> a, int64_t r, int64_t c, int64_t first, int64_t last) {
  W sum = a(r, c);
  for (int64_t k = first; k < last; ++k) sum -= wide_multiply(a(r, k), conj_of(a(c, k)));
  a(r, c) = sum;
}

// In place on the lower triangle; false where the matrix is not positive definite.
template <class W>
bool factor(Matrix<W> a) {
  WideArray<W> transposed(a.rows * kPanel);  // the panel's rows so far, as columns
  for (int64_t first = 0; first < a.rows; first += kPanel) {
    const int64_t last = std::min(first + kPanel, a.rows);
    for (int64_t c = first; c < last; ++c)
      for (int64_t k = 0; k < first; ++k) transposed[k * kPanel + c - first] = conj_of(a(c, k));
    subtract_product<W>({&a(first, first), a.columns}, {&a(first, 0), a.columns}, {transposed.at(0), kPanel},
                        a.rows - first, last - first, first);
    for (int64_t c = first; c < last; ++c) {
      subtract_dot(a, c, c, first, c);
      const double pivot = real_of(a(c, c));
      if (!(pivot > 0) || std::isinf(pivot)) return false;
      const double root = std::sqrt(pivot);
      a(c, c) = root;
      for (int64_t r = c + 1; r < a.rows; ++r) {
        subtract_dot(a, r, c, first, c);
        a(r, c) /= root;
      }
    }
  }
  return true;
}

template <class W>
void run(const Eval& e) {
  const bool is_lower = e.node.attrs.flag("lower");
  MatrixBatch<W> in(e.in[0]), out(e.out[0].dims);
  for (int64_t i = 0; i < in.count; ++i) {
    Matrix<W> x = in.matrix(i), to = out.matrix(i);
    for (int64_t r = 0; r < x.rows && !is_lower; ++r)
      for (int64_t c = 0; c < r; ++c) x(r, c) = conj_of(x(c, r));
    const bool is_good = factor(x);
    for (int64_t r = 0; r < x.rows; ++r)
      for (int64_t c = 0; c <= r; ++c) {
        const W v = is_good ? x(r, c) : W(std::numeric_limits<double>::quiet_NaN());
        (is_lower ? to(r, c) : to(c, r)) = is_lower ? v : conj_of(v);
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
