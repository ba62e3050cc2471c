// Engines: steps every stream of every core, in an order that does not depend on the host. An engine runs until it
// must wait; waits are looked at only when no engine can go on, so that everything which may come before a wait has.
// A DMA is carried out when it is triggered, with its updates.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "arch/core.h"
#include "arch/row.h"
#include "arch/sequencer.h"
#include "run/drivers/exact/decoded.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/exact/races.h"

namespace trine::run {

class Engines {
 public:
  struct Checks {
    bool races = true;
    // An operand whose address depends on data counts as its whole tensor; the run ends once it cannot settle.
    bool any_row = false;
    int last = -1;  // a stream whose ambiguous waits are let on after everybody else's, or -1
  };
  Engines(arch::Machine& machine, const DecodedProgram& decoded, const ExactOptions& options, Findings& findings,
          Races::Known& known, const Checks& checks);
  void run(RunResult& result);
  StopState state() const;  // after run()
  std::set<int> hasty() const { return races_ ? races_->hasty() : std::set<int>{}; }

 private:
  struct Lane {
    Lane(const DecodedStream& decoded, int number) : at(decoded.begin), form(&decoded), stream(number) {}
    const arch::RowInfo& info() const { return *form->infos[at.pc()]; }
    arch::Sequencer at;
    const DecodedStream* form;
    int stream = 0;
    Rounding rounding;
    std::vector<uint32_t> loaded;  // what its register_loads gave, in order
    bool passed = false;           // the waits of the instruction at hand have been met
    int rank = -1;                 // see pass_waits
    // It was here before, and nothing had changed since: it goes round for ever unless somebody changes something.
    bool spins = false;
    arch::Sequencer::Position mark;
    int64_t mark_changes = -1, steps = 0;
  };
  bool idles(const Lane& lane) const { return lane.spins && lane.mark_changes == changes_; }
  bool waits(const Lane& lane) const { return lane.at.insn().waits && !lane.passed; }
  bool at_rendezvous(const Lane& lane) const { return lane.info().row->unit == arch::Unit::rendezvous; }
  bool satisfied(const Lane& lane) const;
  bool advance(
      Lane& lane);  // until it waits, comes to a rendezvous, ends or has run for a while; false when it did nothing
  arch::Call call_of(const Lane& lane) const;
  void execute(Lane& lane);
  void execute_on_registers(Lane& lane, arch::Core& core, const arch::Call& call);
  void look_for_spin(Lane& lane);
  void update(Lane& lane);
  void take_faults(Lane& lane);
  bool pass_waits();          // lets on whoever may go on
  bool run_all_rendezvous();  // of engines whose every core has come
  void run_rendezvous(const std::vector<Lane*>& lanes);
  void flip_due(bool at_end);
  void report_deadlock();
  void report_endless();
  bool raises(const Lane& lane, uint16_t semaphore) const;
  std::string waiting_for(const Lane& lane) const;
  std::string missing_from(const Lane& lane) const;

  arch::Machine& machine_;
  const arch::Program& program_;
  const DecodedProgram& decoded_;
  const ExactOptions& options_;
  Findings& findings_;
  std::vector<Lane> lanes_;
  std::optional<Races> races_;
  const Checks checks_;
  Counts counts_;
  size_t flipped_ = 0;  // of options_.flips, so many are done
  int64_t permits_ = 0;
  int64_t changes_ = 0;  // instructions that may have changed memory or a semaphore
};

}  // namespace trine::run
