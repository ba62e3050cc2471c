// Look: a timed program as the rules of explain see it, and the means to ask "what if".
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "arch/row.h"
#include "run/explain/explain.h"
#include "sim/core/plan.h"

namespace trine::run {

// One static instruction that ran and does work: no loops, branches or bare semaphores.
struct Insn {
  uint32_t stream = 0, index = 0;
  arch::Call call;
  const sim::TimedInsn& timed;
  const sim::InsnTotal& total;

  const arch::Row& row() const { return *call.info.row; }
  double busy_ns() const { return sim::to_ns(total.busy); }
  bool is_dma() const { return timed.kind == sim::Kind::queue; }
  bool is_matmul() const { return timed.kind == sim::Kind::matmul; }
};

class Look {
 public:
  Look(const arch::Program& program, const arch::Instance& instance, const sim::TimeOptions& options,
       const sim::Timing& timing);

  const arch::Program& program;
  const arch::Instance& instance;
  const arch::Chip& chip;
  const sim::Timing& timing;
  const Report report;
  const sim::Plan plan;
  std::vector<Insn> insns;

  // The program's time in ns with something changed. What cannot be timed counts as no change.
  double time_if(const arch::Chip& other) const { return time(program, other, {}); }
  double time_if(std::vector<sim::Scale> scales) const { return time(program, chip, std::move(scales)); }
  double time_if(const arch::Chip& other, std::vector<sim::Scale> scales) const {
    return time(program, other, std::move(scales));
  }
  double time_in_bf16() const;  // every f32 in SBUF and HBM half as wide

  // No order of the instructions is faster than the busiest unit and the launch.
  double lower_bound_ns() const;
  double engine_share(arch::Engine e) const { return report.engines[static_cast<size_t>(e)].busy_share; }
  double waited_share(arch::Engine e, sim::Part for_what) const;
  double issue_ns(arch::Engine e) const;  // descriptor generation for its transfers

  const Insn* busiest(const std::function<bool(const Insn&)>& which) const;  // null when none
  const Insn* longest_waiting(const std::function<bool(const Insn&)>& which) const;
  const Insn* quicker_on(const arch::Chip& other) const;  // the busiest whose own time is shorter there
  Site site(const Insn& i) const;

 private:
  double time(const arch::Program& p, const arch::Chip& c, std::vector<sim::Scale> scales) const;

  sim::TimeOptions options_;
};

struct Rule {
  std::string_view name;
  std::string_view when;  // what it looks for, for docs/explain.md
  std::string_view asks;  // what is changed to estimate the gain
  std::optional<Advice> (*look)(const Look&);
};
std::span<const Rule> rules();

}  // namespace trine::run
