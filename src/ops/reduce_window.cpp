// reduce_window: combines the elements under a window at each of its positions, by `kind` or by a region, starting
// from an init. Padding and the holes of base dilation hold nothing: they are skipped, as XLA does.
// C1: as reduce's. C2: one window size, stride and dilation per dim, at least one; padding in pairs.
#include "ops/axes.h"
#include "ops/combine.h"

namespace trine::ops {

namespace {

constexpr int64_t kLanes = 1024;

Result<std::vector<ir::Type>> infer(const Call& call) {
  const size_t n = call.inputs.size() / 2;
  if (n == 0 || call.inputs.size() % 2) return fail(Code::invalid, "needs as many inits as operands");
  const Dims& dims = call.inputs[0].dims;
  const auto windows = TRY(windows_from(call.attrs, dims.size()));
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    TRY(check_window(windows[d], dims[d]));
    out.push_back(windows[d].count(dims[d]));
  }
  std::vector<ir::Type> types;
  std::vector<Dtype> dtypes;
  for (size_t i = 0; i < n; ++i) {
    const ir::Type &x = call.inputs[i], &init = call.inputs[n + i];
    if (x.dims != dims)
      return fail(Code::invalid, cat("operands differ in shape: ", ir::text(call.inputs[0]), " and ", ir::text(x)));
    if (init.rank() != 0 || init.dtype != x.dtype)
      return fail(Code::invalid, cat("init ", i, " is ", ir::text(init), "; ", row(x.dtype).name, "[] was expected"));
    types.push_back(ir::tensor_type(x.dtype, out));
    dtypes.push_back(x.dtype);
  }
  if (!call.regions.empty()) {
    TRY(check_combiner(call.regions[0], dtypes));
  } else {
    if (n != 1) return fail(Code::invalid, "several operands need a region");
    TRY(check_kind(call.attrs.text("kind"), dtypes[0]));
  }
  return types;
}

// Calls f(offset of the operand) for each element under the window at `at`, in order.
template <class F>
void for_each_tap(const std::vector<WindowDim>& windows, const Dims& dims, const Dims& strides, const Dims& at,
                  size_t d, int64_t offset, F&& f) {
  if (d == dims.size()) return f(offset);
  for (int64_t t = 0; t < windows[d].size; ++t) {
    const int64_t x = windows[d].element(at[d], t, dims[d]);
    if (x >= 0) for_each_tap(windows, dims, strides, at, d + 1, offset + x * strides[d], f);
  }
}

// One dim after the other where the kind allows it would be faster; this is the meaning, not the fast way.
template <class W, class F>
void reduce_kind(const Eval& e, const std::vector<WindowDim>& windows, F combine) {
  const Dims& dims = e.in[0].dims;
  const Dims strides = row_major_strides(dims);
  const WideArray<W> x = load_wide<W>(e.in[0]);
  WideArray<W> out(e.out[0].elements());
  W init;
  load_wide(e.in[1], 0, 1, &init);
  for_each_index(e.out[0].dims, [&](const Dims& at, int64_t to) {
    W sum = init;
    for_each_tap(windows, dims, strides, at, 0, 0, [&](int64_t from) { sum = combine(sum, x[from]); });
    out[to] = sum;
  });
  store_wide(out, e.out[0]);
}

// Lanes are windows: all of a block take one element each, those with none left sit out.
Result<void> reduce_region(const Eval& e, const std::vector<WindowDim>& windows) {
  const size_t n = e.in.size() / 2;
  LaneBody body = TRY(LaneBody::make(e, e.node.regions[0], kLanes));
  const Dims &dims = e.in[0].dims, &outs = e.out[0].dims;
  const Dims strides = row_major_strides(dims);
  const int64_t total = e.out[0].elements();
  Dims at(outs.size(), 0);
  std::vector<std::vector<int64_t>> taps(static_cast<size_t>(body.lanes()));
  for (int64_t start = 0; start < total; start += body.lanes()) {
    const int64_t lanes = std::min(body.lanes(), total - start);
    size_t longest = 0;
    for (int64_t l = 0; l < lanes; ++l, next_index(at, outs)) {
      auto& mine = taps[size_t(l)];
      mine.clear();
      for_each_tap(windows, dims, strides, at, 0, 0, [&](int64_t from) { mine.push_back(from); });
      longest = std::max(longest, mine.size());
      for (size_t i = 0; i < n; ++i) copy_element(e.out[i], start + l, e.in[n + i], 0);
    }
    for (size_t t = 0; t < longest; ++t) {
      std::vector<int64_t> busy;
      for (int64_t l = 0; l < lanes; ++l)
        if (t < taps[size_t(l)].size()) busy.push_back(l);
      for (size_t i = 0; i < n; ++i)
        for (size_t b = 0; b < busy.size(); ++b) {
          copy_element(body.param(i), int64_t(b), e.out[i], start + busy[b]);
          copy_element(body.param(n + i), int64_t(b), e.in[i], taps[size_t(busy[b])][t]);
        }
      TRY(body.run(int64_t(busy.size())));
      for (size_t i = 0; i < n; ++i)
        for (size_t b = 0; b < busy.size(); ++b) copy_element(e.out[i], start + busy[b], body.result(i), int64_t(b));
    }
  }
  return {};
}

Result<void> eval(const Eval& e) {
  const auto windows = TRY(windows_from(e.node.attrs, e.in[0].dims.size()));
  if (!e.node.regions.empty()) return reduce_region(e, windows);
  const Kind kind = TRY(kind_from(e.node.attrs.text("kind")));
  dispatch_wide(e.in[0].dtype,
                [&]<class W>() { dispatch_kind<W>(kind, [&](auto combine) { reduce_kind<W>(e, windows, combine); }); });
  return {};
}

}  // namespace

extern const Op op_reduce_window{.name = "reduce_window", .kind = OpKind::reduction, .infer = infer, .eval = eval};

}  // namespace trine::ops
