// Which kind of program it is; see graph_text.h.
#include "api/graph_text.h"

#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/read.h"

namespace trine::api {

Result<ir::Graph> read_graph(std::string artifact) {
  if (artifact.starts_with("graph \"")) return compile::read_graph(artifact, "graph");
  return front::stablehlo::to_graph(TRY(front::stablehlo::read_module(std::move(artifact), "program")));
}

}  // namespace trine::api
