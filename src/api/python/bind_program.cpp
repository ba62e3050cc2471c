// Programs for Python: assemble, look at, run. Arrays are NumPy's, with ml_dtypes for the formats NumPy lacks; formats
// that neither has travel as raw bytes. The run itself holds no Python lock and copies no input.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <chrono>

#include <cstring>

#include <set>

#include "api/chips.h"
#include "api/publish.h"
#include "api/python/arrays.h"
#include "api/python/raise.h"
#include "arch/asm/asm.h"
#include "arch/chips/chip.h"
#include "arch/program/container.h"
#include "arch/program/verify.h"
#include "base/text.h"
#include "run/drivers/exact/exact.h"
#include "run/faults/apply.h"
#include "run/faults/dump.h"
#include "run/faults/inject.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::numpy_dtype;
using trine::api::or_raise;
using trine::api::owned_bytes;
using trine::api::shape_tuple;
using trine::api::text;

namespace {

using BytesIn = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

const arch::Chip& chip_named(const std::string& name) { return *or_raise(api::find_chip(name)); }

std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += cat(i ? "," : "", shape[i]);
  return out + "]";
}

// NumPy keeps sub-byte elements one to a byte, a program two.
std::vector<std::byte> packed(std::span<const std::byte> wide) {
  std::vector<std::byte> out((wide.size() + 1) / 2);
  for (size_t i = 0; i < wide.size(); ++i) out[i / 2] |= (wide[i] & std::byte{15}) << (i % 2 ? 4 : 0);
  return out;
}
std::vector<std::byte> unpacked(std::span<const std::byte> narrow, Dtype dtype, size_t n) {
  std::vector<std::byte> out(n);
  for (size_t i = 0; i < n; ++i) {
    out[i] = (narrow[i / 2] >> (i % 2 ? 4 : 0)) & std::byte{15};
    if (dtype == Dtype::s4 && (out[i] & std::byte{8}) != std::byte{}) out[i] |= std::byte{0xf0};
  }
  return out;
}

// An argument as bytes: an array of the tensor's dtype and shape, or its raw bytes (bytes, or a uint8 array).
struct Argument {
  nb::object keep;  // the contiguous array
  std::vector<std::byte> copy;
  std::span<const std::byte> bytes;
};

Argument argument(const arch::Tensor& t, nb::handle given) {
  if (const auto view = api::buffer_view(given)) {
    const auto bytes = static_cast<int64_t>(view->bytes());
    const bool same = view->dtype == t.dtype && view->elements() == element_count(t);
    if (bytes == tensor_bytes(t) && (same || view->dtype == Dtype::u8))
      return {nb::borrow(given), {}, {view->as<const std::byte>(), view->bytes()}};
  }
  nb::module_ numpy = nb::module_::import_("numpy");
  Argument out;
  nb::object array = nb::isinstance<nb::bytes>(given) ? numpy.attr("frombuffer")(given, "uint8")
                                                      : numpy.attr("ascontiguousarray")(given);
  const nb::object wanted = numpy_dtype(t.dtype);
  const bool same = !wanted.is_none() && array.attr("dtype").equal(wanted);
  const bool raw = nb::cast<std::string>(array.attr("dtype").attr("name")) == "uint8" &&
                   nb::cast<int64_t>(array.attr("size")) == tensor_bytes(t);
  const bool fits = nb::cast<int64_t>(array.attr("size")) == element_count(t);
  if (!(same && fits) && !raw)
    throw nb::value_error(cat("input ", t.name, " is ", nb::cast<std::string>(array.attr("dtype").attr("name")), " of ",
                              nb::cast<int64_t>(array.attr("size")), " elements; expected ", row(t.dtype).name,
                              shape_text(t.shape), wanted.is_none() ? " as raw uint8 bytes" : "")
                              .c_str());
  out.keep = array.attr("reshape")(-1).attr("view")("uint8");
  const auto view = nb::cast<BytesIn>(out.keep);
  out.bytes = std::as_bytes(std::span(view.data(), view.size()));
  if (same && bits(t.dtype) < 8) {
    out.copy = packed(out.bytes);
    out.bytes = out.copy;
  }
  return out;
}

nb::object as_array(run::Output output) {
  const nb::object dtype = numpy_dtype(output.dtype);
  size_t n = 1;
  for (int64_t d : output.shape) n *= static_cast<size_t>(d);
  if (bits(output.dtype) < 8 && !dtype.is_none()) output.bytes = unpacked(output.bytes, output.dtype, n);
  nb::object array = nb::cast(owned_bytes(std::move(output.bytes)));
  if (dtype.is_none()) return array;
  return array.attr("view")(dtype).attr("reshape")(shape_tuple(output.shape));
}

struct RunOutcome {
  nb::dict outputs;
  std::vector<run::Finding> findings;
  int64_t findings_dropped = 0, instructions = 0, transfers = 0;
  bool finished = false;
};

// A program that was made ready; Python keeps the program itself.
struct Ready {
  const arch::Program* program = nullptr;
  std::shared_ptr<const run::ExactProgram> exact;
  std::shared_ptr<run::CountedProgram> counted = std::make_shared<run::CountedProgram>();
};

// A kernel's run in the process's counters; the program is written out from a copy of its container.
void count_run(const Ready& ready, int64_t host_ns, run::Status status) {
  run::Page* const page = api::process_page("core");
  run::ProgramCounters* const row = ready.counted->in(page, [&] {
    const arch::Program& program = *ready.program;
    run::CountedInfo info{.name = program.name, .kind = "program"};
    const auto bytes = std::make_shared<const std::vector<std::byte>>(arch::program_bytes(program));
    info.text = [bytes] { return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()); };
    return info;
  });
  if (row) page->count_run(*row, api::process_core(), host_ns, 1, status);
}

Ready ready(const arch::Program& program, const std::string& chip) {
  return {&program, or_raise(run::ExactProgram::make(program, chip_named(chip)))};
}

// With TRINE_FAULT's flipped bits and stuck semaphores; a dump of a run that went wrong, where one is wanted.
Result<run::RunResult> run_with_faults(const Ready& ready, const run::Inputs& inputs, run::ExactOptions options) {
  api::set_faults_from_environment();
  const run::Faults& faults = run::Injector::process().faults();
  const std::string folder = api::dump_folder();
  options.keeps_state = !folder.empty();
  run::RunResult result;
  if (faults.empty()) {
    result = TRY(ready.exact->run(inputs, options));
  } else {
    run::CoreCounters unseen;
    run::Page* const page = api::process_page("core");
    const size_t core = api::process_core();
    const auto ruling =
        run::Injector::process().before(int64_t(core), page ? page->core(core) : unseen, ready.program->name);
    const bool hangs = ruling.status == run::Status::timeout;  // which the run itself shows
    if (ruling.failure && !hangs) return ruling.failure;
    options.flips = TRY(run::flips_of(*ready.program, faults));
    const arch::Program faulty = run::with_faults(*ready.program, faults);
    result = TRY(run::run_exact(faulty, ready.exact->chip(), inputs, options));
  }
  if (run::status_of(result) != run::Status::success && !folder.empty())
    (void)run::write_dump(folder, run::exact_dump(*ready.program, ready.exact->chip().name, result)).has_value();
  return result;
}

// Of a Program object, which keeps what was made ready for its next run, by the chip itself: a chip's file may change.
const Ready& cached_ready(nb::handle self, const std::string& chip) {
  if (!nb::hasattr(self, "_ready")) self.attr("_ready") = nb::dict();
  nb::dict known = nb::cast<nb::dict>(self.attr("_ready"));
  const nb::int_ key(reinterpret_cast<uintptr_t>(&chip_named(chip)));
  if (!known.contains(key)) known[key] = nb::cast(ready(nb::cast<const arch::Program&>(self), chip));
  return nb::cast<const Ready&>(known[key]);
}

RunOutcome run_ready(const Ready& ready, nb::dict inputs, const run::ExactOptions& options) {
  const arch::Program& program = *ready.program;
  std::vector<Argument> arguments;
  run::Inputs bytes;
  for (auto [key, value] : inputs) {
    const auto name = nb::cast<std::string>(key);
    const int index = program.find_tensor(name);
    if (index < 0 || program.tensors[static_cast<size_t>(index)].kind != arch::TensorKind::input) {
      bytes[name] = {};  // the driver says which inputs there are
      continue;
    }
    arguments.push_back(argument(program.tensors[static_cast<size_t>(index)], value));
    bytes[name] = arguments.back().bytes;
  }
  Result<run::RunResult> result = [&] {
    const api::Unlocked unlocked;
    const auto begin = std::chrono::steady_clock::now();
    auto ran = run_with_faults(ready, bytes, options);
    const auto took = std::chrono::steady_clock::now() - begin;
    count_run(ready, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count(),
              ran ? run::status_of(*ran) : run::status_of(ran.error().code));
    return ran;
  }();
  run::RunResult r = or_raise(std::move(result));
  RunOutcome out;
  for (run::Output& o : r.outputs) {
    const nb::str name = text(o.name);
    out.outputs[name] = as_array(std::move(o));
  }
  out.findings = std::move(r.findings);
  out.findings_dropped = r.findings_dropped;
  out.instructions = r.counts.instructions;
  out.transfers = r.counts.transfers;
  out.finished = r.finished;
  return out;
}

nb::list tensor_list(const arch::Program& program) {
  static constexpr std::string_view kKinds[] = {"scratch", "input", "output", "constant"};
  nb::list out;
  for (const arch::Tensor& t : program.tensors) {
    nb::dict d;
    d["name"] = t.name;
    d["dtype"] = text(row(t.dtype).name);
    d["shape"] = shape_tuple(t.shape);
    d["kind"] = text(kKinds[static_cast<size_t>(t.kind)]);
    d["space"] = text(name(t.space));
    d["alias"] = t.alias;
    out.append(d);
  }
  return out;
}

void bind_findings(nb::module_& m) {
  using run::Finding;
  nb::class_<Finding>(m, "Finding", "What a run noticed about the program.")
      .def_prop_ro("kind", [](const Finding& f) { return std::string(name(f.kind)); })
      .def_prop_ro("message", &Finding::message)
      .def_prop_ro("index", [](const Finding& f) { return f.point.index; })
      .def_prop_ro("loops", [](const Finding& f) { return f.point.loops; })
      .def_ro("stream", &Finding::stream)
      .def_ro("operand", &Finding::operand)
      .def_ro("instruction", &Finding::instruction)
      .def_ro("found", &Finding::found)
      .def_ro("expected", &Finding::expected)
      .def_ro("fix", &Finding::fix)
      .def_ro("file", &Finding::file)
      .def_ro("line", &Finding::line)
      .def_ro("warning", &Finding::warning)
      .def("__str__", &Finding::text)
      .def("__repr__", [](const Finding& f) { return cat("<Finding ", name(f.kind), ": ", f.message(), ">"); });
  nb::class_<RunOutcome>(m, "RunResult", "Outputs and findings of one run.")
      .def_ro("outputs", &RunOutcome::outputs)
      .def_ro("findings", &RunOutcome::findings)
      .def_ro("findings_dropped", &RunOutcome::findings_dropped)
      .def_ro("instructions", &RunOutcome::instructions)
      .def_ro("transfers", &RunOutcome::transfers)
      .def_ro("finished", &RunOutcome::finished);
}

}  // namespace

void bind_program(nb::module_& m) {
  using namespace nb::literals;
  bind_findings(m);
  nb::class_<arch::Program>(m, "Program", nb::dynamic_attr(), "Instruction streams and the tensors they work on.")
      .def_ro("name", &arch::Program::name)
      .def_ro("chip", &arch::Program::chip)
      .def_ro("cores", &arch::Program::cores)
      .def_prop_ro(
          "files",
          [](const arch::Program& p) {
            std::set<std::string> out;
            for (const arch::SourceLine& line : p.lines) out.insert(p.strings[line.file]);
            return std::vector<std::string>(out.begin(), out.end());
          },
          "Source files that its instructions come from.")
      .def_prop_ro("tensors", tensor_list)
      .def_static(
          "load", [](const std::string& path) { return or_raise(arch::load_program(path)); }, "path"_a,
          "Reads a program file or assembly text.")
      .def(
          "save", [](const arch::Program& p, const std::string& path) { or_raise(arch::write_program(p, path)); },
          "path"_a)
      .def(
          "verify",
          [](const arch::Program& p, const std::string& chip) {
            std::vector<std::string> out;
            for (const arch::Finding& f : arch::verify(p, chip_named(chip))) out.push_back(f.error.text());
            return out;
          },
          "chip"_a = "trn2", "What keeps the program from running on a chip; empty when nothing does.")
      .def("disassemble", [](const arch::Program& p) { return arch::disassemble(p); })
      .def(
          "run",
          [](nb::handle self, nb::dict inputs, const std::string& chip, uint64_t seed, bool stochastic, bool trap_nan,
             bool check_races, int findings_max, int64_t steps_max) {
            return run_ready(cached_ready(self, chip), inputs,
                             {seed, stochastic, trap_nan, check_races, findings_max, steps_max});
          },
          "inputs"_a, "chip"_a = "trn2", "seed"_a = 0, "stochastic"_a = false, "trap_nan"_a = false,
          "check_races"_a = true, "findings_max"_a = 20, "steps_max"_a = 0,
          "Runs every instruction on a simulated machine and gives the values. What was made ready serves the next "
          "run.")
      .def("ready", ready, "chip"_a = "trn2", nb::keep_alive<0, 1>(), "Made ready for a chip, to be run many times.");
  nb::class_<Ready>(m, "ReadyProgram", "A program that was verified and worked out for one chip.")
      .def(
          "run",
          [](const Ready& r, nb::dict inputs, uint64_t seed, bool stochastic, bool trap_nan, bool check_races,
             int findings_max, int64_t steps_max, bool weigh_unwritten) {
            return run_ready(r, inputs,
                             {seed, stochastic, trap_nan, check_races, findings_max, steps_max, weigh_unwritten});
          },
          "inputs"_a, "seed"_a = 0, "stochastic"_a = false, "trap_nan"_a = false, "check_races"_a = true,
          "findings_max"_a = 20, "steps_max"_a = 0, "weigh_unwritten"_a = false,
          "As Program.run. What no data can change is looked at until a run has shown it; the results are the same.")
      .def_prop_ro(
          "settled", [](const Ready& r) { return r.exact->settled(); },
          "A run has shown that no data makes it race or read what nobody wrote.");
  m.def(
      "assemble",
      [](const std::string& source, const std::string& file) { return or_raise(arch::assemble(source, file)); },
      "text"_a, "file"_a = "<text>", "Reads assembly text.");
}
