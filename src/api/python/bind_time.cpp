// Time of a program for Python: the report as a dict, by way of its JSON text.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/python/raise.h"
#include "arch/program/container.h"
#include "arch/program/verify.h"
#include "run/accuracy/bands.h"
#include "run/drivers/timed/timed.h"
#include "run/profile/line_times.h"
#include "run/report/lines.h"
#include "run/report/sum.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

struct Timed {
  run::TimedResult result;
  std::string lines = {};    // JSON; empty: not asked for
  int64_t scratch_peak = 0;  // likewise
};

Timed time_program(const arch::Program& program, const std::string& instance_name, bool jump, int cores_on_stack,
                   bool lines, int64_t events) {
  const arch::Instance& instance = *or_raise(arch::find_instance(instance_name));
  or_raise(arch::first_error(arch::verify(program, *instance.chip)));
  sim::TimeOptions options;
  options.jump = jump;
  options.events_max = events;
  options.cores_on_stack = cores_on_stack;
  run::LineTimes by_line(program);
  if (lines) options.observer = &by_line;
  Result<run::TimedResult> r = [&] {
    const api::Unlocked unlocked;
    return run::run_timed(program, instance, options);
  }();
  return {or_raise(std::move(r)), lines ? by_line.json().text() : std::string(), lines ? by_line.scratch_peak() : 0};
}

nb::object as_dict(const run::Report& r) { return nb::module_::import_("json").attr("loads")(r.json().text()); }

const arch::Instance& instance_of(const run::Report& r) { return *or_raise(arch::find_instance(r.instance)); }

run::Report add_reports(const std::vector<run::Report>& parts) {
  if (parts.empty()) throw nb::value_error("no report to add");
  return run::added(parts, instance_of(parts[0]));
}

// What was recorded of engines and DMA engines at work, in the order it was.
nb::list events(const Timed& t) {
  nb::list out;
  for (const sim::Event& e : t.result.timing.events) {
    if (e.doing != sim::Doing::execute) continue;
    nb::dict d;
    const std::string part(sim::name(e.part));
    d["part"] = part;
    d["start_ns"] = sim::to_ns(e.start), d["end_ns"] = sim::to_ns(e.end), d["done_ns"] = sim::to_ns(e.done);
    out.append(d);
  }
  return out;
}

nb::object line_totals(const Timed& t, const arch::Program& program) {
  const arch::Instance& instance = *or_raise(arch::find_instance(t.result.report.instance));
  Json out = Json::array();
  for (const run::LineTotal& line : run::line_totals(program, *instance.chip, t.result.timing)) out.push(line.json());
  return nb::module_::import_("json").attr("loads")(out.text());
}

nb::list findings(const Timed& t) {
  nb::list out;
  for (const run::Finding& f : t.result.findings) out.append(nb::str(f.text().c_str()));
  return out;
}

}  // namespace

void bind_time(nb::module_& m) {
  nb::class_<Timed>(m, "Timed")
      .def_prop_ro(
          "time_fs", [](const Timed& t) { return t.result.timing.end; }, "end time in whole femtoseconds")
      .def_prop_ro("instructions", [](const Timed& t) { return t.result.timing.instructions; })
      .def_prop_ro(
          "jumped", [](const Timed& t) { return t.result.timing.jumped; }, "instructions not walked one by one")
      .def_prop_ro("findings", findings)
      .def_prop_ro("events", events, "of work, as many as were asked for: part, start_ns, end_ns, done_ns")
      .def_prop_ro(
          "dma_packet_ns", [](const Timed& t) { return sim::to_ns(t.result.timing.dma_packets); },
          "busy time of DMA engines, summed over them")
      .def_prop_ro(
          "lines",
          [](const Timed& t) { return nb::module_::import_("json").attr("loads")(t.lines.empty() ? "[]" : t.lines); },
          "of each source line: when its last instruction ends and how busy it keeps the engines; where asked for")
      .def("line_totals", line_totals, nb::arg("program"),
           "of each source line of the program that was timed: instructions, busy and waiting time, HBM traffic, spill")
      .def_ro("scratch_peak_bytes", &Timed::scratch_peak, "of HBM, in use at once; with the lines")
      .def_prop_ro(
          "counted", [](const Timed& t) { return t.result.report; }, "the report, to be added to others")
      .def(
          "report", [](const Timed& t) { return as_dict(t.result.report); },
          "the report's numbers, as `trine run --json` prints them under `time`")
      .def("__str__", [](const Timed& t) { return t.result.report.text(); });
  nb::class_<run::Report>(m, "Report").def("numbers", as_dict, "as Timed.report()");
  m.def("add_reports", add_reports, nb::arg("parts"), "Of parts that run one after the other on one instance.");
  m.def(
      "extend_reports",
      [](const run::Report& few, const run::Report& more, double times) {
        return run::extended(few, more, times, instance_of(more));
      },
      nb::arg("few"), nb::arg("more"), nb::arg("times"), "few + times × (more - few)");
  m.def(
      "reports_between",
      [](const run::Report& first, const run::Report& last, double count) {
        return run::between(first, last, count, instance_of(last));
      },
      nb::arg("first"), nb::arg("last"), nb::arg("count"), "`count` programs, evenly from the first to the last");
  m.def("time", time_program, nb::arg("program"), nb::arg("instance") = "trn2.3xlarge", nb::arg("jump") = true,
        nb::arg("cores_on_stack") = 0, nb::arg("lines") = false, nb::arg("events") = 0,
        "Times a verified program on one virtual instance.");
  m.def(
      "accuracy_file",
      [](const std::string& name) {
        const auto text = or_raise(run::accuracy_file(name));
        return nb::str(text.data(), text.size());
      },
      nb::arg("name"), "A data file of published measurements, or a program that one of them is of.");
}
