// The Python module trine._core. It holds no bindings itself: each bind_<x>.cpp beside it defines
// `void bind_<x>(nanobind::module_& m)`, and the build writes bind_all() from the list of those files.
#include <nanobind/nanobind.h>

void bind_all(nanobind::module_& m);

NB_MODULE(_core, m) {
  nanobind::set_leak_warnings(false);  // Python keeps objects past its end when a script stops with an exception
  m.attr("version") = TRINE_VERSION;
  m.attr("torch_version") = TRINE_TORCH_VERSION;  // that trine._torch was built for; empty: there is none
  bind_all(m);
}
