// Collectives' time, a step's, and what time costs, for Python: dicts, by way of their JSON text.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/python/raise.h"
#include "base/text.h"
#include "run/report/collective_time.h"
#include "run/report/cost.h"
#include "run/report/step_time.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

nb::object as_dict(const Json& json) { return nb::module_::import_("json").attr("loads")(json.text()); }

nb::object time_collective(const std::string& instance, const std::string& kind, int64_t bytes, int64_t ranks,
                           int64_t nodes, int64_t lnc, int64_t stride, bool all_groups, const std::string& algorithm) {
  run::CollectiveQuery q;
  q.cluster.instance = or_raise(arch::find_instance(instance));
  q.cluster.lnc = lnc > 0 ? lnc : q.cluster.instance->chip->lnc_default;
  q.cluster.nodes = nodes;
  q.ranks = ranks;
  q.stride = stride;
  q.all_groups = all_groups;
  const auto found = comm::collective_by_name(kind);
  if (!found || nodes < 1 || nodes > 65536 || q.cluster.lnc > q.cluster.instance->chip->lnc_max)
    or_raise(Result<void>(fail(Code::invalid, cat("no collective \"", kind, "\" on ", nodes, " nodes at lnc ", lnc))));
  q.request.kind = *found;
  q.request.bytes = bytes;
  q.request.algorithm = comm::algorithm_by_name(algorithm);
  return as_dict(or_raise(run::answer(q)).json());
}

nb::object cost_of(const std::string& instance, double ns, double cores, double results, double utilisation) {
  return as_dict(
      run::cost_of(*or_raise(arch::find_instance(instance)),
                   {.ns = ns, .cores = cores, .results = results, .utilisation = utilisation, .chip_joules = {}})
          .json());
}

nb::object time_step(const std::string& asked, bool spans) {
  const sim::Pipeline pipeline = or_raise(run::pipeline_of(or_raise(parse_json(asked, "time_step"))));
  return as_dict(run::json_of(pipeline, or_raise(sim::time_pipeline(pipeline, spans))));
}

}  // namespace

void bind_cost(nb::module_& m) {
  using namespace nb::literals;
  m.def("time_collective", time_collective, "instance"_a, "kind"_a, "bytes"_a, "ranks"_a = 0, "nodes"_a = 1,
        "lnc"_a = 0, "stride"_a = 1, "all_groups"_a = false, "algorithm"_a = "",
        "Time of a collective among logical cores, as a row of `trine collectives --json`; `algorithm`: instead of the "
        "chosen one.");
  m.def("time_step", time_step, "asked"_a, "spans"_a = false,
        "Time of a training step of a pipeline's stages, each a class of ranks: JSON text in, a dict out; "
        "src/run/report/step_time.h has both.");
  m.def("cost_of", cost_of, "instance"_a, "ns"_a, "cores"_a = 0.0, "results"_a = 1.0, "utilisation"_a = 1.0,
        "Dollars by way to rent, watts and joules of that much time on some of an instance's cores (0: all).");
}
