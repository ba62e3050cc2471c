// row_gather: elements of rows. Of x [R, columns] and indices s32[Q, each], R a multiple of Q, result row r holds the
// elements of x's row r at the indices of row r / (R / Q). x may be one row instead, which all of R then read.
// C1: x has two dims and indices are s32 of two. C2: the result is [R, each] of x's dtype, R the rows of x where it has
// more than one, and a multiple of Q. An index outside the row is an error.
#include "ops/internal.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type &x = call.inputs[0], &indices = call.inputs[1];
  if (x.rank() != 2 || indices.rank() != 2 || indices.dtype != Dtype::s32)
    return fail(Code::invalid, "x must have two dims, and places be s32 of two");
  if (call.declared.size() != 1) return fail(Code::invalid, "its one result type must be given");
  const ir::Type& out = call.declared[0];
  const int64_t lists = indices.dims[0];
  const auto is_multiple = [&](int64_t rows) { return lists == 0 ? rows == 0 : rows % lists == 0; };
  if (out.rank() != 2 || out.dtype != x.dtype || out.dims[1] != indices.dims[1] ||
      (x.dims[0] != 1 && out.dims[0] != x.dims[0]) || !is_multiple(out.dims[0]))
    return fail(Code::invalid,
                cat("the result is ", ir::text(out), "; ", row(x.dtype).name, "[R,", indices.dims[1],
                    "] was expected, R ", x.dims[0] == 1 ? "" : cat(x.dims[0], " and "), "a multiple of ", lists));
  return one_type(out.dtype, out.dims);
}

Result<void> eval(const Eval& e) {
  const int64_t rows = e.out[0].dims[0], each = e.out[0].dims[1], columns = e.in[0].dims[1];
  const bool is_one = e.in[0].dims[0] == 1;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t list = r / (rows / e.in[1].dims[0]);
    for (int64_t i = 0; i < each; ++i) {
      const int64_t index = integer_at(e.in[1], list * each + i);
      if (index < 0 || index >= columns)
        return fail(Code::out_of_range, cat("place ", index, " in a row of ", columns));
      copy_element(e.out[0], r * each + i, e.in[0], (is_one ? 0 : r * columns) + index);
    }
  }
  return {};
}

}  // namespace

extern const Op op_row_gather{
    .name = "row_gather", .kind = OpKind::shape, .arity = 2, .infer = infer, .eval = eval, .is_internal = true};

}  // namespace trine::ops
