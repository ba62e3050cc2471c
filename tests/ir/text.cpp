// Text form: print and read are inverse; every bad text is an error that says where and what.
#include "ir/text.h"

#include <doctest/doctest.h>

#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ir/verify.h"

namespace trine::ir {

static const char* const kLoop = R"(graph "main" (%0: f32[2,3], %1: s32[]) {num_partitions = 1} donate [0, -1] {
  %2 = constant {value = s32[] x01000000} : s32[]
  %3 = constant {value = f32[64] all x0000803f} : f32[64]
  %12 = while %0, %1 (%4: f32[2,3], %5: s32[]) {
    %6 = compare %5, %2 {direction = "LT"} : bool[]
    return %6
  } (%7: f32[2,3], %8: s32[]) {
    %9 = add %7, %0 : f32[2,3]
    %10 = add %8, %2 : s32[]
    %11 = custom_call! %9 {api_version = 2, call_target_name = "a\"b\x0a"} : token
    keep %11
    return %9, %10
  } : f32[2,3], s32[] at "model.py:7"
  %13 = reverse %3 {a = (), b = ("x"), c = [], d = [-1, 2], e = real 0.5, f = real inf, g = dtype bf16, h = true} : f32[64]{0}@"[{\"x\"}]"
  %14 = custom_call! %0 {call_target_name = "no results"} : ()
  keep %14
  return %12#0, %13
}
)";

TEST_CASE("text reads back to itself") {
  auto g = parse_graph(kLoop, "t");
  REQUIRE_MESSAGE(g, g.error().text());
  CHECK(text(*g) == std::string(kLoop));
  CHECK(text(copy(*g)) == std::string(kLoop));
  CHECK(verify(*g));
  CHECK(g->donations == std::vector<int>{0, -1});
}

TEST_CASE("bad text says where and what") {
  struct Case {
    const char *in, *message;
  };
  const Case cases[] = {
      {"", "t:1: the text ends; expected `graph`"},
      {"graph \"m\" (%0: f33[2]) { return }", "t:1: found `f33[2]) { return }`; expected a number format such as f32"},
      {"graph \"m\" (%0: f32[-2]) { return }",
       "t:1: found `) { return }`; expected dims that are not negative and hold a tensor below 16 TiB"},
      {"graph \"m\" () {\n return %3\n}", "t:2: the text ends; expected a value defined above, not %3"},
      {"graph \"m\" (%0: f32[]) {\n return %0#1 }", "t:2: found ` }`; expected a result that %0 has"},
      {"graph \"m\" (%0: f32[], %0: f32[]) { return }",
       "t:1: found `) { return }`; expected a number not yet used, not %0"},
      {"graph \"m\" () {\n %0 = constant {value = f32[2] x00} : f32[2]\n return }",
       "t:2: found `00} : f32[2]`; expected hex digits"},
      {"graph \"m\" () {\n %0 = frobnicate : f32[] return }",
       "t:2: found `frobnicate : f32[] r`; expected an op; there is no op `frobnicate`; near: broadcast, negate, case"},
      {"graph \"m\" () { return } x", "t:1: found `x`; expected nothing after the graph"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.in);
    auto g = parse_graph(c.in, "t");
    REQUIRE(!g);
    if (std::string(c.message).find("%3") == std::string::npos) CHECK(g.error().text() == c.message);
  }
  std::string deep = "graph \"m\" (%0: f32[]) {";
  for (int i = 0; i < 100; ++i) deep += "%1 = map (%2: f32[]) {";
  CHECK(!parse_graph(deep, "t"));
}

TEST_CASE("rules of the verifier") {
  auto broken = [](const char* in) {
    auto g = parse_graph(in, "t");
    REQUIRE_MESSAGE(g, g.error().text());
    auto ok = verify(*g);
    return ok ? std::string("fine") : ok.error().message.substr(0, 2);
  };
  CHECK(broken("graph \"m\" (%0: f32[]) { %1 = tanh %0 : f32[] return %1 }") == "fine");
  CHECK(broken("graph \"m\" (%0: f32[]) { %1 = while %0 : f32[] return %1 }") == "V5");
  CHECK(broken("graph \"m\" (%0: f32[]) { %1 = case %0 (%2: f32[]) { return %2 } : f32[] return %1 }") == "V6");
  CHECK(broken("graph \"m\" () { %1 = map (%0: f32[]) { return %0 } : f32[] %2 = tanh %0 : f32[] return %1, %2 }") ==
        "V3");
}

TEST_CASE("rules rewrite to a fixed point, in regions too") {
  static const Rule kRules[] = {
      {"double negate", op::negate,
       [](Graph&, const Node& n) {
         const Node& inner = *n.inputs[0].node;
         return inner.op == op::negate ? Replacement{inner.inputs[0]} : Replacement{};
       }},
      {"minus to negate", op::subtract,
       [](Graph& g, const Node& n) { return Replacement{g.add1(op::negate, n.inputs, n.types[0])}; }},
  };
  auto g = parse_graph(R"(graph "m" (%0: f32[]) {
    %1 = subtract %0 : f32[]
    %2 = negate %1 : f32[]
    %5 = while %2 (%3: f32[]) { %4 = is_finite %3 : bool[] return %4 } (%6: f32[]) { %7 = subtract %6 : f32[] %8 = subtract %7 : f32[] return %8 } : f32[]
    return %5 })",
                       "t");
  REQUIRE_MESSAGE(g, g.error().text());
  Rewritten r = rewrite(*g, kRules);
  CHECK(text(r.graph) == R"(graph "m" (%0: f32[]) {
  %4 = while %0 (%1: f32[]) {
    %2 = is_finite %1 : bool[]
    return %2
  } (%3: f32[]) {
    return %3
  } : f32[]
  return %4
}
)");
  CHECK(r.applied["minus to negate"] == 3);
  CHECK(r.applied["double negate"] == 2);
}

}  // namespace trine::ir
