// Looking at a timed program: what-ifs, hotspots, the bound; see explain.h.
#include "run/explain/explain.h"

#include <algorithm>
#include <map>
#include <set>

#include "arch/asm/asm.h"
#include "arch/sequencer.h"
#include "base/text.h"
#include "run/explain/look.h"

namespace trine::run {

using arch::Engine;
using sim::Kind;
using sim::Part;
using sim::to_ns;

namespace {

constexpr size_t kHotspots = 3, kCandidates = 6;  // candidates of each kind are tried
constexpr double kWorthSaying = 0.01;             // of the time
constexpr std::string_view kLaunchRule = "launch";

// Every tile in SBUF or HBM that is f32 becomes bf16; PSUM keeps its sums.
arch::Program in_bf16(arch::Program p) {
  std::map<uint32_t, uint32_t> halved;
  for (arch::Operand& o : p.operands) {
    if (o.kind != arch::OperandKind::tile || p.tensors[o.tensor].space == arch::Space::psum) continue;
    if (p.patterns[o.pattern].dtype != Dtype::f32) continue;
    const auto [at, fresh] = halved.try_emplace(o.pattern, static_cast<uint32_t>(p.patterns.size()));
    if (fresh) {
      arch::Pattern half = p.patterns[o.pattern];
      half.dtype = Dtype::bf16;
      p.patterns.push_back(half);
    }
    o.pattern = at->second;
  }
  return p;
}

double without_bound(const Look& l) {
  arch::Chip chip = l.chip;
  std::vector<sim::Scale> scales;
  const Bound bound = l.report.bound;
  for (const Insn& i : l.insns) {
    const bool own = i.is_dma() ? bound == Bound::dma : static_cast<int>(i.call.engine) == static_cast<int>(bound);
    if (own) scales.push_back({i.stream, i.index, 0, 0, 0});
  }
  if (bound == Bound::dma) chip.dma.ring_turnaround_ns = chip.dma.start_gpsimd_ns = chip.dma.start_sync_ns = 0;
  if (bound == Bound::launch) chip.kernel.preamble_ns = chip.kernel.teardown_ns = chip.semaphore.latency_ns = 0;
  return l.time_if(chip, std::move(scales));
}

struct Group {
  Hotspot spot = {};
  std::vector<sim::Scale> scales = {};
  double most = 0;     // busy time of its site's instruction
  bool bound = false;  // on what bounds the program
};

// Of each instruction of a stream: where the body of its innermost loop begins.
std::vector<uint32_t> loop_bodies(const arch::Stream& s) {
  std::vector<uint32_t> open{0}, out;
  for (uint32_t i = 0; i < s.insns.size(); ++i) {
    if (s.insns[i].opcode == arch::kOpEndLoop) open.pop_back();
    out.push_back(open.back());
    if (s.insns[i].opcode == arch::kOpLoop) open.push_back(i + 1);
  }
  return out;
}

// Unrolled copies of an instruction share its line; in assembly text, where each has its own, its loop and its shapes.
std::string likeness(const Look& l, const Insn& i, bool line_is_shared, uint32_t body) {
  if (line_is_shared) return cat("line ", i.call.insn.line, " ", i.row().name);
  std::string key = cat(i.stream, " ", body, " ", i.row().name, " ", i.timed.queue);
  if (i.timed.kind == Kind::engine)
    for (size_t a = 0; a < i.call.info.attrs.size(); ++a) key += cat(" ", l.program.attrs[i.call.insn.attr + a]);
  for (size_t s = 0; s < i.call.info.slots.size(); ++s) {
    const arch::Operand& o = i.call.operand(static_cast<int>(s));
    if (o.kind != arch::OperandKind::tile) continue;
    const arch::Pattern& p = l.program.patterns[o.pattern];
    key += cat(" ", arch::name(l.program.tensors[o.tensor].space), static_cast<int>(p.dtype), ":", p.partitions);
    for (int d = 0; d < p.rank; ++d) key += cat(",", p.dims[static_cast<size_t>(d)].count);
  }
  return key;
}

std::vector<Group> groups(const Look& l) {
  std::map<std::pair<std::string_view, uint32_t>, int> on_line;  // instructions of a row on a source line
  for (const Insn& i : l.insns) ++on_line[{i.row().name, i.call.insn.line}];
  std::vector<std::vector<uint32_t>> bodies;
  for (const arch::Stream& s : l.program.streams) bodies.push_back(loop_bodies(s));
  std::map<std::string, Group> found;
  for (const Insn& i : l.insns) {
    const uint32_t line = i.call.insn.line;
    Group& g = found[likeness(l, i, line && on_line[{i.row().name, line}] > 1, bodies[i.stream][i.index])];
    g.spot.alike += !g.scales.empty();
    if (g.scales.empty() || i.busy_ns() > g.most) {
      g.most = i.busy_ns();
      g.spot.site = l.site(i);
    }
    g.spot.count += i.total.count;
    g.spot.busy_ns += i.busy_ns();
    g.spot.waited_ns += to_ns(i.total.waited);
    g.scales.push_back({i.stream, i.index, 0, 0, 0});
    g.bound |=
        i.is_dma() ? l.report.bound == Bound::dma : static_cast<int>(i.call.engine) == static_cast<int>(l.report.bound);
  }
  std::vector<Group> out;
  for (auto& [key, group] : found) out.push_back(std::move(group));
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.spot.busy_ns > b.spot.busy_ns; });
  return out;
}

// The three whose work costs the program most, of those that are busiest.
std::vector<Hotspot> hotspots(const Look& l) {
  std::vector<Hotspot> out;
  size_t of_bound = 0, of_all = 0;
  for (Group& g : groups(l)) {
    if (!(g.bound && of_bound < kCandidates) && of_all >= kCandidates) continue;
    of_bound += g.bound;
    ++of_all;
    g.spot.without_ns = std::min(l.report.time_ns, l.time_if(g.scales));
    out.push_back(std::move(g.spot));
  }
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.without_ns < b.without_ns; });
  if (out.size() > kHotspots) out.resize(kHotspots);
  return out;
}

std::vector<Insn> executed_insns(const Look& l) {
  std::vector<Insn> out;
  for (uint32_t s = 0; s < l.program.streams.size(); ++s) {
    const arch::Stream& stream = l.program.streams[s];
    for (uint32_t n = 0; n < stream.insns.size(); ++n) {
      const sim::TimedInsn& p = l.plan.streams[s][n];
      if (p.kind == Kind::control || p.kind == Kind::semaphore || !l.timing.totals[s][n].count) continue;
      const arch::RowInfo& info = *arch::row_by_opcode(stream.insns[n].opcode);
      out.push_back({s, n, arch::Call{l.program, l.chip, stream.insns[n], info, stream.engine, stream.core}, p,
                     l.timing.totals[s][n]});
    }
  }
  return out;
}

}  // namespace

Look::Look(const arch::Program& p, const arch::Instance& i, const sim::TimeOptions& options, const sim::Timing& t)
    : program(p),
      instance(i),
      chip(*i.chip),
      timing(t),
      report(make_report(p, i, t)),
      plan(sim::make_plan(p, *i.chip, options)),
      options_(options) {
  options_.events_max = 0;
  options_.window_begin_ns = options_.window_end_ns = 0;
  insns = executed_insns(*this);
}

double Look::time(const arch::Program& p, const arch::Chip& c, std::vector<sim::Scale> scales) const {
  sim::TimeOptions options = options_;
  options.scales = std::move(scales);
  const auto t = sim::time_program(p, c, options);
  return t && t->stuck.empty() ? to_ns(t->end) : report.time_ns;
}

double Look::time_in_bf16() const { return time(in_bf16(program), chip, {}); }

double Look::lower_bound_ns() const {
  const double cores = program.cores;
  double most = to_ns(timing.dma_packets) / static_cast<double>(chip.dma.engines_per_core) / cores;
  for (const auto& e : timing.engines) most = std::max(most, to_ns(e.busy) / cores);
  for (int e = 0; e < arch::kEngineCount; ++e) most = std::max(most, issue_ns(static_cast<Engine>(e)) / cores);
  return most + report.launch_ns;
}

double Look::waited_share(Engine e, Part for_what) const {
  const double ns = to_ns(timing.engines[static_cast<size_t>(e)].waited[static_cast<size_t>(for_what)]);
  return report.time_ns > 0 ? ns / (report.time_ns * program.cores) : 0;
}

double Look::issue_ns(Engine e) const {
  double ns = 0;
  for (const Insn& i : insns)
    if (i.is_dma() && i.call.engine == e)
      ns += static_cast<double>(i.total.count) * to_ns(plan.transfers[i.timed.transfer].issue);
  return ns;
}

const Insn* Look::busiest(const std::function<bool(const Insn&)>& which) const {
  const Insn* best = nullptr;
  for (const Insn& i : insns)
    if (which(i) && (!best || i.total.busy > best->total.busy)) best = &i;
  return best;
}

const Insn* Look::longest_waiting(const std::function<bool(const Insn&)>& which) const {
  const Insn* best = nullptr;
  for (const Insn& i : insns)
    if (which(i) && (!best || i.total.waited > best->total.waited)) best = &i;
  return best;
}

const Insn* Look::quicker_on(const arch::Chip& other) const {
  const sim::Plan there = sim::make_plan(program, other, options_);
  return busiest([&](const Insn& i) { return there.streams[i.stream][i.index].interval < i.timed.interval; });
}

Site Look::site(const Insn& i) const {
  const arch::Stream& stream = program.streams[i.stream];
  Site s{std::string(arch::name(stream.engine)), arch::describe_insn(program, stream, i.index),
         arch::source_line(program, stream.insns[i.index])};
  if (!s.at.empty() && s.instruction.ends_with(s.at))
    s.instruction.resize(s.instruction.size() - s.at.size() - 4);  // " at "
  return s;
}

Explanation explain(const arch::Program& program, const arch::Instance& instance, const sim::TimeOptions& options,
                    const sim::Timing& timing) {
  const Look look(program, instance, options, timing);
  Explanation e;
  e.report = look.report;
  e.without_bound_ns = std::min(look.report.time_ns, without_bound(look));
  for (const Rule& r : rules())
    if (auto advice = r.look(look); advice && advice->would_ns < (1 - kWorthSaying) * look.report.time_ns) {
      advice->rule = r.name;
      e.advice.push_back(std::move(*advice));
    }
  // What a kernel's author can change comes first: every small kernel would gain most from its launch.
  std::stable_sort(e.advice.begin(), e.advice.end(), [](auto& a, auto& b) {
    const bool last_a = a.rule == kLaunchRule, last_b = b.rule == kLaunchRule;
    return last_a != last_b ? last_b : a.would_ns < b.would_ns;
  });
  e.hotspots = hotspots(look);
  return e;
}

}  // namespace trine::run
