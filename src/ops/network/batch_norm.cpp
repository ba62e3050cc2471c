// The type rule of the batch_norm ops.
#include "ops/network/batch_norm.h"

namespace trine::ops {

Result<ir::Type> check_batch_norm(const Call& call, size_t first_vector, size_t last_vector) {
  const ir::Type& x = call.inputs[0];
  const int64_t feature = call.attrs.integer("feature_index", -1);
  if (!is_floating(x.dtype)) return fail(Code::invalid, cat(ir::text(x), " holds no floats"));
  if (feature < 0 || feature >= x.rank())
    return fail(Code::invalid, cat("feature_index is ", feature, "; the input has ", x.rank(), " dims"));
  const ir::Type vector = ir::tensor_type(x.dtype, {x.dims[size_t(feature)]});
  for (size_t i = first_vector; i <= last_vector; ++i)
    if (!ir::same_tensor(call.inputs[i], vector))
      return fail(Code::invalid,
                  cat("input ", i, " is ", ir::text(call.inputs[i]), "; ", ir::text(vector), " was expected"));
  return vector;
}

}  // namespace trine::ops
