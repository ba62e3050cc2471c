// Listings for Python: what a program compiles to, as text. `make replay` compares them.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api/graph_text.h"
#include "api/listing.h"
#include "api/python/raise.h"
#include "front/onnx/read.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

std::string host_listing(const nb::bytes& artifact, bool as_jax, int64_t partitions, int64_t replicas) {
  std::string bytes(artifact.c_str(), artifact.size());
  api::CompileOptions options{.replicas = replicas, .partitions = partitions};
  options.has_layouts = options.has_choosing_truths = as_jax;
  auto made = [&]() -> Result<std::string> {
    const api::Unlocked unlocked;
    return api::listing(*TRY(api::compile(std::move(bytes), options)));
  }();
  return or_raise(std::move(made));
}

std::string read_onnx(const nb::bytes& model, std::map<std::string, std::vector<int64_t>> shapes,
                      int64_t weights_from) {
  front::OnnxOptions options;
  options.shapes = {shapes.begin(), shapes.end()};
  options.weights_from = weights_from;
  return compile::graph_text(or_raise(front::read_onnx({model.c_str(), model.size()}, options)));
}

}  // namespace

void bind_listing(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "graph_listing",
      [](const nb::bytes& artifact) {
        return compile::graph_text(or_raise(api::read_graph({artifact.c_str(), artifact.size()})));
      },
      "artifact"_a, "A program as the front-end read it, as a graph's text.");
  m.def("host_listing", host_listing, "artifact"_a, "as_jax"_a = false, "partitions"_a = 1, "replicas"_a = 1,
        "The host plan of a program as text. `as_jax`: by the options that the PJRT plugin sets.");
  m.def(
      "device_listing", [](const api::Compiled& c) { return api::listing(c); }, "compiled"_a,
      "All parts of a program that compile_device made, as text.");
  m.def("read_onnx", read_onnx, "model"_a, "shapes"_a = nb::dict(), "weights_from"_a = -1,
        "An ONNX model's bytes as a graph's text; `shapes` of inputs whose dims the file leaves open.");
}
