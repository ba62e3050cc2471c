// Occupancy: how busy each engine and DMA queue of a program is over time, and what the engines wait for, in equal
// bins. Gathered while the timer walks, so that a long program's events are never kept. Invariant: a bin's busy time,
// and its waiting time, are at most its width.
#pragma once

#include <array>
#include <map>
#include <vector>

#include "arch/program/program.h"
#include "sim/core/timing.h"

namespace trine::run {

struct Lane {
  int core = 0;
  sim::Part part = sim::Part::tensor;
  int queue = 0;                                            // part dma
  std::vector<float> busy = {};                             // ns in each bin
  std::array<std::vector<float>, sim::kParts> waited = {};  // by what for; empty when never
  sim::Fs total = 0;                                        // busy, overlaps counted once
  int64_t events = 0;
  std::vector<sim::Event> first = {};  // the first kLaneEventsMax events
};
inline constexpr int64_t kLaneEventsMax = 400;

class Occupancy : public sim::EventObserver {
 public:
  Occupancy(const arch::Program& program, double begin_ns, double end_ns, size_t bins);
  void on_event(const sim::Event& e) override;

  std::vector<Lane> lanes;  // each core's five engines, then its queues as they come
  double begin_ns, end_ns;
  size_t bins;

 private:
  Lane& lane(const sim::Event& e);
  void add(std::vector<float>& bins, sim::Fs from, sim::Fs to) const;

  const arch::Program& program_;
  std::map<std::pair<int, int>, size_t> queues_;  // core and queue to lane
  std::vector<sim::Fs> covered_;                  // of each lane: busy time is counted up to here
  std::vector<sim::Fs> table_;                    // of each lane: a table load between a wait and its instruction
};

}  // namespace trine::run
