// optimization_barrier: each input as it is; nothing may be moved across.
#include <cstring>

#include "ops/shape.h"

namespace trine::ops {

extern const Op op_optimization_barrier{
    .name = "optimization_barrier",
    .infer = [](const Call& call) -> Inferred {
      std::vector<ir::Type> types;
      for (const ir::Type& t : call.inputs)
        types.push_back(t.is_token ? ir::token_type() : ir::tensor_type(t.dtype, t.dims));
      return types;
    },
    .eval = [](const Eval& e) -> Result<void> {
      for (size_t i = 0; i < e.out.size(); ++i)
        if (!e.node.types[i].is_token) std::memcpy(e.out[i].data, e.in[i].data, e.out[i].bytes());
      return {};
    },
    .takes_tokens = true};

}  // namespace trine::ops
