// What tests of host plans share: random tensors, running a plan, and how far two tensors are apart.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "arch/plan/plan.h"
#include "compile/host/native.h"
#include "host/execute.h"
#include "ir/graph.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/evaluate.h"

namespace trine::compile {

inline Tensor random_tensor(const ir::Type& t, std::mt19937& random) {
  Tensor out = Tensor::make(t.dtype, t.dims);
  std::uniform_real_distribution<double> real(-2, 2);
  std::uniform_int_distribution<int64_t> whole(0, 5);
  dispatch_element(t.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t i = 0; i < t.elements(); ++i) {
      auto& to = out.view().as<typename E::Storage>()[i];
      if constexpr (E::kIsComplex) {
        to = E::store({real(random), real(random)});
      } else if constexpr (E::kIsFloating) {
        to = E::store(real(random));
      } else {
        to = E::store(typename E::Wide(whole(random)));
      }
    }
  });
  return out;
}

// The largest error in units of `eps`, relative to the larger of 1 and the value; 1e30 where one is not finite.
inline double error_of(const Tensor& got, const Tensor& want, double eps) {
  double worst = 0;
  dispatch_element(want.dtype, [&](auto element) {
    using E = decltype(element);
    for (int64_t i = 0; i < want.view().elements(); ++i) {
      const auto a = E::load(got.view().as<typename E::Storage>()[i]);
      const auto b = E::load(want.view().as<typename E::Storage>()[i]);
      if constexpr (E::kIsFloating) {
        if ((std::isnan(a) && std::isnan(b)) || a == b) continue;
        worst = std::max(worst, std::isfinite(a - b) ? std::abs(a - b) / std::max(1.0, std::abs(b)) / eps : 1e30);
      } else if constexpr (E::kIsComplex) {
        worst = std::max(worst, std::abs(a - b) / std::max(1.0, std::abs(b)) / eps);
      } else {
        if (a != b) worst = 1e30;
      }
    }
  });
  return worst;
}

inline Result<std::vector<Tensor>> run_plan(std::shared_ptr<const arch::HostPlan> plan, std::span<const Tensor> args) {
  std::vector<Tensor> results;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Tensor& t : args) inputs.push_back(t.data.get());
  for (arch::SlotId id : plan->outputs) results.push_back(Tensor::make(plan->slots[id].dtype, plan->slots[id].dims));
  for (const Tensor& t : results) outputs.push_back(t.data.get());
  auto ready = TRY(host::prepare(std::move(plan)));
  TRY(host::execute(*ready, {inputs, outputs}));
  return results;
}

// What a graph means for random arguments, and what its plan gives for them.
struct Compiled {
  std::shared_ptr<const arch::HostPlan> plan = {};
  std::vector<Tensor> want = {}, got = {};
};
inline Compiled run_both(const ir::Graph& graph, const Result<std::shared_ptr<const arch::HostPlan>>& plan,
                         uint32_t seed) {
  REQUIRE_MESSAGE(plan, plan.error().text());
  std::mt19937 random(seed);
  std::vector<Tensor> args;
  for (const ir::Value& p : graph.params) args.push_back(random_tensor(p.type(), random));
  auto want = ops::evaluate(graph, args);
  REQUIRE_MESSAGE(want, want.error().text());
  auto got = run_plan(*plan, args);
  REQUIRE_MESSAGE(got, got.error().text());
  return {*plan, *std::move(want), *std::move(got)};
}

// A graph in text form, planned and run, gives what the reference evaluator gives, in so many steps.
// `ulps` of f32. The plan, for further questions.
inline std::shared_ptr<const arch::HostPlan> check_plan(const std::string& name, const std::string& text, size_t steps,
                                                        double ulps) {
  CAPTURE(name);
  auto parsed = ir::parse_graph("graph \"g\" " + text, name);
  REQUIRE_MESSAGE(parsed, parsed.error().text());
  auto graph = std::make_shared<ir::Graph>(*std::move(parsed));
  REQUIRE(ir::verify(*graph));
  const Compiled ran = run_both(*graph, plan_native(graph), 7);
  CHECK(ran.plan->steps.size() == steps);
  for (size_t i = 0; i < ran.want.size(); ++i) CHECK(error_of(ran.got[i], ran.want[i], 0x1p-23) <= ulps);
  return ran.plan;
}

}  // namespace trine::compile
