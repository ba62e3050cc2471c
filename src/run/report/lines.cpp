// Sums by source line; see lines.h.
#include "run/report/lines.h"

#include <algorithm>

#include "sim/core/plan.h"

namespace trine::run {

namespace {

void add_times(sim::Traffic& to, const sim::Traffic& one, int64_t times) {
  using sim::Traffic;
  for (int64_t Traffic::* of : {&Traffic::hbm_read, &Traffic::hbm_write, &Traffic::spill_save, &Traffic::spill_reload})
    to.*of += one.*of * times;
}

}  // namespace

sim::Fs LineTotal::longest() const { return *std::max_element(busy.begin(), busy.end()); }

Json LineTotal::json() const {
  Json units = Json::object();
  for (size_t u = 0; u < kUnits; ++u)
    if (busy[u] > 0) units.set(sim::name(static_cast<sim::Part>(u)), sim::to_ns(busy[u]));
  Json out = Json::object();
  out.set("file", file).set("line", line).set("count", count).set("busy_ns", std::move(units));
  out.set("waited_ns", sim::to_ns(waited));
  out.set("hbm_read_bytes", traffic.hbm_read).set("hbm_write_bytes", traffic.hbm_write);
  return out.set("spill_save_bytes", traffic.spill_save).set("spill_reload_bytes", traffic.spill_reload);
}

std::vector<LineTotal> line_totals(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing) {
  const sim::Plan plan = sim::make_plan(program, chip, {});
  std::vector<LineTotal> all(program.lines.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].file = program.strings[program.lines[i].file];
    all[i].line = program.lines[i].line;
  }
  for (size_t s = 0; s < timing.totals.size(); ++s)
    for (size_t i = 0; i < timing.totals[s].size(); ++i) {
      const sim::InsnTotal& total = timing.totals[s][i];
      const uint32_t line = program.streams[s].insns[i].line;
      if (!line || !total.count) continue;
      LineTotal& to = all[line - 1];
      const bool dma = plan.streams[s][i].kind == sim::Kind::queue;
      to.count += total.count;
      to.busy[dma ? LineTotal::kUnits - 1 : static_cast<size_t>(program.streams[s].engine)] += total.busy;
      to.waited += total.waited;
      add_times(to.traffic, plan.streams[s][i].traffic, total.count);
    }
  std::erase_if(all, [](const LineTotal& l) { return l.longest() == 0; });
  std::stable_sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.longest() > b.longest(); });
  return all;
}

}  // namespace trine::run
