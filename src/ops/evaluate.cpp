// The reference interpreter: nodes in order, each by its op's meaning.
#include "ops/evaluate.h"

#include <unistd.h>

#include "base/text.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::ops {

namespace {

// The machine's memory bounds what a program may ask for; past it the kernel would end the process.
Result<std::vector<Tensor>> outputs_for(const ir::Node& node) {
  static const double machine = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
  double wanted = 0;
  for (const ir::Type& t : node.types) wanted += t.is_token ? 0 : double(t.elements()) * bytes(t.dtype);
  if (wanted > machine)
    return fail(Code::out_of_memory,
                cat(node.op, " makes ", with_unit_bytes(wanted), "; the machine has ", with_unit_bytes(machine)));
  std::vector<Tensor> out;
  for (const ir::Type& t : node.types) out.push_back(t.is_token ? Tensor{} : Tensor::make(t.dtype, t.dims));
  return out;
}

TensorView view_in(const Environment& env, const ir::Value& v) { return env.at(v.node)[v.index].view(); }

Result<void> run_node(const ir::Node& node, Environment& env) {
  if (const Tensor* value = ir::constant_of(node)) {
    env[&node] = {*value};
    return {};
  }
  std::vector<TensorView> in, around, out;
  for (const ir::Value& v : node.inputs) in.push_back(view_in(env, v));
  for (const ir::Value& v : node.captures) around.push_back(view_in(env, v));
  std::vector<Tensor> results = TRY(outputs_for(node));
  for (const Tensor& t : results) out.push_back(t.view());
  TRY(evaluate(node, in, around, out));
  env[&node] = std::move(results);
  return {};
}

// A tensor that borrows a view's memory, for as long as one evaluation.
Tensor borrowed(const TensorView& v) {
  return {v.dtype, v.dims, std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(v.data))};
}

}  // namespace

Result<std::vector<Tensor>> Evaluator::run(const ir::Region& region, std::span<const Tensor> args) {
  CHECK(args.size() == region.params.size(), "a region is given its parameters");
  Environment env = around_;
  for (size_t i = 0; i < args.size(); ++i) env[region.params[i].node] = {args[i]};
  for (const ir::Node* node : ir::body_of(region).nodes) TRY(run_node(*node, env));
  std::vector<Tensor> results;
  for (const ir::Value& v : region.results) results.push_back(env.at(v.node)[v.index]);
  return results;
}

Result<void> evaluate(const ir::Node& node, std::span<const TensorView> inputs, std::span<const TensorView> captures,
                      std::span<const TensorView> outputs) {
  const Op* op = find_op(node.op);
  if (!op || !op->eval) return fail(Code::unsupported, cat("no meaning is known for the op `", node.op, "`"));
  Environment around;
  for (size_t i = 0; i < captures.size(); ++i) {
    const ir::Value& v = node.captures[i];
    auto& results = around[v.node];
    results.resize(v.node->types.size());
    results[v.index] = borrowed(captures[i]);
  }
  Evaluator regions(around);
  return op->eval({node, inputs, outputs, regions});
}

Result<std::vector<Tensor>> evaluate(const ir::Graph& graph, std::span<const Tensor> args) {
  if (args.size() != graph.params.size())
    return fail(Code::invalid, cat("the program takes ", graph.params.size(), " arguments; ", args.size(), " given"));
  Environment env;
  for (size_t i = 0; i < args.size(); ++i) {
    const ir::Type& want = graph.params[i].type();
    if (args[i].dtype != want.dtype || args[i].dims != want.dims)
      return fail(Code::invalid,
                  cat("argument ", i, " is ", shape_text(args[i].dtype, args[i].dims), "; expected ", ir::text(want)));
    env[graph.params[i].node] = {args[i]};
  }
  for (const ir::Node* node : graph.order())
    if (node->op != op::parameter) TRY(run_node(*node, env));
  std::vector<Tensor> results;
  for (const ir::Value& v : graph.results) results.push_back(env.at(v.node)[v.index]);
  return results;
}

}  // namespace trine::ops
