// Layouts as the front-end hands them over, and the program they become.
#include "compile/graph/layout.h"

#include "ir/op_ids.h"
#include "tests/compile/testing.h"

namespace trine::compile {

static ir::Graph with_layouts(ir::Strings params, ir::Strings results) {
  auto parsed =
      ir::parse_graph("graph \"g\" (%0: f32[2,3], %1: f32[3]) { %2 = negate %0 : f32[2,3] return %2, %1 }", "t");
  REQUIRE(parsed);
  ir::Graph graph = *std::move(parsed);
  graph.attrs.set("parameter_layouts", std::move(params));
  graph.attrs.set("result_layouts", std::move(results));
  return graph;
}

TEST_CASE("transposes at the edge, dims as they lie") {
  ir::Graph graph = with_layouts({"{0,1}", "auto"}, {"{1,0}", ""});
  auto layouts = layouts_of(graph);
  REQUIRE(layouts);
  CHECK(layouts->params[0] == Dims{0, 1});
  CHECK(layouts->results[0].empty());
  graph = as_they_lie(std::move(graph), *layouts);
  CHECK(ir::verify(graph, ops::check));
  CHECK(graph.params[0].type().dims == Dims{3, 2});
  CHECK(graph.params[1].type().dims == Dims{3});
  CHECK(graph.results[0].type().dims == Dims{2, 3});
  CHECK(graph.results[0].node->inputs[0].node->op == op::transpose);
  CHECK(graph.results[1] == graph.params[1]);
}

TEST_CASE("what is no layout is said") {
  for (auto [text, why] : {std::pair{"{0,1:T(8,128)}", "no tiles"}, std::pair{"{0}", "each of 2 dims once"},
                           std::pair{"{0,0}", "each of 2 dims once"}, std::pair{"{0,x}", "a dim is no number"},
                           std::pair{"0,1", "expected an order of dims"}}) {
    auto layouts = layouts_of(with_layouts({text}, {}));
    REQUIRE(!layouts);
    CHECK_MESSAGE(layouts.error().message.find(why) != std::string::npos, layouts.error().message);
  }
}

TEST_CASE("dims there and back") {
  const Dims dims{2, 3, 4}, layout{1, 2, 0};
  CHECK(dims_in_memory(dims, layout) == Dims{2, 4, 3});
  CHECK(dims_from_memory(Dims{2, 4, 3}, layout) == dims);
  CHECK(layout_text({}, 3) == "{2,1,0}");
  CHECK(layout_text({}, 0) == "{}");
}

}  // namespace trine::compile
