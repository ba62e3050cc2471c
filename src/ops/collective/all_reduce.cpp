// all_reduce: each device of a group gets the group's values combined, by `kind` or by a region.
// C1: results are as the inputs. C2: the kind is defined for the dtype, or the region takes and gives its scalars.
#include <array>

#include "ops/collective/collective.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

extern const Op op_all_reduce{.name = "all_reduce",
                              .kind = OpKind::collective,
                              .attrs = "kind replica_groups group_size channel_id use_global_device_ids",
                              .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                                for (const ir::Type& t : call.inputs) TRY(check_combined(call, std::array{t.dtype}));
                                return same_as_inputs(call);
                              },
                              .eval = copy_alone};

}  // namespace trine::ops
