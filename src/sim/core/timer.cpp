// The walk through time; see timer.h. Every rule that crosses instructions is a short function here.
#include "sim/core/timer.h"

#include <algorithm>
#include <cmath>

#include "base/stop.h"
#include "base/text.h"
#include "sim/core/assume.h"

namespace trine::sim {

using arch::Engine;

namespace {

constexpr Part part_of(Engine e) { return static_cast<Part>(e); }

bool overlaps(const Inflight& a, const Footprint& f, int64_t shift) {
  return a.space == static_cast<uint8_t>(f.space) && a.core == f.core && a.low < f.high + shift &&
         f.low + shift < a.high && a.partition < f.partition + f.partitions && f.partition < a.partition + a.partitions;
}

}  // namespace

std::string_view name(Part p) {
  static constexpr std::string_view kNames[] = {"tensor",    "vector", "scalar", "gpsimd", "sync",  "dma",
                                                "semaphore", "issue",  "port",   "result", "launch"};
  return kNames[static_cast<size_t>(p)];
}

Timer::Timer(const arch::Program& program, const arch::Chip& chip, const TimeOptions& options)
    : program_(program), chip_(chip), options_(options), plan_(make_plan(program, chip, options)), jumper_(*this) {
  const size_t cores = program.cores;
  semaphore_index_.assign(1 << 16, -1);
  queue_index_.assign(1 << 16, -1);
  auto use = [&](uint16_t s) {
    if (semaphore_index_[s] < 0) {
      semaphore_index_[s] = static_cast<int>(semaphore_used_.size());
      semaphore_used_.push_back(s);
    }
  };
  for (const auto& w : program.waits) use(w.semaphore);
  for (const auto& u : program.updates) use(u.semaphore);
  int queues = 0;
  const Fs preamble = std::llround(chip.kernel.preamble_ns * kFsPerNs);
  timing_.preamble = preamble;
  timing_.teardown = std::llround(chip.kernel.teardown_ns * kFsPerNs);
  for (size_t s = 0; s < program.streams.size(); ++s) {
    sequencers_.emplace_back(program, program.streams[s]);
    EngineState e;
    e.time.spend(Part::launch, preamble);
    e.ready = e.multiply_free = preamble;
    e.cell_free.fill(preamble);
    state_.engines.push_back(e);
    timing_.totals.emplace_back(program.streams[s].insns.size());
    for (const auto& p : plan_.streams[s])
      if (p.kind == Kind::queue && queue_index_[p.queue] < 0) queue_index_[p.queue] = queues++;
  }
  state_.semaphores.assign(cores, std::vector<int64_t>(semaphore_used_.size()));
  state_.dma.assign(cores, {std::vector<Fs>(static_cast<size_t>(chip.dma.engines_per_core)),
                            std::vector<Fs>(static_cast<size_t>(queues)), 0});
  state_.stack.assign(static_cast<size_t>(std::max<int64_t>(1, chip.hbm.stacks)), 0);
  state_.sbuf_port.resize(cores);
  state_.psum_port.resize(cores);
  state_.throttle.resize(cores);
  state_.loaded.assign(program.streams.size(), 0);
  for (const arch::Stream& stream : program.streams)
    steers_.push_back(std::any_of(stream.insns.begin(), stream.insns.end(), [&](const arch::Insn& i) {
      return i.opcode == arch::kOpBranch ||
             (i.opcode == arch::kOpLoop && program.operands[i.operand].kind == arch::OperandKind::reg);
    }));
  for (const arch::Stream& stream : program.streams) {
    loads_.emplace_back();
    for (uint32_t i = 0; i < stream.insns.size() && !options.assumed.empty(); ++i)
      if (stream.insns[i].opcode == arch::kOpRegisterLoad) loads_.back().push_back(i);
  }
  state_.last = preamble;
  state_.last_stamp.spend(Part::launch, preamble);
  window_begin_ = std::llround(std::min(options.window_begin_ns, 9e12) * kFsPerNs);
  window_end_ = std::llround(std::min(options.window_end_ns, 9e12) * kFsPerNs);
}

bool Timer::in_window(Fs t) const { return window_end_ <= window_begin_ || (t >= window_begin_ && t < window_end_); }

int64_t Timer::record(const Event& e) {
  if (!in_window(e.start)) return -1;
  if (options_.observer) options_.observer->on_event(e);
  if (static_cast<int64_t>(timing_.events.size()) >= options_.events_max) {
    timing_.events_complete = false;
    return -1;
  }
  timing_.events.push_back(e);
  return static_cast<int64_t>(timing_.events.size()) - 1;
}

void Timer::push(Pending e) {
  e.sequence = sequence_++;
  state_.pending.push_back(std::move(e));
  std::push_heap(state_.pending.begin(), state_.pending.end(), [](auto& a, auto& b) { return a.later_than(b); });
}

bool Timer::advance() {
  size_t best = state_.engines.size();
  for (size_t e = 0; e < state_.engines.size(); ++e) {
    if (state_.engines[e].blocked || sequencers_[e].done()) continue;
    if (best == state_.engines.size() || state_.engines[e].time.time < state_.engines[best].time.time) best = e;
  }
  auto& pending = state_.pending;
  if (!pending.empty() &&
      (best == state_.engines.size() || pending.front().at.time <= state_.engines[best].time.time)) {
    std::pop_heap(pending.begin(), pending.end(), [](auto& a, auto& b) { return a.later_than(b); });
    const Pending e = std::move(pending.back());
    pending.pop_back();
    e.arrival ? arrive(e) : update_semaphores(e);
    return true;
  }
  if (best == state_.engines.size()) return false;
  if (auto r = issue(best); !r) {
    error_ = r.error();
    failed_ = true;
  }
  return !failed_;
}

Result<Timing> Timer::run() {
  while (advance()) {
    if ((++steps_ & 0xfff) == 0) stop_point();
    if (steps_ > options_.steps_max)
      return fail(Code::out_of_range, cat("the program is still running after ", options_.steps_max,
                                          " steps; is there a loop without an end?"));
  }
  if (failed_) return error_;
  return result();
}

Result<void> Timer::issue(size_t engine) {
  EngineState& e = state_.engines[engine];
  const TimedInsn& p = plan_.streams[engine][sequencers_[engine].pc()];
  if (p.kind == Kind::control) {
    control(engine, p);
    return {};
  }
  if (!waits_hold(engine, p)) return {};
  switch (p.kind) {
    case Kind::engine:
      run_on_engine(engine, p);
      break;
    case Kind::matmul:
      multiply(engine, p);
      break;
    case Kind::queue:
      trigger(engine, p);
      break;
    case Kind::rendezvous:
      enter_rendezvous(engine, p);
      break;
    case Kind::register_load:
      return load_register(engine, p);
    default: {
      const Fs start = e.time.time;
      e.time.spend(part_of(program_.streams[engine].engine), p.interval);
      finish(engine, p, start, e.time.time, e.time, part_of(program_.streams[engine].engine), 0);
      sequencers_[engine].step();
    }
  }
  return {};
}

void Timer::control(size_t engine, const TimedInsn& p) {
  arch::Sequencer& s = sequencers_[engine];
  EngineState& e = state_.engines[engine];
  const int depth = s.depth();
  const uint16_t opcode = s.insn().opcode;
  const Part part = part_of(program_.streams[engine].engine);
  e.time.spend(part, p.interval);
  e.ready = std::max(e.ready, e.time.time);
  ++state_.tally.instructions;
  s.step_control();
  if (!options_.jump) return;
  if (opcode == arch::kOpLoop && s.depth() > depth) jumper_.entered_loop(engine, depth);
  if (opcode == arch::kOpEndLoop && s.depth() == depth) jumper_.finished_iteration(engine);
}

bool Timer::waits_hold(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  const auto& values = state_.semaphores[program_.streams[engine].core];
  for (uint8_t w = 0; w < p.waits; ++w) {
    const arch::Wait& wait = program_.waits[p.wait + w];
    const int64_t wanted = sequencers_[engine].wait_value(wait);
    const int64_t value = values[static_cast<size_t>(semaphore_index_[wait.semaphore])];
    if (wait.op == arch::WaitOp::ge ? value >= wanted : value == wanted) continue;
    e.blocked = true;
    e.wait = w;
    return false;
  }
  return true;
}

// Wakes every engine whose wait now holds; it goes on at the moment the update became visible.
void Timer::update_semaphores(const Pending& e) {
  const uint8_t core = program_.streams[e.engine].core;
  const TimedInsn& p = plan_.streams[e.engine][e.insn];
  auto& values = state_.semaphores[core];
  for (uint8_t u = 0; u < p.updates; ++u) {
    const arch::Update& update = program_.updates[p.update + u];
    int64_t& value = values[static_cast<size_t>(semaphore_index_[update.semaphore])];
    value = update.op == arch::UpdateOp::set   ? update.value
            : update.op == arch::UpdateOp::add ? value + update.value
                                               : value - update.value;
  }
  for (size_t i = 0; i < state_.engines.size(); ++i) {
    EngineState& waiter = state_.engines[i];
    if (!waiter.blocked || waiter.rendezvous || program_.streams[i].core != core) continue;
    waiter.blocked = false;
    if (!waits_hold(i, plan_.streams[i][sequencers_[i].pc()])) continue;
    if (e.at.time > waiter.time.time) waiter.time = e.at;
    waiter.waited_for = e.from;
    waiter.cause = e.event;
  }
}

int64_t Timer::shift_of(size_t engine, const Footprint& print) const {
  const auto& step = program_.patterns[print.pattern].step;
  const int64_t* loops = sequencers_[engine].loops();
  int64_t elements = 0;
  for (size_t d = 0; d < arch::kLoopDepthMax; ++d) elements += step[d] * loops[d];
  return elements * print.element_bytes;
}

// In-flight results of the same engine that this instruction reads or overwrites.
Fs Timer::dependency(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  Fs until = 0;
  uint8_t left = 0;
  for (uint8_t i = 0; i < e.inflights; ++i)
    if (e.inflight[i].done > e.time.time) e.inflight[left++] = e.inflight[i];
  e.inflights = left;
  if (!left) return 0;
  for (uint32_t f = p.footprint; f < p.footprint + p.footprints; ++f) {
    const Footprint& print = plan_.footprints[f];
    const int64_t shift = shift_of(engine, print);
    for (uint8_t i = 0; i < left; ++i)
      if (overlaps(e.inflight[i], print, shift)) until = std::max(until, e.inflight[i].done);
  }
  return until;
}

void Timer::remember_result(size_t engine, const TimedInsn& p, Fs done) {
  EngineState& e = state_.engines[engine];
  for (uint32_t f = p.footprint; f < p.footprint + p.footprints; ++f) {
    const Footprint& print = plan_.footprints[f];
    if (!print.writes) continue;
    const int64_t shift = shift_of(engine, print);
    if (e.inflights == kInflightMax) {  // the oldest is nearly done; forget it
      std::move(e.inflight.begin() + 1, e.inflight.end(), e.inflight.begin());
      --e.inflights;
    }
    e.inflight[e.inflights++] = {static_cast<uint8_t>(print.space),
                                 print.core,
                                 print.partition,
                                 print.partitions,
                                 print.low + shift,
                                 print.high + shift,
                                 done};
  }
}

// NeuronCore-v2 lets Vector and GpSimd not touch SBUF together, nor Vector and Scalar PSUM; from v3 on only Vector's
// fast modes borrow GpSimd's SBUF port.
Fs Timer::port_free(size_t engine, const TimedInsn& p) const {
  const arch::Stream& s = program_.streams[engine];
  const bool shared = chip_.has(arch::Feature::shared_ports);
  const size_t other = s.engine == Engine::vector ? 1 : 0;
  Fs until = 0;
  if (p.touches_sbuf && (s.engine == Engine::vector || s.engine == Engine::gpsimd) &&
      (shared || p.fast || s.engine == Engine::gpsimd))
    until = state_.sbuf_port[s.core][other];
  if (shared && p.touches_psum && (s.engine == Engine::vector || s.engine == Engine::scalar))
    until = std::max(until, state_.psum_port[s.core][other]);
  return until;
}

void Timer::take_port(size_t engine, const TimedInsn& p, Fs until) {
  const arch::Stream& s = program_.streams[engine];
  const bool shared = chip_.has(arch::Feature::shared_ports);
  const size_t self = s.engine == Engine::vector ? 0 : 1;
  if (p.touches_sbuf && (s.engine == Engine::gpsimd || (s.engine == Engine::vector && (shared || p.fast))))
    state_.sbuf_port[s.core][self] = until;
  if (shared && p.touches_psum && (s.engine == Engine::vector || s.engine == Engine::scalar))
    state_.psum_port[s.core][self] = until;
}

void Timer::load_table(size_t engine, int16_t table) {
  EngineState& e = state_.engines[engine];
  const arch::Stream& s = program_.streams[engine];
  const Part part = part_of(s.engine);
  const Fs start = e.time.time;
  e.table = table;
  e.time.spend(part, plan_.table_load);
  e.ready += plan_.table_load;  // what was waited is the instruction's, the load is work
  ++state_.tally.table_loads;
  state_.tally.engines[static_cast<size_t>(part)].busy += plan_.table_load;
  record({.stream = static_cast<uint32_t>(engine),
          .insn = sequencers_[engine].pc(),
          .part = part,
          .doing = Doing::table,
          .core = s.core,
          .start = start,
          .end = e.time.time,
          .done = e.time.time});
}

void Timer::run_on_engine(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  const Part part = part_of(program_.streams[engine].engine);
  const Fs result = dependency(engine, p), port = port_free(engine, p);
  if (std::max(result, port) > e.time.time) {  // come back then: others may take the port first
    const Part why = result >= port ? Part::result : Part::port;
    e.time.reach(why, std::max(result, port));
    e.waited_for = why;
    e.cause = -1;
    return;
  }
  if (p.table >= 0 && p.table != e.table) load_table(engine, p.table);
  const Fs start = e.time.time;
  e.time.spend(part, p.interval);
  Stamp done = e.time;
  done.spend(part, p.latency);
  take_port(engine, p, e.time.time);
  remember_result(engine, p, done.time);
  finish(engine, p, start, e.time.time, done, part, p.interval);
  sequencers_[engine].step();
}

// The current limiter: under half busy over a window, it engages; the rate then starts low and climbs to full.
Fs Timer::throttled(uint8_t core, Fs start, Fs interval) {
  if (!chip_.has(arch::Feature::throttle)) return interval;
  Throttle& t = state_.throttle[core];
  const auto& k = chip_.throttle;
  const Fs window = std::llround(k.window_ns * kFsPerNs), ramp = std::llround(k.ramp_ns * kFsPerNs);
  uint8_t left = 0;
  Fs idle = 0;
  for (uint8_t i = 0; i < t.gaps; ++i) {
    if (t.gap[i].end <= start - window) continue;
    idle += t.gap[i].end - std::max(t.gap[i].begin, start - window);
    t.gap[left++] = t.gap[i];
  }
  t.gaps = left;
  if (!t.ever || static_cast<double>(idle) > (1 - k.threshold_fraction) * static_cast<double>(window)) {
    t.ever = true;
    t.engaged = start;
    t.gaps = 0;
  }
  const Fs since = start - t.engaged;
  if (since >= ramp) return interval;
  const double rate =
      k.start_fraction + (1 - k.start_fraction) * static_cast<double>(since) / static_cast<double>(ramp);
  return std::llround(static_cast<double>(interval) / rate);
}

static void add_gap(Throttle& t, Fs begin, Fs end) {
  if (t.gaps == t.gap.size()) {  // merge the two oldest, keeping their idle time
    t.gap[1].begin -= t.gap[0].end - t.gap[0].begin;
    std::move(t.gap.begin() + 1, t.gap.end(), t.gap.begin());
    --t.gaps;
  }
  t.gap[t.gaps++] = {begin, end};
}

// A stationary load may run while the previous multiply does (one spare weight buffer); the multiply itself follows its
// load and whoever holds its part of the array. The sequencer goes on to the next load as soon as it has begun.
void Timer::multiply(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  const uint8_t core = program_.streams[engine].core;
  const Fs free = e.multiply_free;
  Stamp at = e.time;
  const Fs load_start = at.time;
  at.spend(Part::tensor, p.load);
  for (size_t cell = 0; cell < e.cell_free.size(); ++cell)
    if (p.cells >> cell & 1) at.reach(Part::tensor, e.cell_free[cell]);
  const Fs start = at.time;
  if (start > free) add_gap(state_.throttle[core], free, start);
  const Fs interval = throttled(core, start, p.interval), end = start + interval;
  state_.tally.throttled += interval - p.interval;
  for (size_t cell = 0; cell < e.cell_free.size(); ++cell)
    if (p.cells >> cell & 1) e.cell_free[cell] = end;
  e.multiply_free = std::max(free, end);
  e.time = at;
  Stamp done = at;
  done.spend(Part::tensor, interval + p.latency);
  const Fs exposed = std::max<Fs>(0, start - std::max(load_start, free));
  const Fs busy = std::max<Fs>(0, end - std::max(free, start - exposed));  // what runs beside another counts once
  finish(engine, p, start - exposed, end, done, Part::tensor, busy);
  sequencers_[engine].step();
}

void Timer::trigger(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  const Part part = part_of(program_.streams[engine].engine);
  const TransferTime& w = plan_.transfers[p.transfer];
  if (p.dge == arch::Dge::hwdge && e.issue_free > e.time.time) {
    e.time.reach(Part::issue, e.issue_free);
    e.waited_for = Part::issue;
    e.cause = -1;
    return;
  }
  const Fs start = e.time.time;
  Pending arrival{.at = e.time,
                  .arrival = true,
                  .engine = static_cast<uint8_t>(engine),
                  .from = Part::dma,
                  .insn = sequencers_[engine].pc()};
  arrival.at.spend(Part::dma, std::max(w.start, p.dge == arch::Dge::swdge ? w.issue : 0));
  e.time.spend(part, p.interval);
  if (p.dge == arch::Dge::hwdge) e.issue_free = start + w.issue;
  if (p.dge == arch::Dge::swdge)
    e.time.reach(Part::issue, start + w.issue);  // descriptors are written by GpSimd itself
  auto& total = state_.tally.engines[static_cast<size_t>(part)];
  const Fs busy = p.dge == arch::Dge::swdge ? w.issue : p.interval;
  const Fs waited = std::max<Fs>(0, start - e.ready);
  total.busy += busy;
  ++total.instructions;
  ++state_.tally.instructions;
  if (waited && e.waited_for != Part::count) total.waited[static_cast<size_t>(e.waited_for)] += waited;
  arrival.waited = waited;
  arrival.event = record({.stream = static_cast<uint32_t>(engine),
                          .insn = sequencers_[engine].pc(),
                          .part = part,
                          .doing = Doing::issue,
                          .core = program_.streams[engine].core,
                          .queue = p.queue,
                          .start = start,
                          .end = start + busy,
                          .done = arrival.at.time,
                          .waited = waited,
                          .waited_for = waited ? e.waited_for : Part::count,
                          .cause = waited ? e.cause : -1});
  e.ready = e.time.time;
  e.waited_for = Part::count;
  e.cause = -1;
  push(std::move(arrival));
  sequencers_[engine].step();
}

// First come, first served on each DMA engine; a ring starts its next transfer a turnaround after the last one.
void Timer::arrive(const Pending& a) {
  const arch::Stream& s = program_.streams[a.engine];
  const TimedInsn& p = plan_.streams[a.engine][a.insn];
  const TransferTime& w = plan_.transfers[p.transfer];
  CoreDma& dma = state_.dma[s.core];
  Fs& ring = dma.ring[static_cast<size_t>(queue_index_[p.queue])];
  // Every DMA engine that has a share takes it once it is free; the HBM stack bounds all of them.
  const Fs begin = std::max(a.at.time, ring);
  Fs first = Fs{1} << 62, end = begin;
  for (size_t k = 0; k < w.engine.size(); ++k) {
    if (!w.engine[k]) continue;
    const Fs start = std::max(begin, dma.engine[k]);
    dma.engine[k] = start + w.engine[k];
    first = std::min(first, start);
    end = std::max(end, dma.engine[k]);
  }
  first = std::min(first, end);
  Fs& stack = state_.stack[static_cast<size_t>(chip_.stack_of_core(s.core)) % state_.stack.size()];
  stack = std::max(stack, begin) + w.stack;
  end = std::max(end, stack);
  ring = first + plan_.turnaround;
  Tally& tally = state_.tally;
  ++tally.transfers;
  tally.dma_packets += w.packets;
  // A queue is active from when its descriptors stand in the ring to the completion's write.
  const Fs active_from = std::max(a.at.time - (w.start - std::min(w.issue, w.start)), dma.active_until);
  tally.dma_active += std::max<Fs>(0, end + plan_.completion - active_from);
  dma.active_until = std::max(dma.active_until, end + plan_.completion);
  // Its semaphores are raised once the completion is written.
  Stamp done = a.at;
  done.reach(Part::dma, end);
  done.spend(Part::dma, plan_.completion);
  if (done.time > state_.last) {
    state_.last = done.time;
    state_.last_stamp = done;
  }
  tally.traffic += p.traffic;
  // Summaries and the event come last: nothing below decides a time.
  InsnTotal& total = timing_.totals[a.engine][a.insn];
  ++total.count;
  total.busy += end - first;
  total.waited += a.waited;
  if (options_.jump) jumper_.executed(a.engine, a.insn, end - first, a.waited);
  const int64_t index = record({.stream = a.engine,
                                .insn = a.insn,
                                .part = Part::dma,
                                .core = s.core,
                                .queue = p.queue,
                                .start = first,
                                .end = end,
                                .done = done.time,
                                .waited = a.waited,
                                .cause = a.event});
  if (p.updates) push({.at = done, .engine = a.engine, .from = Part::dma, .insn = a.insn, .event = index});
}

// Cores that run one program have their rendezvous at the same point of the same engine's stream.
void Timer::enter_rendezvous(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  e.blocked = e.rendezvous = true;
  Stamp latest = e.time;
  std::vector<size_t> group;
  for (size_t i = 0; i < state_.engines.size(); ++i) {
    if (program_.streams[i].engine != program_.streams[engine].engine) continue;
    if (!state_.engines[i].rendezvous) {
      if (program_.cores > 1) return;  // somebody is still on the way
      continue;
    }
    group.push_back(i);
    if (state_.engines[i].time.time > latest.time) latest = state_.engines[i].time;
  }
  const Part part = part_of(program_.streams[engine].engine);
  for (size_t i : group) {
    EngineState& member = state_.engines[i];
    const TimedInsn& q = plan_.streams[i][sequencers_[i].pc()];
    member.blocked = member.rendezvous = false;
    member.time = latest;
    member.time.spend(Part::semaphore, plan_.semaphore_latency);
    const Fs start = member.time.time;
    member.waited_for = part;
    member.time.spend(part, std::max(q.interval, p.interval));
    finish(i, q, start, member.time.time, member.time, part, q.interval);
    sequencers_[i].step();
  }
}

Result<void> Timer::load_register(size_t engine, const TimedInsn& p) {
  EngineState& e = state_.engines[engine];
  size_t& next = state_.loaded[engine];
  const bool known = engine < options_.loaded.size() && next < options_.loaded[engine].size();
  uint32_t assumed = 0;  // where registers only make addresses, time does not depend on them
  if (!known && engine < options_.assumed.size() && !options_.assumed[engine].empty()) {
    const std::vector<uint32_t>& all = loads_[engine];
    assumed = options_.assumed[engine][static_cast<size_t>(
        std::lower_bound(all.begin(), all.end(), sequencers_[engine].pc()) - all.begin())];
  } else if (!known && steers_[engine]) {
    return fail(Code::unsupported,
                cat("register_load in the ", arch::name(program_.streams[engine].engine),
                    " stream needs data to be timed; run it with values, so that the loaded numbers are known"));
  }
  const Part part = part_of(program_.streams[engine].engine);
  const arch::Operand& dst = program_.operands[sequencers_[engine].insn().operand];
  sequencers_[engine].set_register(dst.reg, known ? options_.loaded[engine][next++] : assumed);
  const Fs start = e.time.time;
  e.time.spend(part, p.interval);
  finish(engine, p, start, e.time.time, e.time, part, p.interval);
  sequencers_[engine].step();
  return {};
}

// The book-keeping every executed instruction shares.
void Timer::finish(size_t engine, const TimedInsn& p, Fs start, Fs end, Stamp done, Part part, Fs busy) {
  EngineState& e = state_.engines[engine];
  Tally& tally = state_.tally;
  EngineTotal& total = tally.engines[static_cast<size_t>(part)];
  const Fs waited = std::max<Fs>(0, start - e.ready);
  ++tally.instructions;
  ++total.instructions;
  total.busy += busy;
  if (waited && e.waited_for != Part::count) total.waited[static_cast<size_t>(e.waited_for)] += waited;
  tally.flops += p.flops;
  tally.traffic += p.traffic;
  const uint32_t insn = sequencers_[engine].pc();
  InsnTotal& sum = timing_.totals[engine][insn];
  ++sum.count;
  sum.busy += busy;
  sum.waited += waited;
  if (options_.jump) jumper_.executed(engine, insn, busy, waited);
  const int64_t index = record({.stream = static_cast<uint32_t>(engine),
                                .insn = insn,
                                .part = part,
                                .core = program_.streams[engine].core,
                                .start = start,
                                .end = end,
                                .done = done.time,
                                .waited = waited,
                                .waited_for = waited ? e.waited_for : Part::count,
                                .cause = waited ? e.cause : -1});
  if (done.time > state_.last) {
    state_.last = done.time;
    state_.last_stamp = done;
  }
  e.ready = std::max(e.ready, end);
  e.waited_for = Part::count;
  e.cause = -1;
  if (!p.updates) return;
  done.spend(Part::semaphore, plan_.semaphore_latency);
  push({.at = done, .engine = static_cast<uint8_t>(engine), .from = part, .insn = insn, .event = index});
}

Timing Timer::result() {
  const Tally& t = state_.tally;
  timing_.engines = t.engines;
  timing_.instructions = t.instructions;
  timing_.transfers = t.transfers;
  timing_.flops = t.flops;
  timing_.table_loads = t.table_loads;
  timing_.dma_active = t.dma_active;
  timing_.dma_packets = t.dma_packets;
  timing_.throttled = t.throttled;
  timing_.traffic = t.traffic;
  Stamp end = state_.last_stamp;
  for (const auto& e : state_.engines)
    if (e.time.time > end.time) end = e.time;
  end.spend(Part::launch, timing_.teardown);
  timing_.end = end.time;
  timing_.critical = end.path;
  for (size_t i = 0; i < state_.engines.size(); ++i) {
    const EngineState& e = state_.engines[i];
    if (!e.blocked) continue;
    const TimedInsn& p = plan_.streams[i][sequencers_[i].pc()];
    Timing::Stuck stuck{static_cast<uint32_t>(i), sequencers_[i].pc(), e.rendezvous, 0, 0, 0};
    if (!e.rendezvous) {
      const arch::Wait& w = program_.waits[p.wait + e.wait];
      stuck.semaphore = w.semaphore;
      stuck.value = state_.semaphores[program_.streams[i].core][static_cast<size_t>(semaphore_index_[w.semaphore])];
      stuck.wanted = sequencers_[i].wait_value(w);
    }
    timing_.stuck.push_back(stuck);
  }
  return std::move(timing_);
}

Result<Timing> time_program(const arch::Program& program, const arch::Chip& chip, const TimeOptions& options) {
  if (options.loaded.empty() && options.assumed.empty())
    if (Assumptions assumptions(program); assumptions.applies()) return assumptions.time(chip, options);
  return Timer(program, chip, options).run();
}

Result<Fs> time_among_others(const arch::Program& program, const arch::Chip& chip) {
  TimeOptions options;
  options.events_max = 0;
  options.cores_on_stack = static_cast<int>(chip.cores_per_stack());
  const Timing timing = TRY(time_program(program, chip, options));
  if (!timing.stuck.empty()) return fail(Code::invalid, "never ends: its engines wait for one another", program.name);
  return timing.end - timing.preamble - timing.teardown;
}

}  // namespace trine::sim
