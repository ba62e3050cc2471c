// tridiagonal_solve: x with A x = b, for A of a diagonal d, dl below and du above it; of each system the first dl and
// the last du are not read. Rows are swapped for the larger pivot, as LAPACK's gtsv. A singular system gives NaNs, or
// with `perturb` what it has with its pivots moved away from zero, by the dtype's epsilon of the largest element. C1:
// dl, d and du have one shape [.., n] and b's dtype; b is [.., n, k].
#include <array>
#include <limits>

#include "ops/linalg/matrix.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& b = call.inputs[3];
  TRY(check_matrices(b));
  const Dims diagonal(b.dims.begin(), b.dims.end() - 1);
  for (size_t i = 0; i < 3; ++i)
    if (call.inputs[i].dtype != b.dtype || call.inputs[i].dims != diagonal)
      return fail(Code::invalid, cat("a diagonal is ", ir::text(call.inputs[i]), "; ", shape_text(b.dtype, diagonal),
                                     " was expected for ", ir::text(b)));
  return std::vector<ir::Type>{ir::tensor_type(b.dtype, b.dims)};
}

double size_of(double v) { return std::abs(v); }
double size_of(Complex128 v) { return std::abs(v.real()) + std::abs(v.imag()); }

template <class W>
struct System {
  W *dl, *d, *du, *beyond;  // `beyond` fills up above du where rows are swapped
  Matrix<W> b;

  void eliminate(int64_t k) {
    beyond[k] = W(0);
    const bool is_swapped = size_of(d[k]) < size_of(dl[k + 1]);
    if (is_swapped) {
      std::swap(d[k], dl[k + 1]);
      std::swap(du[k], d[k + 1]);
      if (k + 2 < b.rows) std::swap(beyond[k], du[k + 1]);
      for (int64_t c = 0; c < b.columns; ++c) std::swap(b(k, c), b(k + 1, c));
    }
    if (dl[k + 1] == W(0)) return;
    const W factor = dl[k + 1] / d[k];
    d[k + 1] -= factor * du[k];
    if (k + 2 < b.rows) du[k + 1] -= factor * beyond[k];
    for (int64_t c = 0; c < b.columns; ++c) b(k + 1, c) -= factor * b(k, c);
  }
  void move_pivots(double epsilon) {
    double largest = 0;
    for (int64_t k = 0; k < b.rows; ++k)
      largest = std::max({largest, size_of(d[k]), k + 1 < b.rows ? size_of(du[k]) : 0, size_of(beyond[k])});
    const double least = epsilon * (largest > 0 ? largest : 1);
    for (int64_t k = 0; k < b.rows; ++k)
      if (size_of(d[k]) < least) d[k] = std::copysign(least, real_of(d[k]));
  }
  // `epsilon` zero: pivots stay as they are.
  void solve(double epsilon) {
    const int64_t n = b.rows;
    if (n == 0) return;
    for (int64_t k = 0; k + 1 < n; ++k) eliminate(k);
    beyond[n - 1] = W(0);
    if (epsilon > 0) move_pivots(epsilon);
    for (int64_t k = 0; k < n; ++k)
      if (d[k] == W(0)) return void(std::fill_n(b.data, n * b.columns, W(std::numeric_limits<double>::quiet_NaN())));
    for (int64_t k = n; k-- > 0;)
      for (int64_t c = 0; c < b.columns; ++c) {
        if (k + 1 < n) b(k, c) -= du[k] * b(k + 1, c);
        if (k + 2 < n) b(k, c) -= beyond[k] * b(k + 2, c);
        b(k, c) /= d[k];
      }
  }
};

template <class W>
void run(const Eval& e) {
  std::array<WideArray<W>, 3> diagonals = {load_wide<W>(e.in[0]), load_wide<W>(e.in[1]), load_wide<W>(e.in[2])};
  MatrixBatch<W> batch(e.in[3]);
  const int64_t n = batch.rows;
  WideArray<W> beyond(n);
  const Dtype real = is_complex(e.in[3].dtype) ? row(e.in[3].dtype).element : e.in[3].dtype;
  const int digits = real == Dtype::f64 ? 52 : row(real).format.mantissa_bits;
  const double epsilon = e.node.attrs.flag("perturb") ? std::ldexp(1.0, -digits) : 0;
  for (int64_t i = 0; i < batch.count; ++i)
    System<W>{diagonals[0].at(i * n), diagonals[1].at(i * n), diagonals[2].at(i * n), beyond.at(0), batch.matrix(i)}
        .solve(epsilon);
  store_wide(batch.values, e.out[0]);
}

}  // namespace

extern const Op op_tridiagonal_solve{.name = "tridiagonal_solve",
                                     .kind = OpKind::other,
                                     .arity = 4,
                                     .attrs = "perturb",
                                     .infer = infer,
                                     .eval = [](const Eval& e) -> Result<void> {
                                       dispatch_inexact(e.in[3].dtype, [&]<class W>() { run<W>(e); });
                                       return {};
                                     },
                                     .cut = {.whole_last = 1}};

}  // namespace trine::ops
