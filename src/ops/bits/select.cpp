// select: a where pred holds, else b; inputs (pred, a, b). C1: a and b have one type. C2: pred is a bool of their dims,
// or a scalar one.
#include "ops/shape.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& pred = call.inputs[0];
  if (pred.dtype != Dtype::boolean || (!pred.dims.empty() && pred.dims != call.inputs[1].dims))
    return fail(Code::invalid, cat("pred is ", ir::text(pred), "; expected bool, scalar or of the others' dims"));
  return same_as_all({call.inputs.subspan(1), call.attrs});
}

Result<void> eval(const Eval& e) {
  const auto* pred = e.in[0].as<const uint8_t>();
  const int64_t step = e.in[0].dims.empty() ? 0 : 1;
  dispatch_element(e.out[0].dtype, [&](auto element) {
    using Storage = typename decltype(element)::Storage;
    const auto *a = e.in[1].as<const Storage>(), *b = e.in[2].as<const Storage>();
    auto* out = e.out[0].as<Storage>();
    for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) out[i] = pred[i * step] ? a[i] : b[i];
  });
  return {};
}

}  // namespace

extern const Op op_select{.name = "select",
                          .kind = OpKind::elementwise,
                          .arity = 3,
                          .infer = infer,
                          .eval = eval,
                          .host = {.op = arch::LoopOp::select}};

}  // namespace trine::ops
