// Where gather reads and scatter writes: windows of an operand, one per index vector, as runs of neighbours.
// Not what happens to an index out of bounds: each of the two ops has its own rule.
#pragma once

#include "ops/axes.h"
#include "ops/wide.h"

namespace trine::ops {

// The dimension numbers of both ops; `many` is gather's result or scatter's updates.
struct SliceAxes {
  const ir::Ints& window;            // dims of `many` that run over a window
  const ir::Ints& collapsed;         // operand dims with a window of one, absent from `many`
  const ir::Ints& operand_batching;  // operand dims stepped together with ...
  const ir::Ints& indices_batching;  // ... these dims of the indices
  const ir::Ints& index_map;         // operand dim of each entry of an index vector
  int64_t index_vector_dim = 0;
};

SliceAxes gather_axes(const ir::Attrs& attrs);
SliceAxes scatter_axes(const ir::Attrs& attrs);

// Checks the numbers against the types and gives the dims of `many` for windows of these sizes.
Result<Dims> check_slices(const SliceAxes& axes, const ir::Type& operand, const ir::Type& indices, const Dims& sizes);

struct SlicePlan {
  Dims sizes = {};                                         // of a window, per operand dim
  std::vector<int64_t> many_starts = {};                   // of each window in `many`
  std::vector<int64_t> many_runs = {}, operand_runs = {};  // of each run within a window
  int64_t run = 0;                                         // elements per run
  std::vector<int64_t> starts = {};  // of each window in the operand, per dim, as given: may be out of bounds

  size_t windows() const { return many_runs.empty() ? 0 : many_starts.size(); }
};

SlicePlan plan_slices(const SliceAxes& axes, const Dims& operand, const Dims& many, const TensorView& indices,
                      const Dims& sizes);

}  // namespace trine::ops
