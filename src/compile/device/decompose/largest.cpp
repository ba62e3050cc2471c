// The largest of rows, one or a few, found in parts of rows that fill the partitions and then among the parts' own; see
// decompose.h.
#include <algorithm>
#include <cmath>
#include <optional>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "compile/device/rows/arg_max.h"
#include "compile/device/rows/top_k.h"
#include "compile/graph/recognise.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::order;

constexpr int64_t kLanes = 128;         // partitions to fill
constexpr int64_t kIndexMax = 1 << 24;  // that f32 counts to
constexpr int64_t kSearchMax = 16384;   // that an instruction looks through

}  // namespace

// The first index of the largest of each row, or of the least: searched for in parts of the row.
ir::Replacement arg_max_in_parts(ir::Graph& graph, const ir::Node& node) {
  const auto match = match_argmax(node);
  if (!match) return {};
  const ir::Type& type = match->values.type();
  const int64_t n = type.dims[size_t(match->along)];
  if (!is_floating(type.dtype) || bytes(type.dtype) < 2 || !device_dtype(type.dtype) ||
      !device_dtype(node.types[1].dtype) || match->along + 1 != int64_t(type.dims.size()) || n < tuned::kRowLeast ||
      n > kIndexMax || type.elements() == 0)
    return take_apart_argmax(graph, node);
  ops::Make make(graph, node.where);
  const int64_t rows = type.elements() / n;
  const int64_t wanted =
      std::max((n + tuned::kSearched - 1) / tuned::kSearched, std::min(kLanes / rows, n / tuned::kRowLeast));
  int64_t length = std::max<int64_t>(8, (n + wanted - 1) / wanted);
  for (int64_t l = length; l >= std::max<int64_t>(8, length / 2); --l)
    if (n % l == 0) {  // parts of one length, where that takes no more than twice as many
      length = l;
      break;
    }
  const int64_t parts = (n + length - 1) / length;
  Value x = make.reshape(match->values, {rows, n});
  if (!match->is_max) x = make.op(op::negate, {x});
  const Value found = make.own(op::arg_max_parts, {x}, ir::tensor_type(Dtype::f32, {rows, parts, 3}),
                               {{"parts", parts}, {"length", length}});
  const auto column = [&](int64_t i) { return make.reshape(make.slice_dim(found, 2, i, i + 1), {rows, parts}); };
  Value first = column(1), odd = column(2);
  if (parts > 1) {
    const Dims all = {rows, parts};
    const Value begins =
        make.op(op::multiply, {make.iota(Dtype::f32, all, 1), make.number(Dtype::f32, double(length), all)});
    const Value values = column(0), best = make.broadcast(make.reduce(values, "maximum", {1}), all, {0});
    const Value index = make.op(op::select, {make.compare(values, best, "EQ"), make.op(op::add, {first, begins}),
                                             make.number(Dtype::f32, 2 * double(kIndexMax), all)});
    first = make.reduce(index, "minimum", {1});
    odd = make.reduce(make.op(op::add, {odd, begins}), "minimum", {1});
  }
  first = make.reshape(first, {rows}), odd = make.reshape(odd, {rows});
  const Value is_odd = make.compare(odd, make.number(Dtype::f32, double(n), {rows}), "LT");
  const Value index = make.convert(make.op(op::select, {is_odd, odd, first}), node.types[1].dtype);
  return {make.reduce(match->values, match->is_max ? "maximum" : "minimum", {match->along}),
          make.reshape(index, node.types[1].dims)};
}

// Indices, flags and numbers that f32 holds exactly: engines reduce floats.
ir::Replacement indices_as_floats(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  const std::string_view kind = node.attrs.text("kind");
  const ir::Node& choice = *node.inputs[0].node;
  if (node.inputs.size() != 2 || !node.regions.empty() || !is_integer(dtype) || !device_dtype(dtype) ||
      node.inputs[0].type().elements() == 0)
    return {};
  const Dims& dims = choice.types[0].dims;
  ops::Make make(graph, node.where);
  const auto reduced = [&](const Value& x) -> ir::Replacement {
    const Value best = make.op(op::reduce, {x, make.identity(kind, Dtype::f32)},
                               {{"dimensions", node.attrs.ints("dimensions")}, {"kind", std::string(kind)}});
    return {make.combine(kind, {make.convert(best, dtype), make.broadcast(node.inputs[1], node.types[0].dims, {})})};
  };
  if (kind == "add" && choice.op == op::convert && choice.inputs[0].type().dtype == Dtype::boolean &&
      bytes(dtype) == 4 && choice.types[0].elements() / node.types[0].elements() <= kIndexMax)
    return reduced(make.convert(choice.inputs[0], Dtype::f32));
  if (choice.op != op::select || (kind != "minimum" && kind != "maximum")) return {};
  const auto as_float = [&](const Value& v) -> Value {
    if (v.node->op == op::iota) {
      const int64_t along = v.node->attrs.integer("iota_dimension");
      return dims[size_t(along)] <= kIndexMax ? make.iota(Dtype::f32, dims, along) : Value{};
    }
    const auto number = ir::splat(v);
    return number && std::abs(*number) <= double(kIndexMax) ? make.number(Dtype::f32, *number, dims) : Value{};
  };
  const Value yes = as_float(choice.inputs[1]), no = as_float(choice.inputs[2]);
  if (!yes || !no) return {};
  return reduced(make.op(op::select, {choice.inputs[0], yes, no}));
}

// The largest of each part, then of those: equals stay in the order of their indices.
ir::Replacement top_in_parts(ir::Graph& graph, const ir::Node& node) {
  const Value& x = node.inputs[0];
  const int64_t k = node.attrs.integer("k"), n = x.type().dims.back();
  const Dtype dtype = x.type().dtype;
  if (node.types[0].elements() == 0 || !is_floating(dtype) || bytes(dtype) < 2 || !device_dtype(dtype) ||
      x.type().elements() < tuned::kElementsLeast)
    return {};
  const int64_t rows = x.type().elements() / n, least = (n + kSearchMax - 1) / kSearchMax;
  int64_t parts = std::max(least, std::min(kLanes / rows, n / std::max<int64_t>(tuned::kSearched / 4, 2 * k)));
  if (parts < 2 || parts * k > kSearchMax) return {};
  for (int64_t p = parts; p >= std::max(least, parts / 2); --p)
    if (n % p == 0) {
      parts = p;
      break;
    }
  const int64_t length = (n + parts - 1) / parts;
  if (length < k) return {};
  ops::Make make(graph, node.where);
  const Value even =
      make.pad(make.reshape(x, {rows, n}), make.identity("maximum", dtype), {0, 0}, {0, parts * length - n});
  const Value each = make.op(op::top_k, {make.reshape(even, {rows, parts, length})}, {{"k", k}});
  const Dims found = {rows, parts, k}, side = {rows, parts * k};
  const Value begins =
      make.op(op::multiply, {make.iota(Dtype::s32, found, 1), make.number(Dtype::s32, double(length), found)});
  const Value indices = make.op(op::add, {each.node->result(1), begins});
  const Value all = make.op(op::top_k, {make.reshape(each, side)}, {{"k", k}});
  const Value at = make.op(
      op::add, {all.node->result(1), make.op(op::multiply, {make.iota(Dtype::s32, {rows, k}, 0),
                                                            make.number(Dtype::s32, double(parts * k), {rows, k})})});
  const ir::Ints none;  // windows of one element
  const Value chosen =
      make.own(op::window_load, {make.reshape(indices, {rows * parts * k}), make.reshape(at, {rows * k})},
               ir::tensor_type(Dtype::s32, {rows * k}), {{"sizes", none}, {"strides", none}});
  return {make.reshape(all, node.types[0].dims), make.reshape(chosen, node.types[1].dims)};
}

// All of a row as its largest: of what sorts upwards, the negatives. NaNs are told by how many there are; among
// infinities their indices may be any.
ir::Replacement sort_by_largest(ir::Graph& graph, const ir::Node& node) {
  const ir::Type& type = node.types[0];
  const size_t rank = type.dims.size();
  const int64_t given = node.attrs.integer("dimension");
  const auto dim = given < 0 ? given + int64_t(rank) : given;
  const int64_t n = rank ? type.dims[size_t(dim)] : 1;
  if (!is_floating(type.dtype) || bytes(type.dtype) < 2 || !device_dtype(type.dtype) || n < 8 || n > kSearchMax ||
      type.elements() < tuned::kPairsLeast / n)
    return {};
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const ir::Node& other = *node.inputs[i].node;
    if (other.op != op::iota || other.attrs.integer("iota_dimension") != dim || !device_dtype(other.types[0].dtype))
      return {};
  }
  const auto up = sorts_upwards(node);
  if (!up) return {};
  ops::Make make(graph, node.where);
  ir::Ints permutation, back(rank);
  for (int64_t d = 0; d < int64_t(rank); ++d)
    if (d != dim) permutation.push_back(d);
  permutation.push_back(dim);
  for (size_t d = 0; d < rank; ++d) back[size_t(permutation[d])] = int64_t(d);
  const Value x = make.convert(make.transpose(node.inputs[0], permutation), Dtype::f32);
  const Dims& dims = x.type().dims;
  const auto last = int64_t(rank) - 1;
  const Value odd = make.compare(x, x, "NE");
  const Value far = make.number(Dtype::f32, *up ? -HUGE_VAL : HUGE_VAL, dims);
  const Value key = make.op(op::select, {odd, far, *up ? make.op(op::negate, {x}) : x});
  const Value top = make.op(op::top_k, {key}, {{"k", n}});
  const Value count = make.reduce(make.convert(odd, Dtype::f32), "add", {last});
  ir::Ints rows;
  for (int64_t d = 0; d < last; ++d) rows.push_back(d);
  const Value odds = make.broadcast(count, dims, rows), index = make.iota(Dtype::f32, dims, last);
  const Value is_odd =
      *up ? make.compare(make.op(op::add, {index, odds}), make.number(Dtype::f32, double(n), dims), "GE")
          : make.compare(index, odds, "LT");
  const Value sorted =
      make.op(op::select, {is_odd, make.number(Dtype::f32, NAN, dims), *up ? make.op(op::negate, {top}) : top});
  ir::Replacement out = {make.transpose(make.convert(sorted, type.dtype), back)};
  for (size_t i = 1; i < node.inputs.size(); ++i)
    out.push_back(make.transpose(make.convert(top.node->result(1), node.types[i].dtype), back));
  return out;
}

}  // namespace trine::compile::device
