// The Python module trine._torch: asks Python for a program the first time a call is met, and shows counters.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "api/torch/aten.h"

#include "api/executable.h"
#include "api/torch/backend.h"
#include "api/torch/call.h"
#include "api/torch/devices.h"

namespace py = pybind11;

namespace trine::api::neuron {

namespace {

py::object& handler() {
  static auto* made = new py::object;  // never dropped: Python may be gone first
  return *made;
}

Entry::Param read_param(const py::tuple& t) {
  const auto kind = t[0].cast<std::string>();
  return {kind == "seed"     ? Entry::Param::seed
          : kind == "number" ? Entry::Param::number
                             : Entry::Param::tensor,
          t[1].cast<int>()};
}

std::shared_ptr<const Entry> read_entry(const py::dict& said) {
  auto entry = std::make_shared<Entry>();
  const std::string text = said["text"].cast<std::string>();
  auto compiled = api::compile(text, {});
  TORCH_CHECK(compiled, compiled ? "" : compiled.error().text());
  auto direct = run::DirectProgram::make((*compiled)->plan);
  TORCH_CHECK(direct, direct ? "" : direct.error().text());
  entry->program = *direct;
  for (const auto& p : said["params"].cast<py::list>()) entry->params.push_back(read_param(p.cast<py::tuple>()));
  const auto& in_place = entry->program->plan().in_place;
  for (const auto& o : said["outputs"].cast<py::list>()) {
    const auto t = o.cast<py::tuple>();
    Entry::Output output{.dims = t[0].cast<std::vector<int64_t>>(),
                         .dtype = reinterpret_cast<THPDtype*>(t[1].cast<py::object>().ptr())->scalar_type,
                         .write = t[2].cast<int>()};
    const int over = t[3].cast<int>();  // the parameter that shares the target's memory, or -1
    const size_t at = entry->outputs.size();
    output.is_over = over >= 0 && at < in_place.size() && in_place[at] == over;
    entry->outputs.push_back(std::move(output));
  }
  for (const auto& r : said["returns"].cast<py::list>()) {
    const auto t = r.cast<py::tuple>();
    entry->returns.push_back({t[0].cast<int>(), t[1].cast<bool>(), t[2].cast<std::vector<int>>()});
  }
  return entry;
}

py::dict memory_stats(int index) {
  const auto found = device(index);
  TORCH_CHECK(found, found ? "" : found.error().text());
  const run::MemoryStats stats = (*found)->memory().stats();
  py::dict out;
  out["limit_bytes"] = stats.limit_bytes;
  out["in_use_bytes"] = stats.in_use_bytes;
  out["peak_bytes"] = stats.peak_bytes;
  out["allocations"] = stats.allocations;
  return out;
}

}  // namespace

std::shared_ptr<const Entry> make_entry(const Call& call) {
  const py::gil_scoped_acquire locked;
  if (!handler()) return std::make_shared<Entry>();
  py::list arguments;
  for (const c10::IValue& v : call.arguments)  // toPyObject would make numbers of tensors that were numbers once
    arguments.append(v.isTensor() && v.toTensor().defined() ? py::cast(v.toTensor()) : torch::jit::toPyObject(v));
  const auto& schema = call.op.schema();
  const py::object said = handler()(schema.name(), schema.overload_name(), arguments, py::cast(call.numbers));
  return said.is_none() ? std::make_shared<const Entry>() : read_entry(said.cast<py::dict>());
}

}  // namespace trine::api::neuron

PYBIND11_MODULE(_torch, m) {
  using namespace trine::api::neuron;
  register_hooks();
  m.def("set_handler", [](py::object f) { handler() = std::move(f); });
  m.def("device_count", &device_count);
  m.def("device_name", [](int index) {
    const auto found = device(index);
    TORCH_CHECK(found, found ? "" : found.error().text());
    return (*found)->name();
  });
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak", [](int index) {
    if (const auto found = device(index)) (*found)->memory().reset_peak();
  });
  m.def("fallbacks", &fallbacks, "Calls that torch's CPU ran, by op.");
  m.def("clear_cache", &clear_cache);
  m.def("cache_size", &cache_size);
  m.def("manual_seed", [](int index, uint64_t seed) { generator(index).set_current_seed(seed); });
  m.def("get_state",
        [](int index) { return std::make_pair(generator(index).current_seed(), generator(index).get_offset()); });
  m.def("set_state", [](int index, uint64_t seed, uint64_t offset) {
    generator(index).set_current_seed(seed);
    generator(index).set_offset(offset);
  });
  m.def("next_seed", [](int index) { return next_seed(c10::DeviceIndex(index)); });
}
