// One plan from nodes in order; loops and branches become plans of their own.
#include "compile/plan_builder.h"

#include <algorithm>

#include "compile/collective.h"
#include "compile/native.h"
#include "ops/evaluate.h"

namespace trine::compile {

using arch::HostPlan;
using arch::Slot;
using arch::SlotId;
using arch::SlotKind;
using arch::Step;

namespace {

bool is_constant(const ir::Value& v) { return v.node->op == "constant"; }

// What a region uses of the graph around it, less constants: those it carries itself.
std::vector<ir::Value> used_by(const ir::Node& node) {
  std::vector<ir::Value> used;
  for (const ir::Value& v : node.captures)
    if (!is_constant(v)) used.push_back(v);
  return used;
}

}  // namespace

SlotId PlanBuilder::add_slot(const ir::Value& value, SlotKind kind, uint32_t index) {
  const ir::Type& t = value.type();
  Slot slot{.kind = kind, .dtype = t.dtype, .dims = t.dims, .index = index};
  if (t.is_token) slot.dtype = Dtype::u8, slot.dims = {0};
  plan_->slots.push_back(std::move(slot));
  return SlotId(plan_->slots.size() - 1);
}

SlotId PlanBuilder::slot_of(const ir::Value& value) {
  auto found = slot_by_value_.find(value);
  if (found != slot_by_value_.end()) return found->second;
  SlotId id;
  if (is_constant(value)) {
    id = add_slot(value, SlotKind::constant, uint32_t(plan_->constants.size()));
    plan_->constants.push_back(*value.node->attrs.tensor("value"));
  } else {
    id = add_slot(value, SlotKind::temporary, 0);
  }
  slot_by_value_.emplace(value, id);
  return id;
}

std::vector<SlotId> PlanBuilder::slots_of(std::span<const ir::Value> values) {
  std::vector<SlotId> out;
  for (const ir::Value& v : values) out.push_back(slot_of(v));
  return out;
}

Result<std::shared_ptr<const HostPlan>> PlanBuilder::build(std::span<const ir::Value> inputs,
                                                           std::span<const ir::Node* const> nodes,
                                                           std::span<const ir::Value> results) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const SlotId id = add_slot(inputs[i], SlotKind::input, uint32_t(i));
    plan_->inputs.push_back(id);
    slot_by_value_.emplace(inputs[i], id);
  }
  for (const ir::Node* node : nodes) {
    if (node->op == "parameter" || node->op == "constant") continue;
    Step step = TRY(step_for(*node));
    for (uint32_t r = 0; r < node->types.size(); ++r) step.out.push_back(slot_of(node->result(r)));
    step.where = node->where;
    plan_->steps.push_back(std::move(step));
  }
  place_outputs(results);
  place_temporaries(*plan_);
  add_places();
  return std::shared_ptr<const HostPlan>(plan_);
}

// A temporary that is a result becomes the caller's memory; what is not one, or is one already, is copied.
void PlanBuilder::place_outputs(std::span<const ir::Value> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    SlotId id = slot_of(results[i]);
    if (plan_->slots[id].kind == SlotKind::temporary) {
      plan_->slots[id].kind = SlotKind::output;
      plan_->slots[id].index = uint32_t(i);
    } else {
      const SlotId copy = add_slot(results[i], SlotKind::output, uint32_t(i));
      plan_->steps.push_back({.what = arch::CopyStep{}, .in = {id}, .out = {copy}});
      id = copy;
    }
    plan_->outputs.push_back(id);
  }
}

void PlanBuilder::add_places() {
  std::unordered_map<uint32_t, uint32_t> renamed;
  for (Step& step : plan_->steps) {
    if (step.where == 0) continue;
    auto [it, fresh] = renamed.emplace(step.where, uint32_t(plan_->places.size()));
    if (fresh) plan_->places.push_back(graph_->place(step.where));
    step.where = it->second;
  }
}

Result<Step> PlanBuilder::step_for(const ir::Node& node) {
  if (node.op == "while") return while_step(node);
  if (node.op == "case") return case_step(node);
  if (is_collective(node)) {
    return Step{.what = TRY(collective_step(node)), .in = slots_of(node.inputs)};
  }
  return call_step(node);
}

Result<Step> PlanBuilder::call_step(const ir::Node& node) {
  const ops::Op* op = ops::find_op(node.op);
  if (!op || !op->eval)
    return fail(Code::unsupported, std::string("nothing can run the op `").append(node.op).append("`"),
                graph_->place(node.where));
  const size_t inputs = node.inputs.size();
  arch::CallStep call{.op = std::string(node.op), .run = [graph = graph_, &node, inputs](auto in, auto out) {
                        return ops::evaluate(node, in.first(inputs), in.subspan(inputs), out);
                      }};
  Step step{.what = std::move(call), .in = slots_of(node.inputs)};
  for (const ir::Value& v : node.captures) step.in.push_back(slot_of(v));
  return step;
}

Result<std::shared_ptr<const HostPlan>> PlanBuilder::region_plan(const ir::Region& region,
                                                                 std::span<const ir::Value> inputs) {
  PlanBuilder builder(graph_);
  const ir::RegionBody body = ir::body_of(region);
  return builder.build(inputs, body.nodes, region.results);
}

Result<Step> PlanBuilder::while_step(const ir::Node& node) {
  const std::vector<ir::Value> used = used_by(node);
  auto inputs_of = [&](const ir::Region& region) {
    std::vector<ir::Value> inputs = region.params;
    inputs.insert(inputs.end(), used.begin(), used.end());
    return inputs;
  };
  arch::WhileStep loop{.carried = uint32_t(node.inputs.size())};
  loop.cond = TRY(region_plan(node.regions[0], inputs_of(node.regions[0])));
  loop.body = TRY(region_plan(node.regions[1], inputs_of(node.regions[1])));
  Step step{.what = std::move(loop), .in = slots_of(node.inputs)};
  for (SlotId id : slots_of(used)) step.in.push_back(id);
  return step;
}

Result<Step> PlanBuilder::case_step(const ir::Node& node) {
  const std::vector<ir::Value> used = used_by(node);
  arch::CaseStep branches;
  for (const ir::Region& region : node.regions) {
    std::vector<ir::Value> inputs = region.params;
    inputs.insert(inputs.end(), used.begin(), used.end());
    branches.branches.push_back(TRY(region_plan(region, inputs)));
  }
  Step step{.what = std::move(branches), .in = slots_of(node.inputs)};
  for (SlotId id : slots_of(used)) step.in.push_back(id);
  return step;
}

Result<std::shared_ptr<const HostPlan>> plan_native(std::shared_ptr<const ir::Graph> graph) {
  PlanBuilder builder(graph);
  return builder.build(graph->params, graph->order(), graph->results);
}

}  // namespace trine::compile
