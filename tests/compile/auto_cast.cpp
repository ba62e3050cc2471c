// Products in narrower formats as precision allows, everything in them, and rounding by chance that is right on
// average.
#include "compile/graph/numerics.h"

#include <doctest/doctest.h>

#include <bit>
#include <cstring>

#include "compile/host/native.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tests/compile/testing.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

static std::string dot(const char* precision) {
  return std::string(
             "graph \"g\" (%0: f32[2,3], %1: f32[3,4]) { %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract "
             "= [1], precision = (\"") +
         precision +
         "\", \"DEFAULT\"), rhs_batch = [], rhs_contract = [0]} : f32[2,4] %3 = tanh %2 : f32[2,4] return %3 }";
}

static int count(const ir::Graph& graph, std::string_view op) {
  int n = 0;
  for (const ir::Node* node : graph.order()) n += node->op.name() == op;
  return n;
}

static const ir::Node* find(const ir::Graph& graph, std::string_view op) {
  for (const ir::Node* node : graph.order())
    if (node->op.name() == op) return node;
  return nullptr;
}

TEST_CASE("the operands of a product follow the switch and the precision") {
  struct Case {
    const char* precision;
    AutoCast cast;
    Dtype type, operand;
    int rounded;  // reduce_precision nodes
  };
  const Case cases[] = {
      {"DEFAULT", AutoCast::none, Dtype::bf16, Dtype::f32, 0},
      {"DEFAULT", AutoCast::matmult, Dtype::bf16, Dtype::bf16, 0},
      {"DEFAULT", AutoCast::matmult, Dtype::f16, Dtype::f16, 0},
      {"DEFAULT", AutoCast::matmult, Dtype::f8e4m3, Dtype::f8e4m3, 0},
      {"DEFAULT", AutoCast::matmult, Dtype::tf32, Dtype::f32, 2},
      {"HIGH", AutoCast::matmult, Dtype::bf16, Dtype::f32, 2},
      {"HIGHEST", AutoCast::matmult, Dtype::bf16, Dtype::f32, 0},
      {"DEFAULT", AutoCast::all, Dtype::bf16, Dtype::bf16, 2},  // the product's result and tanh's
      {"HIGHEST", AutoCast::all, Dtype::bf16, Dtype::f32, 1},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.precision));
    CAPTURE(int(c.type));
    auto graph = ir::parse_graph(dot(c.precision), "t");
    REQUIRE_MESSAGE(graph, graph.error().text());
    const ir::Graph cast = auto_cast(*graph, {.cast = c.cast, .type = c.type});
    REQUIRE(ir::verify(cast));
    const ir::Node* product = find(cast, "dot_general");
    CHECK(product->inputs[0].type().dtype == c.operand);
    CHECK(product->types[0].dtype == Dtype::f32);
    CHECK(count(cast, "reduce_precision") == c.rounded);
    CHECK(cast.results[0].type().dtype == Dtype::f32);
  }
}

TEST_CASE("all: inputs of the program are rounded before they are used") {
  auto graph = ir::parse_graph("graph \"g\" (%0: f32[1]) { %1 = add %0, %0 : f32[1] return %1 }", "t");
  auto plan =
      compile_native(*graph, {.numerics = {.cast = AutoCast::all, .type = Dtype::bf16}, .observer = kVerifyEach});
  REQUIRE(plan);
  Tensor x = Tensor::make(Dtype::f32, {1});
  x.view().as<float>()[0] = 1.00001f;
  auto out = run_plan(*plan, std::span(&x, 1));
  REQUIRE(out);
  CHECK((*out)[0].view().as<float>()[0] == 2.0f);
}

TEST_CASE("rounding by chance is right on average and differs between runs") {
  constexpr int64_t kCount = 4096;
  auto graph = ir::parse_graph(
      "graph \"g\" (%0: bf16[4096], %1: f32[4096]) { %2 = convert %1 : bf16[4096] %3 = add %0, %2 : bf16[4096] return "
      "%2, %3 }",
      "t");
  REQUIRE(graph);
  auto plan = compile_native(*graph, {.numerics = {.is_stochastic = true, .seed = 7}, .observer = kVerifyEach});
  REQUIRE(plan);
  Tensor args[] = {Tensor::make(Dtype::bf16, {kCount}), Tensor::make(Dtype::f32, {kCount})};
  const float value = 1.0f + 0x1p-9f;  // a quarter of the way from 1 to the next bf16
  for (int64_t i = 0; i < kCount; ++i) {
    args[0].view().as<uint16_t>()[i] = 0x4380;  // 256: the sum lies between 256 and 258
    args[1].view().as<float>()[i] = value;
  }
  const auto mean = [&](const Tensor& t) {
    double sum = 0;
    for (int64_t i = 0; i < kCount; ++i)
      sum += double(std::bit_cast<float>(uint32_t(t.view().as<uint16_t>()[i]) << 16));
    return sum / double(kCount);
  };
  auto first = run_plan(*plan, args), second = run_plan(*plan, args);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(mean((*first)[0]) == doctest::Approx(value).epsilon(2e-4));
  CHECK(mean((*first)[1]) == doctest::Approx(256 + value).epsilon(4e-4));
  CHECK(std::memcmp((*first)[0].data.get(), (*second)[0].data.get(), kCount * 2) != 0);
}

}  // namespace trine::compile
