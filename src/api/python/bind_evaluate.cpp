// Graphs for Python, by reference: the text of a program and its arguments' bytes in, its results' bytes out.
// Arrays are the caller's business: elements narrower than a byte take one each, signed ones extended.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/python/raise.h"
#include "base/text.h"
#include "compile/graph/evaluate.h"
#include "front/stablehlo/ops.h"

namespace nb = nanobind;
using namespace trine;

namespace {

using BytesIn = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::list evaluate(const std::string& graph, const std::vector<BytesIn>& arguments) {
  std::vector<std::span<const std::byte>> bytes;
  for (const BytesIn& a : arguments) bytes.push_back(std::as_bytes(std::span(a.data(), a.size())));
  Result<std::vector<Tensor>> results = [&] {
    const api::Unlocked unlocked;
    return compile::evaluate_text(graph, bytes);
  }();
  nb::list out;
  for (const Tensor& t : api::or_raise(std::move(results))) {
    nb::list dims;
    for (int64_t d : t.dims) dims.append(d);
    const std::string_view name = row(t.dtype).name;
    out.append(nb::make_tuple(nb::str(name.data(), name.size()), nb::tuple(dims), nb::bytes(t.data.get(), t.bytes())));
  }
  return out;
}

nb::list op_names() {
  nb::list out;
  for (std::string_view name : compile::op_names()) out.append(nb::str(name.data(), name.size()));
  return out;
}

// An op's name in a StableHLO module: of the dialect that has it, and CHLO's where neither says.
std::string stablehlo_name(std::string_view op) {
  const std::string own = cat("stablehlo.", op);
  return front::stablehlo::op_by_name(own) ? own : cat("chlo.", op);
}

nb::list ops_abroad() {
  const auto text = [](std::string_view s) { return nb::str(s.data(), s.size()); };
  nb::list out;
  for (const compile::OpAbroad& op : compile::ops_abroad()) {
    nb::dict d;
    d["name"] = text(op.name);
    d["inputs"] = op.inputs;
    d["stablehlo"] = text(stablehlo_name(op.name));
    d["onnx"] = text(op.onnx);
    d["torch"] = text(op.torch);
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_evaluate(nb::module_& m) {
  using namespace nb::literals;
  m.def("evaluate", evaluate, "graph"_a, "arguments"_a,
        "Runs a graph's text by the ops' reference meanings: (dtype, shape, bytes) of each result.");
  m.def("op_names", op_names, "The ops a graph may have.");
  m.def("ops_abroad", ops_abroad, "One dict per op that StableHLO, ONNX or torch have under a name of their own.");
}
