// The passes of native compilation, in order.
#include "compile/host/native.h"

#include "compile/graph/simplify.h"
#include "compile/host/plan_builder.h"

namespace trine::compile {

Result<std::shared_ptr<const arch::HostPlan>> plan_native(std::shared_ptr<ir::Graph> graph,
                                                          const NativeOptions& options) {
  PlanBuilder builder(graph, options);
  return builder.build(graph->params, ir::Graph::order(graph->results, graph->effects), graph->results,
                       graph->donations);
}

Result<std::shared_ptr<const arch::HostPlan>> compile_native(const ir::Graph& graph, const NativeOptions& options) {
  const Numerics& numerics = options.numerics;
  const bool casts = numerics.cast != AutoCast::none;
  ir::Graph simple = casts ? simplify_for_host(auto_cast(graph, numerics)).graph : simplify_for_host(graph).graph;
  if (numerics.is_stochastic) simple = round_stochastically(simple, numerics);
  return plan_native(std::make_shared<ir::Graph>(std::move(simple)), options);
}

}  // namespace trine::compile
