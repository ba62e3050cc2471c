// Complex numbers taken apart: loops over their parts give what the ops' meanings give, in one step where they can.
#include "compile/graph/complex_parts.h"

#include <complex>
#include <limits>

#include "base/text.h"
#include "tests/compile/testing.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

struct Case {
  const char* name;
  size_t steps;
  const char* body;  // %0 and %1 are c64[N,5]
};

static const Case kCases[] = {
    {"arithmetic", 1,
     "  %2 = multiply %0, %1 : C[N,5]\n  %3 = subtract %2, %0 : C[N,5]\n  %4 = negate %3 : C[N,5]\n"
     "  %5 = divide %4, %1 : C[N,5]\n  return %5 }"},
    {"parts", 1,
     "  %2 = add %0, %1 : C[N,5]\n  %3 = real %2 : R[N,5]\n  %4 = imag %0 : R[N,5]\n"
     "  %5 = multiply %3, %4 : R[N,5]\n  return %5 }"},
    {"lengths", 2, "  %2 = abs %0 : R[N,5]\n  %3 = sign %1 : C[N,5]\n  return %2, %3 }"},
    {"an exponential", 1, "  %2 = exponential %0 : C[N,5]\n  %3 = conj %2 : C[N,5]\n  return %3 }"},
    {"a choice", 1,
     "  %2 = compare %0, %1 {direction = \"NE\"} : bool[N,5]\n  %3 = real %0 : R[N,5]\n"
     "  %4 = convert %3 : C[N,5]\n  %5 = select %2, %4, %1 : C[N,5]\n  return %5 }"},
    {"turned round", 1, "  %2 = transpose %0 {permutation = [1, 0]} : C[5,N]\n  return %2 }"},
    {"turned round and more", 1,
     "  %2 = reverse %0 {dimensions = [0]} : C[N,5]\n  %3 = add %2, %1 : C[N,5]\n"
     "  %4 = transpose %3 {permutation = [1, 0]} : C[5,N]\n  return %4 }"},
    {"a sum", 3,
     "  %2 = constant {value = C[] all x0000000000000000} : C[]\n"
     "  %3 = reduce %0, %2 {dimensions = [0], kind = \"add\"} : C[5]\n  return %3 }"},
};

static std::string with_types(std::string text, int64_t rows, bool is_wide) {
  auto all = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  };
  all("C[", is_wide ? "c128[" : "c64[");
  all("R[", is_wide ? "f64[" : "f32[");
  all("N", cat(rows));
  all(cat("\"", rows, "E\""), "\"NE\"");
  if (is_wide) all("x0000000000000000", "x00000000000000000000000000000000");
  return text;
}

static ir::Graph graph_of(const std::string& text) {
  auto graph = ir::parse_graph("graph \"g\" " + text, "t");
  REQUIRE_MESSAGE(graph, graph.error().text());
  REQUIRE(ir::verify(*graph));
  return *std::move(graph);
}

TEST_CASE("loops over parts give what the ops mean") {
  for (const Case& c : kCases) {
    for (int64_t rows : {1, 3, 8, 130}) {
      for (bool is_wide : {false, true}) {
        CAPTURE(c.name);
        CAPTURE(rows);
        CAPTURE(is_wide);
        const ir::Graph graph = graph_of(with_types(cat("(%0: C[N,5], %1: C[N,5]) {\n", c.body), rows, is_wide));
        const Compiled ran = run_both(graph, compile_native(graph, kVerifiedPlan), 3);
        if (!is_wide) CHECK(ran.plan->steps.size() <= c.steps);
        for (size_t i = 0; i < ran.want.size(); ++i)
          CHECK(error_of(ran.got[i], ran.want[i], is_wide ? 0x1p-52 : 0x1p-23) <= 64);
      }
    }
  }
}

TEST_CASE("lengths and quotients of the smallest, the largest and infinity") {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float numbers[] = {0, 1, -2.5f, 1e-30f, -3e38f, 1e-20f, kInf, -kInf, std::nanf("")};
  const int64_t count = int64_t(std::size(numbers)), all = count * count * count * count;
  Tensor x = Tensor::make(Dtype::c64, {all}), y = Tensor::make(Dtype::c64, {all});
  for (int64_t i = 0; i < all; ++i) {
    int64_t rest = i;
    for (float* to : {x.view().as<float>() + 2 * i, y.view().as<float>() + 2 * i})
      for (int k : {0, 1}) to[k] = numbers[rest % count], rest /= count;
  }
  const ir::Graph graph = graph_of(cat("(%0: c64[", all, "], %1: c64[", all, "]) {\n  %2 = abs %0 : f32[", all,
                                       "]\n  %3 = divide %0, %1 : c64[", all, "]\n  return %2, %3 }"));
  const Tensor args[] = {x, y};
  auto want = ops::evaluate(graph, args);
  auto plan = compile_native(graph, kVerifiedPlan);
  REQUIRE(plan);
  auto got = run_plan(*plan, args);
  REQUIRE(got);
  using Number = std::complex<double>;
  auto is_near = [](Number got, Number want) {
    const bool got_infinite = std::isinf(got.real()) || std::isinf(got.imag());
    if (std::isinf(want.real()) || std::isinf(want.imag())) return got_infinite;
    const double size = std::abs(want);
    if (std::isnan(size)) return std::isnan(std::abs(got));
    return std::abs(got - want) <= 1e-6 * size + 1e-44;
  };
  int64_t lengths = 0, quotients = 0;
  for (int64_t i = 0; i < all; ++i) {
    lengths += !is_near((*got)[0].view().as<float>()[i], (*want)[0].view().as<float>()[i]);
    auto quotient = [&](const Tensor& t) { return Number(t.view().as<std::complex<float>>()[i]); };
    quotients += !is_near(quotient((*got)[1]), quotient((*want)[1]));
  }
  CHECK(lengths == 0);
  CHECK(quotients == 0);
}

}  // namespace trine::compile
