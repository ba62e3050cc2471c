// partition_id: the number of this device's partition as u32[]; 0 for a program alone on one device.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_partition_id{.name = "partition_id",
                                .kind = OpKind::collective,
                                .arity = 0,
                                .infer = [](const Call&) -> Result<std::vector<ir::Type>> {
                                  return std::vector<ir::Type>{ir::tensor_type(Dtype::u32, {})};
                                },
                                .eval = [](const Eval& e) -> Result<void> {
                                  *e.out[0].as<uint32_t>() = 0;
                                  return {};
                                }};

}  // namespace trine::ops
