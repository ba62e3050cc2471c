// Sorting events into lanes and bins; see record.h.
#include "run/picture/record.h"

#include <algorithm>
#include <cmath>

#include "arch/row.h"

namespace trine::run {

using sim::Event;
using sim::Fs;
using sim::Part;

Occupancy::Occupancy(const arch::Program& program, double begin, double end, size_t bin_count)
    : begin_ns(begin), end_ns(end), bins(bin_count), program_(program) {
  for (int core = 0; core < program.cores; ++core)
    for (int e = 0; e < arch::kEngineCount; ++e)
      lanes.push_back({.core = core, .part = static_cast<Part>(e), .busy = std::vector<float>(bins)});
  covered_.resize(lanes.size());
  table_.resize(lanes.size());
}

Lane& Occupancy::lane(const Event& e) {
  if (e.part != Part::dma) return lanes[static_cast<size_t>(e.core * arch::kEngineCount + static_cast<int>(e.part))];
  const auto [at, fresh] = queues_.try_emplace({e.core, e.queue}, lanes.size());
  if (fresh) {
    lanes.push_back({.core = e.core, .part = Part::dma, .queue = e.queue, .busy = std::vector<float>(bins)});
    covered_.push_back(0);
    table_.push_back(0);
  }
  return lanes[at->second];
}

void Occupancy::add(std::vector<float>& to_bins, Fs from, Fs to) const {
  const double width = (end_ns - begin_ns) / static_cast<double>(bins);
  const double a = std::max(0.0, (sim::to_ns(from) - begin_ns) / width);
  const double b = std::min(static_cast<double>(bins), (sim::to_ns(to) - begin_ns) / width);
  if (!(b > a)) return;
  if (to_bins.empty()) to_bins.resize(bins);
  for (size_t i = static_cast<size_t>(a); static_cast<double>(i) < b; ++i) {
    const double x = static_cast<double>(i), share = std::min(b, x + 1) - std::max(a, x);
    to_bins[i] = std::min(static_cast<float>(width), to_bins[i] + static_cast<float>(share * width));
  }
}

void Occupancy::on_event(const Event& e) {
  const arch::Row& row = *arch::row_by_opcode(program_.streams[e.stream].insns[e.insn].opcode)->row;
  if (row.unit == arch::Unit::control) return;  // the sequencer's own, not the unit's
  Lane& to = lane(e);
  const auto index = static_cast<size_t>(&to - lanes.data());
  Fs& covered = covered_[index];
  const Fs from = std::max(e.start, covered);
  if (e.end > from) {
    add(to.busy, from, e.end);
    to.total += e.end - from;
    covered = e.end;
  }
  const Fs waited_until = e.start - table_[index];
  if (e.part != Part::dma && e.waited > 0 && e.waited_for != Part::count)
    add(to.waited[static_cast<size_t>(e.waited_for)], waited_until - e.waited, waited_until);
  table_[index] = e.doing == sim::Doing::table ? e.end - e.start : 0;
  if (to.events++ < kLaneEventsMax) to.first.push_back(e);
}

}  // namespace trine::run
