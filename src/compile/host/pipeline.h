// The host's pipeline: a canonical graph becomes a host plan, which the native executor runs. The plans of loops and
// branches are made by the same passes, one inside the other.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "arch/plan/plan.h"
#include "compile/graph/fuse.h"
#include "compile/host/native.h"
#include "compile/pass/pass.h"
#include "ir/graph.h"
#include "ir/value_hash.h"

namespace trine::compile {

struct HostState {
  HostState(std::shared_ptr<ir::Graph> of, const NativeOptions& with) : graph(std::move(of)), options(with) {}

  std::shared_ptr<ir::Graph> graph;
  const NativeOptions& options;
  std::vector<ir::Value> inputs = {};       // what the plan is given, in order
  std::vector<const ir::Node*> nodes = {};  // what it computes, in order
  std::vector<ir::Value> results = {};      // what it gives
  std::vector<int> donations = {};          // as HostPlan has them

  Fusion fusion = {};
  std::shared_ptr<arch::HostPlan> plan = std::make_shared<arch::HostPlan>();
  std::unordered_map<ir::Value, arch::SlotId, ir::ValueHash> slots = {};
};

const Pipeline<HostState>& host_pipeline();

// The invariants of plan.h: every step's inputs are written before it, temporaries that live at once lie apart, loops
// are well formed.
Result<void> verify_plan(const arch::HostPlan& plan, bool has_addresses);

}  // namespace trine::compile
