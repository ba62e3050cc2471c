// Every graph pass of the device compiler leaves a graph that the ops' type rules accept and that means the same: what
// it made is evaluated by the ops' reference meanings, internal ops included, and held against the graph as it was.
// tests/compile/test_pass_values.py does so for the graphs of the replay corpus; these here are made for the passes.
#include <algorithm>
#include <set>

#include "arch/chips/chip.h"
#include "base/text.h"
#include "compile/device/control.h"
#include "compile/device/pipeline.h"
#include "compile/graph/simplify.h"
#include "ir/op_ids.h"
#include "ops/op.h"
#include "tests/compile/device_graphs.h"
#include "tests/compile/testing.h"

namespace trine::compile::device {

namespace {

// The first attribute that its op does not have, "" where there is none.
std::string unknown_attribute(const ir::Graph& graph) {
  for (const ir::Node* node : nodes_and_bodies(graph)) {
    const ops::Op* const op = ops::find_op(node->op);
    const auto names = trine::split(op ? op->attrs : "", ' ');
    for (const auto& [name, value] : node->attrs.items())
      if (op && node->op != op::constant && std::find(names.begin(), names.end(), name) == names.end())
        return cat(node->op, " ", name);
  }
  return {};
}

void add_internal_ops(const ir::Graph& graph, std::set<std::string_view>& to) {
  for (const ir::Node* node : nodes_and_bodies(graph))
    if (const ops::Op* op = ops::find_op(node->op); op && op->is_internal) to.insert(op->name);
}

}  // namespace

TEST_CASE("what a pass makes of a graph is a graph, and means the same") {
  std::set<std::string_view> changed, internal;
  for (const DeviceGraph& given : device_graphs()) {
    CAPTURE(given.name);
    auto parsed = ir::parse_graph(given.text, given.name);
    REQUIRE_MESSAGE(parsed, parsed.error().text());
    const auto is_graph = ir::verify(*parsed, ops::check);
    REQUIRE_MESSAGE(is_graph, is_graph.error().text());
    std::mt19937 random(7);
    std::vector<Tensor> args;
    for (const ir::Value& p : parsed->params) args.push_back(random_tensor(p.type(), random));
    const auto want = ops::evaluate(*parsed, args);
    REQUIRE_MESSAGE(want, want.error().text());
    arch::Chip chip = **arch::find_chip("trn2");
    if (given.room) chip.sbuf.bytes_per_partition = given.room;
    const DeviceOptions options;
    DeviceState state{simplify(*parsed).graph, chip, options};
    std::string before = ir::text(*state.graph);
    for (const Pass<DeviceState>& pass : device_pipeline().passes) {
      if (pass.form->name != "graph") break;
      CAPTURE(pass.name);
      REQUIRE(pass.run(state));
      const std::string text = ir::text(*state.graph);
      if (text == before) continue;
      before = text;
      changed.insert(pass.name);
      add_internal_ops(*state.graph, internal);
      CAPTURE(text);
      const auto still = ir::verify(*state.graph, ops::check);
      REQUIRE_MESSAGE(still, still.error().text());
      CHECK(unknown_attribute(*state.graph) == "");
      const auto got = ops::evaluate(*state.graph, args);
      REQUIRE_MESSAGE(got, got.error().text());
      REQUIRE(got->size() == want->size());
      for (size_t i = 0; i < got->size(); ++i) {
        CAPTURE(i);
        CHECK(error_of((*got)[i], (*want)[i], given.tolerance) <= 1);
      }
    }
  }
  // Batches that are split are too large to evaluate here; tests/compile/split_batches.test shows what becomes of them.
  for (const Pass<DeviceState>& pass : device_pipeline().passes)
    if (pass.form->name == "graph" && pass.name != "split-batches")
      CHECK_MESSAGE(changed.count(pass.name), pass.name, " changed no graph");
  for (const ops::Op* op : ops::all_ops())
    if (op->is_internal) CHECK_MESSAGE(internal.count(op->name), op->name, " is in no graph");
}

}  // namespace trine::compile::device
