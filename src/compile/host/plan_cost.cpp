// A rough count of a plan's work: operations on numbers, and bytes its steps read and write. A loop counts one
// iteration.
#include <algorithm>

#include "compile/host/plan_builder.h"

namespace trine::compile {

using arch::HostPlan;

namespace {

struct Flops {
  const HostPlan& plan;
  const arch::Step& around;

  double elements() const {
    double all = 0;
    for (arch::SlotId id : around.out) all += double(element_count(plan.slots[id].dims));
    return all;
  }
  double operator()(const arch::CallStep&) const { return elements(); }
  double operator()(const arch::MoveStep&) const { return 0; }
  double operator()(const arch::WindowStep&) const { return 0; }
  double operator()(const arch::CopyStep&) const { return 0; }
  double operator()(const arch::CollectiveStep&) const { return elements(); }
  double operator()(const arch::LoopStep& step) const {
    double space = 1, insns = 0;
    for (const arch::LoopDim& d : step.program.dims) space *= double(d.size);
    for (const arch::LoopInsn& n : step.program.insns)
      insns += n.op > arch::LoopOp::iota && step.program.stages[n.stage] == arch::LoopStage::each;
    return space * insns;
  }
  double operator()(const arch::GemmStep& g) const {
    double all = 2.0 * double(g.m) * double(g.n) * double(g.k);
    for (const arch::GemmStep::Batch& b : g.batch) all *= double(b.size);
    return all;
  }
  double operator()(const arch::ConvStep& c) const {
    double all = elements() * 2.0 * double(c.in_channels);
    for (const arch::ConvStep::Spatial& s : c.spatial) all *= double(s.kernel);
    return all;
  }
  double operator()(const arch::AttentionStep& a) const {
    return 2.0 * double(a.batch * a.heads * a.queries) * double(a.keys) * double(a.dim + a.value_dim);
  }
  double operator()(const arch::WhileStep& w) const { return w.cond->flops + w.body->flops; }
  double operator()(const arch::CaseStep& c) const {
    double most = 0;
    for (const auto& branch : c.branches) most = std::max(most, branch->flops);
    return most;
  }
};

}  // namespace

void count_flops(HostPlan& plan) {
  for (const arch::Step& step : plan.steps) {
    plan.flops += std::visit(Flops{plan, step}, step.what);
    for (const auto* side : {&step.in, &step.out})
      for (arch::SlotId id : *side) plan.moved_bytes += double(plan.slots[id].bytes());
  }
}

}  // namespace trine::compile
