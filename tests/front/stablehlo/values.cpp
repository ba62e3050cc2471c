// Stored artifacts, read, made into graphs and evaluated by the ops' reference meanings, against what JAX's CPU backend
// computed (make_data.py).
#include <cmath>
#include <complex>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/read.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"
#include "tests/testing.h"

using namespace trine;

namespace {

// Of the elements as complex numbers; 0 where all agree exactly, NaN with NaN.
double difference(const TensorView& a, const TensorView& b) {
  double worst = 0, largest = 1;
  dispatch_element(a.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t i = 0; i < a.elements(); ++i) {
      const std::complex<double> x(E::load(a.as<const typename E::Storage>()[i]));
      // NumPy may keep a narrow integer without its sign above.
      const std::complex<double> y(E::load(E::store(E::load(b.as<const typename E::Storage>()[i]))));
      const bool same = x == y || (std::isnan(std::abs(x)) && std::isnan(std::abs(y)));
      if (!same) worst = std::isfinite(std::abs(x - y)) ? std::max(worst, std::abs(x - y)) : INFINITY;
      if (std::isfinite(std::abs(y))) largest = std::max(largest, std::abs(y));
    }
  });
  return worst / largest;
}

double tolerance(Dtype dtype) {
  const DtypeRow& r = row(is_complex(dtype) ? row(dtype).element : dtype);
  if (dtype == Dtype::f64 || dtype == Dtype::c128) return 1e-6;  // results of f32 programs, widened at the end
  return is_floating(r.dtype) ? 32 * std::ldexp(1.0, -r.format.mantissa_bits) : 0;
}

void check_values(const std::filesystem::path& values) {
  const auto bytes = read_file(values.string());
  auto artifact = read_file(std::filesystem::path(values).replace_extension(".artifact").string());
  REQUIRE(bytes.has_value());
  REQUIRE(artifact.has_value());
  const auto module = front::stablehlo::read_module(std::move(*artifact), values.stem().string());
  REQUIRE(module.has_value());
  const auto graph = front::stablehlo::to_graph(*module);
  REQUIRE_MESSAGE(graph.has_value(), graph.error().text());
  REQUIRE(ir::verify(*graph).has_value());
  size_t at = 0;
  auto next = [&](const ir::Type& type) {
    Tensor t = Tensor::make(type.dtype, type.dims);
    REQUIRE(at + t.bytes() <= bytes->size());
    std::memcpy(t.data.get(), bytes->data() + at, t.bytes());
    at += t.bytes();
    return t;
  };
  std::vector<Tensor> args;
  for (const ir::Value& p : graph->params) args.push_back(next(p.type()));
  const auto results = ops::evaluate(*graph, args);
  REQUIRE_MESSAGE(results.has_value(), results.error().text());
  for (size_t i = 0; i < results->size(); ++i) {
    const Tensor want = next(graph->results[i].type());
    const double found = difference((*results)[i].view(), want.view());
    CHECK_MESSAGE(found <= tolerance(want.dtype), cat(values.stem().string(), " result ", i, ": ", found));
  }
  CHECK(at == bytes->size());
}

}  // namespace

TEST_CASE("stored programs compute what JAX computes") {
  int checked = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TRINE_SOURCE_DIR) / "tests/front/stablehlo/data"))
    if (entry.path().extension() == ".values") check_values(entry.path()), ++checked;
  CHECK(checked >= 17);
}

TEST_CASE("the graph of a stored program reads back from its text") {
  for (std::string_view name : {"branches", "loops", "scatters", "sorting"}) {
    const auto path = std::filesystem::path(TRINE_SOURCE_DIR) / "tests/front/stablehlo/data" / cat(name, ".artifact");
    const auto module = front::stablehlo::read_module(*read_file(path.string()), name);
    REQUIRE(module.has_value());
    const auto graph = front::stablehlo::to_graph(*module);
    REQUIRE(graph.has_value());
    const std::string text = ir::text(*graph);
    const auto again = ir::parse_graph(text, name);
    REQUIRE_MESSAGE(again.has_value(), again.error().text());
    CHECK(ir::text(*again) == text);
  }
}
