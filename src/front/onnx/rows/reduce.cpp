// Reductions over axes, and the indices of the largest and smallest elements.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

struct Over {
  Ints axes = {};
  bool keep = true, nothing = false;  // nothing: no axes are given and none are meant
};

// Axes are an attribute up to opset 17 (ReduceSum: 12), then an input; none given means all, or none at all.
Result<Over> over(Call& c, int since = 18) {
  Over out{.keep = c.integer("keepdims", 1) != 0};
  Ints axes = c.opset < since ? c.ints("axes") : c.has(1) ? TRY(c.need_ints(1, "axes")) : Ints{};
  if (axes.empty() && c.integer("noop_with_empty_axes", 0) != 0) out.nothing = true;
  if (axes.empty() && !out.nothing) axes = count_up(0, rank(c.in[0]));
  out.axes = TRY(c.axes(axes, rank(c.in[0])));
  return out;
}

// before: of each element; kind: of all; after: of each result.
Lowered reduce(Call& c, const char* kind, int since = 18, ir::OpId before = {}, ir::OpId after = {}) {
  const Over o = TRY(over(c, since));
  Value x = TRY(c.b.widen(c.in[0]));
  if (before) x = TRY(c.b.unary(before, x));
  if (!o.nothing) x = TRY(c.b.reduce(x, kind, o.axes, o.keep));
  if (after) {
    if (!is_float(x)) x = TRY(c.b.convert(x, Dtype::f64));
    x = TRY(c.b.unary(after, x));
  }
  return one(c.b.convert(x, dtype(c.in[0])));
}

Lowered reduce_sum(Call& c) { return reduce(c, "add", 13); }
Lowered reduce_max(Call& c) { return reduce(c, "maximum"); }
Lowered reduce_min(Call& c) { return reduce(c, "minimum"); }
Lowered reduce_prod(Call& c) { return reduce(c, "multiply"); }
Lowered reduce_l1(Call& c) { return reduce(c, "add", 18, op::abs); }
Lowered reduce_l2(Call& c) { return reduce(c, "add", 18, op::square, op::sqrt); }
Lowered reduce_sum_square(Call& c) { return reduce(c, "add", 18, op::square); }
Lowered reduce_log_sum(Call& c) { return reduce(c, "add", 18, {}, op::log); }

Lowered reduce_mean(Call& c) {
  const Over o = TRY(over(c));
  if (o.nothing) return Values{c.in[0]};
  const Value x = TRY(c.b.widen(c.in[0]));
  return one(c.b.convert(TRY(c.b.mean(x, o.axes, o.keep)), dtype(c.in[0])));
}

// The largest is taken out first, where it is finite.
Lowered reduce_log_sum_exp(Call& c) {
  const Over o = TRY(over(c));
  if (o.nothing) return Values{c.in[0]};
  Value x = TRY(c.b.widen(c.in[0]));
  if (!is_float(x)) x = TRY(c.b.convert(x, Dtype::f64));
  const Value top = TRY(c.b.reduce(x, "maximum", o.axes, true));
  const Value base = TRY(c.b.select(TRY(c.b.unary(op::is_finite, top)), top, TRY(c.b.number(dtype(x), 0))));
  const Value powers = TRY(c.b.unary(op::exponential, TRY(c.b.binary(op::subtract, x, base))));
  Value out = TRY(c.b.unary(op::log, TRY(c.b.reduce(powers, "add", o.axes, true))));
  out = TRY(c.b.binary(op::add, out, base));
  if (!o.keep) out = TRY(c.b.reshape(out, dims(TRY(c.b.reduce(x, "add", o.axes, false)))));
  return one(c.b.convert(out, dtype(c.in[0])));
}

// The first of the extreme elements, or the last; NaN is extreme.
Lowered arg_extreme(Call& c, const char* direction, const char* kind) {
  const Value x = c.in[0];
  const int axis = TRY(c.axis(c.integer("axis", 0), rank(x)));
  const bool keep = c.integer("keepdims", 1) != 0, last = c.integer("select_last_index", 0) != 0;
  if (dims(x)[size_t(axis)] == 0) return fail(Code::invalid, cat("of an empty axis of ", ir::text(x.type())));
  ir::Region region;
  for (Dtype d : {dtype(x), Dtype::s64, dtype(x), Dtype::s64})
    region.params.push_back(c.b.graph.parameter(ir::tensor_type(d, {})));
  const Value a = region.params[0], i = region.params[1], b = region.params[2], k = region.params[3];
  Value wins = TRY(c.b.compare(a, b, direction));
  if (is_float(x)) wins = TRY(c.b.binary(op::or_, wins, TRY(c.b.compare(a, a, "NE"))));
  const Value tie = TRY(c.b.binary(op::and_, TRY(c.b.compare(a, b, "EQ")), TRY(c.b.compare(i, k, last ? "GT" : "LT"))));
  region.results = {TRY(c.b.select(wins, a, b)), TRY(c.b.select(TRY(c.b.binary(op::or_, wins, tie)), i, k))};
  const ir::Node* node = TRY(c.b.node(
      {.op = op::reduce,
       .inputs = {x, TRY(c.b.iota(Dtype::s64, dims(x), axis)), TRY(c.b.identity(kind, dtype(x))), c.b.integer(0)},
       .attrs = {{"dimensions", Ints{axis}}},
       .regions = {std::move(region)}}));
  Dims to = dims(x);
  to[size_t(axis)] = 1;
  if (!keep) to.erase(to.begin() + axis);
  return one(c.b.reshape(node->result(1), to));
}

Lowered arg_max(Call& c) { return arg_extreme(c, "GT", "maximum"); }
Lowered arg_min(Call& c) { return arg_extreme(c, "LT", "minimum"); }

const Row kRows[] = {
    {"ArgMax", 1, 1, 1, arg_max},
    {"ArgMin", 1, 1, 1, arg_min},
    {"ReduceL1", 1, 1, 2, reduce_l1},
    {"ReduceL2", 1, 1, 2, reduce_l2},
    {"ReduceLogSum", 1, 1, 2, reduce_log_sum},
    {"ReduceLogSumExp", 1, 1, 2, reduce_log_sum_exp},
    {"ReduceMax", 1, 1, 2, reduce_max},
    {"ReduceMean", 1, 1, 2, reduce_mean},
    {"ReduceMin", 1, 1, 2, reduce_min},
    {"ReduceProd", 1, 1, 2, reduce_prod},
    {"ReduceSum", 1, 1, 2, reduce_sum},
    {"ReduceSumSquare", 1, 1, 2, reduce_sum_square},
};

}  // namespace

std::span<const Row> rows_reduce() { return kRows; }

}  // namespace trine::front::onnx
