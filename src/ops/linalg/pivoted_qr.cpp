// pivoted_qr: qr with the column of largest remaining norm taken next, as LAPACK's geqp3: results are the factors, the
// order of columns (counted from 1), and the taus. Columns whose number in the second input is not zero go first.
// C1: the second input has one integer per column.
#include <numeric>

#include "ops/linalg/householder.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &x = call.inputs[0], &order = call.inputs[1];
  TRY(check_matrices(x));
  Dims columns(x.dims.begin(), x.dims.end() - 2), taus = columns;
  columns.push_back(x.dims.back());
  taus.push_back(std::min(x.dims[x.dims.size() - 2], x.dims.back()));
  if (!is_integer(order.dtype) || order.dims != columns)
    return fail(Code::invalid, cat("the order of columns is ", ir::text(order), "; one integer each was expected"));
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims), ir::tensor_type(order.dtype, columns),
                               ir::tensor_type(x.dtype, std::move(taus))};
}

template <class W>
void swap_columns(Matrix<W> a, int64_t* order, int64_t x, int64_t y) {
  for (int64_t r = 0; r < a.rows; ++r) std::swap(a(r, x), a(r, y));
  std::swap(order[x], order[y]);
}

template <class W>
void factor(Matrix<W> a, int64_t* order, W* taus) {
  int64_t fixed = 0;
  std::vector<int64_t> given(order, order + a.columns);
  std::iota(order, order + a.columns, 1);
  for (int64_t c = 0; c < a.columns; ++c)
    if (given[size_t(c)] != 0) swap_columns(a, order, c, fixed++);
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    int64_t best = k;
    for (int64_t c = k + 1; c < a.columns && k >= fixed; ++c)
      if (norm_below(a, k, c) > norm_below(a, k, best)) best = c;
    if (best != k) swap_columns(a, order, k, best);
    taus[k] = make_reflector(a, k, k);
    reflect(a, k, k, conj_of(taus[k]), a, k + 1);
  }
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> batch(e.in[0]);
  WideArray<int64_t> order = load_indices(e.in[1]);
  WideArray<W> taus(e.out[2].elements());
  for (int64_t i = 0; i < batch.count; ++i)
    factor(batch.matrix(i), order.at(i * batch.columns), taus.at(i * e.out[2].dims.back()));
  store_wide(batch.values, e.out[0]);
  store_wide(order, e.out[1]);
  store_wide(taus, e.out[2]);
}

}  // namespace

extern const Op op_pivoted_qr{.name = "pivoted_qr",
                              .kind = OpKind::other,
                              .arity = 2,
                              .infer = infer,
                              .eval = [](const Eval& e) -> Result<void> {
                                dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                                return {};
                              },
                              .cut = {.whole_last = 2}};

}  // namespace trine::ops
