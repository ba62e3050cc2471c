// all_gather: each device of a group gets all their values side by side along all_gather_dim.
// C1: that dim grows by the size of the group.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_all_gather{.name = "all_gather",
                              .kind = OpKind::collective,
                              .attrs = "all_gather_dim replica_groups group_size channel_id use_global_device_ids",
                              .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                                return collective_types(call, call.attrs.integer("all_gather_dim", -1),
                                                        group_size(call.attrs), 1);
                              },
                              .eval = copy_alone};

}  // namespace trine::ops
