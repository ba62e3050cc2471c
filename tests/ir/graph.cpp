// The graph: equal nodes are one, regions know what is theirs, order is by need.
#include "ir/graph.h"

#include <doctest/doctest.h>

#include "ir/op_ids.h"

namespace trine::ir {

static Type f32(Dims dims) { return tensor_type(Dtype::f32, std::move(dims)); }

TEST_CASE("equal pure nodes are one node; parameters never are") {
  Graph g;
  Value x = g.parameter(f32({4})), y = g.parameter(f32({4}));
  CHECK(x != y);
  Value a = g.add1(op::add, {x, y}, f32({4})), b = g.add1(op::add, {x, y}, f32({4}));
  CHECK(a == b);
  CHECK(g.add1(op::add, {y, x}, f32({4})) != a);
  CHECK(g.add1(op::add, {x, y}, f32({4}), {{"k", int64_t{1}}}) != a);
  Tensor one = Tensor::make(Dtype::f32, {});
  CHECK(g.constant(one) == g.constant(Tensor::make(Dtype::f32, {})));
}

TEST_CASE("what does not depend on a region's parameters is around it") {
  Graph g;
  Value x = g.parameter(f32({}));
  Value twice = g.add1(op::add, {x, x}, f32({}));
  Value p = g.parameter(f32({}));
  Value inside = g.add1(op::multiply, {p, twice}, f32({}));
  Value invariant = g.add1(op::negate, {twice}, f32({}));
  Value result = g.add1(op::add, {inside, invariant}, f32({}));
  Region body{.params = {p}, .results = {result}};
  RegionBody b = body_of(body);
  REQUIRE(b.nodes.size() == 2);
  CHECK(b.nodes[0] == inside.node);
  CHECK(b.nodes[1] == result.node);
  CHECK(b.captures == std::vector<Value>{twice, invariant});

  const Node* loop = g.add({.op = op::while_, .inputs = {x}, .regions = {body}, .types = {f32({})}});
  CHECK(loop->captures == b.captures);
  g.results = {loop->result()};
  std::vector<const Node*> order = g.order();
  CHECK(order == std::vector<const Node*>{x.node, twice.node, invariant.node, loop});
}

TEST_CASE("attributes are sorted and typed") {
  Attrs a{{"z", int64_t{3}}, {"b", Ints{1, 2}}};
  CHECK(a.items()[0].first == "b");
  CHECK(a.integer("z") == 3);
  CHECK(a.integer("b", 7) == 7);  // another kind
  CHECK(a.ints("b") == Ints{1, 2});
  a.set("z", true);
  CHECK(a.flag("z"));
  a.remove("b");
  CHECK(a.find("b") == nullptr);
}

}  // namespace trine::ir
