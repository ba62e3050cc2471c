// partition_id: the number of this device's partition as u32[]; 0 for a program alone on one device.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_partition_id{
    .name = "partition_id", .kind = OpKind::collective, .arity = 0, .infer = device_number_type, .eval = number_alone};

}  // namespace trine::ops
