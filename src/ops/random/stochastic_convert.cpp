// stochastic_convert: f32 elements in the declared floating format, each rounded up or down with the odds of its
// distance to both. Words of chance follow `seed` and how many elements this process has rounded before, so that the
// same program run twice rounds differently, and a process run twice alike. C1: f32 to a floating format of the same
// dims.
#include <atomic>

#include "base/number/convert.h"
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.inputs[0].dtype != Dtype::f32) return fail(Code::invalid, "its input must be f32");
  if (call.declared.size() != 1 || row(call.declared[0].dtype).kind != DtypeKind::floating ||
      row(call.declared[0].dtype).bits < 8)
    return fail(Code::invalid, "its result type must be given, of a floating format of at least 8 bits");
  return one_type(call.declared[0].dtype, call.inputs[0].dims);
}

Result<void> eval(const Eval& e) {
  static std::atomic<uint64_t> rounded = 0;
  const auto n = size_t(e.out[0].elements());
  Rounding rounding{RoundingMode::stochastic, uint64_t(e.node.attrs.integer("seed")), rounded.fetch_add(n)};
  round_row(e.in[0].as<float>(), e.out[0].data, e.out[0].dtype, n, rounding);
  return {};
}

}  // namespace

extern const Op op_stochastic_convert{
    .name = "stochastic_convert", .arity = 1, .attrs = "seed", .infer = infer, .eval = eval};

}  // namespace trine::ops
