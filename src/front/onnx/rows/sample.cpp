// Images sampled at computed points (GridSample, AffineGrid), and put together again from patches (Col2Im).
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

// One spatial dim: how the grid's -1..1 lies on it, and what is seen beyond.
struct Side {
  int64_t size = 0;
  bool align = false;
  std::string_view padding = {};

  double low() const { return align ? 0 : -0.5; }
  double high() const { return align ? double(size - 1) : double(size) - 0.5; }
};

// Folded back between low and high.
Made reflected(Build& b, const Side& s, Value x) {
  const double range = s.high() - s.low();
  if (range <= 0) return b.with_number(op::multiply, x, 0);
  const Value away = TRY(b.unary(op::abs, TRY(b.with_number(op::subtract, x, s.low()))));
  const Value rest = TRY(b.with_number(op::remainder, away, 2 * range));
  const Value back = TRY(b.binary(op::subtract, TRY(b.number(dtype(x), 2 * range)), rest));
  const Value folded = TRY(b.select(TRY(b.compare_number(rest, range, "LE")), rest, back));
  return b.with_number(op::add, folded, s.low());
}

Made inside(Build& b, const Side& s, Value x) {
  if (s.padding == "border") return b.clamp(x, 0, double(s.size - 1));
  if (s.padding == "reflection") return reflected(b, s, x);
  return x;
}

struct Tap {
  Value index = {}, weight = {};  // index: whole numbers as floats
};

Result<std::vector<Tap>> taps(Build& b, std::string_view mode, Value x) {
  if (mode == "nearest") return std::vector<Tap>{{TRY(b.unary(op::round_nearest_even, x)), {}}};
  const Value base = TRY(b.unary(op::floor, x)), part = TRY(b.binary(op::subtract, x, base));
  std::vector<Tap> out;
  const bool cubic = mode == "cubic" || mode == "bicubic";
  for (int k = cubic ? -1 : 0; k <= (cubic ? 2 : 1); ++k) {
    const Value away = TRY(b.unary(op::abs, TRY(b.with_number(op::subtract, part, k))));
    Value weight = TRY(b.binary(op::subtract, TRY(b.number(dtype(x), 1)), away));
    if (cubic) {  // Keys' kernel, a = -0.75
      const double a = -0.75;
      const auto polynomial = [&](std::initializer_list<double> factors) -> Made {
        Value sum = TRY(b.number(dtype(x), 0));
        for (double f : factors) sum = TRY(b.with_number(op::add, TRY(b.binary(op::multiply, sum, away)), f));
        return sum;
      };
      const bool near = k == 0 || k == 1;
      weight = near ? TRY(polynomial({a + 2, -(a + 3), 0, 1})) : TRY(polynomial({a, -5 * a, 8 * a, -4 * a}));
    }
    out.push_back({TRY(b.with_number(op::add, base, k)), weight});
  }
  return out;
}

// x[n, :, indices of the spatial dims]: [batch, channels, points]. Indices beyond give zero with padding zeros.
Made pixels(Build& b, Value x, const std::vector<Side>& sides, const Values& indices) {
  Values columns;
  Value valid = {};
  const Dims& flat = dims(indices[0]);
  for (size_t d = 0; d < sides.size(); ++d) {
    const Value index = TRY(inside(b, sides[d], indices[d]));
    const auto last = double(sides[d].size - 1);
    const Value in =
        TRY(b.binary(op::and_, TRY(b.compare_number(index, 0, "GE")), TRY(b.compare_number(index, last, "LE"))));
    if (sides[d].padding == "zeros") valid = valid ? TRY(b.binary(op::and_, valid, in)) : in;
    const Value whole = TRY(b.convert(TRY(b.clamp(index, 0, last)), Dtype::s64));
    columns.push_back(TRY(b.reshape(whole, {flat[0], flat[1], 1})));
  }
  Ints sizes(dims(x).size(), 1);
  sizes[1] = dims(x)[1];
  const Ints spatial = count_up(2, rank(x));
  const Value found = TRY(b.op(op::gather, {x, TRY(b.concat(columns, 2))},
                               {{"offset_dims", Ints{1}},
                                {"collapsed_slice_dims", spatial},
                                {"operand_batching_dims", Ints{0}},
                                {"start_indices_batching_dims", Ints{0}},
                                {"start_index_map", spatial},
                                {"index_vector_dim", int64_t{2}},
                                {"slice_sizes", sizes},
                                {"indices_are_sorted", false}}));
  if (!valid) return found;
  return b.select(TRY(b.broadcast(valid, dims(found), {0, 2})), found, TRY(b.number(dtype(x), 0)));
}

Lowered grid_sample(Call& c) {
  const Value x = c.in[0], grid = c.in[1];
  const int r = rank(x) - 2;
  if (r < 1 || r > 3 || rank(grid) != rank(x) || dims(grid)[0] != dims(x)[0] || dims(grid).back() != r)
    return fail(Code::invalid, cat("a grid of ", ir::text(grid.type()), " for ", ir::text(x.type())));
  const std::string_view mode = c.text("mode", c.opset < 20 ? "bilinear" : "linear");
  const std::string_view padding = c.text("padding_mode", "zeros");
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic" && mode != "bicubic")
    return fail(Code::invalid, cat("mode `", mode, "`; expected nearest, linear or cubic"));
  const int64_t batch = dims(x)[0], count = grid.type().elements() / std::max<int64_t>(batch * r, 1);
  std::vector<Side> sides;
  std::vector<std::vector<Tap>> all;
  for (int d = 0; d < r; ++d) {  // the grid names the last dim first
    Side side{.size = dims(x)[size_t(d + 2)], .align = c.integer("align_corners", 0) != 0, .padding = padding};
    if (side.size == 0) return fail(Code::invalid, cat("an empty image of ", ir::text(x.type())));
    const Value flat = TRY(c.b.reshape(TRY(c.b.slice_dim(grid, rank(grid) - 1, r - 1 - d, r - d)), {batch, count}));
    const Value unit =
        TRY(c.b.with_number(op::multiply, TRY(c.b.with_number(op::add, TRY(c.b.convert(flat, dtype(x))), 1)), 0.5));
    const double span = side.align ? double(side.size - 1) : double(side.size);
    const Value at = TRY(c.b.with_number(op::add, TRY(c.b.with_number(op::multiply, unit, span)), side.low()));
    all.push_back(TRY(taps(c.b, mode, TRY(inside(c.b, side, at)))));
    sides.push_back(side);
  }
  Value sum = {};
  std::vector<size_t> pick(size_t(r), 0);
  for (bool more = true; more;) {
    Values indices;
    Value weight = {};
    for (size_t d = 0; d < size_t(r); ++d) {
      const Tap& t = all[d][pick[d]];
      indices.push_back(t.index);
      if (t.weight) weight = weight ? TRY(c.b.binary(op::multiply, weight, t.weight)) : t.weight;
    }
    Value part = TRY(pixels(c.b, x, sides, indices));
    if (weight) part = TRY(c.b.binary(op::multiply, part, TRY(c.b.broadcast(weight, dims(part), {0, 2}))));
    sum = sum ? TRY(c.b.binary(op::add, sum, part)) : part;
    more = false;
    for (size_t d = 0; d < size_t(r) && !more; ++d) {
      more = ++pick[d] < all[d].size();
      if (!more) pick[d] = 0;
    }
  }
  Dims to = {batch, dims(x)[1]};
  to.insert(to.end(), dims(grid).begin() + 1, dims(grid).end() - 1);
  return one(c.b.reshape(sum, to));
}

// theta times the points (x, y[, z], 1) of an image of this size.
Lowered affine_grid(Call& c) {
  const Value theta = c.in[0];
  const Ints size = TRY(c.need_ints(1, "size"));
  const auto r = int64_t(size.size()) - 2;
  if (r < 2 || r > 3 || dims(theta) != Dims{size[0], r, r + 1})
    return fail(Code::invalid, cat("theta of ", ir::text(theta.type()), " for a size of ", ir::text(ir::Attr(size))));
  Dims to(size.begin() + 2, size.end());
  for (int64_t d : to)
    if (d < 1 || d > (1 << 20)) return fail(Code::invalid, cat("a size of ", ir::text(ir::Attr(size))));
  to.push_back(1);
  Values parts;
  for (int64_t d = r - 1; d >= 0; --d) {
    const auto n = double(size[size_t(d + 2)]);
    const bool align = c.integer("align_corners", 0) != 0;
    const Value at = TRY(c.b.iota(dtype(theta), to, int(d)));
    const double step = align ? (n > 1 ? 2 / (n - 1) : 0) : 2 / n, start = align ? (n > 1 ? -1 : 0) : 1 / n - 1;
    parts.push_back(TRY(c.b.with_number(op::add, TRY(c.b.with_number(op::multiply, at, step)), start)));
  }
  parts.push_back(TRY(c.b.number(dtype(theta), 1, to)));
  const Value all = TRY(c.b.concat(parts, int(r)));                             // [..., r + 1]
  const Value grid = TRY(c.b.dot(theta, all, {}, {}, {2}, {r}, dtype(theta)));  // [n, r, ...]
  Ints order = {0};
  for (int64_t d = 0; d < r; ++d) order.push_back(2 + d);
  order.push_back(1);
  return one(c.b.transpose(grid, order));
}

// Columns of patches added into an image: each pixel of the block is a strided, dilated image of its own.
Lowered col2im(Call& c) {
  const Value x = c.in[0];
  const Ints image = TRY(c.need_ints(1, "image_shape")), block = TRY(c.need_ints(2, "block_shape"));
  const size_t r = image.size();
  const auto list = [&](const char* name, size_t count, int64_t otherwise) {
    return c.find(name) != nullptr ? c.ints(name) : Ints(count, otherwise);
  };
  const Ints strides = list("strides", r, 1), dilations = list("dilations", r, 1), pads = list("pads", 2 * r, 0);
  if (rank(x) != 3 || block.size() != r || strides.size() != r || dilations.size() != r || pads.size() != 2 * r ||
      r == 0)
    return fail(Code::invalid, cat("patches of ", ir::text(x.type()), " for an image of ", ir::text(ir::Attr(image))));
  Dims apart = {dims(x)[0], 0}, blocks;
  int64_t pixels_in_block = 1;
  for (size_t d = 0; d < r; ++d) {
    for (int64_t v : {image[d], block[d], strides[d], dilations[d]})
      if (v < 1 || v > (1 << 20)) return fail(Code::invalid, cat("a block or an image of ", v));
    for (int64_t v : {pads[d], pads[d + r]})
      if (v < 0 || v > (1 << 20)) return fail(Code::invalid, cat("padding of ", v));
    blocks.push_back((image[d] + pads[d] + pads[d + r] - dilations[d] * (block[d] - 1) - 1) / strides[d] + 1);
    pixels_in_block *= block[d];
    if (blocks[d] < 1 || pixels_in_block > 4096)
      return fail(Code::unsupported, cat("blocks of ", ir::text(ir::Attr(block))));
  }
  apart[1] = dims(x)[1] / pixels_in_block;
  apart.push_back(pixels_in_block);
  apart.insert(apart.end(), blocks.begin(), blocks.end());
  const Value split = TRY(c.b.reshape(x, apart));
  Value sum = {};
  for (int64_t k = 0; k < pixels_in_block; ++k) {
    const Value part = TRY(c.b.slice_dim(split, 2, k, k + 1));
    Dims to = apart;
    to.erase(to.begin() + 2);
    Ints low = {0, 0}, high = {0, 0}, between = {0, 0};
    int64_t rest = k;
    for (size_t d = r; d-- > 0; rest /= block[d]) {
      const int64_t start = (rest % block[d]) * dilations[d] - pads[d], reach = (blocks[d] - 1) * strides[d] + 1;
      low.insert(low.begin() + 2, start);
      high.insert(high.begin() + 2, image[d] - start - reach);
      between.insert(between.begin() + 2, strides[d] - 1);
    }
    const Value spread =
        TRY(c.b.op(op::pad, {TRY(c.b.reshape(part, to)), TRY(c.b.number(dtype(x), 0))},
                   {{"edge_padding_low", low}, {"edge_padding_high", high}, {"interior_padding", between}}));
    sum = sum ? TRY(c.b.binary(op::add, sum, spread)) : spread;
  }
  return Values{sum};
}

const Row kRows[] = {
    {"AffineGrid", 20, 2, 2, affine_grid},
    {"Col2Im", 18, 3, 3, col2im},
    {"GridSample", 16, 2, 2, grid_sample},
};

}  // namespace

std::span<const Row> rows_sample() { return kRows; }

}  // namespace trine::front::onnx
