// Races: notes every operand access of every instruction and reports two that touch the same bytes, one of them
// writing, with no semaphore between them. Order says what is ordered, Shadow what overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "arch/core.h"
#include "arch/row.h"
#include "run/drivers/exact/order.h"
#include "run/drivers/exact/shadow.h"
#include "run/report/finding.h"

namespace trine::run {

class Races {
 public:
  // `known` holds the pairs of instructions that have been reported, over all runs of the program.
  using Known = std::set<std::pair<uint32_t, uint32_t>>;
  // any_row: see Shadow.
  Races(arch::Machine& machine, Findings& findings, Known& known, bool any_row);

  // One instruction of a stream is about to run, with `call`'s operands; `at` is where.
  void access(int stream, const arch::Sequencer& at, const arch::Call& call);
  // It has changed memory.
  void executed() {
    if (!rivals_.empty()) compare();
  }
  // It has run: its semaphore updates become visible.
  void update(int stream, const arch::Sequencer& at);
  void wait(int stream, const arch::Sequencer& at);  // its waits have been met
  void end(int stream) { order_.end(stream); }
  void finish();  // the run is over: what two cores wrote alike becomes warnings
  const std::set<int>& hasty() const { return order_.hasty(); }
  void barrier(const std::vector<int>& streams) { order_.barrier(streams); }
  bool ambiguous(int stream, const arch::Sequencer& at) const;  // what its waits tell depends on who else has run

 private:
  using Pair = std::pair<uint32_t, uint32_t>;
  void touch(const arch::Call& call, const arch::Operand& o, const Access& a);
  void report(const Clash& c);
  Finding finding_of(const Clash& c) const;
  bool may_agree(const Clash& c) const;
  void note_target();
  void compare();
  bool is_about(const Finding& f, uint32_t tensor) const;
  void describe(const Clash& c, Finding& f) const;
  std::string fix(const Clash& c) const;
  uint32_t site(int stream, uint32_t index) const { return first_site_[static_cast<size_t>(stream)] + index; }
  ProgramPoint point_of_site(uint32_t site) const;
  std::string site_text(uint32_t site) const;  // "sync's dma_copy #3 (kernel.py:12)"

  arch::Machine& machine_;
  const arch::Program& program_;
  Findings& findings_;
  Known& known_;
  Order order_;
  Shadow shadow_;
  std::vector<uint32_t> first_site_;  // of each stream
  // What is being touched, for the report.
  int stream_ = 0;
  const arch::Sequencer* at_ = nullptr;
  std::string_view slot_;
  uint32_t tensor_ = 0;
  const arch::Tile* tile_ = nullptr;
  // Two cores write one place of HBM with no order between them: no race where both write the same bytes.
  struct Target {  // what it held before the second wrote
    std::byte* at = nullptr;
    std::vector<std::byte> bytes = {};
    std::vector<bool> written = {};
  };
  std::map<Pair, Finding> agreeing_;  // so far
  std::vector<Pair> rivals_;          // of the instruction at hand
  Target target_;
};

}  // namespace trine::run
