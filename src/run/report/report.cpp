// From a Timing to a Report; see report.h. How it is printed is report_text.cpp.
#include "run/report/report.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "arch/rates.h"
#include "base/text.h"
#include "run/accuracy/bands.h"
#include "sim/core/plan.h"

namespace trine::run {

using sim::Part;
using sim::to_ns;

std::string_view name(Bound b) {
  static constexpr std::string_view kNames[] = {"tensor", "vector", "scalar", "gpsimd", "dma", "launch", "collective"};
  return kNames[static_cast<size_t>(b)];
}

namespace {

// The parts of a critical path, gathered into what a person can act on.
Bound bound_of(Part p) {
  switch (p) {
    case Part::tensor:
      return Bound::tensor;
    case Part::vector:
      return Bound::vector;
    case Part::scalar:
      return Bound::scalar;
    case Part::gpsimd:
      return Bound::gpsimd;
    case Part::dma:
    case Part::sync:
    case Part::issue:
      return Bound::dma;
    default:
      return Bound::launch;  // signals, ports, pipelines and the envelope: latency, not work
  }
}

void find_bound(Report& r, const sim::Timing& t) {
  std::array<double, static_cast<size_t>(Bound::count)> shares{};
  for (size_t p = 0; p < sim::kParts; ++p) {
    const double ns = to_ns(t.critical[p]);
    shares[static_cast<size_t>(bound_of(static_cast<Part>(p)))] += ns;
    if (ns > 0) r.critical_ns.emplace_back(name(static_cast<Part>(p)), ns);
  }
  std::stable_sort(r.critical_ns.begin(), r.critical_ns.end(), [](auto& a, auto& b) { return a.second > b.second; });
  size_t best = static_cast<size_t>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  // Of engines that take turns on the path the busiest decides, not the one that happens to be waited for.
  const auto busy = [&](size_t e) { return t.engines[e].busy; };
  if (best <= static_cast<size_t>(Bound::gpsimd))
    for (size_t e = 0; e <= static_cast<size_t>(Bound::gpsimd); ++e)
      if (busy(e) > busy(best)) best = e;
  r.bound = static_cast<Bound>(best);
  r.bound_share = r.time_ns > 0 ? shares[best] / r.time_ns : 0;
}

void add_engines(Report& r, const sim::Timing& t) {
  for (size_t e = 0; e < arch::kEngineCount; ++e) {
    const sim::EngineTotal& total = t.engines[e];
    Report::Engine x{
        std::string(arch::name(static_cast<arch::Engine>(e))), to_ns(total.busy), 0, total.instructions, {}};
    for (size_t p = 0; p < sim::kParts; ++p)
      if (total.waited[p] > 0) x.waits_ns.emplace_back(name(static_cast<Part>(p)), to_ns(total.waited[p]));
    std::stable_sort(x.waits_ns.begin(), x.waits_ns.end(), [](auto& a, auto& b) { return a.second > b.second; });
    r.engines.push_back(std::move(x));
  }
  r.engines.push_back({"dma", to_ns(t.dma_active), 0, t.transfers, {}});
  for (auto& x : r.engines) x.busy_share = r.time_ns > 0 ? x.busy_ns / (r.time_ns * r.cores) : 0;
}

// Joules of the cores in use: their share of the idle power, cells and lanes that work, bytes that move.
double energy(const Report& r, const arch::Chip& k, const sim::Timing& t) {
  const auto& p = k.power;
  double pj = p.idle_watts / static_cast<double>(k.cores) * r.cores * r.time_ns * 1e3;
  for (size_t e = 0; e < arch::kEngineCount; ++e) {
    const auto engine = static_cast<arch::Engine>(e);
    const double cycles = to_ns(t.engines[e].busy) * arch::clock_of(k, engine).ghz;
    if (engine == arch::Engine::tensor)
      pj += cycles * static_cast<double>(k.tensor.rows * k.tensor.columns) * p.cell_cycle_pj;
    else if (engine != arch::Engine::sync)
      pj += cycles * static_cast<double>(k.partitions) * p.lane_element_pj;
  }
  const sim::Traffic& b = t.traffic;
  pj += static_cast<double>(b.hbm_read + b.hbm_write) * p.hbm_byte_pj;
  pj += static_cast<double>(b.sbuf_read + b.sbuf_write + b.psum_read + b.psum_write) * p.sbuf_byte_pj;
  return pj * 1e-12;
}

std::string note_of(const arch::Program& program, const sim::Timing::Assumed& s) {
  const std::string where = arch::source_line(program, program.streams[s.stream].insns[s.insn]);
  const std::string at = where.empty() ? std::string() : cat(" (", where, ")");
  if (s.paths > 1) return cat("which way a branch goes depends on data: the longest of ", s.paths, " is timed", at);
  return cat("how often a loop goes round depends on data: one trip is timed", at);
}

}  // namespace

int64_t sbuf_peak(const arch::Program& program) {
  int64_t peak = 0;
  for (const auto& t : program.tensors)
    if (t.space == arch::Space::sbuf) peak = std::max(peak, t.address + arch::bytes_per_partition(t));
  return peak;
}

int64_t psum_banks_used(const arch::Program& program, const arch::Chip& chip) {
  std::set<std::pair<int, int64_t>> banks;
  for (const auto& t : program.tensors) {
    if (t.space != arch::Space::psum) continue;
    const int64_t end = t.address + std::max<int64_t>(1, arch::bytes_per_partition(t));
    for (int64_t b = t.address / chip.psum.bank_bytes; b * chip.psum.bank_bytes < end; ++b) banks.insert({t.core, b});
  }
  return (static_cast<int64_t>(banks.size()) + program.cores - 1) / program.cores;
}

Report make_report(const arch::Program& program, const arch::Instance& instance, const sim::Timing& t) {
  const arch::Chip& k = *instance.chip;
  Report r;
  r.program = program.name;
  r.instance = instance.name;
  r.chip = k.name;
  r.cores = program.cores;
  r.time_ns = to_ns(t.end);
  r.launch_ns = to_ns(t.preamble + t.teardown);
  find_bound(r, t);
  const Band band = band_of(r.bound, k);
  r.band_low_ns = r.time_ns * band.low;
  r.band_high_ns = r.time_ns * band.high;
  r.band_from = band.from;
  add_engines(r, t);
  r.instructions = t.instructions;
  r.transfers = t.transfers;
  r.flops = t.flops;
  r.table_loads = t.table_loads;
  r.traffic = t.traffic;
  r.throttled_ns = to_ns(t.throttled);
  for (const sim::Timing::Assumed& s : t.assumed) r.notes.push_back(note_of(program, s));
  if (r.time_ns > 0) {
    const double stacks = std::ceil(r.cores / static_cast<double>(k.cores_per_stack()));
    r.mfu = static_cast<double>(t.flops) / (r.time_ns * k.tensor_flops_per_ns() * r.cores);
    r.mbu =
        static_cast<double>(t.traffic.hbm_read + t.traffic.hbm_write) / (r.time_ns * k.stack_bytes_per_ns() * stacks);
  }
  r.sbuf_peak_bytes = sbuf_peak(program) * k.partitions;
  r.sbuf_bytes = k.sbuf_bytes();
  r.psum_banks_used = psum_banks_used(program, k);
  r.psum_banks = k.psum.banks;
  for (const auto& tensor : program.tensors)
    if (tensor.space == arch::Space::hbm && tensor.alias < 0) r.hbm_used_bytes += arch::tensor_bytes(tensor);
  r.hbm_bytes = k.hbm.bytes;
  r.cost = cost_of(instance, {.ns = r.time_ns, .cores = double(r.cores), .chip_joules = energy(r, k, t)});
  return r;
}

}  // namespace trine::run
