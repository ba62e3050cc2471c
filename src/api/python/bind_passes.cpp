// Passes for Python: the graph after each, as text, which `evaluate` runs by the ops' reference meanings.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/chips.h"
#include "api/graph_text.h"
#include "api/machine.h"
#include "api/numerics.h"
#include "api/python/raise.h"
#include "compile/pass/graphs.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

struct Graphs {
  double cost = 0;
  std::vector<compile::PassGraph> all = {};
};

Result<Graphs> graphs_of(std::string artifact, const std::string& chip, bool on_host, const std::string& flags) {
  const arch::Chip& c = *TRY(api::find_chip(chip));
  ir::Graph graph = TRY(api::read_graph(std::move(artifact)));
  compile::GraphOptions options{.target = on_host ? compile::Target::host : compile::Target::device,
                                .narrows_words = !on_host,
                                .selects_predicates = on_host,
                                .partitions = true,
                                .layouts = TRY(compile::layouts_of(graph))};
  TRY(api::set_numerics_by_flags(options.numerics, flags));
  if (!on_host) options.layouts = {};
  Graphs out{.cost = compile::evaluation_cost(graph)};
  out.all = TRY(compile::graphs_of_passes(std::move(graph), options, c));
  return out;
}

}  // namespace

void bind_passes(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "pass_graphs",
      [](const nb::bytes& artifact, const std::string& chip, bool on_host, const std::string& flags) {
        auto made = [&] {
          std::string bytes(artifact.c_str(), artifact.size());
          const api::Unlocked unlocked;
          return graphs_of(std::move(bytes), chip, on_host, flags);
        }();
        const Graphs graphs = or_raise(std::move(made));
        nb::list list;
        for (const compile::PassGraph& g : graphs.all)
          list.append(nb::make_tuple(nb::str(g.pass.data(), g.pass.size()), g.text));
        return nb::make_tuple(graphs.cost, list);
      },
      "artifact"_a, "chip"_a = "trn2", "on_host"_a = false, "flags"_a = "",
      "What the reference evaluator would take, roughly, and (pass, text) of the graph after each pass that leaves "
      "one, "
      "on the way to a chip or to the host. `flags`: --auto-cast and its like.");
}
