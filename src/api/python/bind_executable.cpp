// StableHLO programs for Python: compiled once, then run on memory the caller owns, without a copy.
// Arrays are the caller's business: `launch` takes addresses, which must be of dense arrays of the stated types.
#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/executable.h"
#include "api/publish.h"
#include "api/python/raise.h"
#include "base/text.h"
#include "run/drivers/native/direct.h"
#include "run/profile/ran.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

struct Program {
  api::ExecutablePtr executable;
  std::shared_ptr<const run::DirectProgram> direct;
};

Program make(Result<api::ExecutablePtr> compiled) {
  Program out{.executable = or_raise(std::move(compiled)), .direct = {}};
  out.direct = or_raise(run::DirectProgram::make(out.executable->plan));
  return out;
}

Program compile_bytes(const nb::bytes& artifact) {
  Result<api::ExecutablePtr> compiled = [&] {
    std::string bytes(artifact.c_str(), artifact.size());
    const api::Unlocked unlocked;
    return api::compile_with_flags(std::move(bytes));
  }();
  return make(std::move(compiled));
}

Program load_bytes(const nb::bytes& saved) {
  Result<api::Loaded> loaded = api::load({saved.c_str(), saved.size()});
  return make(loaded ? Result<api::ExecutablePtr>(loaded->executable) : Result<api::ExecutablePtr>(loaded.error()));
}

nb::list types(const arch::HostPlan& plan, const std::vector<arch::SlotId>& slots) {
  nb::list out;
  for (arch::SlotId id : slots) {
    nb::list dims;
    for (int64_t d : plan.slots[id].dims) dims.append(d);
    const std::string_view name = row(plan.slots[id].dtype).name;
    out.append(nb::make_tuple(nb::str(name.data(), name.size()), nb::tuple(dims)));
  }
  return out;
}

// How often each kind of step is in the plan: an op's name for those that run by its reference meaning.
nb::dict steps(const arch::HostPlan& plan) {
  static constexpr const char* kKinds[] = {"call",   "tile", "gemm",  "conv", "attention", "move",
                                           "window", "copy", "while", "case", "collective"};
  static_assert(std::size(kKinds) == std::variant_size_v<decltype(arch::Step::what)>);
  nb::dict out;
  for (const arch::Step& step : plan.steps) {
    const auto* call = std::get_if<arch::CallStep>(&step.what);
    const std::string name = call ? cat("call ", call->op) : std::string(kKinds[step.what.index()]);
    const nb::str key(name.c_str());
    out[key] = (out.contains(key) ? nb::cast<int64_t>(out[key]) : 0) + 1;
  }
  return out;
}

// (name, source, runs, devices, weights) of each program that ran while somebody asked.
nb::list ran() {
  nb::list out;
  for (const run::Ran& r : run::RunRecord::process().all())
    out.append(nb::make_tuple(r.source->name, nb::bytes(r.source->artifact.data(), r.source->artifact.size()), r.runs,
                              r.devices, r.weights));
  return out;
}

void launch(const Program& program, const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs,
            const nb::list& packed_forms, int core) {
  std::vector<const void*> in(inputs.size());
  std::vector<void*> out(outputs.size());
  std::vector<run::ArrayForms*> forms(packed_forms.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = reinterpret_cast<const void*>(inputs[i]);
  for (size_t i = 0; i < out.size(); ++i) out[i] = reinterpret_cast<void*>(outputs[i]);
  for (size_t i = 0; i < forms.size(); ++i)
    forms[i] = packed_forms[i].is_none() ? nullptr : nb::cast<run::ArrayForms*>(packed_forms[i]);
  Result<void> outcome = [&] {
    const api::Unlocked unlocked;
    run::Page* const page = api::process_page("core");
    const size_t at = core >= 0 && page && size_t(core) < page->core_count() ? size_t(core) : api::process_core();
    return program.direct->run_counted(in, out, forms, page, at);
  }();
  or_raise(std::move(outcome));
}

}  // namespace

void bind_executable(nb::module_& m) {
  using namespace nb::literals;
  m.def("ran_start", [] { run::RunRecord::process().start(); });
  m.def("ran_stop", [] { run::RunRecord::process().stop(); });
  m.def("ran", ran, "Programs that ran since ran_start, in the order in which they first did.");
  nb::class_<run::ArrayForms>(m, "Kept", "Packed forms of one array that does not change, kept beside it.")
      .def(nb::init<>());
  nb::class_<Program>(m, "Executable", "A compiled StableHLO program.")
      .def_static("compile", compile_bytes, "artifact"_a, "From StableHLO, text or portable artifact.")
      .def_static("load", load_bytes, "saved"_a, "From what save() gave.")
      .def("save",
           [](const Program& p) {
             const std::string bytes = api::save(*p.executable);
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def_prop_ro("name", [](const Program& p) { return p.executable->name(); })
      .def_prop_ro("fingerprint", [](const Program& p) { return p.executable->fingerprint; })
      .def_prop_ro(
          "inputs", [](const Program& p) { return types(*p.executable->plan, p.executable->plan->inputs); },
          "(dtype, shape) of each input.")
      .def_prop_ro("outputs", [](const Program& p) { return types(*p.executable->plan, p.executable->plan->outputs); })
      .def_prop_ro(
          "in_place", [](const Program& p) { return p.executable->plan->in_place; },
          "Per output: the input over whose memory it may be written, or -1.")
      .def_prop_ro(
          "steps", [](const Program& p) { return steps(*p.executable->plan); }, "How often each kind occurs.")
      .def_prop_ro("flops", [](const Program& p) { return p.executable->plan->flops; })
      .def_prop_ro("temporary_bytes", [](const Program& p) { return p.executable->plan->arena_bytes; })
      .def("launch", launch, "inputs"_a, "outputs"_a, "kept"_a = nb::list(), "core"_a = -1,
           "Runs on dense arrays at these addresses; `kept` holds a Kept or None for each input.");
}
