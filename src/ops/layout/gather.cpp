// gather: windows of the operand at given starts, side by side. C1: the dimension numbers fit (ops/layout/slices.h).
// A start whose window would leave the operand is moved back until it does not.
#include <algorithm>
#include <cstring>

#include "ops/layout/slices.h"

namespace trine::ops {

extern const Op op_gather{
    .name = "gather",
    .kind = OpKind::shape,
    .arity = 2,
    .attrs =
        "offset_dims collapsed_slice_dims operand_batching_dims "
        "start_indices_batching_dims start_index_map index_vector_dim slice_sizes "
        "indices_are_sorted",
    .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
      Dims dims =
          TRY(check_slices(gather_axes(call.attrs), call.inputs[0], call.inputs[1], call.attrs.ints("slice_sizes")));
      return std::vector<ir::Type>{ir::tensor_type(call.inputs[0].dtype, std::move(dims))};
    },
    .eval = [](const Eval& e) -> Result<void> {
      const Dims& dims = e.in[0].dims;
      const SlicePlan plan =
          plan_slices(gather_axes(e.node.attrs), dims, e.out[0].dims, e.in[1], e.node.attrs.ints("slice_sizes"));
      const Dims strides = row_major_strides(dims);
      if (!plan.windows()) std::memset(e.out[0].data, 0, e.out[0].bytes());  // windows of nothing
      for (size_t w = 0; w < plan.windows(); ++w) {
        int64_t from = 0;
        for (size_t d = 0; d < dims.size(); ++d)
          from += strides[d] * std::clamp<int64_t>(plan.starts[w * dims.size() + d], 0, dims[d] - plan.sizes[d]);
        for (size_t r = 0; r < plan.many_runs.size(); ++r)
          copy_run(e.out[0], plan.many_starts[w] + plan.many_runs[r], e.in[0], from + plan.operand_runs[r], plan.run);
      }
      return {};
    }};

}  // namespace trine::ops
