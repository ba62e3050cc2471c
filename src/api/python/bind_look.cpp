// Ways to look at a timed program from Python: the trace that Perfetto opens, the picture, and in words what bounds it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/python/raise.h"
#include "arch/program/verify.h"
#include "run/drivers/timed/timed.h"
#include "run/explain/explain.h"
#include "run/picture/picture.h"
#include "run/profile/trace.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

sim::TimeOptions no_events() {
  sim::TimeOptions options;
  options.events_max = 0;
  return options;
}

// Times the program, then hands the timing to `save`; without the Python lock.
template <class Save>
auto timed(const arch::Program& program, const std::string& instance_name, Save save) {
  const arch::Instance& instance = *or_raise(arch::find_instance(instance_name));
  or_raise(arch::first_error(arch::verify(program, *instance.chip)));
  auto result = [&]() -> decltype(save(instance, std::declval<const run::TimedResult&>())) {
    const api::Unlocked unlocked;
    const run::TimedResult t = TRY(run::run_timed(program, instance, no_events()));
    return save(instance, t);
  }();
  return or_raise(std::move(result));
}

nb::dict save_trace(const arch::Program& program, const std::string& instance, const std::string& path) {
  const auto saved = timed(program, instance, [&](const arch::Instance& i, const run::TimedResult& t) {
    return run::save_trace(path, program, i, no_events(), t.timing);
  });
  nb::dict out;
  out["slices"] = saved.slices;
  out["whole"] = saved.whole;
  out["window_ns"] = nb::make_tuple(saved.begin_ns, saved.end_ns);
  return out;
}

nb::dict save_picture(const arch::Program& program, const std::string& instance, const std::string& path) {
  const auto saved = timed(program, instance, [&](const arch::Instance& i, const run::TimedResult& t) {
    return run::save_picture(path, program, i, no_events(), t.timing, t.report);
  });
  nb::dict out;
  out["whole"] = saved.whole;
  out["window_ns"] = nb::make_tuple(saved.begin_ns, saved.end_ns);
  return out;
}

nb::tuple explain(const arch::Program& program, const std::string& instance, bool all) {
  const auto e = timed(program, instance, [&](const arch::Instance& i, const run::TimedResult& t) {
    return Result<run::Explanation>(run::explain(program, i, no_events(), t.timing));
  });
  return nb::make_tuple(e.text(all), nb::module_::import_("json").attr("loads")(e.json().text()));
}

}  // namespace

void bind_look(nb::module_& m) {
  using namespace nb::literals;
  m.def("save_trace", save_trace, "program"_a, "instance"_a, "path"_a,
        "Writes every instruction's time as .json or .json.gz; says how much of the program it shows.");
  m.def("save_picture", save_picture, "program"_a, "instance"_a, "path"_a,
        "Draws how busy each engine is over time, as .svg or .png.");
  m.def("explain", explain, "program"_a, "instance"_a, "all"_a = false,
        "(text, dict): what bounds the program and what to change first.");
}
