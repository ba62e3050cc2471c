// Time of a program for Python: the report as a dict, by way of its JSON text.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/python/raise.h"
#include "arch/container.h"
#include "arch/verify.h"
#include "run/drivers/timed/timed.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

struct Timed {
  run::TimedResult result;
};

Timed time_program(const arch::Program& program, const std::string& instance_name, bool jump) {
  const arch::Instance& instance = *or_raise(arch::find_instance(instance_name));
  or_raise(arch::first_error(arch::verify(program, *instance.chip)));
  sim::TimeOptions options;
  options.jump = jump;
  options.events_max = 0;
  Result<run::TimedResult> r = [&] {
    nb::gil_scoped_release unlocked;
    return run::run_timed(program, instance, options);
  }();
  return {or_raise(std::move(r))};
}

nb::object as_dict(const Timed& t) { return nb::module_::import_("json").attr("loads")(t.result.report.json().text()); }

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
      .def("report", as_dict, "the report's numbers, as `trine run --json` prints them under `time`")
      .def("__str__", [](const Timed& t) { return t.result.report.text(); });
  m.def("time", time_program, nb::arg("program"), nb::arg("instance") = "trn2.3xlarge", nb::arg("jump") = true,
        "Times a verified program on one virtual instance.");
}
