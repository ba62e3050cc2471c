// The passes one by one, up to the first that leaves no graph; see graphs.h.
#include "compile/pass/graphs.h"

#include "compile/device/control.h"
#include "compile/device/pipeline.h"
#include "ir/op_ids.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

constexpr double kUnknownIterations = 16;

template <class State>
Result<void> collect(const Pipeline<State>& pipeline, State& state, std::vector<PassGraph>& out) {
  for (const Pass<State>& pass : pipeline.passes) {
    if (pass.form->name != "graph") break;
    if (pass.applies && !pass.applies(state)) continue;
    TRY(pass.run(state));
    if (auto sound = pass.form->verify(state); !sound) return refused_after(pass.name, sound.error());
    out.push_back({pass.name, pass.form->text(state)});
  }
  return {};
}

double elements_of(const ir::Node& node) {
  double out = 0;
  for (const ir::Type& t : node.types) out += t.is_token ? 0 : double(t.elements());
  return out;
}

// Of each element of the result.
double steps_of(const ir::Node& node) {
  if (node.op == op::dot_general) {
    double depth = 1;
    for (int64_t d : node.attrs.ints("lhs_contract")) depth *= double(node.inputs[0].type().dims[size_t(d)]);
    return depth;
  }
  if (node.op == op::convolution) return double(node.inputs[1].type().elements());
  if (node.op == op::reduce_window || node.op == op::select_and_scatter) {
    double window = 1;
    for (int64_t d : node.attrs.ints("window_dimensions")) window *= double(d);
    return window;
  }
  return 1;
}

double cost_of(std::span<const ir::Node* const> nodes) {
  double sum = 0;
  for (const ir::Node* node : nodes) {
    double own = elements_of(*node) * steps_of(*node);
    for (const ir::Value& v : node->inputs) own += v.type().is_token ? 0 : double(v.type().elements());
    double inside = 0;
    for (const ir::Region& region : node->regions) inside += cost_of(ir::body_of(region).nodes);
    if (node->op == op::while_)
      inside *= double(device::known_iterations(*node).value_or(int64_t(kUnknownIterations)));
    else if (!node->regions.empty() && node->op != op::case_)
      inside *= own;  // a region that runs on elements
    sum += own + inside;
  }
  return sum;
}

}  // namespace

Result<std::vector<PassGraph>> graphs_of_passes(ir::Graph graph, const GraphOptions& options, const arch::Chip& chip) {
  std::vector<PassGraph> out;
  GraphState state{.graph = std::move(graph), .options = options};
  state.options.imports = true;
  TRY(collect(graph_pipeline(), state, out));
  if (options.target == Target::host) return out;
  const DeviceOptions none;
  device::DeviceState device{state.graph.take(), chip, none};
  TRY(collect(device::device_pipeline(), device, out));
  return out;
}

double evaluation_cost(const ir::Graph& graph) { return cost_of(graph.order()); }

}  // namespace trine::compile
