// Host plans: the plan of a graph gives what the reference evaluator gives; temporaries share memory, outputs do not.
#include "compile/native.h"

#include <doctest/doctest.h>

#include "host/execute.h"
#include "ops/evaluate.h"

namespace trine::compile {

static ir::Type f32(Dims dims) { return ir::tensor_type(Dtype::f32, std::move(dims)); }

static Tensor ramp(Dims dims, float step) {
  Tensor t = Tensor::make(Dtype::f32, std::move(dims));
  for (int64_t i = 0; i < t.view().elements(); ++i) t.view().as<float>()[i] = float(i) * step;
  return t;
}

static std::vector<Tensor> run_plan(const arch::HostPlan& plan, std::span<const Tensor> args) {
  std::vector<Tensor> results;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& t : args) inputs.push_back(t.data.get());
  for (arch::SlotId id : plan.outputs) results.push_back(Tensor::make(plan.slots[id].dtype, plan.slots[id].dims));
  for (const Tensor& t : results) outputs.push_back(t.data.get());
  auto done = host::execute(plan, {inputs, outputs});
  REQUIRE_MESSAGE(done, done.error().text());
  return results;
}

TEST_CASE("a plan gives what the reference evaluator gives") {
  auto graph = std::make_shared<ir::Graph>();
  ir::Value x = graph->parameter(f32({2, 3})), y = graph->parameter(f32({2, 3}));
  graph->params = {x, y};
  ir::Value sum = graph->add1("add", {x, y}, f32({2, 3}));
  ir::Value bent = graph->add1("tanh", {sum}, f32({2, 3}));
  ir::Value again = graph->add1("tanh", {bent}, f32({2, 3}));
  ir::Value turned = graph->add1("transpose", {again}, f32({3, 2}), {{"permutation", ir::Ints{1, 0}}});
  graph->results = {turned, bent, x, bent};
  const std::vector<Tensor> args = {ramp({2, 3}, 0.1f), ramp({2, 3}, 0.3f)};
  auto plan = plan_native(graph);
  REQUIRE(plan);
  CHECK((*plan)->arena_bytes == 64);  // sum, then again; bent and turned are outputs
  const auto want = ops::evaluate(*graph, args);
  REQUIRE(want);
  CHECK(run_plan(**plan, args) == *want);
}

TEST_CASE("an op nobody knows is an error with its place") {
  auto graph = std::make_shared<ir::Graph>();
  ir::Value x = graph->parameter(f32({2}));
  graph->params = {x};
  graph->results = {graph->add1("frobnicate", {x}, f32({2}), {}, graph->add_place("model.py:7"))};
  auto plan = plan_native(graph);
  REQUIRE(!plan);
  CHECK(plan.error().text() == "model.py:7: nothing can run the op `frobnicate`");
}

}  // namespace trine::compile
