// Windows of gather and scatter.
#include "ops/layout/slices.h"

#include <algorithm>

namespace trine::ops {

SliceAxes gather_axes(const ir::Attrs& a) {
  return {a.ints("offset_dims"),           a.ints("collapsed_slice_dims"),
          a.ints("operand_batching_dims"), a.ints("start_indices_batching_dims"),
          a.ints("start_index_map"),       a.integer("index_vector_dim")};
}

SliceAxes scatter_axes(const ir::Attrs& a) {
  return {a.ints("update_window_dims"),           a.ints("inserted_window_dims"),
          a.ints("input_batching_dims"),          a.ints("scatter_indices_batching_dims"),
          a.ints("scatter_dims_to_operand_dims"), a.integer("index_vector_dim")};
}

// The dims of the indices without the one that holds index vectors.
static Dims batch_sizes(const Dims& indices, int64_t index_vector_dim) {
  Dims dims = indices;
  if (index_vector_dim < int64_t(dims.size())) dims.erase(dims.begin() + index_vector_dim);
  return dims;
}

Result<Dims> check_slices(const SliceAxes& axes, const ir::Type& operand, const ir::Type& indices, const Dims& sizes) {
  if (!is_integer(indices.dtype)) return fail(Code::invalid, cat("indices are ", row(indices.dtype).name));
  if (axes.index_vector_dim < 0 || axes.index_vector_dim > indices.rank())
    return fail(Code::invalid,
                cat("index_vector_dim is ", axes.index_vector_dim, "; indices have ", indices.rank(), " dims"));
  if (sizes.size() != operand.dims.size())
    return fail(Code::invalid, cat("a window has ", sizes.size(), " dims; the operand ", operand.rank()));
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] < 0 || sizes[d] > operand.dims[d])
      return fail(Code::invalid, cat("a window of ", sizes[d], " in dim ", d, ", which has ", operand.dims[d]));
  TRY(check_sorted_axes("collapsed dims", axes.collapsed, operand.rank()));
  TRY(check_sorted_axes("operand batching dims", axes.operand_batching, operand.rank()));
  TRY(check_axes("indices batching dims", axes.indices_batching, indices.rank()));
  TRY(check_axes("the map of indices", axes.index_map, operand.rank()));
  const int64_t vector = axes.index_vector_dim < indices.rank() ? indices.dims[size_t(axes.index_vector_dim)] : 1;
  if (vector != int64_t(axes.index_map.size()))
    return fail(Code::invalid, cat("index vectors have ", vector, " entries; ", axes.index_map.size(), " are mapped"));
  if (axes.operand_batching.size() != axes.indices_batching.size())
    return fail(Code::invalid, "the operand and the indices differ in the number of batching dims");
  for (size_t i = 0; i < axes.operand_batching.size(); ++i) {
    const int64_t o = axes.operand_batching[i], s = axes.indices_batching[i];
    if (s == axes.index_vector_dim) return fail(Code::invalid, "index_vector_dim cannot be a batching dim");
    if (holds(axes.collapsed, o) || holds(axes.index_map, o))
      return fail(Code::invalid, cat("dim ", o, " is batching and collapsed or mapped as well"));
    if (operand.dims[size_t(o)] != indices.dims[size_t(s)])
      return fail(Code::invalid, cat("batching dim ", i, " has ", operand.dims[size_t(o)], " in the operand and ",
                                     indices.dims[size_t(s)], " in the indices"));
  }
  Dims window;
  for (int64_t d = 0; d < operand.rank(); ++d) {
    const bool is_dropped = holds(axes.collapsed, d) || holds(axes.operand_batching, d);
    if (!is_dropped)
      window.push_back(sizes[size_t(d)]);
    else if (sizes[size_t(d)] > 1)
      return fail(Code::invalid, cat("dim ", d, " is dropped, but its window has ", sizes[size_t(d)], " elements"));
  }
  const Dims batch = batch_sizes(indices.dims, axes.index_vector_dim);
  TRY(check_sorted_axes("window dims", axes.window, int(batch.size() + axes.window.size())));
  if (window.size() != axes.window.size())
    return fail(Code::invalid, cat(axes.window.size(), " window dims are named; a window has ", window.size()));
  Dims many;
  for (size_t d = 0, w = 0, b = 0; d < batch.size() + window.size(); ++d)
    many.push_back(holds(axes.window, int64_t(d)) ? window[w++] : batch[b++]);
  return many;
}

// Leading offsets that are neighbours in both lists; all chunks of that length are, as windows are regular.
static int64_t run_length(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  size_t run = 1;
  while (run < a.size() && a[run] == a[0] + int64_t(run) && b[run] == b[0] + int64_t(run)) ++run;
  return int64_t(run);
}

SlicePlan plan_slices(const SliceAxes& axes, const Dims& operand, const Dims& many, const TensorView& indices,
                      const Dims& sizes) {
  SlicePlan plan{.sizes = sizes};
  const ir::Ints batch_axes = axes_besides(int(many.size()), axes.window);
  plan.many_starts = offsets_of(many, batch_axes);
  const std::vector<int64_t> many_window = offsets_of(many, axes.window);
  std::vector<int64_t> operand_window;
  const Dims strides = row_major_strides(operand);
  for_each_index(sizes, [&](const Dims& index, int64_t) { operand_window.push_back(offset_of(index, strides)); });
  if (many_window.empty() || operand_window.empty() || plan.many_starts.empty()) return plan;
  plan.run = run_length(many_window, operand_window);
  for (size_t i = 0; i < many_window.size(); i += size_t(plan.run)) {
    plan.many_runs.push_back(many_window[i]);
    plan.operand_runs.push_back(operand_window[i]);
  }
  const WideArray<int64_t> vectors = load_indices(indices);
  Dims index_strides = row_major_strides(indices.dims);
  const bool has_dim = axes.index_vector_dim < int64_t(indices.dims.size());
  const int64_t step = has_dim ? index_strides[size_t(axes.index_vector_dim)] : 1;
  if (has_dim) index_strides.erase(index_strides.begin() + axes.index_vector_dim);
  Dims start(operand.size(), 0);
  for_each_index(batch_sizes(indices.dims, axes.index_vector_dim), [&](const Dims& at, int64_t) {
    std::fill(start.begin(), start.end(), 0);
    const int64_t vector = offset_of(at, index_strides);
    for (size_t i = 0; i < axes.index_map.size(); ++i)
      start[size_t(axes.index_map[i])] = vectors[vector + int64_t(i) * step];
    for (size_t i = 0; i < axes.operand_batching.size(); ++i) {
      const int64_t s = axes.indices_batching[i];
      start[size_t(axes.operand_batching[i])] = at[size_t(s - (s > axes.index_vector_dim))];
    }
    plan.starts.insert(plan.starts.end(), start.begin(), start.end());
  });
  return plan;
}

}  // namespace trine::ops
