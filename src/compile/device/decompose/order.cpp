// Sorting, selecting and reducing what engines cannot reduce, as comparisons, sums and halvings; see decompose.h.
#include <algorithm>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "compile/device/rows/top_k.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ops/axes.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::order;

// x[..., rank] of every element, by sums that are exact: a 32-bit element goes in two halves. rank is f32, counted
// along the last dim; keep: how many of the first are wanted.
Value permuted(ops::Make& make, const Value& x, const Value& rank, int64_t keep) {
  const Dtype dtype = x.type().dtype;
  const Dims& dims = x.type().dims;
  const auto last = int64_t(dims.size()) - 1;
  Dims cube = dims;
  cube.insert(cube.end() - 1, keep);
  ir::Ints to;
  for (int64_t d = 0; d < last; ++d) to.push_back(d);
  to.push_back(last + 1);
  const Value hit = make.compare(make.broadcast(rank, cube, to), make.iota(Dtype::f32, cube, last), "EQ");
  const auto moved = [&](const Value& part) {
    const Value chosen = make.op(op::select, {hit, make.broadcast(part, cube, to), make.number(Dtype::f32, 0, cube)});
    return make.reduce(chosen, "add", {last + 1});
  };
  if (bytes(dtype) <= 1 || dtype == Dtype::s16 || dtype == Dtype::u16) {
    if (is_floating(dtype))
      return make.bits(make.convert(moved(make.convert(make.bits(x, Dtype::u8), Dtype::f32)), Dtype::u8), dtype);
    return make.convert(moved(make.convert(x, Dtype::f32)), dtype);
  }
  if (bytes(dtype) == 2)
    return make.bits(make.convert(moved(make.convert(make.bits(x, Dtype::u16), Dtype::f32)), Dtype::u16), dtype);
  const Value raw = make.bits(x, Dtype::u32), half = make.number(Dtype::u32, 16, dims);
  const Value high = make.op(op::shift_right_logical, {raw, half}),
              low = make.op(op::and_, {raw, make.number(Dtype::u32, 0xffff, dims)});
  const Value h = make.convert(moved(make.convert(high, Dtype::f32)), Dtype::u32),
              l = make.convert(moved(make.convert(low, Dtype::f32)), Dtype::u32);
  const Value up = make.op(op::shift_left, {h, make.number(Dtype::u32, 16, h.type().dims)});
  return make.bits(make.op(op::or_, {up, l}), dtype);
}

ir::Ints to_last(size_t rank, size_t dim) {
  ir::Ints out;
  for (size_t d = 0; d < rank; ++d)
    if (d != dim) out.push_back(int64_t(d));
  out.push_back(int64_t(dim));
  return out;
}
ir::Ints inverse(const ir::Ints& order) {
  ir::Ints out(order.size());
  for (size_t d = 0; d < order.size(); ++d) out[size_t(order[d])] = int64_t(d);
  return out;
}

}  // namespace

// An element's rank is the number of those before it: less, or equal and earlier.
ir::Replacement sort_by_rank(ir::Graph& graph, const ir::Node& node) {
  const size_t rank = node.types[0].dims.size();
  const int64_t given = node.attrs.integer("dimension");
  const auto dim = size_t(given < 0 ? given + int64_t(rank) : given);
  const int64_t n = node.types[0].dims[dim];
  if (n == 1 || node.types[0].elements() == 0) return node.inputs;
  if (node.types[0].elements() > tuned::kPairsMax / n) return {};
  for (const Value& v : node.inputs)
    if (!device_dtype(v.type().dtype)) return {};
  ops::Make make(graph, node.where);
  const ir::Ints permutation = to_last(rank, dim);
  ops::Values sorted;
  for (const Value& v : node.inputs) sorted.push_back(make.transpose(v, permutation));
  const Dims dims = sorted[0].type().dims;
  // [..., i, j]: j against i.
  Dims cube = dims;
  cube.push_back(n);
  ir::Ints to_i, to_j;
  for (size_t d = 0; d < rank; ++d) to_i.push_back(int64_t(d)), to_j.push_back(int64_t(d));
  to_j.back() = int64_t(rank);
  const auto before = [&](bool swapped) -> Value {
    ops::Values arguments;
    for (const Value& v : sorted) {
      const Value i = make.broadcast(v, cube, to_i), j = make.broadcast(v, cube, to_j);
      arguments.push_back(swapped ? i : j);
      arguments.push_back(swapped ? j : i);
    }
    if (node.regions.empty()) {
      ir::Attrs attrs = {{"direction", std::string(node.attrs.text("direction"))}};
      if (node.attrs.find("compare_type")) attrs.set("compare_type", std::string(node.attrs.text("compare_type")));
      return make.op(op::compare, {arguments[0], arguments[1]}, attrs);
    }
    const ops::Values out = make.inlined(node.regions[0], arguments, cube);
    return out.empty() ? Value{} : out[0];
  };
  const Value less = before(false), more = before(true);
  if (!less || !more) return {};
  const Value earlier =
      make.compare(make.iota(Dtype::s32, cube, int64_t(rank)), make.iota(Dtype::s32, cube, int64_t(rank) - 1), "LT");
  const Value first = make.op(op::or_, {less, make.op(op::and_, {earlier, make.op(op::not_, {more})})});
  const Value index = make.reduce(make.convert(first, Dtype::f32), "add", {int64_t(rank)});
  ir::Replacement out;
  for (const Value& v : sorted) out.push_back(make.transpose(permuted(make, v, index, n), inverse(permutation)));
  return out;
}

// The largest, its first index, and once more without it.
ir::Replacement top_by_repeated_max(ir::Graph& graph, const ir::Node& node) {
  const Value& x = node.inputs[0];
  const int64_t k = node.attrs.integer("k"), n = x.type().dims.back();
  if (!device_dtype(x.type().dtype) || node.types[0].elements() == 0 || takes_top_k(node)) return {};
  ops::Make make(graph, node.where);
  const auto last = int64_t(x.type().dims.size()) - 1;
  const bool by_rounds = is_floating(x.type().dtype) && k <= tuned::kRoundsMax && x.type().elements() > 1 << 16;
  if (!by_rounds) {
    const Value index = make.iota(Dtype::s32, x.type().dims, last);
    ir::Attrs attrs = {{"dimension", last}, {"is_stable", true}};
    const Value a = graph.parameter(ir::tensor_type(x.type().dtype, {})),
                b = graph.parameter(ir::tensor_type(x.type().dtype, {}));
    const Value p = graph.parameter(ir::tensor_type(Dtype::s32, {})),
                q = graph.parameter(ir::tensor_type(Dtype::s32, {}));
    ir::Attrs how = {{"direction", "GT"}};
    if (is_floating(x.type().dtype)) how.set("compare_type", "TOTALORDER");
    const Value less = make.op(op::compare, {a, b}, how);
    const Value sorted = make.op(op::sort, {x, index}, attrs, {}, {{{a, b, p, q}, {less}}});
    return {make.slice_dim(sorted, size_t(last), 0, k), make.slice_dim(sorted.node->result(1), size_t(last), 0, k)};
  }
  const Dims& dims = x.type().dims;
  ir::Ints to;
  for (int64_t d = 0; d < last; ++d) to.push_back(d);
  Dims one = dims;
  one.back() = 1;
  Value rest = make.convert(x, Dtype::f32);
  const Value index = make.iota(Dtype::f32, dims, last);
  ops::Values values, indices;
  for (int64_t round = 0; round < k; ++round) {
    const Value best = make.reduce(rest, "maximum", {last});
    const Value hit = make.compare(rest, make.broadcast(best, dims, to), "EQ");
    const Value at =
        make.reduce(make.op(op::select, {hit, index, make.number(Dtype::f32, double(n), dims)}), "minimum", {last});
    values.push_back(make.reshape(best, one));
    indices.push_back(make.reshape(at, one));
    if (round + 1 < k)
      rest = make.op(op::select, {make.compare(index, make.broadcast(at, dims, to), "EQ"),
                                  make.number(Dtype::f32, -HUGE_VAL, dims), rest});
  }
  const auto side_by_side = [&](const ops::Values& parts, Dtype dtype) {
    const Value all = make.concat(parts, last);
    return make.convert(all, dtype);
  };
  return {side_by_side(values, x.type().dtype), side_by_side(indices, Dtype::s32)};
}

// Integers and regions: halves combined element by element. A region is associative, as XLA asks of it.
ir::Replacement reduce_by_halves(ir::Graph& graph, const ir::Node& node) {
  const size_t n = node.inputs.size() / 2;
  const Dtype dtype = node.types[0].dtype;
  const std::string_view kind = node.attrs.text("kind");
  const bool whole = is_integer(dtype) || (dtype == Dtype::boolean && kind == "xor");
  if (node.regions.empty() && !whole) return {};
  const Dims& dims = node.inputs[0].type().dims;
  if (element_count(dims) == 0) return {};
  for (const ir::Type& t : node.types)
    if (!device_dtype(t.dtype)) return {};
  ops::Make make(graph, node.where);
  const auto combined = [&](const ops::Values& a, const ops::Values& b) -> ops::Values {
    if (node.regions.empty()) return {make.combine(kind, {a[0], b[0]})};
    ops::Values arguments = a;
    arguments.insert(arguments.end(), b.begin(), b.end());
    return make.inlined(node.regions[0], arguments, a[0].type().dims);
  };
  // Reduced dims last, so that halves lie along the free dim.
  const ir::Ints& reduced = node.attrs.ints("dimensions");
  ir::Ints permutation = ops::axes_besides(int(dims.size()), reduced);
  const size_t first = permutation.size();
  permutation.insert(permutation.end(), reduced.begin(), reduced.end());
  ops::Values parts;
  for (size_t i = 0; i < n; ++i) parts.push_back(make.transpose(node.inputs[i], permutation));
  for (size_t dim = first; dim < dims.size(); ++dim) {
    std::vector<ops::Values> left;  // odd ones, combined at the end
    while (parts[0].type().dims[dim] > 1) {
      const int64_t all = parts[0].type().dims[dim], half = all / 2;
      ops::Values low, high, odd;
      for (const Value& v : parts) {
        low.push_back(make.slice_dim(v, dim, 0, half));
        high.push_back(make.slice_dim(v, dim, half, 2 * half));
        if (all % 2) odd.push_back(make.slice_dim(v, dim, all - 1, all));
      }
      parts = combined(low, high);
      if (parts.empty()) return {};
      if (!odd.empty()) left.push_back(odd);
    }
    for (size_t i = left.size(); i-- > 0;) parts = combined(parts, left[i]);
  }
  ops::Values inits;
  for (size_t i = 0; i < n; ++i) {
    parts[i] = make.reshape(parts[i], node.types[i].dims);
    inits.push_back(make.broadcast(node.inputs[n + i], node.types[i].dims, {}));
  }
  return combined(inits, parts);
}

// Sign and magnitude to two's complement: the order of the bits as integers is then the total order.
ir::Replacement compare_total(ir::Graph& graph, const ir::Node& node) {
  if (node.attrs.text("compare_type") != "TOTALORDER") return {};
  const Dtype dtype = node.inputs[0].type().dtype;
  if (!is_floating(dtype) || !device_dtype(dtype)) return {};
  ops::Make make(graph, node.where);
  const auto key = [&](const Value& x) {
    const Dims& dims = x.type().dims;
    const Value raw = make.bits(make.convert(x, Dtype::f32), Dtype::s32);
    const Value flipped = make.op(op::xor_, {raw, make.number(Dtype::s32, 0x7fffffff, dims)});
    return make.op(op::select, {make.compare(raw, make.number(Dtype::s32, 0, dims), "LT"), flipped, raw});
  };
  return {make.op(op::compare, {key(node.inputs[0]), key(node.inputs[1])},
                  {{"direction", std::string(node.attrs.text("direction"))}})};
}

// 8-bit integers are multiplied exactly as bf16 or f32, and their sums below 2^24 exact: at most 512 at a time.
ir::Replacement multiply_integers(ir::Graph& graph, const ir::Node& node) {
  const Value &a = node.inputs[0], &b = node.inputs[1];
  const auto narrow = [](Dtype d) { return d == Dtype::s8 || d == Dtype::u8; };
  if (!narrow(a.type().dtype) || !narrow(b.type().dtype)) return {};
  if (node.types[0].dtype != Dtype::s32) return {};
  constexpr int64_t kExact = 256;  // 255 · 255 · 256 < 2^24
  const ir::Ints &left = node.attrs.ints("lhs_contract"), &right = node.attrs.ints("rhs_contract");
  int64_t depth = 1;
  for (int64_t d : left) depth *= a.type().dims[size_t(d)];
  if (depth > kExact && left.size() != 1) return {};
  ops::Make make(graph, node.where);
  const Value x = make.convert(a, Dtype::f32), y = make.convert(b, Dtype::f32);
  Value sum;
  for (int64_t begin = 0; begin < std::max<int64_t>(depth, 1); begin += kExact) {
    const int64_t end = std::min(depth, begin + kExact);
    Value p = x, q = y;
    if (depth > kExact) {
      p = make.slice_dim(x, size_t(left[0]), begin, end);
      q = make.slice_dim(y, size_t(right[0]), begin, end);
    }
    const Value part = make.convert(
        make.op(op::dot_general, {p, q}, node.attrs, {ir::tensor_type(Dtype::f32, node.types[0].dims)}), Dtype::s32);
    sum = sum ? make.op(op::add, {sum, part}) : part;
  }
  return {sum};
}

}  // namespace trine::compile::device
