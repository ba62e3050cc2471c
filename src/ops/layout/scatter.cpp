// scatter: combines windows of updates into the operands, in the order of the indices, by `kind` or by a region.
// Inputs are operands, indices, updates. A window that leaves the operand in any dim is dropped whole, as XLA does.
// C1: the dimension numbers fit (ops/layout/slices.h). C2: operands have one shape, updates have theirs and their
// dtypes. C3: without a region there is one operand and a kind defined for its dtype.
#include <algorithm>

#include "ops/layout/slices.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

constexpr int64_t kLanes = 1024;

// A window's sizes follow from the updates: one where a dim is inserted or batching.
Result<Dims> window_sizes(const SliceAxes& axes, const Dims& operand, const Dims& updates) {
  TRY(check_sorted_axes("update_window_dims", axes.window, int(updates.size())));
  Dims sizes;
  for (size_t d = 0, w = 0; d < operand.size(); ++d) {
    if (holds(axes.collapsed, int64_t(d)) || holds(axes.operand_batching, int64_t(d))) {
      sizes.push_back(1);
    } else if (w == axes.window.size()) {
      return fail(Code::invalid, cat(axes.window.size(), " update_window_dims; more were expected for ", operand.size(),
                                     " operand dims"));
    } else {
      sizes.push_back(updates[size_t(axes.window[w++])]);
    }
  }
  return sizes;
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  if (call.inputs.size() < 3 || call.inputs.size() % 2 == 0)
    return fail(Code::invalid, "needs operands, indices and as many updates");
  const size_t n = call.inputs.size() / 2;
  const SliceAxes axes = scatter_axes(call.attrs);
  const ir::Type &first = call.inputs[0], &indices = call.inputs[n], &update = call.inputs[n + 1];
  Dims sizes = TRY(window_sizes(axes, first.dims, update.dims));
  for (size_t d = 0; d < sizes.size(); ++d)  // an empty dim with a window of one: every window is out of bounds
    if (first.dims[d] == 0) sizes[d] = 0;
  Dims many = TRY(check_slices(axes, first, indices, sizes));
  for (int64_t d : axes.window) many[size_t(d)] = update.dims[size_t(d)];
  std::vector<ir::Type> types;
  std::vector<Dtype> dtypes;
  for (size_t i = 0; i < n; ++i) {
    const ir::Type &x = call.inputs[i], &u = call.inputs[n + 1 + i];
    if (x.dims != first.dims || u.dims != many || u.dtype != x.dtype)
      return fail(Code::invalid,
                  cat("operand ", i, " is ", ir::text(x), " and its update ", ir::text(u), "; ",
                      shape_text(x.dtype, first.dims), " and ", shape_text(x.dtype, many), " were expected"));
    types.push_back(ir::tensor_type(x.dtype, x.dims));
    dtypes.push_back(x.dtype);
  }
  TRY(check_combined(call, dtypes));
  return types;
}

// Calls f(offset in the operand, offset in the updates) for each run of each window that is in bounds.
template <class F>
Result<void> for_each_run(const SlicePlan& plan, const Dims& dims, F&& f) {
  const Dims strides = row_major_strides(dims);
  for (size_t w = 0; w < plan.windows(); ++w) {
    bool fits = true;
    int64_t start = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      const int64_t at = plan.starts[w * dims.size() + d];
      fits &= at >= 0 && at <= dims[d] - plan.sizes[d];
      start += fits ? at * strides[d] : 0;
    }
    if (!fits) continue;
    for (size_t r = 0; r < plan.many_runs.size(); ++r)
      TRY(f(start + plan.operand_runs[r], plan.many_starts[w] + plan.many_runs[r]));
  }
  return {};
}

template <class W>
Result<void> scatter_kind(const Eval& e, const SlicePlan& plan, Kind kind) {
  WideArray<W> old(plan.run), fresh(plan.run);
  return dispatch_kind<W>(kind, [&](auto combine) {
    return for_each_run(plan, e.out[0].dims, [&](int64_t to, int64_t from) -> Result<void> {
      load_wide(e.out[0], to, plan.run, old.data.get());
      load_wide(e.in[2], from, plan.run, fresh.data.get());
      for (int64_t i = 0; i < plan.run; ++i) old[i] = combine(old[i], fresh[i]);
      store_wide(old.data.get(), plan.run, e.out[0], to);
      return {};
    });
  });
}

// Collects updates of different elements and combines them together; an element that comes again waits for its turn.
struct RegionScatter {
  const Eval& e;
  LaneBody body;
  size_t n = 0;
  std::vector<int64_t> targets = {}, sources = {};
  std::vector<uint32_t> seen = {};  // per element: the round that holds it
  uint32_t round = 1;

  Result<void> add(int64_t to, int64_t from) {
    if (seen[size_t(to)] == round || int64_t(targets.size()) == body.lanes()) TRY(flush());
    seen[size_t(to)] = round;
    targets.push_back(to);
    sources.push_back(from);
    return {};
  }
  Result<void> flush() {
    const int64_t lanes = int64_t(targets.size());
    for (size_t i = 0; i < n; ++i)
      for (int64_t l = 0; l < lanes; ++l) {
        copy_element(body.param(i), l, e.out[i], targets[size_t(l)]);
        copy_element(body.param(n + i), l, e.in[n + 1 + i], sources[size_t(l)]);
      }
    if (lanes) TRY(body.run(lanes));
    for (size_t i = 0; i < n; ++i)
      for (int64_t l = 0; l < lanes; ++l) copy_element(e.out[i], targets[size_t(l)], body.result(i), l);
    targets.clear();
    sources.clear();
    ++round;
    return {};
  }
};

Result<void> eval(const Eval& e) {
  const size_t n = e.in.size() / 2;
  for (size_t i = 0; i < n; ++i) copy_run(e.out[i], 0, e.in[i], 0, e.in[i].elements());
  const SliceAxes axes = scatter_axes(e.node.attrs);
  const Dims& dims = e.in[0].dims;
  const SlicePlan plan =
      plan_slices(axes, dims, e.in[n + 1].dims, e.in[n], TRY(window_sizes(axes, dims, e.in[n + 1].dims)));
  if (e.node.regions.empty()) {
    const Kind kind = TRY(kind_from(e.node.attrs.text("kind")));
    if (kind == Kind::set)
      return for_each_run(plan, dims, [&](int64_t to, int64_t from) -> Result<void> {
        copy_run(e.out[0], to, e.in[2], from, plan.run);
        return {};
      });
    return dispatch_wide(e.in[0].dtype, [&]<class W>() { return scatter_kind<W>(e, plan, kind); });
  }
  RegionScatter scatter{.e = e, .body = TRY(LaneBody::make(e, e.node.regions[0], kLanes)), .n = n};
  scatter.seen.resize(size_t(e.out[0].elements()));
  TRY(for_each_run(plan, dims, [&](int64_t to, int64_t from) -> Result<void> {
    for (int64_t i = 0; i < plan.run; ++i) TRY(scatter.add(to + i, from + i));
    return {};
  }));
  return scatter.flush();
}

}  // namespace

extern const Op op_scatter{.name = "scatter",
                           .kind = OpKind::other,
                           .attrs =
                               "update_window_dims inserted_window_dims input_batching_dims "
                               "scatter_indices_batching_dims scatter_dims_to_operand_dims index_vector_dim "
                               "indices_are_sorted unique_indices kind",
                           .infer = infer,
                           .eval = eval};

}  // namespace trine::ops
