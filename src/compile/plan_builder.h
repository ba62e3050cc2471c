// Builds one HostPlan from nodes in order: of the program, of a loop's body, of a branch.
// A value has one slot; results of steps go straight to the caller's memory where they are outputs.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "arch/plan/plan.h"
#include "ir/graph.h"

namespace trine::compile {

struct ValueHash {
  size_t operator()(const ir::Value& v) const { return size_t(v.node->id) * 31 + v.index; }
};

class PlanBuilder {
 public:
  explicit PlanBuilder(std::shared_ptr<const ir::Graph> graph) : graph_(std::move(graph)) {}

  // inputs: what the plan is given, in order. nodes: what it computes, in order. results: what it gives.
  Result<std::shared_ptr<const arch::HostPlan>> build(std::span<const ir::Value> inputs,
                                                      std::span<const ir::Node* const> nodes,
                                                      std::span<const ir::Value> results);

 private:
  arch::SlotId add_slot(const ir::Value& value, arch::SlotKind kind, uint32_t index);
  arch::SlotId slot_of(const ir::Value& value);
  std::vector<arch::SlotId> slots_of(std::span<const ir::Value> values);
  Result<arch::Step> step_for(const ir::Node& node);
  Result<arch::Step> call_step(const ir::Node& node);
  Result<arch::Step> while_step(const ir::Node& node);
  Result<arch::Step> case_step(const ir::Node& node);
  Result<std::shared_ptr<const arch::HostPlan>> region_plan(const ir::Region& region,
                                                            std::span<const ir::Value> inputs);
  void place_outputs(std::span<const ir::Value> results);
  void add_places();

  std::shared_ptr<const ir::Graph> graph_;
  std::shared_ptr<arch::HostPlan> plan_ = std::make_shared<arch::HostPlan>();
  std::unordered_map<ir::Value, arch::SlotId, ValueHash> slot_by_value_;
};

// Gives temporaries offsets in one arena so that only those share bytes whose lifetimes do not meet.
void place_temporaries(arch::HostPlan& plan);

}  // namespace trine::compile
