// Text to results, by way of the reference evaluator.
#include "compile/graph/evaluate.h"

#include <cstring>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"

namespace trine::compile {

Result<std::vector<Tensor>> evaluate_text(std::string_view graph,
                                          std::span<const std::span<const std::byte>> arguments) {
  const ir::Graph program = TRY(ir::parse_graph(graph, "graph"));
  TRY(ir::verify(program, ops::check));
  if (arguments.size() != program.params.size())
    return fail(Code::invalid,
                cat("the program takes ", program.params.size(), " arguments; ", arguments.size(), " given"));
  std::vector<Tensor> args;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const ir::Type& type = program.params[i].type();
    args.push_back(type.is_token ? Tensor{} : Tensor::make(type.dtype, type.dims));
    const size_t size = type.is_token ? 0 : args[i].bytes();
    if (arguments[i].size() != size)
      return fail(Code::invalid,
                  cat("argument ", i, " has ", arguments[i].size(), " bytes; ", ir::text(type), " has ", size));
    if (size) std::memcpy(args[i].data.get(), arguments[i].data(), size);
  }
  std::vector<Tensor> all = TRY(ops::evaluate(program, args)), results;
  for (size_t i = 0; i < all.size(); ++i)
    if (!program.results[i].type().is_token) results.push_back(std::move(all[i]));
  return results;
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const ops::Op* op : ops::all_ops()) names.push_back(op->name);
  return names;
}

std::vector<OpAbroad> ops_abroad() {
  std::vector<OpAbroad> out;
  for (const ops::Op* op : ops::all_ops())
    if (!op->abroad.onnx.empty() || !op->abroad.torch.empty())
      out.push_back({op->name, op->arity, op->abroad.onnx, op->abroad.torch});
  return out;
}

}  // namespace trine::compile
