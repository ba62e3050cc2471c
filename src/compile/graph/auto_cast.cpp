// Tables of rules; what was asked for travels in the graph's attributes.
#include <algorithm>

#include "compile/graph/numerics.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ops/build.h"

namespace trine::compile {

using ir::Graph;
using ir::Node;
using ir::Replacement;
using ir::Value;

namespace {

constexpr std::string_view kType = "auto_cast_type", kSeed = "rounding_seed";

bool is_product(const Node& node) { return node.op == op::dot_general || node.op == op::convolution; }
bool is_narrow(Dtype dtype) {
  return row(dtype).kind == DtypeKind::floating && row(dtype).bits <= 16 && row(dtype).bits >= 8;
}

// The format for a product's operands: as asked for, or wider where its precision says so. f32: leave it.
Dtype operand_type(const Graph& graph, const Node& node) {
  Dtype type = Dtype(graph.attrs.integer(kType));
  for (const std::string& precision : node.attrs.strings("precision")) {
    if (precision == "HIGHEST") return Dtype::f32;
    if (precision == "HIGH") type = Dtype::tf32;
  }
  return type;
}

Value rounded(Graph& graph, const Value& v, Dtype type, uint32_t where) {
  const FloatFormat& format = row(type).format;
  return graph
      .add({.op = op::reduce_precision,
            .inputs = {v},
            .attrs = {{"exponent_bits", int64_t(format.exponent_bits)},
                      {"mantissa_bits", int64_t(format.mantissa_bits)}},
            .types = {ir::tensor_type(v.type().dtype, v.type().dims)},
            .where = where})
      ->result();
}

ir::Spec spec_of(const Node& node) {
  return {.op = node.op,
          .inputs = node.inputs,
          .attrs = node.attrs,
          .regions = node.regions,
          .types = node.types,
          .where = node.where,
          .is_unique = node.is_unique};
}

bool is_rounded_to(const Value& v, Dtype type) {
  return v.node->op == op::reduce_precision &&
         v.node->attrs.integer("mantissa_bits") <= row(type).format.mantissa_bits &&
         v.node->attrs.integer("exponent_bits") <= row(type).format.exponent_bits;
}

// tf32 has no storage of its own: it is f32 with the low bits gone.
Replacement cast_operands(Graph& graph, const Node& node) {
  if (!is_product(node) || node.types[0].dtype != Dtype::f32) return {};
  const Dtype type = operand_type(graph, node);
  ir::Spec spec = spec_of(node);
  bool changed = false;
  for (Value& v : spec.inputs) {
    if (type == Dtype::f32 || v.type().dtype != Dtype::f32) continue;
    if (type == Dtype::tf32 && is_rounded_to(v, type)) continue;
    v = type == Dtype::tf32 ? rounded(graph, v, type, node.where) : ops::Make(graph, node.where).convert(v, type);
    changed = true;
  }
  // The host multiplies two of a kind.
  if (!changed || spec.inputs[0].type().dtype != spec.inputs[1].type().dtype) return {};
  return {graph.add(std::move(spec))->result()};
}

bool computes(const Node& node) {
  const ops::Op* op = ops::find_op(node.op);
  if (!op || node.op == op::reduce_precision || node.is_unique) return false;
  return op->kind == ops::OpKind::elementwise || op->kind == ops::OpKind::reduction || is_product(node);
}

// Inputs of the program are rounded where they are first used, everything else where it is made.
Replacement round_all(Graph& graph, const Node& node) {
  const Dtype type = Dtype(graph.attrs.integer(kType));
  if (!computes(node) || (is_product(node) && operand_type(graph, node) != type)) return {};
  const auto is_f32 = [](const ir::Type& t) { return !t.is_token && t.dtype == Dtype::f32; };
  ir::Spec spec = spec_of(node);
  for (Value& v : spec.inputs)
    if (v.node->op == op::parameter && is_f32(v.type())) v = rounded(graph, v, type, node.where);
  const bool is_made = std::any_of(node.types.begin(), node.types.end(), is_f32);
  if (!is_made && spec.inputs == node.inputs) return {};
  const Node* made = graph.add(std::move(spec));
  Replacement out;
  for (uint32_t r = 0; r < node.types.size(); ++r)
    out.push_back(is_f32(node.types[r]) ? rounded(graph, made->result(r), type, node.where) : made->result(r));
  return out;
}

Value by_chance(Graph& graph, const Value& wide, Dtype type, uint32_t where) {
  return graph
      .add({.op = op::stochastic_convert,
            .inputs = {wide},
            .attrs = {{"seed", graph.attrs.integer(kSeed)}},
            .types = {ir::tensor_type(type, wide.type().dims)},
            .where = where,
            .is_unique = true})
      ->result();
}

Replacement convert_by_chance(Graph& graph, const Node& node) {
  const Dtype from = node.inputs[0].type().dtype, to = node.types[0].dtype;
  if (!is_narrow(to) || (from != Dtype::f32 && from != Dtype::f64)) return {};
  const Value wide = ops::Make(graph, node.where).convert(node.inputs[0], Dtype::f32);
  return {by_chance(graph, wide, to, node.where)};
}

// A narrow result is computed wide, which is exact where the op is, and then rounded.
Replacement compute_wide(Graph& graph, const Node& node) {
  if (!computes(node) || node.types.size() != 1 || !is_narrow(node.types[0].dtype) || !node.regions.empty() ||
      node.op == op::convert || node.op == op::select)
    return {};
  ir::Spec spec = spec_of(node);
  const Dtype type = node.types[0].dtype;
  for (Value& v : spec.inputs)
    if (!is_product(node) && is_narrow(v.type().dtype)) v = ops::Make(graph, node.where).convert(v, Dtype::f32);
  spec.types[0].dtype = Dtype::f32;
  return {by_chance(graph, graph.add(std::move(spec))->result(), type, node.where)};
}

constexpr ir::Rule kCastRules[] = {{"cast operands of products", {}, cast_operands}};
constexpr ir::Rule kAllRules[] = {{"cast operands of products", {}, cast_operands}, {"cast all", {}, round_all}};
constexpr ir::Rule kChanceRules[] = {{"convert by chance", op::convert, convert_by_chance},
                                     {"compute wide, round by chance", {}, compute_wide}};

}  // namespace

Graph auto_cast(const Graph& graph, const Numerics& numerics) {
  Graph asked = ir::copy(graph);
  if (numerics.cast == AutoCast::none) return asked;
  asked.attrs.set(kType, int64_t(numerics.type));
  Graph out =
      numerics.cast == AutoCast::all ? ir::rewrite(asked, kAllRules).graph : ir::rewrite(asked, kCastRules).graph;
  out.attrs.remove(kType);
  return out;
}

Graph round_stochastically(const Graph& graph, const Numerics& numerics) {
  Graph asked = ir::copy(graph);
  if (!numerics.is_stochastic) return asked;
  asked.attrs.set(kSeed, int64_t(numerics.seed));
  Graph out = ir::rewrite(asked, kChanceRules).graph;
  out.attrs.remove(kSeed);
  return out;
}

}  // namespace trine::compile
