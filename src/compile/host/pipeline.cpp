// The table of host passes; see pipeline.h.
#include "compile/host/pipeline.h"

#include "arch/plan/text.h"
#include "compile/host/plan_builder.h"
#include "compile/host/windows.h"

namespace trine::compile {

namespace {

Result<void> run_fuse(HostState& s) {
  s.fusion = fuse(s.nodes, s.results, {.rows_after = true, .once_in_cache = true, .gathers = true, .joins = true});
  return {};
}

Result<void> run_steps(HostState& s) { return PlanBuilder(s).steps(); }

Result<void> run_outputs(HostState& s) {
  PlanBuilder(s).outputs();
  s.plan->donations = s.donations;
  s.plan->source = s.options.source;
  return {};
}

Result<void> run_join_windows(HostState& s) {
  join_windows(*s.plan);
  return {};
}

Result<void> run_reuse(HostState& s) {
  share_in_place(*s.plan);
  return {};
}

Result<void> run_memory(HostState& s) {
  allocate_temporaries(*s.plan);
  return {};
}

Result<void> run_in_place(HostState& s) {
  s.plan->in_place = in_place_inputs(*s.plan);
  return {};
}

Result<void> run_cost(HostState& s) {
  count_flops(*s.plan);
  return {};
}

Result<void> run_lines(HostState& s) {
  PlanBuilder(s).lines();
  return {};
}

// Steps name lines of the graph until plan-lines has run.
std::string text_without_lines(const HostState& s) {
  arch::HostPlan plan = *s.plan;
  for (arch::Step& step : plan.steps) step.where = 0;
  return arch::text(plan);
}

std::vector<PassSize> plan_sizes(const HostState& s) {
  return {{"steps", int64_t(s.plan->steps.size())}, {"bytes", s.plan->arena_bytes}};
}

constexpr PassForm<HostState> kUnits{
    "units",
    [](const HostState& s) { return std::vector<PassSize>{{"regions", int64_t(s.fusion.units.size())}}; },
    [](const HostState& s) { return fusion_text(s.fusion); },
};

constexpr PassForm<HostState> kSteps{
    "plan",
    plan_sizes,
    text_without_lines,
    [](const HostState& s) { return verify_plan(*s.plan, false); },
};

constexpr PassForm<HostState> kAllocated{
    "plan",
    plan_sizes,
    text_without_lines,
    [](const HostState& s) { return verify_plan(*s.plan, true); },
};

constexpr PassForm<HostState> kPlan{
    "plan",
    plan_sizes,
    [](const HostState& s) { return arch::text(*s.plan); },
    [](const HostState& s) { return verify_plan(*s.plan, true); },
};

constexpr Pass<HostState> kPasses[] = {
    {.name = "fuse-host",
     .run = run_fuse,
     .needs = "canonical",
     .leaves = "units",
     .form = &kUnits,
     .help = "which nodes become one step of the plan",
     .is_stage = true},
    {.name = "plan-steps",
     .run = run_steps,
     .needs = "units",
     .leaves = "steps",
     .form = &kSteps,
     .help = "a step for each unit: loop nests, multiplies, attention, calls; plans inside for loops and branches",
     .is_stage = true},
    {.name = "plan-outputs",
     .run = run_outputs,
     .needs = "steps",
     .leaves = "outputs",
     .form = &kSteps,
     .help = "results written straight to the caller's memory; what cannot be is copied"},
    {.name = "join-windows",
     .run = run_join_windows,
     .needs = "outputs",
     .form = &kSteps,
     .help = "a gather whose windows a scatter alone reads, as one step with it"},
    {.name = "plan-reuse",
     .run = run_reuse,
     .needs = "outputs",
     .form = &kSteps,
     .help = "a temporary that its last reader can overwrite is the same memory as that step's result"},
    {.name = "plan-memory",
     .run = run_memory,
     .needs = "outputs",
     .leaves = "addresses",
     .form = &kAllocated,
     .help = "temporaries in one arena, packed by live range"},
    {.name = "plan-in-place",
     .run = run_in_place,
     .needs = "addresses",
     .form = &kAllocated,
     .help = "which outputs may be written over which inputs"},
    {.name = "plan-cost",
     .run = run_cost,
     .needs = "steps",
     .form = &kAllocated,
     .help = "a rough count of operations and bytes, by which the runtime decides to run it inline"},
    {.name = "plan-lines",
     .run = run_lines,
     .needs = "outputs",
     .form = &kPlan,
     .help = "the user's lines that steps come from, each once",
     .is_stage = true},
};

}  // namespace

const Pipeline<HostState>& host_pipeline() {
  static constexpr Pipeline<HostState> kPipeline{"host", kPasses};
  return kPipeline;
}

}  // namespace trine::compile
