// sharding_constraint: the value itself, wanted on the devices as `sharding` (Shardy's text) says.
// The partitioner's business; a program for one device has none.
#include <cstring>

#include "ops/shape.h"

namespace trine::ops {

extern const Op op_sharding_constraint{
    .name = "sharding_constraint",
    .arity = 1,
    .attrs = "sharding",
    .infer = [](const Call& call) -> Inferred { return one_type(call.inputs[0].dtype, call.inputs[0].dims); },
    .eval = [](const Eval& e) -> Result<void> {
      std::memcpy(e.out[0].data, e.in[0].data, e.out[0].bytes());
      return {};
    }};

}  // namespace trine::ops
