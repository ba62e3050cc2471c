// The rules. Floating ones keep every bit, NaNs included: x + 0 is not x when x is -0, so it stays. Sums alone, whose
// order is free, and approximations that are known, may differ in rounding and in the sign of a zero.
#include "compile/graph/simplify.h"

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "compile/graph/complex_parts.h"
#include "compile/graph/loop_invariants.h"
#include "compile/graph/narrow_index.h"
#include "compile/graph/recognise.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/evaluate.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

namespace tuned = thresholds::fold;

bool is_splat(const Value& v, double want) {
  const auto x = ir::splat(v);
  return x == want && (!is_floating(v.type().dtype) || !std::signbit(*x));
}

// The elements of a constant of integers.
std::vector<int64_t> whole_numbers(const Tensor& t) {
  return dispatch_element(t.dtype, [&](auto element) {
    using E = decltype(element);
    std::vector<int64_t> out(size_t(element_count(t.dims)), 0);
    if constexpr (E::kIsInteger)
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = int64_t(E::load(t.view().template as<const typename E::Storage>()[i]));
    return out;
  });
}

bool is_whole(const Value& v) { return is_integer(v.type().dtype) || v.type().dtype == Dtype::boolean; }

Replacement the(const Value& v) { return {v}; }

// Whether loops compute it as what it is made of: they have no instruction for the op, but for its dtypes.
bool decomposes_for_loops(const Node& node) {
  const ops::Op* op = ops::find_op(node.op);
  if (!op || !op->decompose || op->host || op->kind != ops::OpKind::elementwise) return false;
  return std::ranges::all_of(node.inputs, [](const Value& v) { return arch::is_loop_dtype(v.type().dtype); }) &&
         std::ranges::all_of(node.types, [](const ir::Type& t) { return arch::is_loop_dtype(t.dtype); });
}

Replacement decompose_for_loops(Graph& graph, const Node& node) {
  return decomposes_for_loops(node) ? ops::find_op(node.op)->decompose(graph, node) : Replacement{};
}

// Functions whose loops on the host round otherwise than the reference by an ulp or a few.
bool is_approximate(const Node& node) {
  static constexpr ir::OpId kFunctions[] = {
      op::cosine, op::erf,     op::erfc,         op::erf_inv, op::exponential,
      op::log,    op::sine,    op::log_plus_one, op::tan,     op::exponential_minus_one,
      op::tanh,   op::logistic};
  return (node.types[0].dtype != Dtype::f64 && std::ranges::find(kFunctions, node.op) != std::end(kFunctions)) ||
         decomposes_for_loops(node);
}

// Every input constant and the result small: computed now.
Replacement fold(Graph& graph, const Node& node) {
  if (node.op == op::constant || node.op == op::parameter || node.op == op::iota || node.is_unique ||
      !node.regions.empty() || node.types.size() != 1 || node.types[0].is_token ||
      node.types[0].elements() > tuned::kFoldedMax)
    return {};
  std::vector<TensorView> in;
  for (const Value& v : node.inputs) {
    const Tensor* t = ir::constant_of(v);
    if (!t) return {};
    in.push_back(t->view());
  }
  const ops::Op* op = ops::find_op(node.op);
  if (!op || !op->eval || op->has_effect || op->kind == ops::OpKind::collective || node.inputs.empty()) return {};
  // A scalar repeated is cheaper kept as it is.
  if (node.op == op::broadcast_in_dim && node.inputs[0].type().elements() == 1 && node.types[0].elements() > 1)
    return {};
  Tensor out = Tensor::make(node.types[0].dtype, node.types[0].dims);
  const TensorView to[] = {out.view()};
  if (!ops::evaluate(node, in, {}, to)) return {};
  return the(graph.constant(std::move(out), node.where));
}

// A program gives the same bits whether a number is a constant in it or an argument.
Replacement fold_for_host(Graph& graph, const Node& node) {
  return node.types.size() == 1 && is_approximate(node) ? Replacement{} : fold(graph, node);
}

Replacement same_dims(Graph&, const Node& n) {
  return n.inputs[0].type().dims == n.types[0].dims ? the(n.inputs[0]) : Replacement{};
}

Replacement reshape_of_reshape(Graph& g, const Node& n) {
  const Node& inner = *n.inputs[0].node;
  if (inner.op != op::reshape) return {};
  return the(g.add1(op::reshape, inner.inputs, n.types[0], {}, n.where));
}

Replacement broadcast_of_broadcast(Graph& g, const Node& n) {
  const Node& inner = *n.inputs[0].node;
  if (inner.op != op::broadcast_in_dim) return {};
  ir::Ints to;
  for (int64_t d : inner.attrs.ints("broadcast_dimensions"))
    to.push_back(n.attrs.ints("broadcast_dimensions")[size_t(d)]);
  return the(g.add1(op::broadcast_in_dim, inner.inputs, n.types[0], {{"broadcast_dimensions", to}}, n.where));
}

Replacement broadcast_in_place(Graph&, const Node& n) {
  const ir::Ints& to = n.attrs.ints("broadcast_dimensions");
  return n.inputs[0].type().dims == n.types[0].dims && std::is_sorted(to.begin(), to.end()) ? the(n.inputs[0])
                                                                                            : Replacement{};
}

Replacement transpose_nothing(Graph&, const Node& n) {
  const ir::Ints& p = n.attrs.ints("permutation");
  return std::is_sorted(p.begin(), p.end()) ? the(n.inputs[0]) : Replacement{};
}

Replacement transpose_of_transpose(Graph& g, const Node& n) {
  const Node& inner = *n.inputs[0].node;
  if (inner.op != op::transpose) return {};
  ir::Ints both;
  for (int64_t d : n.attrs.ints("permutation")) both.push_back(inner.attrs.ints("permutation")[size_t(d)]);
  return the(g.add1(op::transpose, inner.inputs, n.types[0], {{"permutation", both}}, n.where));
}

Replacement convert_nothing(Graph&, const Node& n) {
  return n.inputs[0].type().dtype == n.types[0].dtype ? the(n.inputs[0]) : Replacement{};
}

Replacement slice_all(Graph&, const Node& n) {
  return n.inputs[0].type().dims == n.types[0].dims ? the(n.inputs[0]) : Replacement{};
}

Replacement select_known(Graph&, const Node& n) {
  const Tensor* p = ir::splat_of(n.inputs[0]);
  if (!p) return {};
  return the(*p->view().as<const uint8_t>() ? n.inputs[1] : n.inputs[2]);
}

// As JAX writes what depends on the platform.
Replacement case_known(Graph& g, const Node& n) {
  const Tensor* const t = ir::constant_of(n.inputs[0]);
  if (!t) return {};
  const int64_t index = *t->view().as<const int32_t>(), last = int64_t(n.regions.size()) - 1;
  const ir::Region& branch = n.regions[size_t(index < 0 || index > last ? last : index)];
  if (!branch.effects.empty()) return {};
  return ir::inlined(g, branch, std::span(n.inputs).subspan(1));
}

Replacement select_same(Graph&, const Node& n) { return n.inputs[1] == n.inputs[2] ? the(n.inputs[1]) : Replacement{}; }

// Between truths: c ? true : false is c, c ? x : false is c & x.
Replacement select_truth(Graph& g, const Node& n) {
  if (n.types[0].dtype != Dtype::boolean || n.inputs[0].type().dims != n.types[0].dims || !is_splat(n.inputs[2], 0))
    return {};
  if (is_splat(n.inputs[1], 1)) return the(n.inputs[0]);
  return the(g.add1(op::and_, {n.inputs[0], n.inputs[1]}, n.types[0], {}, n.where));
}
// x & true and x | false are x; x & false and x | true are known.
template <int kNeutral>
Replacement truth_with_known(Graph&, const Node& n) {
  if (n.types[0].dtype != Dtype::boolean) return {};
  for (size_t i : {0, 1}) {
    if (is_splat(n.inputs[i], kNeutral)) return the(n.inputs[1 - i]);
    if (is_splat(n.inputs[i], 1 - kNeutral)) return the(n.inputs[i]);
  }
  return {};
}

Replacement whole_add_zero(Graph&, const Node& n) {
  if (!is_whole(n.inputs[0])) return {};
  if (is_splat(n.inputs[1], 0)) return the(n.inputs[0]);
  return is_splat(n.inputs[0], 0) ? the(n.inputs[1]) : Replacement{};
}

Replacement times_one(Graph&, const Node& n) {
  if (is_splat(n.inputs[1], 1)) return the(n.inputs[0]);
  return is_splat(n.inputs[0], 1) ? the(n.inputs[1]) : Replacement{};
}

// x * convert(truth) is truth ? x : 0, whatever x is. Truths that are known are numbers by then, in XLA too.
Replacement times_truth(Graph& g, const Node& n) {
  for (size_t i : {0, 1}) {
    const Node& factor = *n.inputs[i].node;
    if (factor.op != op::convert || factor.inputs[0].type().dtype != Dtype::boolean ||
        ir::constant_of(factor.inputs[0]))
      continue;
    const Value zeros = ops::Make(g, n.where).number(n.types[0].dtype, 0, n.types[0].dims);
    return the(g.add1(op::select, {factor.inputs[0], n.inputs[1 - i], zeros}, n.types[0], {}, n.where));
  }
  return {};
}

Replacement by_one(Graph&, const Node& n) { return is_splat(n.inputs[1], 1) ? the(n.inputs[0]) : Replacement{}; }

Replacement minus_zero(Graph&, const Node& n) { return is_splat(n.inputs[1], 0) ? the(n.inputs[0]) : Replacement{}; }

Replacement square(Graph& g, const Node& n) {
  if (!is_splat(n.inputs[1], 2)) return {};
  return the(g.add1(op::multiply, {n.inputs[0], n.inputs[0]}, n.types[0], {}, n.where));
}

// The sign is lost anyway, as is that of the least integer.
Replacement square_of_size(Graph& g, const Node& n) {
  const Node& size = *n.inputs[0].node;
  if (n.inputs[0] != n.inputs[1] || size.op != op::abs || size.inputs[0].type() != n.types[0]) return {};
  return the(g.add1(op::multiply, {size.inputs[0], size.inputs[0]}, n.types[0], {}, n.where));
}

Replacement barrier(Graph&, const Node& n) { return n.inputs; }

// How it lies was told when the program was partitioned.
Replacement inspected(Graph&, const Node& n) {
  return !n.is_unique && n.attrs.text("call_target_name") == "InspectSharding" ? n.inputs : Replacement{};
}

// Integers whose products are asked for as floats are floats before, as in XLA; so with every other kind. Narrow floats
// are summed wide.
Replacement multiply_as_result(Graph& g, const Node& n) {
  const Dtype result = n.types[0].dtype;
  const auto is_of_its_kind = [&](const Value& v) {
    const Dtype d = v.type().dtype;
    return is_floating(d) == is_floating(result) && is_complex(d) == is_complex(result) &&
           (d == Dtype::boolean) == (result == Dtype::boolean);
  };
  if (is_of_its_kind(n.inputs[0]) && is_of_its_kind(n.inputs[1])) return {};
  const Dtype dtype = is_floating(result) && bytes(result) < 4 ? Dtype::f32 : result;
  std::vector<Value> inputs;
  for (const Value& v : n.inputs) inputs.push_back(ops::Make(g, n.where).convert(v, dtype));
  return the(g.add1(n.op, std::move(inputs), n.types[0], n.attrs, n.where));
}

// A product's operand without its depth of one element, repeated over the result's dims; `to`: where its free dims go.
Value without_depth(ops::Make& make, const Node& n, size_t side, const ir::Ints& to) {
  const ir::Ints& depth = n.attrs.ints(side == 0 ? "lhs_contract" : "rhs_contract");
  const Dims& dims = n.inputs[side].type().dims;
  Dims own;
  ir::Ints at;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (std::ranges::find(depth, int64_t(d)) != depth.end()) continue;
    own.push_back(dims[d]), at.push_back(to[d]);
  }
  const Value same = make.convert(n.inputs[side], n.types[0].dtype);
  return make.broadcast(make.reshape(same, own), n.types[0].dims, at);
}

// A product of one element's depth sums nothing: it is elementwise, and part of the loops around it.
Replacement product_without_depth(Graph& g, const Node& n) {
  const Dtype result = n.types[0].dtype;
  for (const Value& v : n.inputs) {
    const Dtype d = v.type().dtype;
    const bool is_same_kind = is_floating(d) == is_floating(result) && d != Dtype::boolean;
    if (!arch::is_loop_dtype(d) || !is_same_kind || bits(d) > bits(result)) return {};
  }
  if (!arch::is_loop_dtype(result) || result == Dtype::boolean) return {};
  int64_t at = 0;
  ir::Ints to[2];
  for (size_t side : {0, 1}) to[side].assign(n.inputs[side].type().dims.size(), -1);
  const ir::Ints &left = n.attrs.ints("lhs_batch"), &right = n.attrs.ints("rhs_batch");
  for (size_t i = 0; i < left.size(); ++i, ++at) to[0][size_t(left[i])] = to[1][size_t(right[i])] = at;
  for (size_t side : {0, 1}) {
    const ir::Ints& depth = n.attrs.ints(side == 0 ? "lhs_contract" : "rhs_contract");
    for (int64_t d : depth)
      if (n.inputs[side].type().dims[size_t(d)] != 1) return {};
    for (size_t d = 0; d < to[side].size(); ++d)
      if (to[side][d] < 0 && std::ranges::find(depth, int64_t(d)) == depth.end()) to[side][d] = at++;
  }
  ops::Make make(g, n.where);
  const Value a = without_depth(make, n, 0, to[0]), b = without_depth(make, n, 1, to[1]);
  return the(g.add1(op::multiply, {a, b}, n.types[0], {}, n.where));
}

// A slice whose start is known: clamped as dynamic_slice clamps.
Replacement slice_known(Graph& g, const Node& n) {
  ir::Ints start, limit;
  const Dims &whole = n.inputs[0].type().dims, &part = n.types[0].dims;
  for (size_t d = 0; d < whole.size(); ++d) {
    const Tensor* t = ir::constant_of(n.inputs[d + 1]);
    if (!t) return {};
    const int64_t at = whole_numbers(*t)[0];
    start.push_back(std::clamp<int64_t>(at, 0, whole[d] - part[d]));
    limit.push_back(start.back() + part[d]);
  }
  return the(g.add1(op::slice, {n.inputs[0]}, n.types[0],
                    {{"start_indices", start}, {"limit_indices", limit}, {"strides", ir::Ints(whole.size(), 1)}},
                    n.where));
}

// A sum or product over dims of one element is the element.
Replacement reduce_nothing(Graph& g, const Node& n) {
  const std::string_view kind = n.attrs.text("kind");
  const bool logical = n.types[0].dtype == Dtype::boolean;
  const bool starts_neutral =
      n.inputs.size() == 2 && (((kind == "add" || kind == "or") && is_splat(n.inputs[1], 0)) ||
                               ((kind == "multiply" || (kind == "and" && logical)) && is_splat(n.inputs[1], 1)));
  if (!starts_neutral || n.inputs[0].type().elements() != n.types[0].elements()) return {};
  return the(g.add1(op::reshape, {n.inputs[0]}, n.types[0], {}, n.where));
}

bool is_sum_into_zeros(const Node& n) {
  return n.op == op::scatter && n.regions.empty() && n.inputs.size() == 3 && n.attrs.text("kind") == "add" &&
         is_splat(n.inputs[0], 0);
}

// Sums of a scatter may begin anywhere: their order is nobody's.
Replacement add_scattered(Graph& g, const Node& n) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const Node& scatter = *n.inputs[i].node;
    if (!is_sum_into_zeros(scatter) || n.inputs[1 - i] == n.inputs[i]) continue;
    return the(g.add1(op::scatter, {n.inputs[1 - i], scatter.inputs[1], scatter.inputs[2]}, n.types[0], scatter.attrs,
                      n.where));
  }
  return {};
}

// One element of each row of zeros: a comparison with the position, which goes along with other loops.
// The only index known and inside: a slice combined with the update, and put back.
Replacement scatter_known(Graph& g, const Node& n) {
  if (!n.regions.empty() || n.inputs.size() != 3) return {};
  const Tensor* index = ir::constant_of(n.inputs[1]);
  const ir::Ints &along = n.attrs.ints("scatter_dims_to_operand_dims"),
                 &inserted = n.attrs.ints("inserted_window_dims"), &window = n.attrs.ints("update_window_dims");
  if (!index || n.inputs[1].type().elements() != int64_t(along.size()) || along.empty() ||
      !n.attrs.ints("input_batching_dims").empty())
    return {};
  const Dims &dims = n.types[0].dims, &update = n.inputs[2].type().dims;
  ir::Ints start(dims.size(), 0), limit, ones(dims.size(), 1);
  Dims sizes(dims.size(), 1);
  for (size_t d = 0, w = 0; d < dims.size(); ++d)
    if (std::find(inserted.begin(), inserted.end(), int64_t(d)) == inserted.end())
      sizes[d] = update[size_t(window[w++])];
  const auto at = whole_numbers(*index);
  for (size_t i = 0; i < along.size(); ++i) start[size_t(along[i])] = at[i];
  for (size_t d = 0; d < dims.size(); ++d) {
    if (start[d] < 0 || start[d] > dims[d] - sizes[d] || dims[d] > INT32_MAX) return {};
    limit.push_back(start[d] + sizes[d]);
  }
  const ir::Type part = ir::tensor_type(n.types[0].dtype, sizes);
  Value made = g.add1(op::reshape, {n.inputs[2]}, part, {}, n.where);
  if (const std::string kind(n.attrs.text("kind")); kind != "set") {
    const Value old = g.add1(op::slice, {n.inputs[0]}, part,
                             {{"start_indices", start}, {"limit_indices", limit}, {"strides", ones}}, n.where);
    made = g.add1(ir::op_named(kind), {old, made}, part, {}, n.where);
  }
  std::vector<Value> inputs = {n.inputs[0], made};
  for (int64_t s : start) inputs.push_back(g.constant(scalar(Dtype::s32, double(s)), n.where));
  return the(g.add1(op::dynamic_update_slice, inputs, n.types[0], {}, n.where));
}
Replacement scatter_one_each(Graph& g, const Node& n) {
  if (!is_sum_into_zeros(n)) return {};
  const Dims& dims = n.types[0].dims;
  const ir::Type &index = n.inputs[1].type(), &update = n.inputs[2].type();
  const ir::Ints &batch = n.attrs.ints("input_batching_dims"), &along = n.attrs.ints("scatter_dims_to_operand_dims"),
                 &index_batch = n.attrs.ints("scatter_indices_batching_dims");
  if (along.size() != 1 || n.attrs.ints("inserted_window_dims") != along || bits(index.dtype) < 32 ||
      !std::is_sorted(batch.begin(), batch.end()) || !std::is_sorted(index_batch.begin(), index_batch.end()))
    return {};
  Dims rows;
  for (int64_t d : batch) rows.push_back(dims[size_t(d)]);
  const int64_t each = dims[size_t(along[0])];
  if (n.types[0].elements() != element_count(rows) * each) return {};  // other dims are of one element
  if (index.elements() != element_count(rows) || update.elements() != element_count(rows)) return {};
  ops::Make make(g, n.where);
  auto spread = [&](const Value& v) { return make.broadcast(make.reshape(v, rows), dims, batch); };
  const Value here = make.compare(make.iota(index.dtype, dims, along[0]), spread(n.inputs[1]), "EQ");
  return the(g.add1(op::select, {here, spread(n.inputs[2]), n.inputs[0]}, n.types[0], {}, n.where));
}

Replacement one_part(Graph&, const Node& n) { return n.inputs.size() == 1 ? the(n.inputs[0]) : Replacement{}; }

constexpr ir::Rule kRules[] = {
    {"fold constants", {}, fold},
    {"reshape to the same dims", op::reshape, same_dims},
    {"reshape of reshape", op::reshape, reshape_of_reshape},
    {"broadcast to the same dims", op::broadcast_in_dim, broadcast_in_place},
    {"broadcast of broadcast", op::broadcast_in_dim, broadcast_of_broadcast},
    {"transpose of nothing", op::transpose, transpose_nothing},
    {"transpose of transpose", op::transpose, transpose_of_transpose},
    {"convert to the same dtype", op::convert, convert_nothing},
    {"slice of everything", op::slice, slice_all},
    {"slice at a known place", op::dynamic_slice, slice_known},
    {"select by a known value", op::select, select_known},
    {"select of equals", op::select, select_same},
    {"select between truths", op::select, select_truth},
    {"and with a known truth", op::and_, truth_with_known<1>},
    {"or with a known truth", op::or_, truth_with_known<0>},
    {"case of a known index", op::case_, case_known},
    {"put erfc together", op::select, recognise_erfc},
    {"add zero to integers", op::add, whole_add_zero},
    {"add what is scattered into zeros", op::add, add_scattered},
    {"scatter to a known place", op::scatter, scatter_known},
    {"scatter one element of each row", op::scatter, scatter_one_each},
    {"reduce dims of one element", op::reduce, reduce_nothing},
    {"subtract zero", op::subtract, minus_zero},
    {"multiply by one", op::multiply, times_one},
    {"divide by one", op::divide, by_one},
    {"power of two", op::power, square},
    {"multiply as the result", op::dot_general, multiply_as_result},
    {"concatenate one", op::concatenate, one_part},
    {"barrier", op::optimization_barrier, barrier},
    {"what was inspected", op::custom_call, inspected},
    {"shift places out", op::shift_right_logical, shift_indices_out},
    {"narrow places", op::convert, narrow_indices},
};

}  // namespace

std::span<const ir::Rule> simplify_rules() { return kRules; }

ir::Graph choose_by_truths(const Graph& graph) {
  static constexpr ir::Rule kRule[] = {{"multiply by a truth", op::multiply, times_truth}};
  return ir::rewrite(graph, kRule).graph;
}

ir::Rewritten simplify(const Graph& graph) { return ir::rewrite(graph, kRules); }

ir::Rewritten simplify_for_host(const Graph& graph) {
  static const auto rules = [] {
    std::vector<ir::Rule> out(std::begin(kRules), std::end(kRules));
    for (ir::Rule& rule : out)
      if (rule.apply == fold) rule.apply = fold_for_host;
    out.push_back({"square of an absolute value", op::multiply, square_of_size});
    out.push_back({"product without a depth", op::dot_general, product_without_depth});
    out.push_back({"take argmax apart", op::reduce, take_apart_argmax});
    out.push_back({"compute before a loop", op::while_, hoist_invariants});
    out.push_back({"take complex numbers apart", {}, take_apart_complex});
    out.push_back({"the op's own decomposition", {}, decompose_for_loops});
    return out;
  }();
  return ir::rewrite(graph, rules);
}

}  // namespace trine::compile
