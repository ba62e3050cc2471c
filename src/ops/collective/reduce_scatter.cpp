// reduce_scatter: all_reduce, of which each device of a group keeps its part along scatter_dimension.
// C1: that dim divides by the size of the group. C2: as all_reduce's.
#include <array>

#include "ops/collective/collective.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

extern const Op op_reduce_scatter{
    .name = "reduce_scatter",
    .kind = OpKind::collective,
    .arity = 1,
    .attrs = "kind scatter_dimension replica_groups group_size channel_id use_global_device_ids",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      TRY(check_combined(call, std::array{call.inputs[0].dtype}));
      return collective_types(call, call.attrs.integer("scatter_dimension", -1), 1, group_size(call.attrs));
    },
    .eval = copy_alone};

}  // namespace trine::ops
