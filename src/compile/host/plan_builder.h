// Writes the steps of a host plan, unit by unit: of the program, of a loop's body, of a branch. The passes around it,
// and what they share, are pipeline.h's.
// A value has one slot; results of steps go straight to the caller's memory where they are outputs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "compile/host/dot.h"
#include "compile/host/loop_emit.h"
#include "compile/host/pipeline.h"
#include "compile/host/pool.h"

namespace trine::compile {

class PlanBuilder {
 public:
  explicit PlanBuilder(HostState& state)
      : state_(state), graph_(state.graph), options_(state.options), plan_(state.plan), fusion_(state.fusion) {}

  Result<void> steps();  // plan-steps
  void outputs();        // plan-outputs
  void lines();          // plan-lines

 private:
  arch::SlotId add_slot(const ir::Value& value, arch::SlotKind kind, uint32_t index);
  arch::SlotId slot_of(const ir::Value& value);
  std::vector<arch::SlotId> slots_of(std::span<const ir::Value> values);
  Result<arch::Step> step_for(const Unit& unit);
  Result<arch::Step> node_step(const ir::Node& node);
  Result<arch::Step> loop_steps(const Unit& unit);
  Result<arch::Step> loop_step(LoopCode code);
  Result<arch::Step> product_step(const Unit& unit);
  std::optional<arch::LoopProgram> transposed_epilogue(arch::Step& multiply, const arch::LoopProgram& loop,
                                                       uint32_t read) const;
  arch::Step conv_step(const ir::Node& node);
  Result<arch::Step> dot_step(const ir::Node& node);
  DotOperand walked(const ir::Value& value) const;
  arch::SlotId copy_dense(const DotOperand& operand, const Dims& dims, const std::vector<int64_t>& order);
  arch::Step attention_step(const AttentionMatch& match);
  arch::SlotId attention_operand(const AttentionMatch& match, const AttentionOperand& operand, bool every_head,
                                 arch::AttentionStep::View& view);
  arch::Step pool_step(const ir::Node& node, Pool pool);
  arch::Step move_step(const ir::Node& node, arch::MoveKind kind);
  Result<arch::Step> call_step(const ir::Node& node);
  Result<arch::Step> host_call_step(const ir::Node& node);
  Result<arch::Step> kernel_step(const ir::Node& node);
  std::function<std::string()> text_of(const ir::Node& node) const;
  Result<arch::Step> while_step(const ir::Node& node);
  Result<arch::Step> case_step(const ir::Node& node);
  Result<std::shared_ptr<const arch::HostPlan>> region_plan(const ir::Region& region, std::span<const ir::Value> inputs,
                                                            std::span<const ir::Value> results);
  arch::SlotId base_of(arch::SlotId id) const;
  bool is_input(arch::SlotId id) const;

  HostState& state_;
  const std::shared_ptr<ir::Graph>& graph_;
  const NativeOptions& options_;
  const std::shared_ptr<arch::HostPlan>& plan_;
  const Fusion& fusion_;
};

// Per output: the input whose memory it may be written over, or -1: the step that writes it can work in place on that
// input, and nothing reads the input afterwards.
std::vector<int> in_place_inputs(const arch::HostPlan& plan);

// Sets the plan's rough count of operations and bytes.
void count_flops(arch::HostPlan& plan);

// A temporary that its last reader can overwrite becomes the same memory as that step's result.
void share_in_place(arch::HostPlan& plan);

// Gives temporaries offsets in one arena so that only those share bytes whose live ranges do not overlap.
void allocate_temporaries(arch::HostPlan& plan);

}  // namespace trine::compile
