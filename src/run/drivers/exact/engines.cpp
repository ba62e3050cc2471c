// The engines, a slice of instructions at a time; see engines.h.
#include "run/drivers/exact/engines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "arch/asm/asm.h"
#include "base/text.h"

namespace trine::run {

using arch::FaultKind;
using arch::Memory;

namespace {

// An engine that never waits must not keep the others from running; large, so that producers run well ahead.
constexpr int64_t kSliceMax = 65536;

// After so many rounds every wait that can be met is, so that polling loops starve nobody.
constexpr int64_t kHeldMax = 4096;

// Only rows of the control set write registers.
constexpr uint16_t kControlOpcodes = 0x10;

int64_t saturating_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r))
    return b < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
  return r;
}

int64_t saturating_negate(int64_t v) {
  return v == std::numeric_limits<int64_t>::min() ? std::numeric_limits<int64_t>::max() : -v;
}

// What each operand of the instruction begins with.
void add_memory(arch::Machine& machine, const arch::Stream& stream, const arch::Insn& insn, const arch::RowInfo& info,
                const std::string& name, std::vector<MemoryPiece>& out) {
  constexpr int64_t kShown = 64;  // bytes
  const arch::Program& program = machine.program();
  for (size_t i = 0; i < info.slots.size(); ++i) {
    const arch::Operand& o = program.operands[insn.operand + i];
    if (o.kind != arch::OperandKind::tile) continue;
    const arch::Tensor& t = program.tensors[o.tensor];
    const int64_t offset = o.offset * bits(program.patterns[o.pattern].dtype) / 8;
    MemoryPiece piece{.stream = name, .operand = std::string(info.slots[i].name), .tensor = t.name};
    piece.dtype = row(t.dtype).name;
    const bool in_hbm = t.space == arch::Space::hbm;
    const Memory* m = in_hbm                         ? &machine.hbm_of(o.tensor)
                      : t.space == arch::Space::sbuf ? &machine.cores[stream.core].sbuf
                                                     : &machine.cores[stream.core].psum;
    piece.space = in_hbm ? "hbm" : t.space == arch::Space::sbuf ? "sbuf" : "psum";
    piece.address = t.address + offset, piece.partition = in_hbm ? 0 : t.partition + o.partition;
    const int64_t from = in_hbm ? offset : piece.partition * static_cast<int64_t>(m->pitch) + piece.address;
    const int64_t end = std::min<int64_t>(from + kShown, static_cast<int64_t>(m->size));
    if (m->bytes && from >= 0 && from < end) piece.bytes.assign(m->bytes + from, m->bytes + end);
    out.push_back(std::move(piece));
  }
}

std::string wait_text(const arch::Wait& w, int64_t value) {
  return cat("s", w.semaphore, w.op == arch::WaitOp::ge ? ">=" : "==", value);
}

}  // namespace

Engines::Engines(arch::Machine& machine, const DecodedProgram& decoded, const ExactOptions& options, Findings& findings,
                 Races::Known& known, const Checks& checks)
    : machine_(machine),
      program_(machine.program()),
      decoded_(decoded),
      options_(options),
      findings_(findings),
      checks_(checks) {
  for (size_t i = 0; i < decoded.streams.size(); ++i) {
    Lane& lane = lanes_.emplace_back(decoded.streams[i], static_cast<int>(i));
    lane.rounding.mode = options.stochastic ? RoundingMode::stochastic : RoundingMode::nearest_even;
    lane.rounding.seed =
        options.seed + i;  // every stream has its own sequence, so the order of engines does not matter
  }
  for (arch::Core& core : machine_.cores) core.trap_nan = options.trap_nan;
  if (checks.races) races_.emplace(machine_, findings_, known, checks.any_row);
}

void Engines::run(RunResult& result) {
  const int64_t budget = options_.steps_max ? options_.steps_max : std::numeric_limits<int64_t>::max();
  for (;;) {
    bool moved = false;
    for (Lane& lane : lanes_) {
      flip_due(false);
      moved |= advance(lane);
    }
    if (counts_.instructions >= budget) {
      report_endless();
      break;
    }
    const bool crossed = run_all_rendezvous();
    if (checks_.any_row && !machine_.settled) break;
    if (pass_waits() || crossed || moved) continue;
    result.finished = true;
    for (const Lane& lane : lanes_) result.finished &= lane.at.done();
    if (!result.finished) report_deadlock();
    break;
  }
  flip_due(true);
  if (races_) races_->finish();
  result.counts = counts_;
  for (Lane& lane : lanes_) result.loaded.push_back(std::move(lane.loaded));
}

bool Engines::advance(Lane& lane) {
  if (idles(lane)) return false;
  lane.spins = false;
  const int64_t before = counts_.instructions;
  const int64_t budget = options_.steps_max ? options_.steps_max : std::numeric_limits<int64_t>::max();
  int64_t end = std::min(saturating_add(before, kSliceMax), budget);
  if (flipped_ < options_.flips.size()) end = std::min(end, std::max(options_.flips[flipped_].after, before + 1));
  while (!lane.at.done() && counts_.instructions < end && !lane.spins && !waits(lane) && !at_rendezvous(lane)) {
    ++counts_.instructions;
    changes_ += lane.form->changes[lane.at.pc()];
    if (lane.at.at_control()) {
      if (lane.at.insn().updates) update(lane);
      lane.at.step_control();
      look_for_spin(lane);
    } else {
      execute(lane);
      lane.at.step();
    }
    lane.passed = false;
  }
  if (races_ && lane.at.done() && counts_.instructions != before) races_->end(lane.stream);
  return counts_.instructions != before;
}

// On bytes nobody has, a flip is lost, as it would be.
void Engines::flip_due(bool at_end) {
  const auto flip = [&](const Flip& f) {
    Memory* const m = f.tensor >= 0                  ? &machine_.hbm_of(static_cast<uint32_t>(f.tensor))
                      : f.space == arch::Space::sbuf ? &machine_.cores[static_cast<size_t>(f.core)].sbuf
                                                     : &machine_.cores[static_cast<size_t>(f.core)].psum;
    const auto at = static_cast<size_t>(f.tensor >= 0 ? f.byte : f.partition * static_cast<int64_t>(m->pitch) + f.byte);
    if (at < m->size) m->bytes[at] ^= std::byte(1u << f.bit);
  };
  for (; !at_end && flipped_ < options_.flips.size(); ++flipped_) {
    const Flip& f = options_.flips[flipped_];
    if (f.after > counts_.instructions) return;
    if (!f.at_end) flip(f);
  }
  if (!at_end) return;
  for (const Flip& f : options_.flips)
    if (f.at_end) flip(f);
}

StopState Engines::state() const {
  StopState out;
  for (const Lane& lane : lanes_) {
    EngineState e{.stream = stream_name(lane.at.stream()), .core = lane.at.stream().core};
    e.state = lane.at.done() ? "ended" : "could go on";
    if (!lane.at.done()) {
      const ProgramPoint point = point_of(lane.stream, lane.at);
      const arch::Insn& insn = lane.at.insn();
      e.index = point.index, e.loops = point.loops;
      e.instruction = arch::describe_insn(program_, lane.at.stream(), point.index);
      e.where = arch::source_line(program_, insn);
      if (waits(lane)) e.state = "waits", e.waits_for = waiting_for(lane);
      if (!waits(lane) && at_rendezvous(lane)) e.state = "waits", e.waits_for = cat("meeting ", missing_from(lane));
      if (idles(lane)) e.state = "goes round";
      add_memory(machine_, lane.at.stream(), insn, lane.info(), e.stream, out.memory);
    }
    out.engines.push_back(std::move(e));
  }
  for (const arch::Core& core : machine_.cores)
    out.semaphores.emplace_back(core.semaphores.begin(), core.semaphores.end());
  return out;
}

// Brent's algorithm: the position is marked after 1, 2, 4, … steps, so any round is seen within twice its length.
void Engines::look_for_spin(Lane& lane) {
  if (lane.mark_changes == changes_ && lane.at.pc() == lane.mark.pc && lane.at.position() == lane.mark) {
    lane.spins = true;
  } else if (std::has_single_bit(static_cast<uint64_t>(++lane.steps)) || lane.mark_changes != changes_) {
    lane.mark = lane.at.position();
    lane.mark_changes = changes_;
  }
}

arch::Call Engines::call_of(const Lane& lane) const {
  const arch::Stream& stream = lane.at.stream();
  return {program_,
          decoded_.chip,
          lane.at.insn(),
          lane.info(),
          stream.engine,
          stream.core,
          lane.at.depth() ? lane.at.loops() : nullptr,
          lane.at.registers(),
          &decoded_.forms};
}

void Engines::execute(Lane& lane) {
  const arch::Stream& stream = lane.at.stream();
  arch::Core& core = machine_.cores[stream.core];
  const arch::Call call = call_of(lane);
  if (races_) races_->access(lane.stream, lane.at, call);
  core.rounding = lane.rounding;
  if (call.insn.opcode < kControlOpcodes)
    execute_on_registers(lane, core, call);
  else
    call.info.row->exec(core, call);
  if (races_) races_->executed();
  lane.rounding = core.rounding;
  if (call.info.row->unit == arch::Unit::queue) ++counts_.transfers;
  if (!core.faults.empty()) take_faults(lane);
  if (call.insn.updates || call.info.row->unit == arch::Unit::queue) update(lane);
}

void Engines::execute_on_registers(Lane& lane, arch::Core& core, const arch::Call& call) {
  auto& registers = core.registers[static_cast<size_t>(call.engine)];
  std::copy_n(lane.at.registers(), registers.size(), registers.begin());
  call.info.row->exec(core, call);
  for (int r = 0; r < arch::kRegisterCount; ++r) lane.at.set_register(r, registers[static_cast<size_t>(r)]);
  if (call.insn.opcode == arch::kOpRegisterLoad)
    lane.loaded.push_back(registers[program_.operands[call.insn.operand].reg]);
}

// The same engine of every core has come to a rendezvous; it is carried out once for all.
bool Engines::run_all_rendezvous() {
  if (!decoded_.at_rendezvous) return false;
  bool any = false;
  for (int e = 0; e < arch::kEngineCount; ++e) {
    std::vector<Lane*> come(program_.cores);
    for (Lane& lane : lanes_)
      if (lane.at.stream().engine == static_cast<arch::Engine>(e) && !lane.at.done() && at_rendezvous(lane) &&
          !waits(lane))
        come[lane.at.stream().core] = &lane;
    if (std::find(come.begin(), come.end(), nullptr) != come.end()) continue;
    run_rendezvous(come);
    any = true;
  }
  return any;
}

void Engines::run_rendezvous(const std::vector<Lane*>& lanes) {
  std::vector<arch::Call> calls;
  std::vector<int> streams;
  for (Lane* lane : lanes) {
    calls.push_back(call_of(*lane));
    streams.push_back(lane->stream);
  }
  arch::Core& core = machine_.cores[0];
  if (races_) {
    races_->barrier(streams);
    for (size_t i = 0; i < calls.size(); ++i) races_->access(streams[i], lanes[i]->at, calls[i]);
  }
  core.rounding = lanes[0]->rounding;
  machine_.rendezvous = calls;
  calls[0].info.row->exec(core, calls[0]);  // it sees to it that they agree
  machine_.rendezvous = {};
  if (races_) races_->executed();
  lanes[0]->rounding = core.rounding;
  if (races_) races_->barrier(streams);
  if (!core.faults.empty()) take_faults(*lanes[0]);
  for (Lane* lane : lanes) {
    ++counts_.instructions;
    if (lane->at.insn().updates) update(*lane);
    lane->at.step();
    lane->passed = false;
    if (races_ && lane->at.done()) races_->end(lane->stream);
  }
}

void Engines::update(Lane& lane) {
  const arch::Insn& insn = lane.at.insn();
  auto& semaphores = machine_.cores[lane.at.stream().core].semaphores;
  for (uint32_t i = 0; i < insn.updates; ++i) {
    const arch::Update& u = program_.updates[insn.update + i];
    int64_t& value = semaphores[u.semaphore];
    if (u.op == arch::UpdateOp::set)
      value = u.value;
    else
      value = saturating_add(value, u.op == arch::UpdateOp::add ? u.value : saturating_negate(u.value));
  }
  if (races_) races_->update(lane.stream, lane.at);
}

bool Engines::satisfied(const Lane& lane) const {
  const arch::Insn& insn = lane.at.insn();
  const auto& semaphores = machine_.cores[lane.at.stream().core].semaphores;
  for (uint32_t i = 0; i < insn.waits; ++i) {
    const arch::Wait& w = program_.waits[insn.wait + i];
    const int64_t wanted = lane.at.wait_value(w), value = semaphores[w.semaphore];
    if (w.op == arch::WaitOp::ge ? value < wanted : value != wanted) return false;
  }
  return true;
}

// Waits on a semaphore that several raise are let on last: by then all that could have raised it before has.
bool Engines::pass_waits() {
  constexpr int kRanks = 3;  // clear, ambiguous, and the one to be last
  std::array<bool, kRanks> found{};
  for (Lane& lane : lanes_) {
    lane.rank = -1;
    if (lane.at.done() || idles(lane) || !waits(lane) || !satisfied(lane)) continue;
    lane.rank = races_ && races_->ambiguous(lane.stream, lane.at) ? 1 + (lane.stream == checks_.last) : 0;
    found[static_cast<size_t>(lane.rank)] = true;
  }
  const bool all = ++permits_ % kHeldMax == 0;
  bool any = false;
  for (int rank = 0; rank < kRanks && (all || !any); ++rank) {
    if (!found[static_cast<size_t>(rank)]) continue;
    for (Lane& lane : lanes_) {
      if (lane.rank != rank) continue;
      if (races_) races_->wait(lane.stream, lane.at);
      any = lane.passed = true;
    }
  }
  return any;
}

void Engines::take_faults(Lane& lane) {
  arch::Core& core = machine_.cores[lane.at.stream().core];
  for (arch::Fault& fault : core.faults) {
    Finding f;
    f.kind = fault.kind;
    f.point = point_of(lane.stream, lane.at);
    f.operand = std::move(fault.operand);
    f.found = std::move(fault.detail);
    findings_.add(std::move(f));
  }
  core.faults.clear();
}

bool Engines::raises(const Lane& lane, uint16_t semaphore) const {
  for (const arch::Insn& insn : lane.at.stream().insns)
    for (uint32_t i = 0; i < insn.updates; ++i)
      if (program_.updates[insn.update + i].semaphore == semaphore) return true;
  return false;
}

// "s0>=17, which is 16 (raised by sync, which has ended)"
std::string Engines::waiting_for(const Lane& lane) const {
  std::string out;
  const arch::Insn& insn = lane.at.insn();
  const int core = lane.at.stream().core;
  const auto& semaphores = machine_.cores[static_cast<size_t>(core)].semaphores;
  for (uint32_t i = 0; i < insn.waits; ++i) {
    const arch::Wait& w = program_.waits[insn.wait + i];
    out += cat(i ? " and " : "", wait_text(w, lane.at.wait_value(w)), ", which is ", semaphores[w.semaphore]);
    std::string raisers;
    for (const Lane& other : lanes_)
      if (other.at.stream().core == core && raises(other, w.semaphore))
        raisers += cat(raisers.empty() ? "" : ", ", stream_name(other.at.stream()),
                       other.at.done()   ? ", which has ended"
                       : &other == &lane ? ", itself"
                                         : ", which waits too");
    out += raisers.empty() ? " (nobody raises it)" : cat(" (raised by ", raisers, ")");
  }
  return out;
}

void Engines::report_deadlock() {
  for (const Lane& lane : lanes_) {
    if (lane.at.done()) continue;
    Finding f;
    f.kind = FaultKind::deadlock;
    f.point = point_of(lane.stream, lane.at);
    if (idles(lane)) {
      f.found = cat(stream_name(lane.at.stream()), " goes round for ever: nothing that it looks at changes any more");
      f.expected = "a way out of the loop";
      f.fix = "look for a branch or jump that is always taken, or for what should have changed";
    } else if (waits(lane)) {
      f.found = cat(stream_name(lane.at.stream()), " waits for ", waiting_for(lane));
      f.expected = "an instruction that can still run to bring the semaphore there";
    } else {
      f.found = cat(stream_name(lane.at.stream()), " waits to meet ", missing_from(lane));
      f.expected = "the same engine of every core to come to the same instruction";
      f.fix = "give every core the same barriers, exchanges and collectives on this engine";
    }
    findings_.add(std::move(f));
  }
}

std::string Engines::missing_from(const Lane& lane) const {
  std::string out;
  for (int core = 0; core < program_.cores; ++core) {
    const auto it = std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& other) {
      return other.at.stream().core == core && other.at.stream().engine == lane.at.stream().engine;
    });
    std::string_view state = it == lanes_.end() ? "has no such stream" : "";
    if (it != lanes_.end() && it->at.done()) state = "has ended";
    if (it != lanes_.end() && !it->at.done() && (waits(*it) || !at_rendezvous(*it))) state = "is held up";
    if (!state.empty()) out += cat(out.empty() ? "" : ", ", "core ", core, ", which ", state);
  }
  return out;
}

void Engines::report_endless() {
  for (const Lane& lane : lanes_) {
    if (lane.at.done() || waits(lane)) continue;
    Finding f;
    f.kind = FaultKind::deadlock;
    f.point = point_of(lane.stream, lane.at);
    f.found = cat("the program has not ended after ", counts_.instructions, " instructions");
    f.expected = "an end within the step limit";
    f.fix = "look for a branch or jump that is always taken, or raise the step limit";
    findings_.add(std::move(f));
  }
}

}  // namespace trine::run
