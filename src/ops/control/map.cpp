// map: the region, of scalars, on the elements of the inputs at each index. C1: inputs have equal dims. C2: the region
// takes a scalar of each input and gives one scalar. `dimensions` names all dims and has no meaning.
#include "ops/control/region.h"
#include "ops/evaluate.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.regions.size() != 1 || call.inputs.empty()) return fail(Code::invalid, "needs an input and a region");
  std::vector<ir::Type> scalars;
  for (const ir::Type& t : call.inputs) {
    if (t.dims != call.inputs[0].dims || t.is_token)
      return fail(Code::invalid, cat("dims of ", ir::text(call.inputs[0]), " and ", ir::text(t), " differ"));
    scalars.push_back(ir::tensor_type(t.dtype, {}));
  }
  TRY(check_params(call.regions[0], scalars, "the region"));
  const std::vector<ir::Type> results = result_types(call.regions[0]);
  if (results.size() != 1 || results[0].rank() != 0 || results[0].is_token)
    return fail(Code::invalid, "the region must give one scalar");
  return one_type(results[0].dtype, call.inputs[0].dims);
}

Result<void> eval(const Eval& e) {
  std::vector<Tensor> args(e.in.size());
  for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) {
    for (size_t k = 0; k < args.size(); ++k) {
      args[k] = Tensor::make(e.in[k].dtype, {});
      copy_element(args[k].view(), 0, e.in[k], i);
    }
    const auto result = TRY(e.regions.run(e.node.regions[0], args));
    copy_element(e.out[0], i, result[0].view(), 0);
  }
  return {};
}

}  // namespace

extern const Op op_map{.name = "map", .kind = OpKind::control, .attrs = "dimensions", .infer = infer, .eval = eval};

}  // namespace trine::ops
