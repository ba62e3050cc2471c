// Ops that move, repeat, cut and join elements. Shapes and axes must be known when the model is read.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kIndicesMax = int64_t{1} << 20;  // of a list of indices written into the graph

// Axes: an attribute in old opsets, an input since `since`; absent: none.
Result<Ints> axes_of(Call& c, int since, size_t input) {
  if (c.opset < since) return c.ints("axes");
  return c.has(input) ? c.need_ints(input, "axes") : Result<Ints>(Ints{});
}

Lowered reshape(Call& c) {
  Ints to = TRY(c.need_ints(1, "shape"));
  const bool zero_is_zero = c.integer("allowzero", 0) != 0;
  int open = -1;
  int64_t known = 1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == 0 && !zero_is_zero && i < dims(c.in[0]).size()) to[i] = dims(c.in[0])[i];
    if (to[i] < -1 || (to[i] == -1 && open >= 0))
      return fail(Code::invalid, cat("a shape of ", ir::text(ir::Attr(to)), "; at most one dim may be -1"));
    if (to[i] == -1) open = int(i);
    if (to[i] > 0 && known > std::numeric_limits<int64_t>::max() / to[i])
      return fail(Code::invalid, "a shape too large");
    if (to[i] >= 0) known *= to[i];
  }
  const int64_t all = c.in[0].type().elements();
  if (open >= 0 && (known == 0 ? all != 0 : all % known != 0))
    return fail(Code::invalid, cat("cannot shape ", ir::text(c.in[0].type()), " to ", ir::text(ir::Attr(to))));
  if (open >= 0) to[size_t(open)] = known == 0 ? 0 : all / known;
  return one(c.b.reshape(c.in[0], std::move(to)));
}

Lowered squeeze(Call& c) {
  const Dims& from = dims(c.in[0]);
  Ints axes = TRY(axes_of(c, 13, 1));
  if (axes.empty() && !(c.opset >= 13 && c.has(1))) {
    for (int64_t d = 0; d < rank(c.in[0]); ++d)
      if (from[size_t(d)] == 1) axes.push_back(d);
  }
  axes = TRY(c.axes(axes, rank(c.in[0])));
  Dims to;
  for (int64_t d = 0; d < rank(c.in[0]); ++d) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (gone && from[size_t(d)] != 1)
      return fail(Code::invalid,
                  cat("axis ", d, " of ", ir::text(c.in[0].type()), " is ", from[size_t(d)], "; expected 1"));
    if (!gone) to.push_back(from[size_t(d)]);
  }
  return one(c.b.reshape(c.in[0], std::move(to)));
}

Lowered unsqueeze(Call& c) {
  Ints axes = TRY(axes_of(c, 13, 1));
  const int to_rank = rank(c.in[0]) + int(axes.size());
  axes = TRY(c.axes(axes, to_rank));
  Dims to = dims(c.in[0]);
  for (int64_t a : axes) to.insert(to.begin() + a, 1);
  return one(c.b.reshape(c.in[0], std::move(to)));
}

Lowered flatten(Call& c) {
  const int r = rank(c.in[0]);
  const int64_t given = c.integer("axis", 1);
  const int axis = given == r ? r : TRY(c.axis(given, r));
  Dims to = {1, 1};
  for (int d = 0; d < r; ++d) to[d >= axis] *= dims(c.in[0])[size_t(d)];
  return one(c.b.reshape(c.in[0], std::move(to)));
}

Lowered transpose(Call& c) {
  Ints order = c.ints("perm");
  if (c.find("perm") == nullptr) {
    order = count_up(0, rank(c.in[0]));
    std::reverse(order.begin(), order.end());
  }
  for (int64_t& axis : order) axis = TRY(c.axis(axis, rank(c.in[0]), "perm"));
  return one(c.b.op(op::transpose, {c.in[0]}, {{"permutation", std::move(order)}}));
}

Lowered expand(Call& c) {
  const Dims to = TRY(c.b.broadcast_dims(dims(c.in[0]), TRY(c.need_ints(1, "shape"))));
  return one(c.b.broadcast(c.in[0], to));
}

// Each dim d becomes (times, d), then one dim again.
Lowered tile(Call& c) {
  const Ints times = TRY(c.need_ints(1, "repeats"));
  const Dims& from = dims(c.in[0]);
  if (times.size() != from.size())
    return fail(Code::invalid, cat("found ", times.size(), " repeats for ", ir::text(c.in[0].type())));
  Dims apart, to;
  Ints at;
  for (size_t d = 0; d < from.size(); ++d) {
    if (times[d] < 0 || (from[d] > 0 && times[d] > std::numeric_limits<int64_t>::max() / from[d]))
      return fail(Code::invalid, cat("repeats of ", times[d]));
    apart.insert(apart.end(), {times[d], from[d]});
    at.push_back(int64_t(2 * d + 1));
    to.push_back(times[d] * from[d]);
  }
  return one(c.b.reshape(TRY(c.b.broadcast(c.in[0], apart, at)), std::move(to)));
}

Lowered concat(Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (!c.has(i)) return fail(Code::invalid, cat("input ", i, " is absent"));
  return one(c.b.concat(c.in, TRY(c.axis(c.integer("axis", 1), rank(c.in[0])))));
}

Lowered split(Call& c) {
  const int axis = TRY(c.axis(c.integer("axis", 0), rank(c.in[0])));
  const int64_t size = dims(c.in[0])[size_t(axis)];
  Ints sizes = c.opset < 13 ? c.ints("split") : c.has(1) ? TRY(c.need_ints(1, "split")) : Ints{};
  if (sizes.empty()) {
    const int64_t parts = c.integer("num_outputs", int64_t(c.outputs()));
    if (parts <= 0 || parts > int64_t(c.outputs())) return fail(Code::invalid, cat("into ", parts, " parts"));
    const int64_t each = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  Values out;
  int64_t at = 0;
  for (int64_t s : sizes) {
    if (s < 0 || s > size - at)
      return fail(Code::invalid, cat("parts of ", ir::text(ir::Attr(sizes)), " of a dim of ", size));
    out.push_back(TRY(c.b.slice_dim(c.in[0], axis, at, at + s)));
    at += s;
  }
  if (at != size) return fail(Code::invalid, cat("parts of ", ir::text(ir::Attr(sizes)), " of a dim of ", size));
  return out;
}

// Python's slice of one axis.
Made slice_axis(Build& b, Value x, int axis, int64_t start, int64_t end, int64_t step) {
  const int64_t size = dims(x)[size_t(axis)];
  const auto inside = [&](int64_t at, int64_t low, int64_t high) {
    if (at < 0) at = at < -size ? low : at + size;
    return std::clamp(at, low, high);
  };
  if (step > 0) {
    start = inside(start, 0, size);
    end = std::max(inside(end, 0, size), start);
    return b.slice_dim(x, axis, start, end, step);
  }
  start = inside(start, -1, size - 1);
  end = std::min(inside(end, -1, size - 1), start);
  // Reversed, element i is at size - 1 - i.
  const Value back = TRY(b.op(op::reverse, {x}, {{"dimensions", Ints{axis}}}));
  const int64_t stride = step == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max() : -step;
  return b.slice_dim(back, axis, size - 1 - start, size - 1 - end, stride);
}

Lowered slice(Call& c) {
  const bool attributes = c.opset < 10;
  const Ints starts = attributes ? c.ints("starts") : TRY(c.need_ints(1, "starts"));
  const Ints ends = attributes ? c.ints("ends") : TRY(c.need_ints(2, "ends"));
  Ints axes = attributes ? c.ints("axes") : c.has(3) ? TRY(c.need_ints(3, "axes")) : Ints{};
  const Ints steps = !attributes && c.has(4) ? TRY(c.need_ints(4, "steps")) : Ints(starts.size(), 1);
  if (axes.empty()) axes = count_up(0, int64_t(starts.size()));
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return fail(Code::invalid, cat("found ", starts.size(), " starts, ", ends.size(), " ends, ", axes.size(), " axes, ",
                                   steps.size(), " steps; expected as many of each"));
  Value out = c.in[0];
  for (size_t i = 0; i < starts.size(); ++i) {
    if (steps[i] == 0) return fail(Code::invalid, "a step of 0");
    out = TRY(slice_axis(c.b, out, TRY(c.axis(axes[i], rank(out))), starts[i], ends[i], steps[i]));
  }
  return Values{out};
}

// The element of a dim of `size` that index i, perhaps outside, shows.
int64_t shown(std::string_view mode, int64_t i, int64_t size) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap") return ((i % size) + size) % size;
  const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
  const int64_t at = ((i % period) + period) % period;
  return std::min(at, period - at) % size;
}

Made pad_by_indices(Build& b, Value x, std::string_view mode, const Ints& low, const Ints& high) {
  for (int d = 0; d < rank(x); ++d) {
    const auto k = size_t(d);
    if (low[k] == 0 && high[k] == 0) continue;
    const int64_t size = dims(x)[k];
    if (size == 0) return fail(Code::invalid, cat("mode ", mode, " of an empty dim"));
    Ints indices;
    for (int64_t i = -low[k]; i < size + high[k]; ++i) indices.push_back(shown(mode, i, size));
    x = TRY(b.take(x, d, b.integers(indices)));
  }
  return x;
}

Lowered pad(Call& c) {
  const Value x = c.in[0];
  const Ints given = c.opset < 11 ? c.ints("pads") : TRY(c.need_ints(1, "pads"));
  const Ints axes = c.opset >= 18 && c.has(3) ? TRY(c.need_ints(3, "axes")) : count_up(0, rank(x));
  const std::string_view mode = c.text("mode", "constant");
  if (given.size() != 2 * axes.size())
    return fail(Code::invalid, cat("found ", given.size(), " pads for ", axes.size(), " axes; expected two each"));
  Ints low(dims(x).size(), 0), high(dims(x).size(), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(TRY(c.axis(axes[i], rank(x))));
    low[axis] = given[i];
    high[axis] = given[i + axes.size()];
    const int64_t most = mode == "constant" ? int64_t{1} << 46 : kIndicesMax;
    if (std::max(std::abs(low[axis] / 2), std::abs(high[axis] / 2)) > most ||
        (mode != "constant" && dims(x)[axis] > kIndicesMax))
      return fail(Code::out_of_range, cat("pads of ", low[axis], " and ", high[axis]));
  }
  if (mode == "reflect" || mode == "edge" || mode == "wrap") return one(pad_by_indices(c.b, x, mode, low, high));
  if (mode != "constant")
    return fail(Code::invalid, cat("mode `", mode, "`; expected constant, reflect, edge or wrap"));
  Value value = TRY(c.b.number(dtype(x), c.opset < 11 ? c.real("value", 0) : 0));
  if (c.opset >= 11 && c.has(2)) value = TRY(c.b.reshape(c.in[2], {}));
  return one(
      c.b.op(op::pad, {x, value},
             {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", Ints(low.size(), 0)}}));
}

// Cut or filled evenly on both sides; an odd rest goes after.
Lowered center_crop_pad(Call& c) {
  const Ints to = TRY(c.need_ints(1, "shape"));
  Ints axes = c.find("axes") != nullptr ? c.ints("axes") : count_up(0, rank(c.in[0]));
  if (axes.size() != to.size())
    return fail(Code::invalid, cat("found ", to.size(), " sizes for ", axes.size(), " axes"));
  Ints low(dims(c.in[0]).size(), 0), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = size_t(TRY(c.axis(axes[i], rank(c.in[0]))));
    if (to[i] < 0 || to[i] > int64_t{1} << 46) return fail(Code::invalid, cat("a size of ", to[i]));
    const int64_t more = to[i] - dims(c.in[0])[axis];
    low[axis] = more >= 0 ? more / 2 : -(-more / 2);
    high[axis] = more - low[axis];
  }
  return one(c.b.pad(c.in[0], 0, low, high));
}

// A dim between channels and space: the block's two dims stand before, between or after the channels.
Lowered depth_to_space(Call& c) {
  const Value x = c.in[0];
  const int64_t s = c.integer("blocksize", 0);
  if (rank(x) != 4 || s <= 0 || s > (1 << 20) || dims(x)[1] % (s * s) != 0)
    return fail(Code::invalid, cat("blocks of ", s, " in ", ir::text(x.type())));
  const int64_t n = dims(x)[0], depth = dims(x)[1] / (s * s), h = dims(x)[2], w = dims(x)[3];
  const bool row_first = c.text("mode", "DCR") == "DCR";
  const Value apart = TRY(c.b.reshape(x, row_first ? Dims{n, s, s, depth, h, w} : Dims{n, depth, s, s, h, w}));
  const Value moved = TRY(c.b.transpose(apart, row_first ? Ints{0, 3, 4, 1, 5, 2} : Ints{0, 1, 4, 2, 5, 3}));
  return one(c.b.reshape(moved, {n, depth, h * s, w * s}));
}

Lowered space_to_depth(Call& c) {
  const Value x = c.in[0];
  const int64_t s = c.integer("blocksize", 0);
  if (rank(x) != 4 || s <= 0 || s > (1 << 20) || dims(x)[2] % s != 0 || dims(x)[3] % s != 0)
    return fail(Code::invalid, cat("blocks of ", s, " in ", ir::text(x.type())));
  const int64_t n = dims(x)[0], depth = dims(x)[1], h = dims(x)[2] / s, w = dims(x)[3] / s;
  const bool row_first = c.text("mode", "DCR") == "DCR";
  const Value apart = TRY(c.b.reshape(x, {n, depth, h, s, w, s}));
  const Value moved = TRY(c.b.transpose(apart, row_first ? Ints{0, 3, 5, 1, 2, 4} : Ints{0, 1, 3, 5, 2, 4}));
  return one(c.b.reshape(moved, {n, depth * s * s, h, w}));
}

// The first sequence_lens[b] elements of each batch in opposite order.
Lowered reverse_sequence(Call& c) {
  const Value x = c.in[0];
  const int time = TRY(c.axis(c.integer("time_axis", 0), rank(x))),
            batch = TRY(c.axis(c.integer("batch_axis", 1), rank(x)));
  if (time == batch || dims(c.in[1]) != Dims{dims(x)[size_t(batch)]})
    return fail(Code::invalid, cat("lengths of ", ir::text(c.in[1].type()), " for ", ir::text(x.type())));
  const Dims plane = {dims(x)[size_t(time)], dims(x)[size_t(batch)]};
  const Value at = TRY(c.b.iota(Dtype::s64, plane, 0));
  const Value length = TRY(c.b.broadcast(TRY(c.b.convert(c.in[1], Dtype::s64)), plane));
  const Value mirrored = TRY(c.b.binary(op::subtract, TRY(c.b.with_number(op::subtract, length, 1)), at));
  const Value from = TRY(c.b.select(TRY(c.b.compare(at, length, "LT")), mirrored, at));
  Ints order = {time, batch};
  for (int64_t d = 0; d < rank(x); ++d)
    if (d != time && d != batch) order.push_back(d);
  const Value moved = TRY(c.b.transpose(x, order));
  Ints sizes = dims(moved);
  sizes[0] = sizes[1] = 1;
  const Value rows = TRY(c.b.op(op::gather, {moved, TRY(c.b.reshape(from, {plane[0], plane[1], 1}))},
                                {{"offset_dims", count_up(2, rank(x))},
                                 {"collapsed_slice_dims", Ints{0}},
                                 {"operand_batching_dims", Ints{1}},
                                 {"start_indices_batching_dims", Ints{1}},
                                 {"start_index_map", Ints{0}},
                                 {"index_vector_dim", int64_t{2}},
                                 {"slice_sizes", sizes},
                                 {"indices_are_sorted", false}}));
  Ints back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[size_t(order[i])] = int64_t(i);
  return one(c.b.transpose(rows, back));
}

const Row kRows[] = {
    {"CenterCropPad", 18, 2, 2, center_crop_pad},
    {"Concat", 4, 1, -1, concat},
    {"DepthToSpace", 1, 1, 1, depth_to_space},
    {"Expand", 8, 2, 2, expand},
    {"Flatten", 1, 1, 1, flatten},
    {"Pad", 2, 1, 4, pad},
    {"Reshape", 5, 2, 2, reshape},
    {"ReverseSequence", 10, 2, 2, reverse_sequence},
    {"Slice", 1, 1, 5, slice},
    {"SpaceToDepth", 1, 1, 1, space_to_depth},
    {"Split", 2, 1, 2, split},
    {"Squeeze", 1, 1, 2, squeeze},
    {"Tile", 6, 2, 2, tile},
    {"Transpose", 1, 1, 1, transpose},
    {"Unsqueeze", 1, 1, 2, unsqueeze},
};

}  // namespace

std::span<const Row> rows_shape() { return kRows; }

}  // namespace trine::front::onnx
