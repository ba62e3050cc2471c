// The generated table of ops: sorted, so that names are found, and every row has a type rule and a meaning.
#include "ir/op_ids.h"
#include "ops/evaluate.h"

#include <doctest/doctest.h>

using namespace trine;

TEST_CASE("ops are sorted by name and complete") {
  std::string_view before;
  for (const ops::Op* op : ops::all_ops()) {
    CAPTURE(op->name);
    CHECK_MESSAGE(before < op->name, before);
    before = op->name;
    CHECK(ops::find_op(op->name) == op);
    CHECK((op->infer != nullptr));
    CHECK((op->eval != nullptr || op->decompose != nullptr));
  }
}

TEST_CASE("a dtype an op is not defined for is refused by name") {
  ir::Graph g;
  const ir::Value x = g.parameter(ir::tensor_type(Dtype::s32, {2}));
  auto made = ops::make(g, {.op = op::tanh, .inputs = {x}});
  REQUIRE(!made);
  CHECK(made.error().message == "tanh(s32[2]): is not defined for s32");
}

TEST_CASE("while counts") {
  ir::Graph g;
  const ir::Type t = ir::tensor_type(Dtype::s32, {});
  auto number = [](int v) {
    Tensor k = Tensor::make(Dtype::s32, {});
    *k.view().as<int32_t>() = v;
    return k;
  };
  const ir::Value start = g.parameter(t), a = g.parameter(t), b = g.parameter(t);
  g.params = {start};
  auto less = ops::make(g, {.op = op::compare, .inputs = {a, g.constant(number(10))}, .attrs = {{"direction", "LT"}}});
  REQUIRE_MESSAGE(less, less.error().text());
  auto next = ops::make(g, {.op = op::add, .inputs = {b, g.constant(number(3))}});
  auto loop = ops::make(
      g, {.op = op::while_, .inputs = {start}, .regions = {{{a}, {(*less)->result()}}, {{b}, {(*next)->result()}}}});
  REQUIRE_MESSAGE(loop, loop.error().text());
  g.results = {(*loop)->result()};
  const Tensor args[] = {number(2)};
  auto out = ops::evaluate(g, args);
  REQUIRE(out);
  CHECK(*(*out)[0].view().as<int32_t>() == 11);
}
