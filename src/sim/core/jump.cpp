// Comparing two moments of a walk and moving ahead by whole periods; see jump.h.
// "Free from" times that lie in the past are all the same: whoever asks later finds the unit free.
#include "sim/core/jump.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "sim/core/timer.h"

namespace trine::sim {

namespace {

constexpr size_t kSnapshotsMax = 8;       // the longest period looked for, in iterations
constexpr int64_t kEagerIterations = 64;  // compared every time; later in bursts
constexpr size_t kLogMax = size_t{1} << 22;

Fs ahead(Fs t, Fs now) { return std::max<Fs>(0, t - now); }
void move_ahead(Fs& t, Fs now, Fs by) {
  if (t > now) t += by;
}

void mix(uint64_t& h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  h ^= h >> 29;
}

void repeat(Stamp& s, const Stamp& then, int64_t times) {
  s.time += times * (s.time - then.time);
  for (size_t i = 0; i < kParts; ++i) s.path[i] += times * (s.path[i] - then.path[i]);
}

void repeat(Tally& t, const Tally& then, int64_t times) {
  using Words = std::array<int64_t, kTallyWords>;
  Words now_words = std::bit_cast<Words>(t);
  const Words then_words = std::bit_cast<Words>(then);
  for (size_t i = 0; i < kTallyWords; ++i) now_words[i] += times * (now_words[i] - then_words[i]);
  t = std::bit_cast<Tally>(now_words);
}

bool same_inflight(const EngineState& a, Fs then, const EngineState& b, Fs now) {
  std::vector<Fs> x, y;
  for (uint8_t i = 0; i < a.inflights; ++i)
    if (a.inflight[i].done > then) x.push_back(a.inflight[i].done - then);
  for (uint8_t i = 0; i < b.inflights; ++i)
    if (b.inflight[i].done > now) y.push_back(b.inflight[i].done - now);
  return x == y;
}

bool same_times(const std::vector<Fs>& a, Fs then, const std::vector<Fs>& b, Fs now) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](Fs x, Fs y) { return ahead(x, then) == ahead(y, now); });
}

}  // namespace

void Jumper::entered_loop(size_t engine, int depth) {
  for (int d = depth; d < arch::kLoopDepthMax; ++d) seen_.erase({engine, d});
  if (seen_.empty()) log_.clear();
}

void Jumper::executed(size_t engine, uint32_t insn, Fs busy, Fs waited) {
  if (seen_.empty()) return;
  if (log_.size() >= kLogMax) {
    seen_.clear();
    log_.clear();
    return;
  }
  log_.push_back({.stream = static_cast<uint32_t>(engine), .insn = insn, .busy = busy, .waited = waited});
}

Jumper::Snapshot Jumper::take(Fs now) const {
  Snapshot s;
  s.now = now;
  s.log = log_.size();
  for (const auto& q : timer_.sequencers_) s.positions.push_back(q.position());
  s.state = timer_.state_;
  std::sort(s.state.pending.begin(), s.state.pending.end(), [](auto& a, auto& b) { return b.later_than(a); });
  s.hash = hash(s.state, now);
  return s;
}

// A quick "surely different"; same_engine and same_shared decide.
uint64_t Jumper::hash(const State& s, Fs now) const {
  uint64_t h = 1;
  for (size_t e = 0; e < s.engines.size(); ++e) {
    const EngineState& x = s.engines[e];
    mix(h, timer_.sequencers_[e].pc() * 4 + x.blocked * 2 + x.rendezvous);
    if (!x.blocked && !timer_.sequencers_[e].done()) mix(h, static_cast<uint64_t>(x.time.time - now));
  }
  for (const auto& d : s.dma)
    for (Fs t : d.engine) mix(h, static_cast<uint64_t>(ahead(t, now)));
  for (const auto& p : s.pending) mix(h, static_cast<uint64_t>(p.at.time - now) ^ p.insn);
  return h;
}

bool Jumper::progressed(const Snapshot& then, const Snapshot& here, std::vector<Progress>& out) const {
  out.clear();
  for (size_t e = 0; e < here.positions.size(); ++e) {
    const auto& a = then.positions[e];
    const auto& b = here.positions[e];
    if (a.pc != b.pc || a.depth != b.depth || a.registers != b.registers) return false;
    Progress p;
    for (int d = 0; d < a.depth; ++d) {
      const size_t i = static_cast<size_t>(d);
      if (!(a.frames[i] == b.frames[i])) return false;
      if (a.loops[i] == b.loops[i]) continue;
      if (p.depth >= 0 || b.loops[i] < a.loops[i]) return false;
      p = {d, b.loops[i] - a.loops[i]};
    }
    out.push_back(p);
  }
  return true;
}

bool Jumper::same_engine(size_t engine, const Snapshot& then, const Snapshot& here, bool standing) const {
  const EngineState &a = then.state.engines[engine], &b = here.state.engines[engine];
  if (a.blocked != b.blocked || a.rendezvous != b.rendezvous || a.table != b.table) return false;
  if (b.blocked && a.wait != b.wait) return false;
  if (ahead(a.issue_free, then.now) != ahead(b.issue_free, here.now) || !same_inflight(a, then.now, b, here.now))
    return false;
  // A blocked engine that stands goes on from the update that frees it, whenever it came to wait.
  if (!(standing && b.blocked) && a.time.time - then.now != b.time.time - here.now) return false;
  if (!standing && (a.ready - then.now != b.ready - here.now || a.waited_for != b.waited_for)) return false;
  if (timer_.program_.streams[engine].engine != arch::Engine::tensor) return true;
  for (size_t cell = 0; cell < a.cell_free.size(); ++cell)
    if (ahead(a.cell_free[cell], then.now) != ahead(b.cell_free[cell], here.now)) return false;
  if (!standing) return a.multiply_free - then.now == b.multiply_free - here.now;
  // A standing tensor engine matters through the idle gap it will end: older than the window is all the same.
  const Fs window = std::llround(timer_.chip_.throttle.window_ns * kFsPerNs);
  return std::max(a.multiply_free - then.now, -window) == std::max(b.multiply_free - here.now, -window);
}

bool Jumper::same_shared(const Snapshot& then, const Snapshot& here) const {
  const State& a = then.state;
  const State& b = here.state;
  if (a.loaded != b.loaded || a.pending.size() != b.pending.size()) return false;
  for (size_t i = 0; i < a.pending.size(); ++i) {
    const Pending &x = a.pending[i], &y = b.pending[i];
    if (x.at.time - then.now != y.at.time - here.now || x.arrival != y.arrival || x.engine != y.engine ||
        x.insn != y.insn || x.waited != y.waited)
      return false;
  }
  if (!same_times(a.stack, then.now, b.stack, here.now)) return false;
  for (size_t c = 0; c < a.dma.size(); ++c) {
    if (!same_times(a.dma[c].engine, then.now, b.dma[c].engine, here.now) ||
        !same_times(a.dma[c].ring, then.now, b.dma[c].ring, here.now) ||
        ahead(a.dma[c].active_until, then.now - timer_.plan_.lookback) !=
            ahead(b.dma[c].active_until, here.now - timer_.plan_.lookback))
      return false;
    for (size_t i = 0; i < 2; ++i)
      if (ahead(a.sbuf_port[c][i], then.now) != ahead(b.sbuf_port[c][i], here.now) ||
          ahead(a.psum_port[c][i], then.now) != ahead(b.psum_port[c][i], here.now))
        return false;
    const Throttle &x = a.throttle[c], &y = b.throttle[c];
    const Fs ramp = std::llround(timer_.chip_.throttle.ramp_ns * kFsPerNs),
             window = std::llround(timer_.chip_.throttle.window_ns * kFsPerNs);
    if (x.ever != y.ever || std::max(x.engaged - then.now, -ramp) != std::max(y.engaged - here.now, -ramp))
      return false;
    std::vector<std::pair<Fs, Fs>> gaps_x, gaps_y;
    for (uint8_t i = 0; i < x.gaps; ++i)
      if (x.gap[i].end > then.now - window) gaps_x.emplace_back(x.gap[i].begin - then.now, x.gap[i].end - then.now);
    for (uint8_t i = 0; i < y.gaps; ++i)
      if (y.gap[i].end > here.now - window) gaps_y.emplace_back(y.gap[i].begin - here.now, y.gap[i].end - here.now);
    if (gaps_x != gaps_y) return false;
  }
  return true;
}

// Every wait in the advancing loop's body must ask for as much more per period as its semaphore gains.
bool Jumper::waits_in_step(size_t engine, const Progress& p, const Deltas& delta) const {
  const auto& position = timer_.sequencers_[engine].position();
  const uint32_t begin = position.frames[static_cast<size_t>(p.depth)].begin;
  const uint32_t end = timer_.sequencers_[engine].end_of_loop(begin - 1);
  const auto& core = delta[timer_.program_.streams[engine].core];
  for (uint32_t i = begin; i < end; ++i) {
    const TimedInsn& insn = timer_.plan_.streams[engine][i];
    for (uint8_t w = 0; w < insn.waits; ++w) {
      const arch::Wait& wait = timer_.program_.waits[insn.wait + w];
      const int64_t step = timer_.program_.steps[wait.steps][static_cast<size_t>(p.depth)];
      if (step * p.iterations != core[static_cast<size_t>(timer_.semaphore_index_[wait.semaphore])]) return false;
    }
  }
  return true;
}

// Results in the pipeline are compared by address; if two operands that share memory move at different steps, what
// overlaps now may not overlap later, and nothing is jumped.
bool Jumper::addresses_in_step(size_t engine, int depth) {
  const auto& frame = timer_.sequencers_[engine].position().frames[static_cast<size_t>(depth)];
  const auto key = std::make_pair(engine, frame.begin);
  if (const auto it = address_cache_.find(key); it != address_cache_.end()) return it->second;
  struct Mover {
    const Footprint* print;
    int64_t step;
  };
  std::vector<Mover> movers;
  const uint32_t end = timer_.sequencers_[engine].end_of_loop(frame.begin - 1);
  for (uint32_t i = frame.begin; i < end; ++i) {
    const TimedInsn& p = timer_.plan_.streams[engine][i];
    for (uint32_t f = p.footprint; f < p.footprint + p.footprints; ++f) {
      const Footprint& print = timer_.plan_.footprints[f];
      const int64_t step =
          timer_.program_.patterns[print.pattern].step[static_cast<size_t>(depth)] * print.element_bytes;
      const bool known = std::any_of(movers.begin(), movers.end(),
                                     [&](auto& m) { return m.print->tensor == print.tensor && m.step == step; });
      if (!known) movers.push_back({&print, step});
    }
  }
  bool ok = true;
  for (size_t i = 0; i < movers.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      if (movers[i].step == movers[j].step) continue;
      const arch::Tensor& a = timer_.program_.tensors[movers[i].print->tensor];
      const arch::Tensor& b = timer_.program_.tensors[movers[j].print->tensor];
      const bool apart = a.space != b.space || a.core != b.core || a.address + bytes_per_partition(a) <= b.address ||
                         b.address + bytes_per_partition(b) <= a.address;
      ok &= apart;
    }
  return address_cache_[key] = ok;
}

// How long an engine that waits for a growing semaphore goes on standing.
int64_t Jumper::periods_standing(size_t engine, const Deltas& delta) const {
  const EngineState& e = timer_.state_.engines[engine];
  if (!e.blocked || e.rendezvous) return INT64_MAX;
  const arch::Sequencer& s = timer_.sequencers_[engine];
  const TimedInsn& p = timer_.plan_.streams[engine][s.pc()];
  const arch::Wait& w = timer_.program_.waits[p.wait + e.wait];
  const size_t index = static_cast<size_t>(timer_.semaphore_index_[w.semaphore]);
  const uint8_t core = timer_.program_.streams[engine].core;
  const int64_t gain = delta[core][index];
  const bool only_grows =
      std::all_of(timer_.program_.updates.begin(), timer_.program_.updates.end(), [&](const arch::Update& u) {
        return u.semaphore != w.semaphore || (u.op == arch::UpdateOp::add && u.value >= 0);
      });
  if (!only_grows) return 0;  // it may touch the wanted value in between
  if (gain == 0) return INT64_MAX;
  if (w.op == arch::WaitOp::eq) return 0;
  return (s.wait_value(w) - timer_.state_.semaphores[core][index] - 1) / gain;
}

int64_t Jumper::periods(const Snapshot& then, const Snapshot& here, const std::vector<Progress>& progress) {
  Deltas delta = here.state.semaphores;
  for (size_t c = 0; c < delta.size(); ++c)
    for (size_t i = 0; i < delta[c].size(); ++i) delta[c][i] -= then.state.semaphores[c][i];
  int64_t times = INT64_MAX;
  for (size_t e = 0; e < progress.size(); ++e) {
    const Progress& p = progress[e];
    if (p.depth < 0) {
      times = std::min(times, periods_standing(e, delta));
      continue;
    }
    const size_t d = static_cast<size_t>(p.depth);
    const auto& at = here.positions[e];
    times = std::min(times, (at.frames[d].count - 1 - at.loops[d]) / p.iterations);
    if (times <= 0 || !waits_in_step(e, p, delta) || !addresses_in_step(e, p.depth)) return 0;
  }
  const Fs period = here.now - then.now;
  if (times == INT64_MAX || period <= 0) return 0;
  if (timer_.window_end_ > timer_.window_begin_ && here.now < timer_.window_end_)
    times = std::min(times, (timer_.window_begin_ - here.now) / period);
  return times;
}

void Jumper::add_log(size_t begin, size_t end, int64_t times) {
  for (size_t i = begin; i < end; ++i) {
    const Logged& l = log_[i];
    if (l.times) {
      add_log(l.begin, l.end, times * l.times);
      continue;
    }
    InsnTotal& t = timer_.timing_.totals[l.stream][l.insn];
    t.count += times;
    t.busy += times * l.busy;
    t.waited += times * l.waited;
  }
}

void Jumper::jump(const Snapshot& then, const Snapshot& here, const std::vector<Progress>& progress, int64_t times) {
  State& s = timer_.state_;
  const Fs now = here.now, by = times * (here.now - then.now);
  timer_.timing_.jumped += times * (here.state.tally.instructions - then.state.tally.instructions);
  for (size_t e = 0; e < s.engines.size(); ++e) {
    EngineState& x = s.engines[e];
    move_ahead(x.issue_free, now, by);
    for (Fs& t : x.cell_free) move_ahead(t, now, by);
    for (uint8_t i = 0; i < x.inflights; ++i) move_ahead(x.inflight[i].done, now, by);
    if (progress[e].depth < 0) {
      if (!x.blocked && !timer_.sequencers_[e].done()) repeat(x.time, then.state.engines[e].time, times);
      continue;
    }
    auto position = here.positions[e];
    position.loops[static_cast<size_t>(progress[e].depth)] += times * progress[e].iterations;
    timer_.sequencers_[e].move_to(position);
    repeat(x.time, then.state.engines[e].time, times);
    x.ready += by;
    x.multiply_free += by;
    if (timer_.program_.streams[e].engine == arch::Engine::tensor) {
      Throttle& t = s.throttle[timer_.program_.streams[e].core];
      t.engaged += by;
      for (uint8_t i = 0; i < t.gaps; ++i) t.gap[i].begin += by, t.gap[i].end += by;
    }
  }
  for (size_t c = 0; c < s.dma.size(); ++c) {
    for (Fs& t : s.dma[c].engine) move_ahead(t, now, by);
    for (Fs& t : s.dma[c].ring) move_ahead(t, now, by);
    move_ahead(s.dma[c].active_until, now - timer_.plan_.lookback, by);
    for (size_t i = 0; i < 2; ++i) {
      move_ahead(s.sbuf_port[c][i], now, by);
      move_ahead(s.psum_port[c][i], now, by);
    }
    for (size_t i = 0; i < s.semaphores[c].size(); ++i)
      s.semaphores[c][i] += times * (s.semaphores[c][i] - then.state.semaphores[c][i]);
  }
  for (Fs& t : s.stack) move_ahead(t, now, by);
  s.pending = here.state.pending;  // sorted, hence a heap again below
  for (size_t i = 0; i < s.pending.size(); ++i) repeat(s.pending[i].at, then.state.pending[i].at, times);
  std::make_heap(s.pending.begin(), s.pending.end(), [](auto& a, auto& b) { return a.later_than(b); });
  if (s.last - now == then.state.last - then.now) {
    repeat(s.last_stamp, then.state.last_stamp, times);
    s.last += by;
  }
  repeat(s.tally, then.state.tally, times);
  const size_t end = log_.size();
  add_log(then.log, end, times);
  log_.push_back({.begin = then.log, .end = end, .times = times});
}

bool Jumper::same(const Snapshot& then, const Snapshot& here, std::vector<Progress>& progress) const {
  if (then.hash != here.hash || !progressed(then, here, progress) || !same_shared(then, here)) return false;
  for (size_t e = 0; e < progress.size(); ++e)
    if (!same_engine(e, then, here, progress[e].depth < 0)) return false;
  return true;
}

// The critical path remembers: what one period added to each stamp must be what the period before added. Which stamp
// a later one follows is decided by time, the same in every period, so from then on it stays.
bool Jumper::same_paths(const Snapshot& before, const Snapshot& then, const Snapshot& here,
                        const std::vector<Progress>& progress) const {
  const auto steady = [](const Stamp& a, const Stamp& b, const Stamp& c) {
    for (size_t i = 0; i < kParts; ++i)
      if (b.path[i] - a.path[i] != c.path[i] - b.path[i]) return false;
    return true;
  };
  for (size_t e = 0; e < progress.size(); ++e) {
    const EngineState& x = here.state.engines[e];
    if (x.blocked || timer_.sequencers_[e].done()) continue;  // its next stamp is somebody else's
    if (!steady(before.state.engines[e].time, then.state.engines[e].time, x.time)) return false;
  }
  for (size_t i = 0; i < here.state.pending.size(); ++i)
    if (!steady(before.state.pending[i].at, then.state.pending[i].at, here.state.pending[i].at)) return false;
  const bool last_moves = here.state.last - here.now == then.state.last - then.now;
  return !last_moves || steady(before.state.last_stamp, then.state.last_stamp, here.state.last_stamp);
}

void Jumper::finished_iteration(size_t engine) {
  const int depth = timer_.sequencers_[engine].depth() - 1;
  Seen& seen = seen_[{engine, depth}];
  const int64_t n = seen.iterations++;
  if (n >= kEagerIterations && n % kEagerIterations >= static_cast<int64_t>(kSnapshotsMax)) return;
  if (n >= kEagerIterations && n % kEagerIterations == 0) seen.snapshots.clear();
  Snapshot here = take(timer_.state_.engines[engine].time.time);
  here.iteration = n;
  std::vector<Progress> progress, earlier;
  for (size_t i = seen.snapshots.size(); i-- > 0;) {
    const Snapshot& then = seen.snapshots[i];
    const int64_t period = n - then.iteration;
    if (static_cast<int64_t>(i) < period || !same(then, here, progress)) continue;
    const Snapshot& before = seen.snapshots[i - static_cast<size_t>(period)];
    if (before.iteration != then.iteration - period || !same(before, then, earlier) ||
        !same_paths(before, then, here, progress))
      continue;
    const int64_t times = periods(then, here, progress);
    if (times <= 0) continue;
    jump(then, here, progress, times);
    timer_.timing_.events_complete = false;
    seen.snapshots.clear();
    return;
  }
  if (seen.snapshots.size() == kSnapshotsMax) seen.snapshots.erase(seen.snapshots.begin());
  seen.snapshots.push_back(std::move(here));
}

}  // namespace trine::sim
