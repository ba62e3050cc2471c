// What the three batch_norm ops share: the type rule, and walking a tensor feature by feature.
#pragma once

#include "ops/axes.h"
#include "ops/wide.h"

namespace trine::ops {

// The first input is a tensor of floats, `vectors` names the inputs after it with one element per feature.
Result<ir::Type> check_batch_norm(const Call& call, size_t first_vector, size_t last_vector);

struct Features {
  std::vector<int64_t> starts = {}, elements = {};  // offsets of each feature, and of the elements of one

  Features(const Dims& dims, int64_t feature)
      : starts(offsets_of(dims, {feature})), elements(offsets_of(dims, axes_besides(int(dims.size()), {feature}))) {}
};

}  // namespace trine::ops
