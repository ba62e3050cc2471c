// The device compiler for Python: StableHLO in, a Program out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/chips.h"
#include "api/device.h"
#include "api/python/raise.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

using BytesIn = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Raw bytes in and out: the Python side knows the arrays' dtypes.
nb::bytes prepare(const api::Compiled& c, size_t input, BytesIn given, const std::string& dtype, Dims dims) {
  const auto format = dtype_by_name(dtype);
  if (!format) throw nb::value_error(("no number format " + dtype).c_str());
  const TensorView view{*format, std::move(dims), const_cast<uint8_t*>(given.data())};
  if (view.bytes() != given.size()) throw nb::value_error("the bytes do not fill the shape");
  const Tensor out = or_raise(c.prepare(input, view));
  return nb::bytes(reinterpret_cast<const char*>(out.data.get()), out.bytes());
}

}  // namespace

void bind_device(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<api::Compiled>(m, "Compiled", "A program for one core, and how its inputs are prepared.")
      .def_prop_ro("program", &api::Compiled::program, nb::rv_policy::reference_internal)
      .def_prop_ro("input_count", &api::Compiled::input_count)
      .def_prop_ro("collectives",
                   [](const api::Compiled& c) { return nb::module_::import_("json").attr("loads")(c.collectives()); })
      .def_prop_ro(
          "found", [](const api::Compiled& c) { return c.kept().found; }, "It was in the compile cache.")
      .def_prop_ro(
          "hash", [](const api::Compiled& c) { return c.kept().hash; }, "Of its entry in the compile cache.")
      .def_prop_ro(
          "trouble", [](const api::Compiled& c) { return c.kept().trouble; }, "Why the cache could not be used.")
      .def("prepare", prepare, "input"_a, "given"_a, "dtype"_a, "dims"_a);
  m.def(
      "compile_device",
      [](nb::bytes artifact, const std::string& chip, const std::string& auto_cast, const std::string& auto_cast_type,
         std::vector<int64_t> weights) {
        const arch::Chip& c = *or_raise(api::find_chip(chip));
        std::string bytes(artifact.c_str(), artifact.size());
        auto result = [&] {
          nb::gil_scoped_release unlocked;
          return api::compile_for_device(std::move(bytes), c, {auto_cast, auto_cast_type, std::move(weights)});
        }();
        return or_raise(std::move(result));
      },
      "artifact"_a, "chip"_a, "auto_cast"_a = "none", "auto_cast_type"_a = "bf16", "weights"_a = std::vector<int64_t>(),
      "A StableHLO program, portable artifact or text, or a graph's text, as a Program for one core. `chip` is a name, "
      "a "
      "chip file's path or its JSON.");
}
