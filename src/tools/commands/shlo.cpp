// trine shlo: a StableHLO module, bytecode or text, as text.
#include <iostream>
#include <iterator>
#include <map>

#include "base/file.h"
#include "base/text.h"
#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/print/print.h"
#include "front/stablehlo/read.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using namespace front;

void count(const stablehlo::Op& op, std::map<std::string, int64_t, std::less<>>& counts) {
  ++counts[std::string(op.name)];
  for (const stablehlo::Region& region : op.regions)
    for (const stablehlo::Block& block : region.blocks)
      for (const stablehlo::Op& inner : block.ops) count(inner, counts);
}

Result<Exit> run(const Args& args) {
  const std::string& path = args.words[0];
  std::string bytes;
  if (path == "-") {
    bytes.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    bytes = TRY(read_file(path));
  }
  const stablehlo::Module module = TRY(stablehlo::read_module(std::move(bytes), path));
  if (args.has("--graph")) {
    const ir::Graph graph = TRY(stablehlo::to_graph(module));
    TRY(ir::verify(graph));
    print(ir::text(graph, {.locations = args.has("--locations")}));
    return Exit::ok;
  }
  if (!args.has("--ops") && !args.has("--json")) {
    print(TRY(stablehlo::print(module, {.locations = args.has("--locations")})));
    return Exit::ok;
  }
  std::map<std::string, int64_t, std::less<>> counts;
  count(module.top, counts);
  if (args.has("--json")) {
    Json out = report("shlo");
    out.set("producer", module.producer);
    Json ops = Json::object();
    for (const auto& [name, n] : counts) ops.set(name, n);
    out.set("ops", std::move(ops));
    print(out.text(2) + "\n");
    return Exit::ok;
  }
  std::vector<std::vector<std::string>> rows = {{"op", "count"}};
  for (const auto& [name, n] : counts) rows.push_back({name, with_commas(n)});
  print(columns(rows, "01"));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--ops", "", "", "print how often each op occurs"},
    {"--graph", "", "", "print the tensor graph made from it"},
    {"--locations", "", "", "print where in the source each op comes from"},
    kJson,
};

}  // namespace

extern const Command command_shlo{
    .name = "shlo",
    .summary = "print a StableHLO module, bytecode or text, as text",
    .words = "FILE",
    .words_min = 1,
    .words_max = 1,
    .word = file(".mlir .mlirbc .stablehlo"),
    .details =
        "Reads StableHLO's portable artifacts (what JAX hands to a plugin, and jax.export writes), plain MLIR\n"
        "bytecode, and text; prints MLIR's generic form. FILE may be - for stdin.",
    .examples =
        "trine shlo model.mlirbc\n"
        "trine shlo model.mlir --ops",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
