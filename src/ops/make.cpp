// Building checked nodes, and finding ops by name. The table itself is written by the build.
#include <algorithm>

#include "base/text.h"
#include "ir/op_ids.h"
#include "ops/op.h"

namespace trine::ops {

const Op* find_op(ir::OpId op) {
  return op > op::parameter ? all_ops()[size_t(op.index - op::parameter.index - 1)] : nullptr;
}

const Op* find_op(std::string_view name) {
  const auto op = ir::OpId::find(name);
  return op ? find_op(*op) : nullptr;
}

static std::string call_text(const ir::Spec& spec) {
  std::string out = cat(spec.op, "(");
  for (size_t i = 0; i < spec.inputs.size(); ++i) append_text(out, cat(i ? ", " : "", ir::text(spec.inputs[i].type())));
  return out + ")";
}

// The op and the result types of what would be a node.
struct Judged {
  const Op* op = nullptr;
  std::vector<ir::Type> types = {};
};

static Result<void> countable(const ir::Spec& spec, std::span<const ir::Type> types) {
  for (const ir::Type& t : types)
    if (!ir::is_countable(t)) return fail(Code::out_of_range, cat(call_text(spec), ": a result of ", ir::text(t)));
  return {};
}

static Result<Judged> judge(const ir::Spec& spec) {
  const Op* op = find_op(spec.op);
  if (!op) return fail(Code::unsupported, cat("no type rule is known for `", spec.op, "`"));
  if (op->arity >= 0 && spec.inputs.size() != size_t(op->arity))
    return fail(Code::invalid, cat(spec.op, " takes ", op->arity, " inputs; ", spec.inputs.size(), " given"));
  TRY(countable(spec, spec.types));
  std::vector<ir::Type> inputs;
  for (const ir::Value& v : spec.inputs) inputs.push_back(v.type());
  if (!op->takes_tokens && std::any_of(inputs.begin(), inputs.end(), [](const ir::Type& t) { return t.is_token; }))
    return fail(Code::invalid, cat(call_text(spec), ": takes tensors, no tokens"));
  auto types = op->infer({inputs, spec.attrs, spec.regions, spec.types});
  if (!types) return fail(types.error().code, cat(call_text(spec), ": ", types.error().message));
  TRY(countable(spec, *types));
  if (!spec.types.empty() &&
      !std::equal(types->begin(), types->end(), spec.types.begin(), spec.types.end(), ir::same_tensor))
    return fail(Code::invalid, cat(call_text(spec), " gives ", types->empty() ? "nothing" : ir::text(types->front()),
                                   "; ", ir::text(spec.types.front()), " was declared"));
  return Judged{op, std::move(*types)};
}

Result<const ir::Node*> make(ir::Graph& graph, ir::Spec spec) {
  auto judged = judge(spec);
  if (!judged) return fail(judged.error().code, judged.error().message, graph.location(spec.where));
  if (spec.types.empty()) spec.types = std::move(judged->types);
  spec.is_unique |= judged->op->has_effect;
  return graph.add(std::move(spec));
}

Result<void> check(const ir::Graph& graph, const ir::Node& node) {
  auto judged = judge({node.op, node.inputs, node.attrs, node.regions, node.types});
  if (!judged) return fail(judged.error().code, judged.error().message, graph.location(node.where));
  return {};
}

}  // namespace trine::ops
