// replica_id: the number of this device's replica as u32[]; 0 for a program alone on one device.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_replica_id{
    .name = "replica_id", .kind = OpKind::collective, .arity = 0, .infer = device_number_type, .eval = number_alone};

}  // namespace trine::ops
