// Sliding windows: pooling and its gradient as slices combined element by element, padding of convolutions apart from
// them, and convolutions of one channel each as sums of products; see decompose.h.
#include <algorithm>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "compile/device/multiplies/conv_shift.h"
#include "compile/device/rows/scan.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/axes.h"
#include "ops/build.h"
#include "ops/network/convolution_shape.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::window;

// Padded and dilated, so that windows only slide.
Value spread(ops::Make& make, const Value& x, const Value& fill, const std::vector<ops::WindowDim>& windows) {
  Dims low, high, inside;
  for (const ops::WindowDim& w : windows) {
    low.push_back(w.low);
    high.push_back(w.high);
    inside.push_back(w.base_dilation - 1);
  }
  return make.pad(x, fill, low, high, inside);
}

// v[begin, begin + length) of a dim, each `stride` apart.
Value strided(ops::Make& make, const Value& v, size_t dim, int64_t begin, int64_t length, int64_t stride) {
  if (stride == 1) return make.slice_dim(v, dim, begin, begin + length);
  Dims from(v.type().dims.size(), 0), to = v.type().dims, step(from.size(), 1);
  from[dim] = begin, to[dim] = begin + length, step[dim] = stride;
  return make.slice(v, from, to, step);
}

// One dim of a window over x: S(a + b)[i] = S(a)[i] + S(b)[i + a], positions one apart until the last.
Value slide(ops::Make& make, const Value& x, size_t dim, const ops::WindowDim& w, std::string_view kind) {
  const int64_t size = w.size, dilation = w.window_dilation, length = x.type().dims[dim] - (size - 1) * dilation;
  const auto shifted = [&](const Value& v, int64_t by) { return strided(make, v, dim, by, length, w.stride); };
  if (size <= tuned::kLinear * w.stride) {
    Value sum = shifted(x, 0);
    for (int64_t t = 1; t < size; ++t) sum = make.combine(kind, {sum, shifted(x, t * dilation)});
    return sum;
  }
  Value power = x, sum;
  int64_t done = 0;
  for (int64_t reach = 1;; reach *= 2) {
    if (size & reach) {
      const Value part = shifted(power, done * dilation);
      sum = sum ? make.combine(kind, {sum, part}) : part;
      done += reach;
    }
    if (done == size) return sum;
    const int64_t all = power.type().dims[dim], step = reach * dilation;
    power = make.combine(kind, {make.slice_dim(power, dim, 0, all - step), make.slice_dim(power, dim, step, all)});
  }
}

// All taps of a window at once: what windows have in common is little, and nothing between dims goes to memory.
Value at_once(ops::Make& make, const Value& x, const std::vector<ops::WindowDim>& windows, const Dims& positions,
              std::string_view kind) {
  Dims sizes;
  for (const ops::WindowDim& w : windows) {
    sizes.push_back(w.size);
    if (w.size > 1 && w.stride == 1) return {};
  }
  if (element_count(sizes) > tuned::kTapsFew) return {};
  Value sum;
  ops::for_each_index(sizes, [&](const Dims& tap, int64_t) {
    Dims begin, end, step;
    for (size_t d = 0; d < tap.size(); ++d) {
      begin.push_back(tap[d] * windows[d].window_dilation);
      step.push_back(windows[d].stride);
      end.push_back(begin[d] + (positions[d] - 1) * step[d] + 1);
    }
    const Value part = make.slice(x, begin, end, step);
    sum = sum ? make.combine(kind, {sum, part}) : part;
  });
  return sum;
}

// Over few long rows: each in parts, and what came before a part combined with it.
Value running(ops::Make& make, const Value& x, const std::string& kind, bool reverse) {
  constexpr int64_t kLanes = 128;
  const auto plain = [&](const Value& v) {
    return make.own(op::scan, {v}, v.type(), {{"kind", kind}, {"reverse", reverse}});
  };
  const Dims dims = x.type().dims;
  const int64_t groups = dims[0], n = dims[1];
  int64_t parts = std::max<int64_t>(1, kLanes / groups);
  while (n % parts) --parts;
  if (dims[2] > 1 || n < tuned::kLong || parts < tuned::kPartsLeast) return plain(x);
  if (const Dtype dtype = x.type().dtype; dtype != Dtype::f32)
    return make.convert(running(make, make.convert(x, Dtype::f32), kind, reverse), dtype);
  const Value each = make.reshape(plain(make.reshape(x, {groups * parts, n / parts, 1})), {groups, parts, n / parts});
  const int64_t end = reverse ? 0 : n / parts - 1;
  const Value totals = plain(make.reshape(make.slice_dim(each, 2, end, end + 1), {groups, parts, 1}));
  const Value others = make.slice_dim(totals, 1, reverse ? 1 : 0, reverse ? parts : parts - 1);
  const Dims none = {0, 0, 0}, one = {0, 1, 0};
  const Value before =
      make.pad(others, make.identity(kind, x.type().dtype), reverse ? none : one, reverse ? one : none);
  const Value spread = make.broadcast(make.reshape(before, {groups, parts}), each.type().dims, {0, 1});
  return make.reshape(make.combine(kind, {spread, each}), dims);
}

}  // namespace

// A window over all that came before: cumsum and its like. Flags are counted exactly in f32.
ir::Replacement running_by_scans(ir::Graph& graph, const ir::Node& node) {
  if (!node.regions.empty() || node.inputs.size() != 2 || node.types[0].elements() == 0) return {};
  const Value& x = node.inputs[0];
  const Dims& dims = x.type().dims;
  const auto windows = ops::windows_from(node.attrs, dims.size());
  if (!windows || node.types[0].dims != dims) return {};
  std::optional<size_t> along;
  for (size_t d = 0; d < dims.size(); ++d) {
    const ops::WindowDim& w = (*windows)[d];
    if (w.stride != 1 || w.base_dilation != 1 || w.window_dilation != 1) return {};
    if (w.size == 1) continue;
    const bool whole =
        w.size == dims[d] && ((w.low == dims[d] - 1 && w.high == 0) || (w.low == 0 && w.high == dims[d] - 1));
    if (!whole || along) return {};
    along = d;
  }
  constexpr int64_t kExact = 1 << 24;
  if (!along || dims[*along] < tuned::kRunLeast) return {};
  const Dtype dtype = x.type().dtype;
  const std::string kind(node.attrs.text("kind"));
  const bool counts = is_integer(dtype) && device_dtype(dtype) && kind == "add" && x.node->op == op::convert &&
                      x.node->inputs[0].type().dtype == Dtype::boolean && dims[*along] <= kExact;
  const bool floats = is_floating(dtype) && device_dtype(dtype) && bytes(dtype) >= 2;
  if (!counts && !floats) return {};
  if (kind != "add" && kind != "multiply" && kind != "maximum" && kind != "minimum") return {};
  ops::Make make(graph, node.where);
  Dims folded = {1, dims[*along], 1};
  for (size_t d = 0; d < dims.size(); ++d)
    if (d != *along) folded[d < *along ? 0 : 2] *= dims[d];
  const bool reverse = (*windows)[*along].low == 0;
  Value run;
  if (counts && folded[2] == 1 && folded[1] < tuned::kLong)
    run = make.own(op::scan, {make.reshape(x.node->inputs[0], folded)}, ir::tensor_type(dtype, folded),
                   {{"kind", kind}, {"reverse", reverse}});
  else
    run = running(make, make.reshape(counts ? make.convert(x.node->inputs[0], Dtype::f32) : x, folded), kind, reverse);
  const Value out = make.convert(make.reshape(run, dims), dtype);
  if (ir::splat(node.inputs[1]) == ir::splat(make.identity(kind, dtype))) return {out};
  return {make.combine(kind, {make.broadcast(node.inputs[1], dims, {}), out})};
}

ir::Replacement pool_by_slices(ir::Graph& graph, const ir::Node& node) {
  if (!node.regions.empty() || node.inputs.size() != 2 || node.types[0].elements() == 0) return {};
  const Value& x = node.inputs[0];
  if (!device_dtype(x.type().dtype)) return {};
  auto windows = ops::windows_from(node.attrs, x.type().dims.size());
  if (!windows) return {};
  ops::Make make(graph, node.where);
  const std::string_view kind = node.attrs.text("kind");
  Value out = spread(make, x, make.identity(kind, x.type().dtype), *windows);
  if (const Value all = at_once(make, out, *windows, node.types[0].dims, kind))
    out = all;
  else
    for (size_t d = 0; d < windows->size(); ++d) {
      const ops::WindowDim& w = (*windows)[d];
      if (w.size > 1 || w.stride > 1) out = slide(make, out, d, w, kind);
    }
  return {make.combine(kind, {make.broadcast(node.inputs[1], out.type().dims, {}), out})};
}

// Each tap's sources, back where they were chosen from: `whole` positions and a few more. Where windows stand `stride`
// apart, every stride-th position is reached by the same taps, so those are summed together and then put between the
// others.
static Value spread_back(ops::Make& make, const Value& chosen, const Value& source,
                         const std::vector<ops::WindowDim>& windows, const Dims& whole) {
  const Dims& positions = source.type().dims;
  const Dtype dtype = source.type().dtype;
  Dims strides, reach, counts, high, sizes;
  for (size_t d = 0; d < windows.size(); ++d) {
    const int64_t stride = windows[d].stride;
    sizes.push_back(windows[d].size);
    strides.push_back(stride);
    reach.push_back((windows[d].size + stride - 1) / stride - 1);  // positions before it whose windows hold one
    counts.push_back((whole[d] + stride - 1) / stride);
    high.push_back(counts[d] - positions[d]);
  }
  const Value at = make.pad(chosen, make.number(Dtype::f32, -1), reach, high),
              given = make.pad(source, make.number(dtype, 0), reach, high);
  ops::Values parts;
  ops::for_each_index(strides, [&](const Dims& first, int64_t) {
    Value sum = make.number(dtype, 0, counts);
    bool any = false;
    int64_t number = -1;
    ops::for_each_index(sizes, [&](const Dims& tap, int64_t) {
      ++number;
      Dims begin, end;
      for (size_t d = 0; d < tap.size(); ++d) {
        if (tap[d] % strides[d] != first[d]) return;
        begin.push_back(reach[d] - tap[d] / strides[d]);
        end.push_back(begin[d] + counts[d]);
      }
      const Value here =
          make.compare(make.slice(at, begin, end), make.number(Dtype::f32, double(number), counts), "EQ");
      const Value mine = make.op(op::select, {here, make.slice(given, begin, end), make.number(dtype, 0, counts)});
      sum = any ? make.op(op::add, {sum, mine}) : mine;
      any = true;
    });
    parts.push_back(sum);
  });
  for (size_t d = strides.size(); d-- > 0;) {
    const auto each = size_t(strides[d]);
    if (each == 1) continue;
    ops::Values wider;
    for (size_t i = 0; i < parts.size(); i += each) {
      ops::Values side;
      Dims dims = parts[i].type().dims;
      dims.insert(dims.begin() + ptrdiff_t(d) + 1, 1);
      for (size_t k = i; k < i + each; ++k) side.push_back(make.reshape(parts[k], dims));
      const Value both = make.concat(std::move(side), int64_t(d) + 1);
      dims.erase(dims.begin() + ptrdiff_t(d) + 1);
      dims[d] *= int64_t(each);
      wider.push_back(make.reshape(both, dims));
    }
    parts = std::move(wider);
  }
  return parts[0];
}

ir::Replacement unpool_by_slices(ir::Graph& graph, const ir::Node& node) {
  const Value &x = node.inputs[0], &source = node.inputs[1];
  if (!node.regions.empty() || x.type().elements() == 0 || source.type().elements() == 0) return {};
  if (!device_dtype(x.type().dtype) || node.attrs.text("scatter_kind") != "add") return {};
  auto windows = ops::windows_from(node.attrs, x.type().dims.size());
  if (!windows) return {};
  Dims sizes;
  for (const ops::WindowDim& w : *windows) {
    sizes.push_back(w.size);
    if (w.base_dilation != 1 || w.window_dilation != 1) return {};
  }
  // A compare and a select for each tap: worth it where there are few.
  if (element_count(sizes) > tuned::kTapsMax) return {};
  ops::Make make(graph, node.where);
  const Dtype dtype = x.type().dtype;
  const Dims& positions = source.type().dims;
  const std::string direction(node.attrs.text("select_kind"));
  // Which tap each window selects, among those that are no padding.
  const Value padded = spread(make, x, make.number(dtype, 0), *windows);
  const bool has_padding = padded.type().dims != x.type().dims;
  const Value real = has_padding ? spread(make, make.number(Dtype::boolean, 1, x.type().dims),
                                          make.number(Dtype::boolean, 0), *windows)
                                 : Value{};
  const auto tap_of = [&](const Value& v, const Dims& tap) {
    Dims end, step;
    for (size_t d = 0; d < tap.size(); ++d) {
      step.push_back((*windows)[d].stride);
      end.push_back(tap[d] + (positions[d] - 1) * step[d] + 1);
    }
    return make.slice(v, tap, end, step);
  };
  Value best, chosen, any;
  int64_t number = 0;
  ops::for_each_index(sizes, [&](const Dims& tap, int64_t) {
    const Value here = tap_of(padded, tap), name = make.number(Dtype::f32, double(number++), positions);
    const Value is_real = real ? tap_of(real, tap) : Value{};
    if (!best) {
      best = here, any = is_real, chosen = name;
      if (is_real) chosen = make.op(op::select, {is_real, name, make.number(Dtype::f32, -1, positions)});
      return;
    }
    Value takes = make.op(op::not_, {make.compare(best, here, direction)});
    if (is_real) {
      takes = make.op(op::and_, {is_real, make.op(op::or_, {takes, make.op(op::not_, {any})})});
      any = make.op(op::or_, {any, is_real});
    }
    best = make.op(op::select, {takes, here, best});
    chosen = make.op(op::select, {takes, name, chosen});
  });
  // Each source goes to the tap its window chose; padding is cut off, and the initial value added.
  const Value sum = spread_back(make, chosen, source, *windows, padded.type().dims);
  Dims begin, end;
  for (size_t d = 0; d < windows->size(); ++d) {
    begin.push_back((*windows)[d].low);
    end.push_back((*windows)[d].low + x.type().dims[d]);
  }
  const Value out = sum.type().dims != x.type().dims ? make.slice(sum, begin, end) : sum;
  return {make.op(op::add, {out, make.broadcast(node.inputs[2], out.type().dims, {})})};
}

ir::Replacement pad_positive(ir::Graph& graph, const ir::Node& node) {
  Dims low = node.attrs.ints("edge_padding_low"), high = node.attrs.ints("edge_padding_high");
  const Dims inside = node.attrs.ints("interior_padding");
  const auto negative = [](int64_t v) { return v < 0; };
  if (std::none_of(low.begin(), low.end(), negative) && std::none_of(high.begin(), high.end(), negative)) return {};
  if (node.types[0].elements() == 0) return {};
  ops::Make make(graph, node.where);
  Dims begin(low.size(), 0), end = node.types[0].dims;
  for (size_t d = 0; d < low.size(); ++d) {
    begin[d] = std::max<int64_t>(0, -low[d]);
    end[d] += begin[d];
    low[d] = std::max<int64_t>(0, low[d]), high[d] = std::max<int64_t>(0, high[d]);
  }
  return {make.slice(make.pad(node.inputs[0], node.inputs[1], low, high, inside), begin, end)};
}

namespace {

// One input channel for each group: each tap of the kernel times a slice, element by element.
Value by_products(ops::Make& make, const ir::Node& node, const ops::ConvolutionShape& shape, const Value& x) {
  const Value& kernel = node.inputs[1];
  const Dims &xd = x.type().dims, &kd = kernel.type().dims, &out = node.types[0].dims;
  const size_t spatial = shape.windows.size();
  const int64_t groups = shape.feature_groups, many = kd[size_t(shape.kernel_output_feature)] / groups;
  // As [batch, spatial..., group, output of the group].
  ir::Ints permutation = {shape.input_batch};
  permutation.insert(permutation.end(), shape.input_spatial.begin(), shape.input_spatial.end());
  permutation.push_back(shape.input_feature);
  const Value input = make.convert(make.transpose(x, permutation), Dtype::f32);
  ir::Ints kernel_permutation = shape.kernel_spatial;
  kernel_permutation.push_back(shape.kernel_input_feature);
  kernel_permutation.push_back(shape.kernel_output_feature);
  const Value weights = make.convert(make.transpose(kernel, kernel_permutation), Dtype::f32);
  // Of each tap a term: the input it sees times its weight, by groups and their outputs.
  Dims taps, wide = {xd[size_t(shape.input_batch)]};
  for (size_t s = 0; s < spatial; ++s) {
    taps.push_back(shape.windows[s].size);
    wide.push_back(out[size_t(shape.output_spatial[s])]);
  }
  Dims five = wide;
  five.push_back(groups);
  five.push_back(many);
  Value sum;
  ops::for_each_index(taps, [&](const Dims& tap, int64_t) {
    Dims begin = {0}, end = {wide[0]}, step = {1}, k_begin, k_end;
    for (size_t s = 0; s < spatial; ++s) {
      const ops::WindowDim& w = shape.windows[s];
      const int64_t at = (w.is_reversed ? w.size - 1 - tap[s] : tap[s]) * w.window_dilation;
      begin.push_back(at);
      end.push_back(at + (wide[s + 1] - 1) * w.stride + 1);
      step.push_back(w.stride);
      k_begin.push_back(tap[s]);
      k_end.push_back(tap[s] + 1);
    }
    begin.push_back(0), end.push_back(groups), step.push_back(1);
    k_begin.insert(k_begin.end(), {0, 0});
    k_end.insert(k_end.end(), {1, groups * many});
    const Value scale = make.reshape(make.slice(weights, k_begin, k_end), {groups, many});
    ir::Ints to, scale_to = {int64_t(spatial) + 1, int64_t(spatial) + 2};
    for (int64_t d = 0; d < int64_t(spatial) + 2; ++d) to.push_back(d);
    const Value term = make.op(op::multiply, {make.broadcast(make.slice(input, begin, end, step), five, to),
                                              make.broadcast(scale, five, scale_to)});
    sum = sum ? make.op(op::add, {sum, term}) : term;
  });
  // Groups and their outputs are one feature dim of the result.
  Dims flat = wide;
  flat.push_back(groups * many);
  ir::Ints back(out.size());
  back[size_t(shape.output_batch)] = 0;
  for (size_t s = 0; s < spatial; ++s) back[size_t(shape.output_spatial[s])] = int64_t(s) + 1;
  back[size_t(shape.output_feature)] = int64_t(spatial) + 1;
  return make.convert(make.transpose(make.reshape(sum, flat), back), node.types[0].dtype);
}

// Over one dim as over two, of which the first has one element; nothing where that is no gain.
Value convolve_row(ops::Make& make, const ir::Node& node) {
  if (node.types[0].dims.size() != 3) return {};
  ir::Attrs attrs = node.attrs;
  const auto with_row = [](const Dims& dims, int64_t at) {
    Dims out = dims;
    out.insert(out.begin() + ptrdiff_t(at), 1);
    return out;
  };
  const auto wider = [&](const char* spatial, std::initializer_list<const char*> others) {
    const int64_t at = attrs.ints(spatial)[0];
    attrs.set(spatial, ir::Ints{at, at + 1});
    for (const char* name : others)
      if (const int64_t d = attrs.integer(name); d > at) attrs.set(name, d + 1);
    return at;
  };
  const int64_t in = wider("input_spatial", {"input_batch", "input_feature"}),
                k = wider("kernel_spatial", {"kernel_input_feature", "kernel_output_feature"}),
                out = wider("output_spatial", {"output_batch", "output_feature"});
  for (const auto& [name, plain] : {std::pair("window_strides", 1), std::pair("lhs_dilation", 1),
                                    std::pair("rhs_dilation", 1), std::pair("window_reversal", 0)})
    if (ir::Ints list = attrs.ints(name); !list.empty()) {
      list.insert(list.begin(), plain);
      attrs.set(name, list);
    }
  if (ir::Ints list = attrs.ints("padding"); !list.empty()) {
    list.insert(list.begin(), 2, 0);
    attrs.set("padding", list);
  }
  const Value wide = make.op(op::convolution,
                             {make.reshape(node.inputs[0], with_row(node.inputs[0].type().dims, in)),
                              make.reshape(node.inputs[1], with_row(node.inputs[1].type().dims, k))},
                             attrs, {ir::tensor_type(node.types[0].dtype, with_row(node.types[0].dims, out))});
  return can_shift(*wide.node) ? make.reshape(wide, node.types[0].dims) : Value{};
}

}  // namespace

ir::Replacement convolve_padded(ir::Graph& graph, const ir::Node& node) {
  const Value &x = node.inputs[0], &kernel = node.inputs[1];
  if (x.type().elements() == 0 || kernel.type().elements() == 0 || node.types[0].elements() == 0) return {};
  if (!is_floating(x.type().dtype) || !device_dtype(x.type().dtype) || can_shift(node)) return {};
  auto shape = ops::ConvolutionShape::from(node.attrs, x.type().dims, kernel.type().dims);
  if (!shape) return {};
  ops::Make make(graph, node.where);
  if (const Value row = convolve_row(make, node)) return {row};
  const size_t rank = x.type().dims.size();
  Dims low(rank, 0), high(rank, 0), inside(rank, 0);
  bool spreads = false;
  for (size_t s = 0; s < shape->windows.size(); ++s) {
    const ops::WindowDim& w = shape->windows[s];
    const auto d = size_t(shape->input_spatial[s]);
    low[d] = w.low, high[d] = w.high, inside[d] = w.base_dilation - 1;
    spreads = spreads || low[d] || high[d] || inside[d];
  }
  const Value padded = make.pad(x, make.number(x.type().dtype, 0), low, high, inside);
  const bool one_channel = shape->feature_groups > 1 && kernel.type().dims[size_t(shape->kernel_input_feature)] == 1;
  if (one_channel && shape->batch_groups == 1) return {by_products(make, node, *shape, padded)};
  if (!spreads) return {};
  ir::Attrs attrs = node.attrs;
  attrs.set("padding", ir::Ints(2 * shape->windows.size(), 0));
  attrs.set("lhs_dilation", ir::Ints(shape->windows.size(), 1));
  return {make.op(op::convolution, {padded, kernel}, attrs, node.types)};
}

}  // namespace trine::compile::device
