// householder_product: the first columns of the product of reflectors stored below the diagonal of each matrix, with
// their taus: the Q of a factorisation by qr (LAPACK's orgqr). C1: taus have the matrices' batch, at most min(rows,
// columns) each. C2: matrices have no more columns than rows.
#include "ops/linalg/householder.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &a = call.inputs[0], &taus = call.inputs[1];
  TRY(check_matrices(a));
  const bool fits = taus.dtype == a.dtype && taus.dims.size() + 1 == a.dims.size() &&
                    std::equal(taus.dims.begin(), taus.dims.end() - 1, a.dims.begin()) &&
                    taus.dims.back() <= std::min(a.dims[a.dims.size() - 2], a.dims.back());
  if (!fits) return fail(Code::invalid, cat("taus are ", ir::text(taus), ", which does not fit ", ir::text(a)));
  if (a.dims.back() > a.dims[a.dims.size() - 2])
    return fail(Code::invalid, cat("the matrices of ", ir::text(a), " have more columns than rows"));
  return same_as_first(call);
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> in(e.in[0]), out(e.out[0].dims);
  const WideArray<W> taus = load_wide<W>(e.in[1]);
  const int64_t steps = e.in[1].dims.back();
  for (int64_t i = 0; i < in.count; ++i) {
    const Matrix<W> q = out.matrix(i);
    for (int64_t d = 0; d < q.columns; ++d) q(d, d) = 1;
    for (int64_t first = (steps - 1) / kReflectors * kReflectors; first >= 0; first -= kReflectors) {
      const int64_t last = std::min(first + kReflectors, steps);
      if (last - first < kReflectors)
        for (int64_t k = last; k-- > first;) reflect(in.matrix(i), k, k, taus[i * steps + k], q, k);
      else
        Reflectors<W>(in.matrix(i), first, last, taus.at(i * steps + first))
            .apply({&q(first, first), q.columns}, q.columns - first, false);
    }
  }
  store_wide(out.values, e.out[0]);
}

}  // namespace

extern const Op op_householder_product{.name = "householder_product",
                                       .kind = OpKind::other,
                                       .arity = 2,
                                       .infer = infer,
                                       .eval = [](const Eval& e) -> Result<void> {
                                         dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                                         return {};
                                       },
                                       .cut = {.whole_last = 2}};

}  // namespace trine::ops
