// The device compiler for Python: StableHLO in, a Program out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/device.h"
#include "api/python/raise.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

void bind_device(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "compile_device",
      [](nb::bytes artifact, const std::string& chip, const std::string& auto_cast, const std::string& auto_cast_type) {
        const arch::Chip& c = *or_raise(arch::find_chip(chip));
        std::string bytes(artifact.c_str(), artifact.size());
        auto result = [&] {
          nb::gil_scoped_release unlocked;
          return api::compile_for_device(std::move(bytes), c, {auto_cast, auto_cast_type});
        }();
        return or_raise(std::move(result));
      },
      "artifact"_a, "chip"_a, "auto_cast"_a = "none", "auto_cast_type"_a = "bf16",
      "A StableHLO program, portable artifact or text, as a Program for one core.");
}
