// select_and_scatter: each source element goes to the operand element that its window selects, combined with what is
// there already, starting from an init: the gradient of pooling. Inputs are operand, source, init.
// The selection keeps the element it has while select(it, the next) holds. Padding holds nothing.
// C1: the source has the shape of the windows' positions. C2: select_kind and scatter_kind, or both regions.
#include <algorithm>
#include <array>

#include "base/pool.h"
#include "ops/axes.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

constexpr std::string_view kDirections[] = {"GE", "GT", "LE", "LT"};

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &x = call.inputs[0], &source = call.inputs[1], &init = call.inputs[2];
  const auto windows = TRY(windows_from(call.attrs, x.dims.size()));
  Dims positions;
  for (size_t d = 0; d < windows.size(); ++d) {
    TRY(check_window(windows[d], x.dims[d]));
    positions.push_back(windows[d].count(x.dims[d]));
  }
  if (source.dims != positions || source.dtype != x.dtype || init.rank() || init.dtype != x.dtype)
    return fail(Code::invalid, cat("the source is ", ir::text(source), " and the init ", ir::text(init), "; ",
                                   shape_text(x.dtype, positions), " and ", row(x.dtype).name, "[] were expected"));
  if (call.regions.size() == 2) {
    const ir::Region& select = call.regions[0];
    const ir::Type scalar = ir::tensor_type(x.dtype, {});
    if (select.params.size() != 2 || select.results.size() != 1 || !ir::same_tensor(select.params[0].type(), scalar) ||
        !ir::same_tensor(select.params[1].type(), scalar) ||
        !ir::same_tensor(select.results[0].type(), ir::tensor_type(Dtype::boolean, {})))
      return fail(Code::invalid, "its select region takes two elements and gives bool[]");
    TRY(check_combiner(call.regions[1], std::array{x.dtype}));
  } else {
    const std::string_view direction = call.attrs.text("select_kind");
    if (std::find(std::begin(kDirections), std::end(kDirections), direction) == std::end(kDirections))
      return fail(Code::invalid, cat("select_kind is `", direction, "`; GE, GT, LE or LT was expected"));
    TRY(check_kind(call.attrs.text("scatter_kind"), x.dtype));
  }
  return std::vector<ir::Type>{ir::tensor_type(x.dtype, x.dims)};
}

template <class W>
bool keeps(std::string_view direction, W a, W b) {
  if (wide_is_nan(a) || wide_is_nan(b)) return false;
  const bool equal = a == b, less = !equal && wide_less(a, b);
  if (direction == "GE") return !less;
  if (direction == "GT") return !less && !equal;
  return less || (direction == "LE" && equal);
}

// The operand element each window selects, or -1 where it covers none. keep(a, b): a stays selected.
template <class Keep>
Result<std::vector<int64_t>> choose(const Eval& e, Keep&& keep) {
  const Dims &dims = e.in[0].dims, &positions = e.in[1].dims;
  const auto windows = TRY(windows_from(e.node.attrs, dims.size()));
  const Dims strides = row_major_strides(dims);
  Dims sizes;
  for (const WindowDim& w : windows) sizes.push_back(w.size);
  std::vector<int64_t> chosen(size_t(e.in[1].elements()), -1);
  if (chosen.empty() || element_count(sizes) == 0) return chosen;
  Dims at(positions.size(), 0);
  for (int64_t& best : chosen) {
    Dims tap(sizes.size(), 0);
    do {
      int64_t here = 0;
      bool is_inside = true;
      for (size_t d = 0; d < dims.size() && is_inside; ++d) {
        const int64_t x = windows[d].element(at[d], tap[d], dims[d]);
        is_inside = x >= 0;
        here += x * strides[d];
      }
      if (is_inside && (best < 0 || !TRY(keep(best, here)))) best = here;
    } while (next_index(tap, sizes));
    next_index(at, positions);
  }
  return chosen;
}

template <class W>
Result<void> by_kind(const Eval& e) {
  const WideArray<W> x = load_wide<W>(e.in[0]), source = load_wide<W>(e.in[1]);
  const std::string_view direction = e.node.attrs.text("select_kind");
  const auto chosen =
      TRY(choose(e, [&](int64_t a, int64_t b) -> Result<bool> { return keeps(direction, x[a], x[b]); }));
  WideArray<W> out(e.out[0].elements());
  W init;
  load_wide(e.in[2], 0, 1, &init);
  std::fill_n(out.data.get(), out.size, init);
  dispatch_kind<W>(TRY(kind_from(e.node.attrs.text("scatter_kind"))), [&](auto combine) {
    for (size_t i = 0; i < chosen.size(); ++i)
      if (chosen[i] >= 0) out[chosen[i]] = combine(out[chosen[i]], source[int64_t(i)]);
  });
  store_wide(out, e.out[0]);
  return {};
}

// The usual gradient of pooling: sums of f32 into the selected, and no windows along the last dims, which are then rows
// that are walked together.
struct Rows {
  std::vector<WindowDim> windows;
  Dims dims, positions, sizes;  // without the last dims
  int64_t inner = 1;            // elements of a row

  static Result<Rows> make(const Eval& e) {
    Rows out{TRY(windows_from(e.node.attrs, e.in[0].dims.size())), e.in[0].dims, e.in[1].dims, {}};
    for (; !out.dims.empty(); out.dims.pop_back(), out.positions.pop_back(), out.windows.pop_back()) {
      const WindowDim& w = out.windows.back();
      if (w.size != 1 || w.stride != 1 || w.low != 0 || w.high != 0 || w.base_dilation != 1) break;
      out.inner *= out.dims.back();
    }
    for (const WindowDim& w : out.windows) out.sizes.push_back(w.size);
    return out;
  }
};

// keep(a, b): a stays selected; it is false of NaNs.
template <class Keep>
void add_rows(const Eval& e, const Rows& rows, int64_t first, int64_t last, Keep keep) {
  const float *x = e.in[0].as<float>(), *source = e.in[1].as<float>();
  const Dims strides = row_major_strides(rows.dims);
  const auto inner = size_t(rows.inner);
  std::vector<float> best(inner);
  std::vector<int32_t> index(inner);
  Dims at(rows.positions.size(), 0);
  for (int64_t p = first, rest = first; p < last; ++p, next_index(at, rows.positions)) {
    if (p == first)
      for (size_t d = at.size(); d-- > 0; rest /= rows.positions[d]) at[d] = rest % rows.positions[d];
    Dims tap(rows.sizes.size(), 0), taken;
    do {
      int64_t here = 0;
      bool is_inside = true;
      for (size_t d = 0; d < at.size() && is_inside; ++d) {
        const int64_t k = rows.windows[d].element(at[d], tap[d], rows.dims[d]);
        is_inside = k >= 0;
        here += k * strides[d];
      }
      if (!is_inside) continue;
      const float* row = x + here * rows.inner;
      const auto number = int32_t(taken.size());
      taken.push_back(here * rows.inner);
      for (size_t i = 0; i < inner; ++i) {
        const bool stays = number > 0 && keep(best[i], row[i]);
        best[i] = stays ? best[i] : row[i];
        index[i] = stays ? index[i] : number;
      }
    } while (next_index(tap, rows.sizes));
    for (size_t i = 0; i < inner && !taken.empty(); ++i)
      e.out[0].as<float>()[taken[size_t(index[i])] + int64_t(i)] += source[p * rows.inner + int64_t(i)];
  }
}

// Windows along the last dim: positions of one line of the source after the other, `first` and `last` counted in them.
template <class Keep>
void add_lines(const Eval& e, const Rows& rows, int64_t first, int64_t last, Keep keep) {
  const float *x = e.in[0].as<float>(), *source = e.in[1].as<float>();
  const Dims strides = row_major_strides(rows.dims);
  const size_t outer = rows.dims.size() - 1;
  const int64_t count = rows.positions[outer], taps = rows.sizes[outer];
  const Dims positions(rows.positions.begin(), rows.positions.end() - 1),
      sizes(rows.sizes.begin(), rows.sizes.end() - 1);
  std::vector<int64_t> columns;  // per position along the line and tap: the element, or -1
  for (int64_t p = 0; p < count; ++p)
    for (int64_t t = 0; t < taps; ++t) columns.push_back(rows.windows[outer].element(p, t, rows.dims[outer]));
  Dims at(outer, 0);
  for (int64_t line = first / count, rest = line; line < last / count; ++line, next_index(at, positions)) {
    if (line == first / count)
      for (size_t d = outer; d-- > 0; rest /= positions[d]) at[d] = rest % positions[d];
    std::vector<int64_t> under;  // lines of the operand that the windows meet
    Dims tap(outer, 0);
    do {
      int64_t here = 0;
      bool is_inside = true;
      for (size_t d = 0; d < outer && is_inside; ++d) {
        const int64_t k = rows.windows[d].element(at[d], tap[d], rows.dims[d]);
        is_inside = k >= 0;
        here += k * strides[d];
      }
      if (is_inside) under.push_back(here);
    } while (next_index(tap, sizes));
    for (int64_t p = 0; p < count; ++p) {
      int64_t best = -1;
      float value = 0;
      for (const int64_t begin : under)
        for (const int64_t* column = &columns[size_t(p * taps)]; column != &columns[size_t(p * taps)] + taps;
             ++column) {
          const float next = *column < 0 ? 0 : x[begin + *column];
          if (*column < 0 || (best >= 0 && keep(value, next))) continue;
          best = begin + *column;
          value = next;
        }
      if (best >= 0) e.out[0].as<float>()[best] += source[line * count + p];
    }
  }
}

// Positions [first, last), where those before the last dims begin at its multiples.
template <class Keep>
void add_some(const Eval& e, const Rows& rows, int64_t first, int64_t last, Keep keep) {
  rows.inner == 1 ? add_lines(e, rows, first, last, keep) : add_rows(e, rows, first, last, keep);
}

Result<bool> by_rows(const Eval& e) {
  constexpr int64_t kInnerMin = 4;
  if (e.in[0].dtype != Dtype::f32 || e.node.attrs.text("scatter_kind") != "add") return false;
  const Rows rows = TRY(Rows::make(e));
  const int64_t count = element_count(rows.positions);
  if ((rows.inner > 1 && rows.inner < kInnerMin) || rows.dims.empty() || count == 0 || element_count(rows.sizes) == 0)
    return false;
  std::fill_n(e.out[0].as<float>(), e.out[0].elements(), *e.in[2].as<float>());
  // Items of the first dim are apart where no window spans two.
  const WindowDim& w = rows.windows[0];
  const bool is_apart = w.size == 1 && w.low == 0 && w.high == 0 && w.base_dilation == 1;
  const int64_t parts = is_apart && rows.dims.size() > 1 ? rows.positions[0] : 1;
  const std::string_view direction = e.node.attrs.text("select_kind");
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = count / parts * begin, last = count / parts * end;
    if (direction == "GE") return add_some(e, rows, first, last, [](float a, float b) { return a >= b; });
    if (direction == "GT") return add_some(e, rows, first, last, [](float a, float b) { return a > b; });
    if (direction == "LE") return add_some(e, rows, first, last, [](float a, float b) { return a <= b; });
    add_some(e, rows, first, last, [](float a, float b) { return a < b; });
  });
  return true;
}

Result<void> by_region(const Eval& e) {
  LaneBody select = TRY(LaneBody::make(e, e.node.regions[0], 1)),
           scatter = TRY(LaneBody::make(e, e.node.regions[1], 1));
  const auto chosen = TRY(choose(e, [&](int64_t a, int64_t b) -> Result<bool> {
    copy_element(select.param(0), 0, e.in[0], a);
    copy_element(select.param(1), 0, e.in[0], b);
    return select.test();
  }));
  for (int64_t i = 0; i < e.out[0].elements(); ++i) copy_element(e.out[0], i, e.in[2], 0);
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] < 0) continue;
    copy_element(scatter.param(0), 0, e.out[0], chosen[i]);
    copy_element(scatter.param(1), 0, e.in[1], int64_t(i));
    TRY(scatter.run(1));
    copy_element(e.out[0], chosen[i], scatter.result(0), 0);
  }
  return {};
}

Result<void> eval(const Eval& e) {
  if (e.node.regions.size() == 2) return by_region(e);
  if (TRY(by_rows(e))) return {};
  return dispatch_wide(e.in[0].dtype, [&]<class W>() { return by_kind<W>(e); });
}

}  // namespace

extern const Op op_select_and_scatter{.name = "select_and_scatter",
                                      .kind = OpKind::reduction,
                                      .arity = 3,
                                      .attrs = "window_dimensions window_strides padding select_kind scatter_kind",
                                      .infer = infer,
                                      .eval = eval};

}  // namespace trine::ops
