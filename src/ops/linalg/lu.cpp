// lu: the LU factorisation of each matrix with partial pivoting: L (unit diagonal, not stored) below U, the row each
// step swapped with (s32), and the whole permutation of rows (s32). A zero pivot is left in place, as LAPACK does.
// C1: the input holds matrices.
#include <numeric>

#include "ops/linalg/blocks.h"
#include "ops/linalg/lines.h"
#include "ops/linalg/matrix.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_matrices(x));
  Dims pivots(x.dims.begin(), x.dims.end() - 2), rows = pivots;
  rows.push_back(x.dims[x.dims.size() - 2]);
  pivots.push_back(std::min(rows.back(), x.dims.back()));
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims), ir::tensor_type(Dtype::s32, std::move(pivots)),
                               ir::tensor_type(Dtype::s32, std::move(rows))};
}

// LAPACK's measure of a pivot: of complex numbers |re| + |im|.
double weight(double v) { return std::abs(v); }
double weight(const Complex128& v) { return std::abs(v.real()) + std::abs(v.imag()); }

constexpr int64_t kFew = 64;  // products: for fewer a call is most of the work

// Columns [first, last) of the rows from `first` on; whole rows are swapped.
template <class W>
void factor_columns(Matrix<W> a, int64_t first, int64_t last, int32_t* pivots, int32_t* permutation) {
  for (int64_t k = first; k < last; ++k) {
    int64_t best = k;
    for (int64_t r = k + 1; r < a.rows; ++r)
      if (weight(a(r, k)) > weight(a(best, k))) best = r;
    pivots[k] = int32_t(best);
    if (best != k) {
      std::swap_ranges(&a(k, 0), &a(k, 0) + a.columns, &a(best, 0));
      std::swap(permutation[k], permutation[best]);
    }
    if (a(k, k) == W(0)) continue;
    for (int64_t r = k + 1; r < a.rows; ++r) a(r, k) /= a(k, k);
    const int64_t below = a.rows - k - 1, beyond = last - k - 1;
    if (below * beyond < kFew) {
      for (int64_t r = k + 1; r < a.rows; ++r)
        for (int64_t c = k + 1; c < last; ++c) a(r, c) -= wide_multiply(a(r, k), a(k, c));
    } else {
      subtract_product<W>({&a(k + 1, k + 1), a.columns}, {&a(k + 1, k), a.columns}, {&a(k, k + 1), a.columns}, below,
                          beyond, 1);
    }
  }
}

// A column of a zero pivot is all zero from there on: it takes nothing from those beyond.
template <class W>
void factor(Matrix<W> a, int32_t* pivots, int32_t* permutation) {
  std::iota(permutation, permutation + a.rows, 0);
  const int64_t steps = std::min(a.rows, a.columns);
  for (int64_t first = 0; first < steps; first += kBlock) {
    const int64_t last = std::min(first + kBlock, steps), beyond = a.columns - last;
    factor_columns(a, first, last, pivots, permutation);
    if (beyond == 0) continue;
    for (int64_t r = first + 1; r < last; ++r)
      for (int64_t k = first; k < r; ++k) subtract_line(&a(r, last), a(r, k), &a(k, last), beyond);
    if (last < a.rows)
      subtract_product<W>({&a(last, last), a.columns}, {&a(last, first), a.columns}, {&a(first, last), a.columns},
                          a.rows - last, beyond, last - first);
  }
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> batch(e.in[0]);
  for (int64_t i = 0; i < batch.count; ++i)
    factor(batch.matrix(i), e.out[1].as<int32_t>() + i * e.out[1].dims.back(),
           e.out[2].as<int32_t>() + i * e.out[2].dims.back());
  store_wide(batch.values, e.out[0]);
}

}  // namespace

extern const Op op_lu{.name = "lu",
                      .kind = OpKind::other,
                      .arity = 1,
                      .infer = infer,
                      .eval = [](const Eval& e) -> Result<void> {
                        dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                        return {};
                      },
                      .cut = {.whole_last = 2}};

}  // namespace trine::ops
