// tridiagonal: each Hermitian matrix made tridiagonal by similarity, as LAPACK's sytrd leaves it: the reflectors in the
// triangle that was read (`lower`), the diagonal, the diagonal beside it (both real), and the reflectors' taus.
// C1: the matrices are square, not empty.
#include "ops/linalg/householder.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  TRY(check_square(x));
  if (x.dims.back() == 0) return fail(Code::invalid, cat("the matrices of ", ir::text(x), " are empty"));
  const Dtype real = is_complex(x.dtype) ? row(x.dtype).element : x.dtype;
  const Dims diagonal(x.dims.begin(), x.dims.end() - 1);
  Dims beside = diagonal;
  --beside.back();
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims), ir::tensor_type(real, diagonal),
                               ir::tensor_type(real, beside), ir::tensor_type(x.dtype, beside)};
}

// From the lower triangle; of the upper one the same with both orders reversed.
template <class W>
struct Reduction {
  Matrix<W> a;
  bool is_lower = true;
  WideArray<W> scratch = WideArray<W>(a.rows * a.rows);
  Matrix<W> t = {scratch.data.get(), a.rows, a.rows};

  int64_t mirrored(int64_t i) const { return is_lower ? i : a.rows - 1 - i; }
  void run(W* taus) {
    const int64_t n = a.rows;
    for (int64_t r = 0; r < n; ++r) {
      t(r, r) = real_of(a(mirrored(r), mirrored(r)));
      for (int64_t c = 0; c < r; ++c) t(c, r) = conj_of(t(r, c) = a(mirrored(r), mirrored(c)));
    }
    for (int64_t k = 0; k + 1 < n; ++k) {
      const W tau = make_reflector(t, k + 1, k);
      taus[is_lower ? k : n - 2 - k] = tau;
      reflect_right(t, k + 1, k, tau, t, k + 1);
      reflect(t, k + 1, k, conj_of(tau), t, k + 1);
    }
    for (int64_t r = 0; r < n; ++r)
      for (int64_t c = 0; c <= r; ++c) a(mirrored(r), mirrored(c)) = t(r, c);
  }
};

template <class W>
void run(const Eval& e) {
  const bool is_lower = e.node.attrs.flag("lower", true);
  MatrixBatch<W> batch(e.in[0]);
  const int64_t n = batch.rows;
  WideArray<W> taus(e.out[3].elements());
  WideArray<double> diagonal(e.out[1].elements()), beside(e.out[2].elements());
  for (int64_t i = 0; i < batch.count; ++i) {
    const Matrix<W> a = batch.matrix(i);
    Reduction<W>{a, is_lower}.run(taus.at(i * (n - 1)));
    for (int64_t k = 0; k < n; ++k) diagonal[i * n + k] = real_of(a(k, k));
    for (int64_t k = 0; k + 1 < n; ++k) beside[i * (n - 1) + k] = real_of(is_lower ? a(k + 1, k) : a(k, k + 1));
  }
  store_wide(batch.values, e.out[0]);
  store_wide(diagonal, e.out[1]);
  store_wide(beside, e.out[2]);
  store_wide(taus, e.out[3]);
}

}  // namespace

extern const Op op_tridiagonal{.name = "tridiagonal",
                               .kind = OpKind::other,
                               .arity = 1,
                               .attrs = "lower",
                               .infer = infer,
                               .eval = [](const Eval& e) -> Result<void> {
                                 dispatch_inexact(e.in[0].dtype, [&]<class W>() { run<W>(e); });
                                 return {};
                               },
                               .cut = {.whole_last = 2}};

}  // namespace trine::ops
