// to_local: a value of the whole program becomes each device's part of it, cut along `sharding`; where a program
// goes over to being written for one device (JAX's shard_map). The partitioner takes it out. C1: ranks agree.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_to_local{.name = "to_local",
                            .arity = 1,
                            .attrs = "sharding manual_axes is_nested",
                            .infer = part_type,
                            .eval = not_partitioned};

}  // namespace trine::ops
