// while: the inputs are carried; regions {cond, body} take them all. body runs as long as cond says true.
// C1: cond gives one bool scalar. C2: body gives what it takes.
#include "ops/control/region.h"
#include "ops/evaluate.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.regions.size() != 2)
    return fail(Code::invalid, cat("has ", call.regions.size(), " regions; expected cond and body"));
  const auto &cond = call.regions[0], &body = call.regions[1];
  TRY(check_params(cond, call.inputs, "cond"));
  TRY(check_params(body, call.inputs, "body"));
  TRY(check_results(body, call.inputs, "body"));
  const ir::Type flag = ir::tensor_type(Dtype::boolean, {});
  TRY(check_results(cond, {&flag, 1}, "cond"));
  return plain_types(call.inputs);
}

Result<void> eval(const Eval& e) {
  std::vector<Tensor> carried = owned(e.in, e.node.types);
  while (true) {
    const auto more = TRY(e.regions.run(e.node.regions[0], carried));
    if (!*more[0].view().as<const uint8_t>()) break;
    carried = TRY(e.regions.run(e.node.regions[1], carried));
  }
  put_results(e, carried);
  return {};
}

}  // namespace

extern const Op op_while{.name = "while", .kind = OpKind::control, .infer = infer, .eval = eval, .takes_tokens = true};

}  // namespace trine::ops
