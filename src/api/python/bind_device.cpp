// The device compiler for Python: StableHLO in, a Program out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/chips.h"
#include "api/device.h"
#include "api/python/arrays.h"
#include "api/python/raise.h"
#include "api/python/trouble.h"
#include "compile/device/device.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

// The bytes as an array of them.
nb::object prepare(const api::Compiled& c, size_t input, nb::handle array) {
  const api::ArrayView given = api::array_view(array);
  Tensor out = or_raise(c.prepare(input, given.view));
  out.dims = {static_cast<int64_t>(out.bytes())};
  out.dtype = Dtype::u8;
  return api::as_array(std::move(out));
}

// prepared: a dict from an input's number to its bytes.
nb::tuple run_exactly(const api::Compiled& c, const nb::list& arrays, const std::string& chip,
                      const nb::dict& input_bytes) {
  const arch::Chip& on = *or_raise(api::find_chip(chip));
  std::vector<api::ArrayView> held;
  std::vector<TensorView> views;
  api::Compiled::InputBytes cached;
  for (nb::handle a : arrays) held.push_back(api::array_view(a));
  for (const api::ArrayView& a : held) views.push_back(a.view);
  for (auto [input, bytes] : input_bytes) {
    held.push_back(api::array_view(bytes));
    cached[nb::cast<size_t>(input)] = {held.back().view.as<const std::byte>(), held.back().view.bytes()};
  }
  auto result = [&] {
    const api::Unlocked unlocked;
    return c.run(std::move(views), on, {}, cached);
  }();
  api::Ran ran = or_raise(std::move(result));
  nb::list outputs, findings;
  for (Tensor& t : ran.outputs) outputs.append(api::as_array(std::move(t)));
  for (run::Finding& f : ran.findings) findings.append(nb::cast(std::move(f)));
  return nb::make_tuple(outputs, findings, ran.instructions);
}

// A dict for each: on the host or not, its program, and the bytes that come and go.
nb::list parts(nb::handle self) {
  const auto& c = nb::cast<const api::Compiled&>(self);
  nb::list out;
  for (const compile::DevicePart& part : c.split().parts) {
    nb::dict d;
    d["on_host"] = part.on_host;
    d["program"] = part.on_host ? nb::none() : nb::cast(&part.device.program, nb::rv_policy::reference_internal, self);
    d["reads"] = part.reads;
    d["writes"] = part.writes;
    int64_t bytes = 0;
    for (const ir::Type& t : part.written) bytes += t.elements() * trine::bytes(t.dtype);
    d["bytes_written"] = bytes;
    out.append(d);
  }
  return out;
}

nb::list host_ops(const api::Compiled& c) {
  nb::list out;
  for (const compile::HostOp& h : c.split().host) {
    nb::dict d;
    d["op"] = h.op, d["type"] = h.type, d["reason"] = h.reason, d["where"] = h.where;
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_device(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<api::Compiled>(m, "Compiled", "A program for one core, and how its inputs are prepared.")
      .def_prop_ro(
          "program", [](const api::Compiled& c) { return or_raise(c.program()); }, nb::rv_policy::reference_internal,
          "The one program; an error says what runs on the host where it is in parts.")
      .def_prop_ro("parts", parts, "Programs, and what the host runs between them.")
      .def_prop_ro("host_placed", host_ops, "The ops that run on the host, each with its reason and line.")
      .def("run", run_exactly, "inputs"_a, "chip"_a, "prepared"_a = nb::dict(),
           "Arrays in; (arrays, findings, instructions): every instruction simulated, the host's parts natively. "
           "`prepared` maps inputs by number to what prepare() gave.")
      .def_prop_ro("input_count", &api::Compiled::input_count)
      .def_prop_ro("collectives",
                   [](const api::Compiled& c) { return nb::module_::import_("json").attr("loads")(c.collectives()); })
      .def_prop_ro(
          "found", [](const api::Compiled& c) { return c.cached().found; }, "It was in the compile cache.")
      .def_prop_ro(
          "hash", [](const api::Compiled& c) { return c.cached().hash; }, "Of its entry in the compile cache.")
      .def_prop_ro(
          "trouble", [](const api::Compiled& c) { return c.cached().trouble; }, "Why the cache could not be used.")
      .def("prepare", prepare, "input"_a, "array"_a, "An input's bytes as the program's tensor holds them.");
  m.def(
      "compile_device",
      [](nb::bytes artifact, const std::string& chip, const std::string& auto_cast, const std::string& auto_cast_type,
         std::vector<int64_t> weights) {
        const arch::Chip& c = *or_raise(api::find_chip(chip));
        const std::string bytes(artifact.c_str(), artifact.size());
        auto result = [&] {
          const api::Unlocked unlocked;
          return api::compile_for_device(bytes, c, {auto_cast, auto_cast_type, std::move(weights)});
        }();
        if (result && !result->cached().trouble.empty()) api::tell_trouble(result->cached().trouble);
        return or_raise(std::move(result));
      },
      "artifact"_a, "chip"_a, "auto_cast"_a = "none", "auto_cast_type"_a = "bf16", "weights"_a = std::vector<int64_t>(),
      "A StableHLO program, portable artifact or text, or a graph's text, as a Program for one core. `chip` is a name, "
      "a "
      "chip file's path or its JSON.");
}
