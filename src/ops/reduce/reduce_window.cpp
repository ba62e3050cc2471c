// reduce_window: combines the elements under a window at each of its positions, by `kind` or by a region, starting
// from an init. Padding and the holes of base dilation hold nothing: they are skipped, as XLA does.
// C1: as reduce's. C2: one window size, stride and dilation per dim, at least one; padding in pairs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/axes.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

constexpr int64_t kLanes = 1024;

Result<std::vector<ir::Type>> infer(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an operand");
  const Dims& dims = call.inputs[0].dims;
  const auto windows = TRY(windows_from(call.attrs, dims.size()));
  Dims out;
  for (size_t d = 0; d < dims.size(); ++d) {
    TRY(check_window(windows[d], dims[d]));
    out.push_back(windows[d].count(dims[d]));
  }
  return reduced_types(call, out);
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

// The value that changes nothing.
template <class W>
W identity_of(Kind kind) {
  const bool is_low = kind == Kind::maximum;
  if (kind == Kind::multiply || kind == Kind::bit_and) {
    if constexpr (std::is_same_v<W, int64_t> || std::is_same_v<W, uint64_t>)
      return kind == Kind::multiply ? W(1) : ~W(0);
    return W(1);
  }
  if (kind != Kind::maximum && kind != Kind::minimum) return W(0);
  if constexpr (std::is_integral_v<W>) {
    return is_low ? std::numeric_limits<W>::lowest() : std::numeric_limits<W>::max();
  } else {
    const double end = is_low ? -HUGE_VAL : HUGE_VAL;
    if constexpr (std::is_same_v<W, double>)
      return end;
    else
      return {end, end};
  }
}

// A window as long as its dim that starts or ends at each element: what cumulative sums are made of.
bool is_prefix(const WindowDim& w, int64_t dim) {
  return w.size == dim && w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && w.low == dim - 1 &&
         w.high == 0;
}
bool is_suffix(const WindowDim& w, int64_t dim) {
  return w.size == dim && w.stride == 1 && w.base_dilation == 1 && w.window_dilation == 1 && w.low == 0 &&
         w.high == dim - 1;
}
bool is_nothing(const WindowDim& w) {
  return w.size == 1 && w.stride == 1 && w.base_dilation == 1 && w.low == 0 && w.high == 0;
}

// One dim of the window: x is [outer, dim, inner], the result [outer, count, inner].
template <class W, class F>
WideArray<W> reduce_dim(const WideArray<W>& x, int64_t outer, int64_t dim, int64_t inner, const WindowDim& w,
                        W identity, F combine) {
  const int64_t count = w.count(dim);
  WideArray<W> out(outer * count * inner);
  const bool is_forward = is_prefix(w, dim), is_backward = is_suffix(w, dim);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t at = 0; at < count; ++at) {
      const int64_t position = is_backward ? count - 1 - at : at;
      W* to = out.at((o * count + position) * inner);
      if (is_forward || is_backward) {
        const W* before = at == 0 ? nullptr : is_forward ? to - inner : to + inner;
        const W* from = x.at((o * dim + position) * inner);
        for (int64_t i = 0; i < inner; ++i) to[i] = before ? combine(before[i], from[i]) : from[i];
        continue;
      }
      std::fill_n(to, inner, identity);
      for (int64_t t = 0; t < w.size; ++t) {
        const int64_t element = w.element(at, t, dim);
        if (element < 0) continue;
        const W* from = x.at((o * dim + element) * inner);
        for (int64_t i = 0; i < inner; ++i) to[i] = combine(to[i], from[i]);
      }
    }
  return out;
}

// Kinds are commutative, so a window is reduced one dim after the other.
template <class W, class F>
void reduce_kind(const Eval& e, const std::vector<WindowDim>& windows, W identity, F combine) {
  Dims dims = e.in[0].dims;
  WideArray<W> x = load_wide<W>(e.in[0]);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (is_nothing(windows[d])) continue;
    const Dims before(dims.begin(), dims.begin() + int64_t(d)), after(dims.begin() + int64_t(d) + 1, dims.end());
    x = reduce_dim(x, element_count(before), dims[d], element_count(after), windows[d], identity, combine);
    dims[d] = windows[d].count(dims[d]);
  }
  W init;
  load_wide(e.in[1], 0, 1, &init);
  for (int64_t i = 0; i < x.size; ++i) x[i] = combine(init, x[i]);
  store_wide(x, e.out[0]);
}

// The dim of a cumulative window that does nothing in all others, or -1.
int64_t cumulative_dim(const std::vector<WindowDim>& windows, const Dims& dims) {
  int64_t found = -1;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (is_nothing(windows[d])) continue;
    if (found >= 0 || !(is_prefix(windows[d], dims[d]) || is_suffix(windows[d], dims[d]))) return -1;
    found = int64_t(d);
  }
  return found;
}

// Each element combined with the result before it; lanes are the other dims. Associativity is the op's own demand.
Result<void> scan_region(const Eval& e, LaneBody& body, int64_t dim, bool is_forward) {
  const size_t n = e.in.size() / 2;
  const Dims& dims = e.in[0].dims;
  const auto lines = offsets_of(dims, axes_besides(int(dims.size()), {dim})), steps = offsets_of(dims, {dim});
  const int64_t total = int64_t(lines.size()), count = int64_t(steps.size());
  for (int64_t start = 0; start < total; start += body.lanes()) {
    const int64_t lanes = std::min(body.lanes(), total - start);
    for (int64_t at = 0; at < count; ++at) {
      const int64_t here = steps[size_t(is_forward ? at : count - 1 - at)];
      const int64_t before = at == 0 ? 0 : steps[size_t(is_forward ? at - 1 : count - at)];
      for (size_t i = 0; i < n; ++i)
        for (int64_t l = 0; l < lanes; ++l) {
          const int64_t line = lines[size_t(start + l)];
          const bool sum_first = is_forward || at == 0;
          const size_t sum = sum_first ? i : n + i, element = sum_first ? n + i : i;
          if (at == 0)
            copy_element(body.param(sum), l, e.in[n + i], 0);
          else
            copy_element(body.param(sum), l, e.out[i], line + before);
          copy_element(body.param(element), l, e.in[i], line + here);
        }
      TRY(body.run(lanes));
      for (size_t i = 0; i < n; ++i)
        for (int64_t l = 0; l < lanes; ++l) copy_element(e.out[i], lines[size_t(start + l)] + here, body.result(i), l);
    }
  }
  return {};
}

// Lanes are windows: all of a block take one element each, those with none left sit out.
Result<void> reduce_region(const Eval& e, const std::vector<WindowDim>& windows) {
  const size_t n = e.in.size() / 2;
  LaneBody body = TRY(LaneBody::make(e, e.node.regions[0], kLanes));
  const Dims &dims = e.in[0].dims, &outs = e.out[0].dims;
  if (const int64_t d = cumulative_dim(windows, dims); d >= 0)
    return scan_region(e, body, d, is_prefix(windows[size_t(d)], dims[size_t(d)]));
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
  dispatch_wide(e.in[0].dtype, [&]<class W>() {
    dispatch_kind<W>(kind, [&](auto combine) { reduce_kind<W>(e, windows, identity_of<W>(kind), combine); });
  });
  return {};
}

}  // namespace

extern const Op op_reduce_window{
    .name = "reduce_window",
    .kind = OpKind::reduction,
    .attrs = "window_dimensions window_strides base_dilations window_dilations padding kind",
    .infer = infer,
    .eval = eval};

}  // namespace trine::ops
