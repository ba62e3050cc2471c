// triangular_solve: x with op(a) x = b (left_side) or x op(a) = b, for a triangular a; op is by transpose_a:
// NO_TRANSPOSE, TRANSPOSE or ADJOINT. Only the named triangle of a is read, without its diagonal if that is unit.
// C1: a is square and has b's dtype and batch. C2: a's size is b's rows (left_side) or columns.
#include "ops/lines.h"
#include "ops/matrix.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &a = call.inputs[0], &b = call.inputs[1];
  TRY(check_square(a));
  TRY(check_matrices(b));
  const bool is_left = call.attrs.flag("left_side");
  const bool fits = a.dtype == b.dtype && a.dims.size() == b.dims.size() &&
                    std::equal(a.dims.begin(), a.dims.end() - 2, b.dims.begin()) &&
                    a.dims.back() == b.dims[b.dims.size() - (is_left ? 2 : 1)];
  if (!fits) return fail(Code::invalid, cat("a is ", ir::text(a), ", which does not fit ", ir::text(b)));
  const std::string_view transpose = call.attrs.text("transpose_a", "NO_TRANSPOSE");
  if (transpose != "NO_TRANSPOSE" && transpose != "TRANSPOSE" && transpose != "ADJOINT")
    return fail(Code::invalid,
                cat("transpose_a is `", transpose, "`; NO_TRANSPOSE, TRANSPOSE or ADJOINT was expected"));
  return std::vector<ir::Type>{ir::tensor_type(b.dtype, b.dims)};
}

// op(a), with the unread triangle zero.
template <class W>
void prepare(const ir::Attrs& attrs, Matrix<W> a, Matrix<W> to) {
  const bool is_lower = attrs.flag("lower"), is_unit = attrs.flag("unit_diagonal");
  const std::string_view transpose = attrs.text("transpose_a", "NO_TRANSPOSE");
  for (int64_t r = 0; r < a.rows; ++r)
    for (int64_t c = 0; c < a.rows; ++c) {
      W v = r == c ? (is_unit ? W(1) : a(r, c)) : (r > c) == is_lower ? a(r, c) : W(0);
      if (transpose == "ADJOINT") v = conj_of(v);
      (transpose == "NO_TRANSPOSE" ? to(r, c) : to(c, r)) = v;
    }
}

// Rows of b, from the end of a where one unknown stands alone.
template <class W>
void solve_left(Matrix<W> a, Matrix<W> b, bool is_lower) {
  for (int64_t step = 0; step < a.rows; ++step) {
    const int64_t r = is_lower ? step : a.rows - 1 - step;
    const int64_t first = is_lower ? 0 : r + 1, last = is_lower ? r : a.rows;
    for (int64_t k = first; k < last; ++k) subtract_line(&b(r, 0), a(r, k), &b(k, 0), b.columns);
    for (int64_t c = 0; c < b.columns; ++c) b(r, c) /= a(r, r);
  }
}

template <class W>
void solve_right(Matrix<W> a, Matrix<W> b, bool is_lower) {
  for (int64_t r = 0; r < b.rows; ++r)
    for (int64_t step = 0; step < a.rows; ++step) {
      const int64_t c = is_lower ? a.rows - 1 - step : step;
      const W x = b(r, c) /= a(c, c);
      const int64_t first = is_lower ? 0 : c + 1, last = is_lower ? c : a.rows;
      subtract_line(&b(r, 0) + first, x, &a(c, 0) + first, last - first);
    }
}

template <class W>
void run(const Eval& e) {
  const ir::Attrs& attrs = e.node.attrs;
  MatrixBatch<W> a(e.in[0]), b(e.in[1]);
  WideArray<W> prepared(a.rows * a.rows);
  const bool is_turned = attrs.text("transpose_a", "NO_TRANSPOSE") != "NO_TRANSPOSE";
  const bool is_lower = attrs.flag("lower") != is_turned;
  for (int64_t i = 0; i < a.count; ++i) {
    Matrix<W> p{prepared.data.get(), a.rows, a.rows};
    prepare(attrs, a.matrix(i), p);
    attrs.flag("left_side") ? solve_left(p, b.matrix(i), is_lower) : solve_right(p, b.matrix(i), is_lower);
  }
  store_wide(b.values, e.out[0]);
}

}  // namespace

extern const Op op_triangular_solve{.name = "triangular_solve",
                                    .kind = OpKind::other,
                                    .arity = 2,
                                    .attrs = "left_side lower unit_diagonal transpose_a",
                                    .infer = infer,
                                    .eval = [](const Eval& e) -> Result<void> {
                                      dispatch_inexact(e.in[1].dtype, [&]<class W>() { run<W>(e); });
                                      return {};
                                    }};

}  // namespace trine::ops
