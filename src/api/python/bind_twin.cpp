// trine._core.twin: the discrete-event twin of the server over arrays of a trace.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/python/raise.h"
#include "api/python/serve_read.h"
#include "serve/twin.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Numbers = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Wide = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::dict spread(const serve::Spread& s) {
  nb::dict d;
  d["p50"] = s.p50, d["p95"] = s.p95, d["p99"] = s.p99, d["mean"] = s.mean;
  return d;
}

nb::dict as_dict(const serve::TwinResult& r) {
  nb::dict d;
  d["requests"] = r.requests, d["rejected"] = r.rejected, d["good"] = r.good, d["prompt_tokens"] = r.prompt_tokens;
  d["tokens"] = r.tokens, d["steps"] = r.steps, d["preemptions"] = r.preemptions;
  d["prefix_hits"] = r.prefix_hits, d["prefix_queries"] = r.prefix_queries;
  d["seconds"] = r.seconds, d["busy_s"] = r.busy, d["prompt_s"] = r.prompt_busy, d["decode_s"] = r.decode_busy;
  d["launch_s"] = r.launch_busy, d["copy_s"] = r.copy_seconds, d["slots_full_s"] = r.slots_full;
  d["pages_full_s"] = r.pages_full, d["waited_s"] = r.waited, d["transfer_s"] = r.transfer, d["joules"] = r.joules;
  d["usd"] = r.usd, d["copies_peak"] = r.copies_peak;
  d["ttft_s"] = spread(r.ttft), d["itl_s"] = spread(r.itl), d["e2e_s"] = spread(r.e2e), d["queue_s"] = spread(r.queue);
  return d;
}

nb::dict twin(const Doubles& arrival, const Numbers& prompt, const Numbers& output, const Wide& prefix,
              const Numbers& prefix_tokens, const nb::dict& cost, const nb::dict& options) {
  const size_t n = arrival.shape(0);
  if (prompt.shape(0) != n || output.shape(0) != n || prefix.shape(0) != n || prefix_tokens.shape(0) != n)
    throw nb::value_error("a trace's arrays differ in length");
  std::vector<serve::TwinRequest> trace(n);
  for (size_t i = 0; i < n; ++i) trace[i] = {arrival(i), prompt(i), output(i), prefix(i), prefix_tokens(i), 0, 0};
  serve::TwinOptions o;
  o.scheduler = api::scheduler_options(options);
  o.cost = api::cost_table(cost);
  api::take(options, "copies", o.copies), api::take(options, "prompt_copies", o.prompt_copies);
  api::take(options, "copies_most", o.copies_most), api::take(options, "cold_start", o.cold_start);
  api::take(options, "scale_up", o.scale_up), api::take(options, "scale_down_idle", o.scale_down_idle);
  api::take(options, "slo_ttft", o.slo_ttft), api::take(options, "slo_itl", o.slo_itl),
      api::take(options, "slo_e2e", o.slo_e2e);
  api::take(options, "affinity", o.affinity), api::take(options, "jump", o.jump);
  Result<serve::TwinResult> made = [&] {
    const nb::gil_scoped_release unlocked;
    return serve::run_twin(trace, o);
  }();
  return as_dict(or_raise(std::move(made)));
}

}  // namespace

void bind_twin(nb::module_& m) {
  m.def("twin", twin, nb::arg("arrival"), nb::arg("prompt"), nb::arg("output"), nb::arg("prefix"),
        nb::arg("prefix_tokens"), nb::arg("cost"), nb::arg("options"),
        "The server's scheduler under a trace, on the chip's clock, without weights.");
}
