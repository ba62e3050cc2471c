// triangular_solve: x with op(a) x = b (left_side) or x op(a) = b, for a triangular a; op is by transpose_a:
// NO_TRANSPOSE, TRANSPOSE or ADJOINT. Only the named triangle of a is read, without its diagonal if that is unit.
// C1: a is square and has b's dtype and batch. C2: a's size is b's rows (left_side) or columns.
#include <algorithm>

#include "ops/linalg/blocks.h"
#include "ops/linalg/lines.h"
#include "ops/linalg/matrix.h"

namespace trine::ops {

namespace {

constexpr int64_t kStep = 8;  // unknowns found line by line before those beyond hear of them

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

// Rows of one side of a block become columns of the other: a tile of them stays in the first cache.
template <class W>
void transpose_triangle(Matrix<W> a, Matrix<W> to, bool is_lower, bool is_adjoint) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < a.rows; r0 += kTile)
    for (int64_t c0 = is_lower ? 0 : r0; c0 < (is_lower ? r0 + 1 : a.rows); c0 += kTile)
      for (int64_t r = r0; r < std::min(r0 + kTile, a.rows); ++r) {
        const int64_t begin = std::max(c0, is_lower ? 0 : r), end = std::min(c0 + kTile, is_lower ? r + 1 : a.rows);
        for (int64_t c = begin; c < end; ++c) to(c, r) = is_adjoint ? conj_of(a(r, c)) : a(r, c);
      }
}

// op(a): the triangle that is read; the other one is zero in `to`.
template <class W>
void prepare(const ir::Attrs& attrs, Matrix<W> a, Matrix<W> to) {
  const bool is_lower = attrs.flag("lower"), is_unit = attrs.flag("unit_diagonal");
  const std::string_view transpose = attrs.text("transpose_a", "NO_TRANSPOSE");
  const bool is_straight = transpose == "NO_TRANSPOSE", is_adjoint = transpose == "ADJOINT";
  if (!is_straight) transpose_triangle(a, to, is_lower, is_adjoint);
  for (int64_t r = 0; r < a.rows; ++r) {
    const int64_t begin = is_lower ? 0 : r, end = is_lower ? r + 1 : a.rows;
    if (is_straight) std::copy_n(&a(r, 0) + begin, end - begin, &to(r, 0) + begin);
    if (is_unit) to(r, r) = W(1);
  }
}

// Rows of b, from the end of a where one unknown stands alone; first what is known already goes, a block at a time.
template <class W>
void solve_left(Matrix<W> a, Matrix<W> b, bool is_lower) {
  const int64_t n = a.rows, wide = b.columns;
  for (int64_t done = 0; done < n; done += kStep) {
    const int64_t size = std::min(kStep, n - done), first = is_lower ? done : n - done - size, last = first + size;
    const int64_t known = is_lower ? 0 : last;
    if (done > 0)
      subtract_product<W>({&b(first, 0), wide}, {&a(first, known), n}, {&b(known, 0), wide}, size, wide, done);
    for (int64_t step = 0; step < size; ++step) {
      const int64_t r = is_lower ? first + step : last - 1 - step;
      const int64_t from = is_lower ? first : r + 1, to = is_lower ? r : last;
      for (int64_t k = from; k < to; ++k) subtract_line(&b(r, 0), a(r, k), &b(k, 0), wide);
      divide_line(&b(r, 0), a(r, r), wide);
    }
  }
}

template <class W>
void solve_right(Matrix<W> a, Matrix<W> b, bool is_lower) {
  const int64_t n = a.rows;
  for (int64_t done = 0; done < n; done += kStep) {
    const int64_t size = std::min(kStep, n - done), first = is_lower ? n - done - size : done, last = first + size;
    const int64_t known = is_lower ? last : 0;
    if (done > 0) subtract_product<W>({&b(0, first), n}, {&b(0, known), n}, {&a(known, first), n}, b.rows, size, done);
    for (int64_t r = 0; r < b.rows; ++r)
      for (int64_t step = 0; step < size; ++step) {
        const int64_t c = is_lower ? last - 1 - step : first + step;
        const W x = b(r, c) /= a(c, c);
        const int64_t from = is_lower ? first : c + 1, to = is_lower ? c : last;
        subtract_line(&b(r, 0) + from, x, &a(c, 0) + from, to - from);
      }
  }
}

template <class W>
void run(const Eval& e) {
  const ir::Attrs& attrs = e.node.attrs;
  MatrixBatch<W> a(e.in[0]), b(e.in[1]);
  WideArray<W> filled(a.rows * a.rows);
  const bool is_transposed = attrs.text("transpose_a", "NO_TRANSPOSE") != "NO_TRANSPOSE";
  const bool is_lower = attrs.flag("lower") != is_transposed;
  for (int64_t i = 0; i < a.count; ++i) {
    Matrix<W> p{filled.data.get(), a.rows, a.rows};
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
                                    },
                                    .cut = {.whole_last = 2}};

}  // namespace trine::ops
