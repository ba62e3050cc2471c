// qr: the QR factorisation of each matrix as LAPACK's geqrf leaves it: R in the upper triangle, the reflectors below
// it, and their taus [.., min(rows, columns)] as second result. C1: the input holds matrices.
#include "ops/linalg/householder.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_matrices(x));
  Dims taus(x.dims.begin(), x.dims.end() - 2);
  taus.push_back(std::min(x.dims[x.dims.size() - 2], x.dims.back()));
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims), ir::tensor_type(x.dtype, std::move(taus))};
}

template <class W>
void run(const Eval& e) {
  MatrixBatch<W> batch(e.in[0]);
  const int64_t steps = e.out[1].dims.back();
  WideArray<W> taus(e.out[1].elements());
  for (int64_t i = 0; i < batch.count; ++i) {
    const Matrix<W> a = batch.matrix(i);
    for (int64_t first = 0; first < steps; first += kReflectors) {
      const int64_t last = std::min(first + kReflectors, steps);
      for (int64_t k = first; k < last; ++k) {
        const W tau = taus[i * steps + k] = make_reflector(a, k, k);
        reflect(a, k, k, conj_of(tau), a, k + 1, last);
      }
      if (last == a.columns) continue;
      Reflectors<W>(a, first, last, taus.at(i * steps + first))
          .apply({&a(first, last), a.columns}, a.columns - last, true);
    }
  }
  store_wide(batch.values, e.out[0]);
  store_wide(taus, e.out[1]);
}

}  // namespace

extern const Op op_qr{.name = "qr",
                      .kind = OpKind::other,
                      .arity = 1,
                      .infer = infer,
                      .eval = [](const Eval& e) -> Result<void> {
                        dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                        return {};
                      },
                      .cut = {.whole_last = 2}};

}  // namespace trine::ops
