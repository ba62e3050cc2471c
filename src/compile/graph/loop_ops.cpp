// The host column of the ops' rows, and what it takes; see loop_ops.h.
#include "compile/graph/loop_ops.h"

#include <algorithm>

#include "compile/graph/complex_parts.h"
#include "ir/op_ids.h"

namespace trine::compile {

using arch::LoopOp;

namespace {

constexpr int kGather = 5;  // the cost of an element

struct Name {
  std::string_view name;
  LoopOp op;
};
constexpr Name kCompares[] = {{"EQ", LoopOp::eq}, {"NE", LoopOp::ne}, {"LT", LoopOp::lt},
                              {"LE", LoopOp::le}, {"GT", LoopOp::gt}, {"GE", LoopOp::ge}};
constexpr Name kReduces[] = {{"add", LoopOp::reduce_sum},     {"multiply", LoopOp::reduce_prod},
                             {"maximum", LoopOp::reduce_max}, {"minimum", LoopOp::reduce_min},
                             {"and", LoopOp::reduce_and},     {"or", LoopOp::reduce_or},
                             {"xor", LoopOp::reduce_xor}};

LoopOp find(std::span<const Name> names, std::string_view name) {
  for (const Name& n : names)
    if (n.name == name) return n.op;
  return LoopOp::count;
}

bool is_in(Dtype dtype, arch::LoopOpTypes types) {
  const Dtype value = arch::loop_value_type(dtype);
  const int bit = is_floating(value) ? 1 : is_integer(value) ? 2 : 4;
  return (int(types) & bit) != 0;
}

bool has_loop_types(const ir::Node& node) {
  for (const ir::Value& v : node.inputs)
    if (v.type().is_token || !arch::is_loop_dtype(v.type().dtype)) return false;
  return node.types.size() == 1 && !node.types[0].is_token && arch::is_loop_dtype(node.types[0].dtype);
}

// Widths must agree, and narrow floats have no bits of their own in a program.
bool is_plain_bitcast(const ir::Node& node) {
  const Dtype from = node.inputs[0].type().dtype, to = node.types[0].dtype;
  auto plain = [](Dtype d) { return d != Dtype::boolean && arch::loop_value_type(d) == d; };
  return bits(from) == bits(to) && plain(from) && plain(to) && node.inputs[0].type().dims == node.types[0].dims;
}

}  // namespace

const ops::OnHost* loop_row(ir::OpId op) {
  const ops::Op* row = ops::find_op(op);
  return row && row->host ? &row->host : nullptr;
}

LoopOp loop_compare(std::string_view direction) { return find(kCompares, direction); }
LoopOp loop_reduce(std::string_view kind) { return find(kReduces, kind); }

bool is_loop_map(const ir::Node& node) {
  if (is_complex_part(node) || is_complex_pair(node)) return true;
  const ops::OnHost* row = loop_row(node.op);
  if (!row || !has_loop_types(node)) return false;
  if (node.op == op::compare) return loop_compare(node.attrs.text("direction")) != LoopOp::count;
  if (node.op == op::bitcast_convert) return is_plain_bitcast(node);
  if (node.op == op::convert || node.op == op::select) return true;
  const Dtype dtype = node.inputs[0].type().dtype;
  const LoopOp op = dtype == Dtype::boolean && row->logical != LoopOp::count ? row->logical : row->op;
  return is_in(dtype, arch::row(op).types);
}

bool is_loop_reduce(const ir::Node& node) {
  if (node.op != op::reduce || node.inputs.size() != 2 || !node.regions.empty() ||
      node.attrs.ints("dimensions").empty() || !has_loop_types(node))
    return false;
  const std::string_view kind = node.attrs.text("kind");
  const auto op = ir::OpId::find(kind);
  const ops::OnHost* combine = op ? loop_row(*op) : nullptr;
  if (!combine || loop_reduce(kind) == LoopOp::count) return false;
  const Dtype dtype = node.types[0].dtype;
  if (dtype == Dtype::boolean && combine->logical != LoopOp::count) return false;
  return is_in(dtype, arch::row(loop_reduce(kind)).types) && is_in(dtype, arch::row(combine->op).types);
}

int loop_cost(const ir::Node& node) {
  const ops::OnHost* row = loop_row(node.op);
  return row ? row->cost : node.op == op::reduce ? 1 : node.op == op::gather ? kGather : 0;
}

}  // namespace trine::compile
