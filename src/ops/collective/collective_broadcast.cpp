// collective_broadcast: each device of a group gets the value of the group's first. C1: results are as the inputs.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_collective_broadcast{.name = "collective_broadcast",
                                        .kind = OpKind::collective,
                                        .attrs = "replica_groups group_size channel_id",
                                        .infer = same_as_inputs,
                                        .eval = copy_alone};

}  // namespace trine::ops
