// Keys of units: equal where the units would be written alike, and only there.
#include "compile/device/choose/unit_key.h"

#include <doctest/doctest.h>

#include "ir/op_ids.h"
#include "ir/text.h"

namespace trine::compile::device {

TEST_CASE("a unit's key follows from its nodes and from where what it reads lies") {
  const auto graph = ir::parse_graph(
      "graph \"g\" (%0: f32[256,512], %1: f32[512,512]) {\n"
      "  %2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : "
      "f32[256,512]\n"
      "  %3 = dot_general %2, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : "
      "f32[256,512]\n"
      "  %4 = dot_general %3, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [0]} : "
      "f32[256,512]\n"
      "  %5 = dot_general %4, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = [1]} : "
      "f32[256,512]\n"
      "  return %5 }",
      "g");
  REQUIRE_MESSAGE(graph, graph.error().text());
  std::vector<const ir::Node*> dots;
  for (const ir::Node* node : graph->order())
    if (node->op == op::dot_general) dots.push_back(node);
  REQUIRE(dots.size() == 4);
  Recorder rec("", **arch::find_chip("trn1"));
  Store store(rec);
  for (const ir::Value& p : graph->params) store.keep_in_hbm(store.of(p), "", arch::TensorKind::input);
  for (const ir::Node* dot : dots) store.keep_in_hbm(store.of(dot->result()), "", arch::TensorKind::scratch);
  const auto key = [&](size_t i) { return UnitKey(Unit{.single = dots[i]}, store, rec.kernel().program()).key(); };
  CHECK(key(1) == key(2));  // equal layers
  CHECK(key(0) != key(1));  // reads an input
  CHECK(key(2) != key(3));  // contracts another dim
  const auto before = key(2);
  Memory& read = store.of(dots[1]->result());
  store.new_form(read, Dtype::f32, false, 512, Tiling::plain(256, 128));
  CHECK(key(2) != before);  // on chip as well
  CHECK(key(1) == before);
  store.of(dots[2]->result()).dtype = Dtype::bf16;
  store.of(dots[1]->result()).forms.clear();
  CHECK(key(2) != before);  // kept in another format
}

}  // namespace trine::compile::device
