// The table of graph passes; see pipeline.h.
#include "compile/graph/pipeline.h"

#include "compile/device/passes/narrow_words.h"
#include "compile/graph/simplify.h"
#include "compile/partition/partition.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"

namespace trine::compile {

namespace {

constexpr PassForm<GraphState> kGraph{
    "graph",
    [](const GraphState& s) { return graph_sizes(*s.graph); },
    [](const GraphState& s) { return ir::text(*s.graph); },
    [](const GraphState& s) { return verify_graph(*s.graph); },
};

Result<void> run_import(GraphState&) { return {}; }

Result<void> run_narrow_words(GraphState& s) {
  s.graph = narrow_words(*s.graph);
  return {};
}

Result<void> run_select_predicates(GraphState& s) {
  s.graph = choose_by_truths(*s.graph);
  return {};
}

Result<void> run_partition(GraphState& s) {
  if (!needs_partition(*s.graph)) {
    if (s.options.target == Target::host) s.shardings = TRY(sharding_texts(*s.graph));
    return {};
  }
  auto parts = TRY(partition(*s.graph));
  s.graph = std::move(parts.graph);
  s.shardings = std::move(parts.shardings);
  return {};
}

Result<void> run_layout(GraphState& s) {
  s.graph = as_they_lie(s.graph.take(), s.options.layouts);
  return {};
}

Result<void> run_auto_cast(GraphState& s) {
  s.graph = auto_cast(*s.graph, s.options.numerics);
  return {};
}

Result<void> run_simplify(GraphState& s) {
  s.graph = std::move((s.options.target == Target::host ? simplify_for_host(*s.graph) : simplify(*s.graph)).graph);
  return {};
}

Result<void> run_round_stochastically(GraphState& s) {
  s.graph = round_stochastically(*s.graph, s.options.numerics);
  return {};
}

constexpr Pass<GraphState> kPasses[] = {
    {.name = "import",
     .run = run_import,
     .leaves = "imported",
     .form = &kGraph,
     .help = "the model as the front-end read it",
     .applies = [](const GraphState& s) { return s.options.imports; },
     .is_stage = true},
    {.name = "narrow-words",
     .run = run_narrow_words,
     .needs = "imported",
     .form = &kGraph,
     .help = "64-bit integers as 32-bit ones, which engines compute with; changes types",
     .applies = [](const GraphState& s) { return s.options.narrows_words; }},
    {.name = "select-predicates",
     .run = run_select_predicates,
     .needs = "imported",
     .form = &kGraph,
     .help = "a product with a converted predicate is a select, as in XLA: infinity times false is 0",
     .applies = [](const GraphState& s) { return s.options.selects_predicates; }},
    {.name = "partition",
     .run = run_partition,
     .needs = "imported",
     .leaves = "one-device",
     .form = &kGraph,
     .help = "a program over whole tensors as the program of one device, with collectives; changes shapes",
     .applies = [](const GraphState& s) { return s.options.partitions; }},
    {.name = "layout",
     .run = run_layout,
     .needs = "one-device",
     .leaves = "row-major",
     .form = &kGraph,
     .help = "parameters and results as they lie in memory, with transposes at the edge; changes shapes",
     .applies = [](const GraphState& s) { return !s.options.layouts.are_all_default(); }},
    {.name = "auto-cast",
     .run = run_auto_cast,
     .needs = "row-major",
     .form = &kGraph,
     .help = "f32 in a narrower format where the user allows it; changes rounding",
     .applies = [](const GraphState& s) { return s.options.numerics.cast != AutoCast::none; }},
    {.name = "simplify",
     .run = run_simplify,
     .needs = "row-major",
     .leaves = "canonical",
     .form = &kGraph,
     .help = "local rewrites until none applies: constants folded, views merged, functions recognised",
     .applies = [](const GraphState& s) { return s.options.simplifies; },
     .is_stage = true},
    {.name = "round-stochastically",
     .run = run_round_stochastically,
     .needs = "canonical",
     .form = &kGraph,
     .help = "what becomes bf16, f16 or f8 is rounded up or down by chance; changes rounding",
     .applies = [](const GraphState& s) { return s.options.numerics.is_stochastic; }},
};

}  // namespace

ir::Graph CurrentGraph::take() {
  ir::Graph out = own_ ? *std::move(own_) : ir::copy(*given_);
  own_.reset();
  given_ = nullptr;
  return out;
}

std::vector<PassSize> graph_sizes(const ir::Graph& graph) { return {{"ops", int64_t(graph.order().size())}}; }
Result<void> verify_graph(const ir::Graph& graph) { return ir::verify(graph, ops::check); }

const Pipeline<GraphState>& graph_pipeline() {
  static constexpr Pipeline<GraphState> kPipeline{"graph", kPasses};
  return kPipeline;
}

}  // namespace trine::compile
