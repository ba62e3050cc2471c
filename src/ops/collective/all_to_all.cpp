// all_to_all: cuts the value into split_count parts along split_dimension, sends the i-th to the i-th device of the
// group, and joins what arrives along concat_dimension. C1: the first dim divides by split_count, the other grows by
// it.
#include "ops/collective/collective.h"

namespace trine::ops {

extern const Op op_all_to_all{
    .name = "all_to_all",
    .kind = OpKind::collective,
    .attrs = "split_dimension concat_dimension split_count replica_groups group_size channel_id",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      const int64_t parts = call.attrs.integer("split_count", 1);
      const auto split = TRY(collective_types(call, call.attrs.integer("split_dimension", -1), 1, parts));
      return collective_types({split, call.attrs}, call.attrs.integer("concat_dimension", -1), parts, 1);
    },
    .eval = copy_alone};

}  // namespace trine::ops
