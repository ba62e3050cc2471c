// hessenberg: each matrix made zero below the first subdiagonal by similarity, as LAPACK's gehrd leaves it: the
// reflectors lie in the zeros, and their taus [.., n-1] are the second result. C1: the matrices are square, not empty.
#include "ops/linalg/householder.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_square(x));
  if (x.dims.back() == 0) return fail(Code::invalid, cat("the matrices of ", ir::text(x), " are empty"));
  Dims taus(x.dims.begin(), x.dims.end() - 1);
  --taus.back();
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims), ir::tensor_type(x.dtype, std::move(taus))};
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> batch(e.in[0]);
  const int64_t steps = batch.rows - 1;
  WideArray<W> taus(e.out[1].elements());
  for (int64_t i = 0; i < batch.count; ++i) {
    const Matrix<W> a = batch.matrix(i);
    for (int64_t k = 0; k < steps; ++k) {
      const W tau = taus[i * steps + k] = make_reflector(a, k + 1, k);
      reflect_right(a, k + 1, k, tau, a, 0);
      reflect(a, k + 1, k, conj_of(tau), a, k + 1);
    }
  }
  store_wide(batch.values, e.out[0]);
  store_wide(taus, e.out[1]);
}

}  // namespace

extern const Op op_hessenberg{.name = "hessenberg",
                              .kind = OpKind::other,
                              .arity = 1,
                              .infer = infer,
                              .eval = [](const Eval& e) -> Result<void> {
                                dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                                return {};
                              },
                              .cut = {.whole_last = 2}};

}  // namespace trine::ops
