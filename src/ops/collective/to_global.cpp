// to_global: the devices' parts become a value of the whole program again, joined along `sharding`: the end of what
// to_local began. The partitioner takes it out. C1: ranks agree.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_to_global{.name = "to_global",
                             .arity = 1,
                             .attrs = "sharding manual_axes is_nested",
                             .infer = part_type,
                             .eval = not_partitioned};

}  // namespace trine::ops
