// Feeding Order and Shadow from the instructions that run; see races.h.
#include "run/drivers/exact/races.h"

#include <algorithm>

#include "base/text.h"

namespace trine::run {

Races::Races(arch::Machine& machine, Findings& findings, Known& known, bool any_row)
    : machine_(machine),
      program_(machine.program()),
      findings_(findings),
      known_(known),
      order_(program_),
      shadow_(machine, [this](const Clash& c) { report(c); }, any_row) {
  uint32_t next = 0;
  for (const arch::Stream& s : program_.streams) {
    first_site_.push_back(next);
    next += static_cast<uint32_t>(s.insns.size());
  }
}

void Races::access(int stream, const arch::Sequencer& at, const arch::Call& call) {
  const int thread = order_.thread(stream, at.pc());
  if (thread != stream) order_.trigger(stream, thread);
  stream_ = stream;
  at_ = &at;
  Access a{order_.period(thread), site(stream, at.pc()), static_cast<uint16_t>(thread), false};
  for (size_t i = 0; i < call.info.slots.size(); ++i) {
    const arch::Operand& o = program_.operands[call.insn.operand + i];
    if (o.kind != arch::OperandKind::tile) continue;
    slot_ = call.info.slots[i].name;
    if (o.dynamic && program_.dynamics[o.dynamic - 1].kind != arch::DynamicKind::reg) {
      a.write = false;
      touch(call, program_.operands[program_.dynamics[o.dynamic - 1].index], a);
    }
    a.write = call.info.slots[i].writes();
    touch(call, o, a);
  }
}

void Races::touch(const arch::Call& call, const arch::Operand& o, const Access& a) {
  tensor_ = o.tensor;
  const arch::Tile tile = call.tile_of(o);
  tile_ = &tile;
  shadow_.touch(machine_.cores[call.core], tile, a, order_.clock(a.thread));
}

void Races::update(int stream, const arch::Sequencer& at) {
  const arch::Insn& insn = at.insn();
  const int thread = order_.thread(stream, at.pc());
  for (uint32_t i = 0; i < insn.updates; ++i) {
    const arch::Update& u = program_.updates[insn.update + i];
    if (order_.update(thread, at.stream().core, u)) continue;
    Finding f;
    f.kind = arch::FaultKind::race;
    f.point = point_of(stream, at);
    f.found = cat("s", u.semaphore, " is set here while another update of it may come before or after");
    f.expected = "updates of a semaphore to be ordered with the one that sets it";
    f.fix = "set it before anybody else can update it, or add and subtract only";
    findings_.add(std::move(f));
  }
  if (thread != stream) order_.finish_transfer(thread);
}

void Races::wait(int stream, const arch::Sequencer& at) {
  const arch::Insn& insn = at.insn();
  for (uint32_t i = 0; i < insn.waits; ++i) {
    const arch::Wait& w = program_.waits[insn.wait + i];
    order_.wait(stream, at.stream().core, w, at.wait_value(w));
  }
}

bool Races::ambiguous(int stream, const arch::Sequencer& at) const {
  const arch::Insn& insn = at.insn();
  for (uint32_t i = 0; i < insn.waits; ++i) {
    const arch::Wait& w = program_.waits[insn.wait + i];
    if (order_.ambiguous(stream, at.stream().core, w, at.wait_value(w))) return true;
  }
  return false;
}

ProgramPoint Races::point_of_site(uint32_t site) const {
  const auto it = std::upper_bound(first_site_.begin(), first_site_.end(), site) - 1;
  ProgramPoint p;
  p.stream = static_cast<int>(it - first_site_.begin());
  p.index = site - *it;
  return p;
}

std::string Races::site_text(uint32_t site) const {
  const ProgramPoint p = point_of_site(site);
  const arch::Stream& s = program_.streams[static_cast<size_t>(p.stream)];
  const arch::Insn& insn = s.insns[p.index];
  std::string out = cat(stream_name(s), "'s ", arch::row_by_opcode(insn.opcode)->row->name, " #", p.index);
  if (insn.line) {
    const arch::SourceLine& line = program_.lines[insn.line - 1];
    out += cat(" (", program_.strings[line.file], ":", line.line, ")");
  }
  return out;
}

// Names the semaphore that is there already, or the clause that is missing.
std::string Races::fix(const Clash& c) const {
  const ProgramPoint a = point_of_site(c.earlier.site), b = point_of_site(c.later.site);
  const arch::Stream &first = program_.streams[static_cast<size_t>(a.stream)],
                     &second = program_.streams[static_cast<size_t>(b.stream)];
  const arch::Insn &from = first.insns[a.index], &to = second.insns[b.index];
  const bool queue = arch::row_by_opcode(from.opcode)->row->unit == arch::Unit::queue;
  if (first.core != second.core) return "put a core_barrier between them, after a wait for the first";
  if (!from.updates)
    return cat("add `then sN+=", queue ? "16" : "1", "` to ", site_text(c.earlier.site),
               " and `wait sN>=", queue ? "16" : "1", "` here");
  const arch::Update& u = program_.updates[from.update];
  for (uint32_t i = 0; i < to.waits; ++i)
    if (program_.waits[to.wait + i].semaphore == u.semaphore)
      return cat("wait for the value that s", u.semaphore, " has once ", site_text(c.earlier.site),
                 " is done; if others raise it too, give each a semaphore of its own");
  return cat("add `wait s", u.semaphore, ">=", u.value, "` here, or to what runs before it");
}

bool Races::is_about(const Finding& f, uint32_t tensor) const {
  const arch::Insn& insn = program_.streams[static_cast<size_t>(f.point.stream)].insns[f.point.index];
  const int slot = arch::row_by_opcode(insn.opcode)->slot(f.operand);
  return slot >= 0 && program_.operands[insn.operand + static_cast<size_t>(slot)].tensor == tensor;
}

// Stores of two cores to one place of HBM whose bytes can be looked at.
bool Races::may_agree(const Clash& c) const {
  const auto core = [&](const Access& a) {
    return program_.streams[static_cast<size_t>(point_of_site(a.site).stream)].core;
  };
  return c.earlier.write && c.later.write && tile_->space == arch::Space::hbm && !tile_->dynamic &&
         core(c.earlier) != core(c.later);
}

void Races::note_target() {
  const arch::Tile& t = *tile_;
  const int64_t last = (t.partitions - 1) * t.row_stride;
  const auto begin = static_cast<size_t>(std::max<int64_t>(t.offset + t.low + std::min<int64_t>(last, 0), 0));
  const arch::Memory& m = machine_.hbm_of(t.tensor);
  const size_t end = std::min(static_cast<size_t>(t.offset + t.high + std::max<int64_t>(last, 0)), m.size);
  target_ = {m.bytes + begin, {m.bytes + begin, m.bytes + std::max(begin, end)}, {}};
  target_.written.assign(target_.bytes.size(), true);
  if (m.complete || m.written.all(begin, target_.bytes.size())) return;
  for (size_t i = 0; i < target_.bytes.size(); ++i) target_.written[i] = m.written.all(begin + i, 1);
}

void Races::compare() {
  bool same = true;
  for (size_t i = 0; same && i < target_.bytes.size(); ++i)
    same = !target_.written[i] || target_.at[i] == target_.bytes[i];
  for (const Pair& pair : rivals_) {
    const auto found = agreeing_.find(pair);
    if (same || found == agreeing_.end()) continue;
    findings_.add(std::move(found->second), pair.first + uint64_t{1});
    known_.insert(pair);
    agreeing_.erase(found);
  }
  rivals_.clear();
}

void Races::finish() {
  for (auto& [pair, f] : agreeing_) {
    f.warning = true;
    f.found += ", and both write the same bytes";
    findings_.add(std::move(f), pair.first + uint64_t{1});
    known_.insert(pair);
  }
  agreeing_.clear();
}

Finding Races::finding_of(const Clash& c) const {
  Finding f;
  f.point = point_of(stream_, *at_);
  f.operand = slot_;
  describe(c, f);
  return f;
}

void Races::report(const Clash& c) {
  machine_.settled = false;
  const Pair pair = std::minmax(c.earlier.site, c.later.site);
  if (known_.contains(pair)) return;
  if (may_agree(c)) {
    if (rivals_.empty()) note_target();
    if (std::find(rivals_.begin(), rivals_.end(), pair) == rivals_.end()) rivals_.push_back(pair);
    if (!agreeing_.contains(pair)) agreeing_.emplace(pair, finding_of(c));
    return;
  }
  known_.insert(pair);
  const ProgramPoint earlier = point_of_site(c.earlier.site);
  // Read before it was written: the reader is the one that should have waited, and this is why it found nothing.
  if (Finding* unwritten = findings_.find(arch::FaultKind::uninitialized_read, earlier.stream, earlier.index);
      unwritten && is_about(*unwritten, tensor_)) {
    Clash swapped{c.later, c.earlier, c.row, c.byte};
    swapped.later.write = false;
    describe(swapped, *unwritten);
    return;
  }
  findings_.add(finding_of(c), c.earlier.site + uint64_t{1});
}

void Races::describe(const Clash& c, Finding& f) const {
  const arch::Tensor& t = program_.tensors[tensor_];
  f.kind = arch::FaultKind::race;
  f.found = cat(c.later.write ? "writes " : "reads ", t.name, " while ", site_text(c.earlier.site), " may still be ",
                c.earlier.write ? "writing" : "reading", " it, ");
  f.found += t.space == arch::Space::hbm ? cat("at byte ", c.byte)
                                         : cat("in partition ", c.row, " at byte ", c.byte - t.address);
  f.expected = "a semaphore that the one updates when it is done and the other waits for";
  f.fix = fix(c);
}

}  // namespace trine::run
