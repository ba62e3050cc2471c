// LineTimes: where a program's time goes by the source lines its instructions come from, and how much scratch memory in
// HBM is in use at once, watched while it is timed. A line is over at the end of its last instruction.
#pragma once

#include <array>
#include <vector>

#include "arch/program/program.h"
#include "base/format/json.h"
#include "sim/core/timing.h"

namespace trine::run {

class LineTimes : public sim::EventObserver {
 public:
  explicit LineTimes(const arch::Program& program);

  void on_event(const sim::Event& e) override;
  // [{where, line, end_ns, count, busy_ns: {tensor, …, dma}}], by the lines' own order; lines without a busy unit left
  // out.
  Json json() const;
  // Bytes of HBM scratch between the first and the last transfer of each such tensor, the most at any time.
  int64_t scratch_peak() const;

 private:
  static constexpr size_t kUnits = arch::kEngineCount + 1;  // the engines, then DMA
  struct Row {
    sim::Fs end = 0;
    int64_t count = 0;
    std::array<sim::Fs, kUnits> busy = {};
  };
  const arch::Program& program_;
  std::vector<Row> rows_;  // by Insn::line; 0: unknown
  struct LiveRange {
    sim::Fs first = -1, last = -1;
  };
  std::vector<LiveRange> ranges_;  // by tensor; of scratch in HBM
};

}  // namespace trine::run
