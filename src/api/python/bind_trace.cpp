// NKI traces for Python: records a kernel's calls and gives back its Program. All arguments are plain Python.
// An error is a ValueError whose text is one JSON object; see base/diagnostic.h.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "api/observe.h"
#include "api/python/raise.h"
#include "arch/program/recording.h"
#include "base/format/base64.h"
#include "compile/stream/streams.h"
#include "front/nki/trace.h"

namespace nb = nanobind;
using namespace trine;
using front::Trace;

namespace {

template <class T>
T value_of(Result<T> result, const Diagnostic& diagnostic) {
  if (!result) throw nb::value_error(diagnostic.json().c_str());
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

template <class E, size_t N>
E member(const std::string& given, std::string_view what, const std::string_view (&names)[N]) {
  std::string all;
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == given) return static_cast<E>(i);
    all += (i ? ", " : "") + std::string(names[i]);
  }
  Diagnostic c;
  c.rule = what;
  c.found = std::string(what) + " \"" + given + "\"";
  c.expected = "one of " + all;
  throw nb::value_error(c.json().c_str());
}

Trace make_trace(const std::string& name, const std::string& chip, int cores, const std::string& dialect) {
  static constexpr std::string_view kDialects[] = {"current", "functional", "functional as is"};
  auto made = Trace::make(name, chip, cores, member<front::Dialect>(dialect, "dialect", kDialects));
  if (!made) throw nb::value_error(diagnostic_of(made.error(), "launch").json().c_str());
  return *std::move(made);
}

uint32_t add_tensor(Trace& t, const std::string& name, const std::string& space, const std::string& dtype,
                    std::vector<int64_t> shape, const std::string& kind,
                    std::optional<std::pair<int64_t, int64_t>> address, std::optional<nb::bytes> data, int core,
                    int64_t alias, const std::string& file, uint32_t line) {
  static constexpr std::string_view kSpaces[] = {"hbm", "sbuf", "psum"};
  static constexpr std::string_view kKinds[] = {"scratch", "input", "output", "constant"};
  front::TensorArgs args;
  args.name = name;
  args.space = member<arch::Space>(space, "memory", kSpaces);
  args.dtype = dtype;
  args.shape = std::move(shape);
  args.kind = member<arch::TensorKind>(kind, "tensor kind", kKinds);
  args.address = address;
  if (data) args.data = std::as_bytes(std::span(data->c_str(), data->size()));
  args.core = core;
  args.alias = alias;
  args.file = file;
  args.line = line;
  return value_of(t.tensor(args), t.diagnostic());
}

using Pair = std::pair<int64_t, int64_t>;

uint32_t add_tile(Trace& t, uint32_t tensor, std::optional<std::string> dtype, int64_t partition, int64_t partitions,
                  int64_t offset, std::vector<Pair> dims, int64_t partition_stride,
                  std::optional<std::vector<int64_t>> steps, std::optional<Pair> reg, std::optional<Pair> rows,
                  std::optional<Pair> free) {
  front::TileArgs args;
  args.tensor = tensor;
  if (dtype) args.dtype = *std::move(dtype);
  args.partition = partition;
  args.partitions = partitions;
  args.offset = offset;
  args.partition_stride = partition_stride;
  args.dims = std::move(dims);
  if (steps) args.steps = *std::move(steps);
  args.reg = reg;
  args.rows = rows;
  args.free = free;
  return value_of(t.tile(args), t.diagnostic());
}

front::AttrValue attr_value(nb::handle v) {
  if (nb::isinstance<nb::bool_>(v)) return static_cast<int64_t>(nb::cast<bool>(v));
  if (nb::isinstance<nb::int_>(v)) return nb::cast<int64_t>(v);
  if (nb::isinstance<nb::float_>(v)) return nb::cast<double>(v);
  if (nb::isinstance<nb::str>(v)) return nb::cast<std::string>(v);
  return nb::cast<std::vector<int64_t>>(v);
}

std::string_view text(nb::handle s) {
  Py_ssize_t n = 0;
  const char* const data = PyUnicode_AsUTF8AndSize(s.ptr(), &n);
  if (!data) throw nb::python_error();
  return {data, static_cast<size_t>(n)};
}

uint32_t emit(Trace& t, std::string_view row, std::optional<std::string_view> engine, nb::dict operands, nb::dict attrs,
              int core, std::string_view file, uint32_t line, std::vector<uint32_t> after, bool fixed_order) {
  front::EmitArgs args;
  args.row = row;
  if (engine) args.engine = *engine;
  args.operands.reserve(operands.size());
  for (auto [key, handle] : operands) args.operands.emplace_back(text(key), nb::cast<uint32_t>(handle));
  args.attrs.reserve(attrs.size());
  for (auto [key, value] : attrs) args.attrs.emplace_back(text(key), attr_value(value));
  args.core = core;
  args.file = file;
  args.line = line;
  args.after = std::move(after);
  args.fixed_order = fixed_order;
  return value_of(t.emit(args), t.diagnostic());
}

arch::Program scheduled(arch::Kernel* kernel) {
  Diagnostic why;
  auto result = [&] {
    const api::Unlocked unlocked;
    return compile::make_streams(*kernel, why, {.is_nki = true, .observer = api::observer_from_environment()});
  }();
  return value_of(std::move(result), why);
}

arch::Program finish(Trace& t) { return scheduled(value_of(t.close(), t.diagnostic())); }

std::pair<arch::Program, std::string> finish_recorded(Trace& t) {
  arch::Kernel* const kernel = value_of(t.close(), t.diagnostic());
  const auto refuse = [](const Error& error) { throw nb::value_error(diagnostic_of(error, "kernel").json().c_str()); };
  if (auto done = compile::rearrange(*kernel); !done) refuse(done.error());
  auto bytes = arch::recording_bytes(*kernel);
  if (!bytes) refuse(bytes.error());
  std::string text = to_base64(*bytes);
  return {scheduled(kernel), std::move(text)};
}

}  // namespace

void bind_trace(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Trace>(m, "Trace", "A kernel being recorded; finish() schedules it.")
      .def(nb::new_(&make_trace), "name"_a, "chip"_a, "cores"_a = 1, "dialect"_a = "current")
      .def("tensor", add_tensor, "name"_a, "space"_a, "dtype"_a, "shape"_a, "kind"_a = "scratch",
           "address"_a = nb::none(), "data"_a = nb::none(), "core"_a = 0, "alias"_a = -1, "file"_a = "", "line"_a = 0,
           "A tensor's number. Without an address the scheduler chooses one.")
      .def("tile", add_tile, "tensor"_a, nb::kw_only(), "dtype"_a = nb::none(), "partition"_a = 0, "partitions"_a,
           "offset"_a, "dims"_a, "partition_stride"_a = 0, "steps"_a = nb::none(), "reg"_a = nb::none(),
           "rows"_a = nb::none(), "free"_a = nb::none(), "An operand that walks a tensor; strides in elements.")
      .def("imm", &Trace::immediate, "value"_a)
      .def(
          "register", [](Trace& t, int64_t n) { return value_of(t.register_(n), t.diagnostic()); }, "n"_a)
      .def("emit", emit, "row"_a, "engine"_a.none(), "operands"_a, "attrs"_a, "core"_a = 0, "file"_a = "", "line"_a = 0,
           "after"_a = std::vector<uint32_t>(), "fixed_order"_a = false, "Records one instruction; its number.")
      .def(
          "loop",
          [](Trace& t, std::optional<int64_t> iterations, std::optional<int64_t> reg, int core, bool while_nonzero) {
            value_of(t.loop(iterations, reg, core, while_nonzero), t.diagnostic());
          },
          "trips"_a = nb::none(), "register"_a = nb::none(), "core"_a = 0, "while_nonzero"_a = false)
      .def(
          "end_loop", [](Trace& t, int core) { value_of(t.end_loop(core), t.diagnostic()); }, "core"_a = 0)
      .def(
          "depends",
          [](Trace& t, uint32_t consumer, std::vector<uint32_t> producers) {
            value_of(t.depends(consumer, producers), t.diagnostic());
          },
          "consumer"_a, "producers"_a, "The consumer begins when the producers are over.")
      .def("finish_recorded", finish_recorded, "The same, and the kernel as text for programs that call it.")
      .def("finish", finish, "The verified program; once.")
      .def_prop_ro("messages", [](const Trace& t) { return t.messages(); });
}
