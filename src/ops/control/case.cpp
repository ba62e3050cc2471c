// case: inputs (index, used ...). The branch of the index runs on the used values; the last one where it is out of
// range. C1: index is an s32 scalar. C2: branches take the used values and give the same types.
#include "ops/control/region.h"
#include "ops/evaluate.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.regions.empty() || call.inputs.empty()) return fail(Code::invalid, "needs an index and a branch");
  if (!ir::same_tensor(call.inputs[0], ir::tensor_type(Dtype::s32, {})))
    return fail(Code::invalid, cat("the index is ", ir::text(call.inputs[0]), "; expected s32[]"));
  const std::vector<ir::Type> types = result_types(call.regions[0]);
  for (const ir::Region& branch : call.regions) {
    TRY(check_params(branch, call.inputs.subspan(1), "branch"));
    TRY(check_results(branch, types, "branch"));
  }
  return plain_types(types);
}

Result<void> eval(const Eval& e) {
  const int64_t index = *e.in[0].as<const int32_t>(), last = int64_t(e.node.regions.size()) - 1;
  std::vector<ir::Type> types;
  for (const ir::Value& v : e.node.inputs) types.push_back(v.type());
  const std::vector<Tensor> used = owned(e.in.subspan(1), std::span(types).subspan(1));
  const auto& branch = e.node.regions[size_t(index < 0 || index > last ? last : index)];
  put_results(e, TRY(e.regions.run(branch, used)));
  return {};
}

}  // namespace

extern const Op op_case{.name = "case", .kind = OpKind::control, .infer = infer, .eval = eval, .takes_tokens = true};

}  // namespace trine::ops
