// Differences of two readings, weighted with times on the chip; see sample.h.
#include "run/counters/sample.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/text.h"
#include "run/report/cost.h"

namespace trine::run {

namespace {

using Core = ProcessCounters::Core;

struct Known {
  const ProcessCounters* page = nullptr;
  std::vector<const ProgramTime*> times = {};  // by program; null: not timed
};

const Core* core_of(const ProcessCounters* page, size_t at) {
  if (!page) return nullptr;
  for (const Core& c : page->cores)
    if (c.at == at) return &c;
  return nullptr;
}

size_t position(const ProcessCounters& page, size_t at) {
  for (size_t i = 0; i < page.cores.size(); ++i)
    if (page.cores[i].at == at) return i;
  return page.cores.size();
}

double slowed(const Core& core) { return 1 + double(std::clamp<int64_t>(core.slowed_permille, 0, 1'000'000)) / 1000; }

void add_runs(Spent& work, const ProgramTime* time, double runs, double host_ns, double slow) {
  work.runs += runs;
  if (!time || !time->is_timed()) {
    work.untimed_runs += runs;
    work.untimed_ns += host_ns;
    return;
  }
  work.chip_ns += runs * time->ns * slow;
  for (size_t u = 0; u < kUnits; ++u) work.busy_ns[u] += runs * time->busy_ns[u];
  work.flops += runs * time->flops, work.hbm_bytes += runs * time->hbm_bytes;
  work.throttled_ns += runs * (time->throttled_ns + time->ns * (slow - 1));
  work.joules += runs * time->joules, work.collective_ns += runs * time->collective_ns;
}

// In place: a core's counters are four kilobytes, and there may be thousands of cores.
void sample_core(CoreSample& out, const Known& known, const ProcessCounters* before, size_t i, double period_ns,
                 double age_ns) {
  out.now = known.page->cores[i];
  const Core* const was = core_of(before, out.now.at);
  if (was) out.before = *was;
  const size_t was_at = before && was ? position(*before, out.now.at) : 0;
  const double slow = slowed(out.now);
  for (size_t p = 0; p < known.page->programs.size(); ++p) {
    const auto& now = known.page->programs[p].per_core[i];
    if (now.runs <= 0) continue;
    ProcessCounters::Program::PerCore old;
    if (was && p < before->programs.size()) old = before->programs[p].per_core[was_at];
    const double runs = double(std::max<int64_t>(now.runs - old.runs, 0));
    add_runs(out.period, known.times[p], runs, double(std::max<int64_t>(now.host_ns - old.host_ns, 0)), slow);
    add_runs(out.total, known.times[p], double(now.runs), double(std::max<int64_t>(now.host_ns, 0)), slow);
    if (known.times[p]) out.code_bytes += known.times[p]->code_bytes;
  }
  const double busy = double(std::max<int64_t>(out.now.busy_ns - out.before.busy_ns, 0));
  out.period.wall_ns = std::min(period_ns, age_ns), out.total.wall_ns = age_ns;
  out.period.gap_ns = std::max(out.period.wall_ns - busy, 0.0);
  out.total.gap_ns = std::max(age_ns - double(out.now.busy_ns), 0.0);
}

// Of runs in the period, by their time here.
Percentiles host_latency(const std::vector<CoreSample>& cores) {
  std::array<double, kBuckets> counts = {};
  double all = 0;
  for (const CoreSample& c : cores)
    for (size_t b = 0; b < kBuckets; ++b) {
      const double n = double(uint32_t(c.now.latency[b] - c.before.latency[b]));
      counts[b] += n, all += n;
    }
  if (all <= 0) return {};
  std::array<double, 7> out = {};
  for (size_t k = 0; k < kPercentiles.size(); ++k) {
    double left = std::max(kPercentiles[k] / 100 * all, 0.5);
    for (size_t b = 0; b < kBuckets; ++b) {
      if (counts[b] <= 0) continue;
      out[k] = bucket_ns(b) * 1e-9;
      if ((left -= counts[b]) <= 0) break;
    }
  }
  return out;
}

Percentiles chip_latency(std::vector<std::pair<double, double>> runs) {  // ns, count
  std::sort(runs.begin(), runs.end());
  double all = 0;
  for (const auto& [ns, count] : runs) all += count;
  if (all <= 0) return {};
  std::array<double, 7> out = {};
  for (size_t k = 0; k < kPercentiles.size(); ++k) {
    double left = std::max(kPercentiles[k] / 100 * all, 0.5);
    for (const auto& [ns, count] : runs) {
      out[k] = ns * 1e-9;
      if ((left -= count) <= 0) break;
    }
  }
  return out;
}

// A process may have a page for each framework it uses; on a core their work is one after the other.
void merge(CoreSample& to, const CoreSample& other) {
  const auto add = [](Core& a, const Core& b) {
    a.executions += b.executions, a.failures += b.failures, a.busy_ns += b.busy_ns;
    a.host_to_device_bytes += b.host_to_device_bytes, a.device_to_host_bytes += b.device_to_host_bytes;
    a.device_to_device_bytes += b.device_to_device_bytes, a.memory_peak += b.memory_peak;
    for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] += b.memory[i];
    for (size_t i = 0; i < a.statuses.size(); ++i) a.statuses[i] += b.statuses[i];
    for (size_t i = 0; i < a.ecc.size(); ++i) a.ecc[i] += b.ecc[i];
    for (size_t i = 0; i < a.collectives.size(); ++i) {
      a.collectives[i] += b.collectives[i], a.collective_bytes[i] += b.collective_bytes[i];
      a.collective_ns[i] += b.collective_ns[i];
    }
    for (size_t i = 0; i < kBuckets; ++i) a.latency[i] += b.latency[i];
    a.slowed_permille = std::max(a.slowed_permille, b.slowed_permille), a.lost = a.lost || b.lost;
  };
  add(to.now, other.now), add(to.before, other.before);
  to.code_bytes += other.code_bytes;
  for (auto [a, b] : {std::pair{&to.period, &other.period}, std::pair{&to.total, &other.total}}) {
    const double wall = std::max(a->wall_ns, b->wall_ns), used = a->wall_ns - a->gap_ns + b->wall_ns - b->gap_ns;
    *a += *b;
    a->wall_ns = wall, a->gap_ns = std::max(wall - used, 0.0);
  }
}

// Cores come by their number, but for those of another page of the same process. most: the largest of those before.
void join_last(std::vector<CoreSample>& cores, int64_t& most) {
  const CoreSample& last = cores.back();
  if (cores.size() == 1 || last.now.id > most) {
    most = last.now.id;
    return;
  }
  for (size_t i = 0; i + 1 < cores.size(); ++i)
    if (cores[i].now.id == last.now.id) {
      merge(cores[i], last);
      cores.pop_back();
      return;
    }
}

void add_models(ProcessSample& out, const Known& known, const ProcessCounters* before,
                std::vector<std::pair<double, double>>& device_runs) {
  for (size_t p = 0; p < known.page->programs.size(); ++p) {
    const auto& program = known.page->programs[p];
    ProcessSample::Model m{.name = program.name, .key = program.key};
    int64_t old = 0, now = 0;
    m.core = -1;
    for (size_t i = 0; i < program.per_core.size(); ++i) {
      now += program.per_core[i].runs;
      if (m.core < 0 && program.per_core[i].runs > 0) m.core = known.page->cores[i].id;
    }
    if (before && p < before->programs.size())
      for (const auto& c : before->programs[p].per_core) old += c.runs;
    if (now <= 0) continue;
    m.runs = double(now), m.period_runs = double(std::max<int64_t>(now - old, 0));
    m.constant_bytes = program.constant_bytes, m.arena_bytes = program.arena_bytes;
    if (const ProgramTime* const t = known.times[p]) {
      m.code_bytes = t->code_bytes, m.ns = t->ns, m.why_not = t->why_not;
      if (t->is_timed()) device_runs.emplace_back(t->ns, m.period_runs);
    } else if (program.is_gone) {
      m.why_not = "it was gone before anybody watched";
    }
    out.models.push_back(std::move(m));
  }
}

void add_cost(ProcessSample& out) {
  if (!out.machine || out.cores.empty()) return;
  const double physical = double(out.cores.size()) * double(out.lnc);
  const Spent total = out.total();
  const double clock = total.clock_ns() / double(out.cores.size());
  const Cost cost = cost_of(*out.machine, {.ns = clock, .cores = physical});
  if (!cost.rents.empty()) {
    out.usd = cost.rents[0].usd;
    out.usd_per_hour = cost.rents[0].usd_per_hour * physical / double(out.machine->cores());
  }
  const auto& power = out.machine->chip->power;
  const double idle = power.idle_watts / double(out.machine->chip->cores) * double(out.lnc);
  for (CoreSample& c : out.cores) {  // a program's joules hold the idle power while it runs
    const double clock_ns = c.period.clock_ns(), idle_ns = c.period.gap_ns + c.period.untimed_ns;
    c.watts = clock_ns > 0 ? (c.period.joules * 1e9 + idle * idle_ns) / clock_ns : idle;
  }
}

}  // namespace

bool awaits_times(const Sample& sample) {
  for (const ProcessSample& process : sample.processes)
    for (const ProcessSample::Model& m : process.models)
      if (process.machine && m.period_runs > 0 && m.ns <= 0 && m.why_not.empty()) return true;
  return false;
}

double Spent::utilisation() const { return clock_ns() > 0 ? std::min(1.0, (chip_ns + untimed_ns) / clock_ns()) : 0; }
double Spent::share(size_t unit) const { return clock_ns() > 0 ? std::min(1.0, busy_ns[unit] / clock_ns()) : 0; }
double Spent::flops_per_s() const { return clock_ns() > 0 ? flops / clock_ns() * 1e9 : 0; }

Spent& Spent::operator+=(const Spent& o) {
  wall_ns += o.wall_ns, chip_ns += o.chip_ns, untimed_ns += o.untimed_ns, gap_ns += o.gap_ns;
  for (size_t u = 0; u < kUnits; ++u) busy_ns[u] += o.busy_ns[u];
  flops += o.flops, hbm_bytes += o.hbm_bytes, throttled_ns += o.throttled_ns, joules += o.joules;
  collective_ns += o.collective_ns, runs += o.runs, untimed_runs += o.untimed_runs;
  return *this;
}

Spent ProcessSample::period() const {
  Spent out;
  for (const CoreSample& c : cores) out += c.period;
  return out;
}
Spent ProcessSample::total() const {
  Spent out;
  for (const CoreSample& c : cores) out += c.total;
  return out;
}

Sample make_sample(const std::vector<ProcessCounters>& before, const std::vector<ProcessCounters>& now, double period_s,
                   int64_t now_ns, ProgramTimes& times) {
  Sample out{.period_s = period_s};
  std::map<std::string, const ProcessCounters*> old;
  for (const ProcessCounters& page : before) old[page.file] = &page;
  std::map<int64_t, size_t> by_pid;
  std::map<size_t, std::vector<std::pair<double, double>>> device_runs;
  std::map<size_t, int64_t> most;  // number of a core, by process
  std::set<std::pair<std::string, std::string>> asked;
  for (const ProcessCounters& page : now) {
    if (page.cores.empty()) continue;
    const auto [found, is_new] = by_pid.emplace(page.pid, out.processes.size());
    if (is_new) {
      out.processes.push_back(
          {.pid = page.pid, .lnc = page.lnc, .started_ns = page.started_ns, .instance = page.instance});
      const auto machine = arch::find_instance(page.instance);
      out.processes.back().machine = machine ? *machine : nullptr;
    }
    ProcessSample& process = out.processes[found->second];
    process.tag = page.tag.empty() ? cat(page.pid) : page.tag;
    process.command = page.command, process.runtime_version = page.runtime_version;
    process.libraries += (process.libraries.empty() ? "" : ",") + page.library;
    Known known{.page = &page};
    for (const auto& program : page.programs) {
      const ProgramTime* const time = program.key.empty() ? nullptr : times.find(program.key, page.instance);
      known.times.push_back(time);
      if (!time && !program.key.empty() && asked.emplace(program.key, page.instance).second)
        out.wanted.push_back({page.file, program.key, page.instance});
    }
    const ProcessCounters* const was = old.contains(page.file) ? old[page.file] : nullptr;
    const double age_ns = double(std::max<int64_t>(now_ns - page.started_ns, 1));
    process.cores.reserve(process.cores.size() + page.cores.size());
    for (size_t i = 0; i < page.cores.size(); ++i) {
      sample_core(process.cores.emplace_back(), known, was, i, period_s * 1e9, age_ns);
      join_last(process.cores, most[found->second]);
    }
    add_models(process, known, was, device_runs[found->second]);
  }
  for (size_t i = 0; i < out.processes.size(); ++i) {
    ProcessSample& process = out.processes[i];
    const auto by_id = [](const CoreSample& a, const CoreSample& b) { return a.now.id < b.now.id; };
    if (!std::is_sorted(process.cores.begin(), process.cores.end(), by_id))
      std::stable_sort(process.cores.begin(), process.cores.end(), by_id);
    process.total_latency = host_latency(process.cores);
    process.device_latency = chip_latency(device_runs[i]);
    add_cost(process);
  }
  return out;
}

}  // namespace trine::run
