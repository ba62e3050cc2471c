// Counters for Python: what `trine monitor --prometheus` and the page serve. Documents are JSON text, as the command
// prints them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/machine.h"
#include "api/publish.h"
#include "api/python/raise.h"
#include "api/watch.h"
#include "run/counters/monitor.h"
#include "run/counters/prometheus.h"
#include "run/faults/dump.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

class PythonWatcher {
 public:
  PythonWatcher(const std::string& folder, const std::string& instance, const std::string& config)
      : config_(config.empty() ? run::MonitorConfig::usual()
                               : or_raise(run::MonitorConfig::parse(or_raise(parse_json(config)), "config"))),
        watcher_(folder.empty() ? api::counters_folder() : folder),
        monitor_(config_, machine_of(instance)) {}

  std::string document(double period_s) {
    const api::Unlocked unlocked;
    run::Sample sample = watcher_.sample(period_s);
    monitor_.read_system(sample);
    return monitor_.text(sample);
  }
  // One pass, without the document between; as bytes, which is what is sent.
  nb::bytes exposition(double period_s) {
    const std::string& page = [&]() -> const std::string& {
      const api::Unlocked unlocked;
      run::Sample sample = watcher_.sample(period_s);
      monitor_.read_system(sample);
      return exposition_.text(sample, monitor_);
    }();
    return nb::bytes(page.data(), page.size());
  }
  int64_t pending() const { return watcher_.pending(); }
  double period() const { return config_.period_s; }

 private:
  static run::MonitoredMachine machine_of(const std::string& instance) {
    const api::Machine machine = or_raise(api::choose_machine({.instance = instance}));
    const auto named = arch::find_instance(machine.instance.name);
    return {named ? *named : nullptr, machine.lnc};
  }
  run::MonitorConfig config_;
  api::Watcher watcher_;
  run::Monitor monitor_;
  run::Exposition exposition_;
};

}  // namespace

void bind_watch(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "core_dump_text",
      [](const std::string& dump) { return or_raise(run::dump_text(or_raise(parse_json(dump, "core dump")))); },
      "dump"_a, "A core dump, as JSON text, for people.");
  m.def("counters_folder", api::counters_folder, "Where processes publish their counters; empty: switched off.");
  nb::class_<PythonWatcher>(m, "Watcher", "Counters of all processes that use virtual devices.")
      .def(nb::init<const std::string&, const std::string&, const std::string&>(), "folder"_a = "", "instance"_a = "",
           "config"_a = "")
      .def("document", &PythonWatcher::document, "period_s"_a = 5.0, "What neuron-monitor prints, since the last call.")
      .def("exposition", &PythonWatcher::exposition, "period_s"_a = 5.0,
           "The same in Prometheus's text format, as bytes.")
      .def_prop_ro("pending", &PythonWatcher::pending, "Programs that are being timed for the chip.")
      .def_prop_ro("period", &PythonWatcher::period);
  nb::class_<run::Exposition>(m, "Exposition", "Documents of neuron-monitor as Prometheus's text format.")
      .def(nb::init<>())
      .def(
          "text",
          [](run::Exposition& e, const std::string& document) {
            return e.text(or_raise(parse_json(document, "document")));
          },
          "document"_a);
}
