// ragged_all_to_all: on each device, after the rows of its group were gathered: `sizes` rows from `from` go to `to`,
// slice by slice; rows of the output that nobody writes stay. Inputs are rows, output, from, sizes, to, and sizes
// again. C1: rows of both are alike.
#include "ops/shape.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &x = call.inputs[0], &out = call.inputs[1];
  if (x.rank() == 0 || x.rank() != out.rank() || x.dtype != out.dtype ||
      !std::equal(x.dims.begin() + 1, x.dims.end(), out.dims.begin() + 1))
    return fail(Code::invalid, cat("rows of ", ir::text(x), " do not fit ", ir::text(out)));
  for (const ir::Type& t : call.inputs.subspan(2))
    if (t.rank() != 1 || !is_integer(t.dtype) || t.dims != call.inputs[2].dims)
      return fail(Code::invalid, cat("offsets and sizes are vectors of integers, one per device; found ", ir::text(t)));
  return std::vector<ir::Type>{ir::tensor_type(out.dtype, out.dims)};
}

Result<void> eval(const Eval& e) {
  copy_run(e.out[0], 0, e.in[1], 0, e.in[1].elements());
  const auto from = load_indices(e.in[2]), sizes = load_indices(e.in[3]), to = load_indices(e.in[4]);
  const int64_t in_rows = e.in[0].dims[0], out_rows = e.out[0].dims[0];
  const int64_t width = element_count(Dims(e.in[0].dims.begin() + 1, e.in[0].dims.end()));
  for (int64_t i = 0; i < e.in[2].dims[0]; ++i) {
    if (from[i] < 0 || to[i] < 0 || sizes[i] < 0 || from[i] > in_rows || to[i] > out_rows ||
        sizes[i] > in_rows - from[i] || sizes[i] > out_rows - to[i])
      return fail(Code::out_of_range,
                  cat(sizes[i], " rows from ", from[i], " to ", to[i], "; there are ", in_rows, " and ", out_rows));
    copy_run(e.out[0], to[i] * width, e.in[0], from[i] * width, sizes[i] * width);
  }
  return {};
}

}  // namespace

extern const Op op_ragged_all_to_all{
    .name = "ragged_all_to_all", .kind = OpKind::other, .arity = 6, .infer = infer, .eval = eval};

}  // namespace trine::ops
