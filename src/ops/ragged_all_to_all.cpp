// ragged_all_to_all: sends rows of the operand, from input_offsets and as many as send_sizes, to each device of the
// group, into `output` at output_offsets; rows nobody writes keep output's. Inputs are operand, output, input_offsets,
// send_sizes, output_offsets, recv_sizes. Alone on one device it copies rows. C1: rows of operand and output are alike.
#include "ops/collective.h"
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
  if (e.in[2].dims[0] == 0) return {};
  if (e.in[2].dims[0] > 1)
    return fail(Code::unsupported,
                cat("ragged_all_to_all over ", e.in[2].dims[0], " devices; this program runs on one"));
  const int64_t from = load_indices(e.in[2])[0], rows = load_indices(e.in[3])[0], to = load_indices(e.in[4])[0];
  const int64_t in_rows = e.in[0].dims[0], out_rows = e.out[0].dims[0];
  if (from < 0 || to < 0 || rows < 0 || from > in_rows || to > out_rows || rows > in_rows - from ||
      rows > out_rows - to)
    return fail(Code::out_of_range,
                cat(rows, " rows from ", from, " to ", to, "; there are ", in_rows, " and ", out_rows));
  const int64_t width = element_count(Dims(e.in[0].dims.begin() + 1, e.in[0].dims.end()));
  copy_run(e.out[0], to * width, e.in[0], from * width, rows * width);
  return {};
}

}  // namespace

extern const Op op_ragged_all_to_all{
    .name = "ragged_all_to_all", .kind = OpKind::collective, .arity = 6, .infer = infer, .eval = eval};

}  // namespace trine::ops
