// The pipelines of native compilation one after the other.
#include "compile/host/native.h"

#include "compile/graph/pipeline.h"
#include "compile/host/pipeline.h"

namespace trine::compile {

Result<std::shared_ptr<const arch::HostPlan>> plan_native(std::shared_ptr<ir::Graph> graph,
                                                          const NativeOptions& options) {
  HostState state(graph, options);
  state.inputs = graph->params;
  state.nodes = ir::Graph::order(graph->results, graph->effects);
  state.results = graph->results;
  state.donations = graph->donations;
  TRY(run_passes(host_pipeline(), state, options.observer));
  return std::shared_ptr<const arch::HostPlan>(std::move(state.plan));
}

Result<std::shared_ptr<const arch::HostPlan>> compile_native(const ir::Graph& graph, const NativeOptions& options) {
  GraphState state{.graph = graph, .options = {.target = Target::host, .numerics = options.numerics}};
  TRY(run_passes(graph_pipeline(), state, options.observer));
  return plan_native(std::make_shared<ir::Graph>(state.graph.take()), options);
}

}  // namespace trine::compile
