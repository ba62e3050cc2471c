// The Python module trine._core. It holds no bindings itself: each bind_<x>.cpp beside it defines
// `void bind_<x>(nanobind::module_& m)`, and the build writes bind_all() from the list of those files.
#include <nanobind/nanobind.h>

#include "api/limits.h"
#include "api/python/raise.h"
#include "api/recording.h"

void bind_all(nanobind::module_& m);

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // Python keeps objects past its end when a script stops with an exception
  m.attr("version") = TRINE_VERSION;
  m.attr("torch_version") = TRINE_TORCH_VERSION;  // that trine._torch was built for; empty: there is none
  trine::api::or_raise(trine::api::set_limits_from_environment());
  trine::api::record_runs_from_environment("python");
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const trine::Stopped& s) {
      PyErr_SetString(trine::api::exception_of(s.error.code), s.error.text().c_str());
    }
  });
  const auto signals = nanobind::module_::import_("signal");
  if (signals.attr("getsignal")(signals.attr("SIGINT")).is(signals.attr("default_int_handler")))
    trine::take_interrupts();  // whoever has another handler decides what Ctrl-C does
  bind_all(m);
}
