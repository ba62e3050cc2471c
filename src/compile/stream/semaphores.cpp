// Clocks, waits and streams; see semaphores.h.
#include "compile/stream/semaphores.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"

namespace trine::compile {

using arch::Engine;

namespace {

constexpr int kSyncUnit = static_cast<int>(Engine::sync);
constexpr uint16_t kOpWait = 0x0a, kOpIncrement = 0x0c;  // semaphore_wait, semaphore_increment
constexpr int64_t kQueueStep = 16;                       // a transfer's semaphore counts its 16 DMA engines

using Clock = std::vector<uint32_t>;  // of each unit: how many of its instructions are over

// One instruction of a stream, made from a step or for the sake of order.
struct Line {
  int64_t step = -1;    // of Weaver::steps_, or -1
  uint16_t opcode = 0;  // without a step: loop, end_loop, or a semaphore instruction
  uint8_t stream = 0;
  int16_t unit = -1;             // which completes it; -1: nobody can wait for it
  uint32_t index = 0;            // among its unit's
  uint32_t clock = 0;            // in Weaver::clocks_: what is over once it is
  uint32_t wait = 0, waits = 0;  // in Weaver::waits_
  bool signals = false;
  int loop = -1;         // of Weaver::loops_: the one this line begins or ends
  uint8_t releases = 0;  // streams that this line of Sync's lets go on after a loop they have no part in
  bool held = false;     // such a stream's line, which waits for that
};

struct Need {
  int unit = 0;
  uint32_t index = 0;  // this one must be over
};

struct Loop {
  uint32_t insn = 0;
  uint8_t streams = 0;                         // that have something in it
  std::vector<uint32_t> first;                 // of each unit: instructions before the loop
  std::vector<int64_t> counts;                 // semaphores at its beginning
  std::array<int64_t, kEngines> top{};         // of each stream: where a loop that repeats tests its register
  std::vector<std::pair<int, int64_t>> taken;  // what Sync takes back after an iteration
};

class SemaphoreInserter {
 public:
  SemaphoreInserter(Kernel& kernel, const Edges& edges, const std::vector<Step>& steps, int core)
      : kernel_(kernel), edges_(edges), steps_(steps), core_(core) {
    line_of_.assign(kernel.insns.size(), -1);
    find_units();
    clocks_.emplace_back(units_);
    for (auto& k : known_) k = 0;
    owed_.fill(-1);
    members_.resize(units_);
  }

  Result<void> run() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      const KernelInsn& w = kernel_.insns[steps_[s].insn];
      if (begins_loop(w))
        begin_loop(static_cast<int64_t>(s));
      else if (ends_loop(w))
        end_loop();
      else
        add_step(static_cast<int64_t>(s));
    }
    number_signals();
    if (units_ + kEngines > static_cast<size_t>(kernel_.chip->semaphore.count))
      return fail(Code::out_of_range, cat("the kernel's queues and engines need ", units_ + kEngines,
                                          " semaphores, there are ", kernel_.chip->semaphore.count));
    write();
    return {};
  }

 private:
  void find_units();
  int unit_of(const Step& s) const;
  void begin_loop(int64_t step);
  void end_loop();
  void add_step(int64_t step);
  Line& add_line(int stream, int unit);
  void wait_for_loop(int stream);
  Line& add_semaphore_line(int stream, int unit) {
    Line& line = add_line(stream, unit);
    line.opcode = kOpWait;
    return line;
  }
  void require(std::vector<Need>& needs, const Line& earlier) const { needs.push_back({earlier.unit, earlier.index}); }
  void everything(std::vector<Need>& needs) const;
  void await(Line& line, std::vector<Need>& needs);
  uint8_t streams_inside(size_t step) const;
  uint32_t gather();
  void number_signals();
  void write();
  void write_line(const Line& line, std::vector<arch::Insn>& out);
  void write_loop(const Line& line, std::vector<arch::Insn>& out);

  Clock& known(int stream) { return clocks_[known_[static_cast<size_t>(stream)]]; }
  Clock& change_known(int stream) {
    auto& id = known_[static_cast<size_t>(stream)];
    clocks_.push_back(clocks_[id]);
    id = static_cast<uint32_t>(clocks_.size() - 1);
    return clocks_.back();
  }

  Kernel& kernel_;
  const Edges& edges_;
  const std::vector<Step>& steps_;
  const int core_;
  size_t units_ = kEngines;
  std::map<std::pair<Engine, int>, int> queues_;
  std::vector<Line> lines_;
  std::vector<int64_t> line_of_;                // of each instruction
  std::vector<std::vector<uint32_t>> members_;  // of each unit: its lines
  std::vector<Clock> clocks_;
  std::array<uint32_t, kEngines> known_{};           // of each stream, in clocks_
  std::array<std::vector<Need>, kEngines> pending_;  // of each stream: what its next line must wait for
  std::array<int64_t, kEngines> owed_;               // of each stream: Sync's line after a loop it has no part in
  std::vector<Need> waits_;
  std::vector<Loop> loops_;
  std::vector<int> open_;
  std::vector<std::vector<int64_t>> count_;  // of each unit: its semaphore after each member
};

void SemaphoreInserter::find_units() {
  for (const Step& s : steps_)
    if (kernel_.insns[s.insn].unit() == arch::Unit::queue)
      if (queues_.try_emplace({s.engine, s.queue}, static_cast<int>(units_)).second) ++units_;
}

int SemaphoreInserter::unit_of(const Step& s) const {
  if (kernel_.insns[s.insn].unit() != arch::Unit::queue) return static_cast<int>(s.engine);
  return queues_.find({s.engine, s.queue})->second;
}

// What the loops before a line take back again must not let it on too soon, so it waits for a sign of its own.
void SemaphoreInserter::wait_for_loop(int stream) {
  const int64_t from = owed_[static_cast<size_t>(stream)];
  if (from < 0) return;
  owed_[static_cast<size_t>(stream)] = -1;
  Line& over = lines_[static_cast<size_t>(from)];
  over.releases |= static_cast<uint8_t>(1 << stream);
  const Clock learned = clocks_[over.clock];
  const uint32_t index = over.index;
  Clock& clock = change_known(stream);
  for (size_t u = 0; u < units_; ++u) clock[u] = std::max(clock[u], learned[u]);
  clock[kSyncUnit] = std::max(clock[kSyncUnit], index + 1);
  Line& line = lines_.emplace_back();
  line.stream = static_cast<uint8_t>(stream);
  line.opcode = kOpWait;
  line.held = true;
  line.clock = known_[static_cast<size_t>(stream)];
}

Line& SemaphoreInserter::add_line(int stream, int unit) {
  wait_for_loop(stream);
  Line& line = lines_.emplace_back();
  line.stream = static_cast<uint8_t>(stream);
  line.unit = static_cast<int16_t>(unit);
  if (unit >= 0) {
    line.index = static_cast<uint32_t>(members_[static_cast<size_t>(unit)].size());
    members_[static_cast<size_t>(unit)].push_back(static_cast<uint32_t>(lines_.size() - 1));
  }
  return line;
}

void SemaphoreInserter::everything(std::vector<Need>& needs) const {
  for (size_t u = 0; u < units_; ++u)
    if (!members_[u].empty()) needs.push_back({static_cast<int>(u), static_cast<uint32_t>(members_[u].size() - 1)});
}

// Keeps of `needs` what the stream does not know and no other need implies; learns all of it.
void SemaphoreInserter::await(Line& line, std::vector<Need>& needs) {
  const int stream = line.stream;
  for (const Need& n : pending_[line.stream]) needs.push_back(n);
  pending_[line.stream].clear();
  std::sort(needs.begin(), needs.end(),
            [](const Need& a, const Need& b) { return a.unit != b.unit ? a.unit < b.unit : a.index > b.index; });
  size_t left = 0;
  for (const Need& n : needs) {
    if (n.unit == line.unit || (left && needs[left - 1].unit == n.unit)) continue;
    if (known(stream)[static_cast<size_t>(n.unit)] > n.index) continue;
    needs[left++] = n;
  }
  needs.resize(left);
  const auto clock_of = [&](const Need& n) -> const Clock& {
    return clocks_[lines_[members_[static_cast<size_t>(n.unit)][n.index]].clock];
  };
  const auto implied = [&](const Need& n) {
    return std::any_of(needs.begin(), needs.end(), [&](const Need& by) {
      return by.unit != n.unit && clock_of(by)[static_cast<size_t>(n.unit)] > n.index;
    });
  };
  line.wait = static_cast<uint32_t>(waits_.size());
  for (const Need& n : needs) {
    if (implied(n)) continue;
    waits_.push_back(n);
    lines_[members_[static_cast<size_t>(n.unit)][n.index]].signals = true;
  }
  line.waits = static_cast<uint32_t>(waits_.size()) - line.wait;
  if (!needs.empty()) {
    Clock& clock = change_known(stream);
    for (const Need& n : needs) {
      const Clock& over = clock_of(n);
      for (size_t u = 0; u < units_; ++u) clock[u] = std::max(clock[u], over[u]);
      clock[static_cast<size_t>(n.unit)] = std::max(clock[static_cast<size_t>(n.unit)], n.index + 1);
    }
  }
  line.clock = known_[line.stream];
}

void SemaphoreInserter::add_step(int64_t step) {
  const Step& s = steps_[static_cast<size_t>(step)];
  const KernelInsn& w = kernel_.insns[s.insn];
  std::vector<Need> needs;
  const bool fence = is_fence(w);
  if (fence) everything(needs);
  for (const Edge& e : edges_.before(s.insn))
    if (line_of_[e.insn] >= 0) require(needs, lines_[static_cast<size_t>(line_of_[e.insn])]);
  const int stream = static_cast<int>(s.engine);
  // The sequencer carries out register arithmetic itself, without waits and updates; they stand before it.
  const bool silent = w.unit() == arch::Unit::control && w.opcode() < arch::kOpRegisterLoad;
  if (silent) await(add_semaphore_line(stream, stream), needs);
  if (silent) needs.clear();
  Line& line = add_line(stream, silent ? -1 : unit_of(s));
  line.step = step;
  await(line, needs);
  if (silent) return;
  line_of_[s.insn] = static_cast<int64_t>(lines_.size() - 1);
  if (fence)
    for (int e = 0; e < kEngines; ++e)
      if (e != stream) pending_[static_cast<size_t>(e)].push_back({line.unit, line.index});
}

// A line of Sync's at which everything is over.
uint32_t SemaphoreInserter::gather() {
  std::vector<Need> needs;
  everything(needs);
  await(add_semaphore_line(kSyncUnit, kSyncUnit), needs);
  return static_cast<uint32_t>(lines_.size() - 1);
}

uint8_t SemaphoreInserter::streams_inside(size_t step) const {
  uint8_t out = 1 << kSyncUnit;
  int depth = 0;
  for (; step < steps_.size(); ++step) {
    const KernelInsn& w = kernel_.insns[steps_[step].insn];
    if (begins_loop(w))
      ++depth;
    else if (ends_loop(w) && --depth == 0)
      return out;
    else if (!ends_loop(w))
      out |= static_cast<uint8_t>(1 << static_cast<int>(steps_[step].engine));
  }
  return out;
}

void SemaphoreInserter::begin_loop(int64_t step) {
  Loop loop;
  loop.insn = steps_[static_cast<size_t>(step)].insn;
  loop.streams = streams_inside(static_cast<size_t>(step));
  const uint32_t over = gather();
  const Need released{kSyncUnit, lines_[over].index};
  loops_.push_back(loop);
  open_.push_back(static_cast<int>(loops_.size() - 1));
  for (int e = 0; e < kEngines; ++e) {
    if (e == kSyncUnit) continue;
    pending_[static_cast<size_t>(e)].push_back(released);
    if (!(loop.streams & (1 << e))) continue;
    std::vector<Need> needs;
    await(add_semaphore_line(e, e), needs);
  }
  for (size_t u = 0; u < units_; ++u) loops_.back().first.push_back(static_cast<uint32_t>(members_[u].size()));
  for (int e = 0; e < kEngines; ++e) {
    if (!(loop.streams & (1 << e))) continue;
    Line& line = add_line(e, -1);
    line.opcode = arch::kOpLoop;
    line.loop = open_.back();
    line.clock = known_[static_cast<size_t>(e)];
  }
}

void SemaphoreInserter::end_loop() {
  const int number = open_.back();
  open_.pop_back();
  const Loop& loop = loops_[static_cast<size_t>(number)];
  std::vector<Need> needs;
  for (size_t u = 0; u < units_; ++u)
    if (members_[u].size() > loop.first[u] && static_cast<int>(u) != kSyncUnit) {
      const Need n{static_cast<int>(u), static_cast<uint32_t>(members_[u].size() - 1)};
      if (known(kSyncUnit)[u] <= n.index) needs.push_back(n);  // else it was in an inner loop
    }
  // Every last instruction is asked for by itself: Sync takes the counts back, so each must have been reached.
  Line& over = add_semaphore_line(kSyncUnit, -1);
  over.loop = number;
  over.wait = static_cast<uint32_t>(waits_.size());
  over.waits = static_cast<uint32_t>(needs.size());
  for (const Need& n : needs) {
    waits_.push_back(n);
    lines_[members_[static_cast<size_t>(n.unit)][n.index]].signals = true;
  }
  for (int e = 0; e < kEngines; ++e) {
    if (!(loop.streams & (1 << e))) continue;
    Clock& clock = change_known(e);
    for (size_t u = 0; u < units_; ++u) clock[u] = static_cast<uint32_t>(members_[u].size());
    if (e != kSyncUnit) {
      Line& released = add_semaphore_line(e, -1);
      released.loop = number;
      released.clock = known_[static_cast<size_t>(e)];
    }
    Line& end = add_line(e, -1);
    end.opcode = arch::kOpEndLoop;
    end.loop = number;
    end.clock = known_[static_cast<size_t>(e)];
  }
  std::vector<Need> none;
  // For streams that were not in the loop; and for the loop around it, which this one may have left without an
  // iteration.
  for (int e = 0; e < kEngines; ++e)
    if (e == kSyncUnit || (!open_.empty() && (loop.streams & (1 << e)))) await(add_semaphore_line(e, e), none);
  const int64_t last = members_[kSyncUnit].back();
  for (int e = 0; e < kEngines; ++e) owed_[static_cast<size_t>(e)] = loop.streams & (1 << e) ? -1 : last;
}

// Counts of each semaphore along the program; a loop's are taken back at its end.
void SemaphoreInserter::number_signals() {
  count_.resize(units_);
  for (size_t u = 0; u < units_; ++u) count_[u].resize(members_[u].size());
  std::vector<int64_t> at(units_);
  std::vector<char> ended(loops_.size());
  for (Line& line : lines_) {
    if (line.unit >= 0) {
      const auto u = static_cast<size_t>(line.unit);
      if (line.signals) at[u] += line.unit < kEngines ? 1 : kQueueStep;
      count_[u][line.index] = at[u];
    }
    if (line.loop < 0) continue;
    Loop& loop = loops_[static_cast<size_t>(line.loop)];
    if (line.opcode == arch::kOpLoop) {
      loop.counts = at;
    } else if (line.opcode == kOpWait && !ended[static_cast<size_t>(line.loop)]++) {
      for (size_t u = 0; u < units_; ++u)
        if (at[u] != loop.counts[u]) loop.taken.emplace_back(static_cast<int>(u), at[u] - loop.counts[u]);
      at = loop.counts;
    }
  }
}

void SemaphoreInserter::write() {
  arch::Program& p = kernel_.program();
  std::array<std::vector<arch::Insn>, kEngines> streams;
  for (const Line& line : lines_) write_line(line, streams[line.stream]);
  for (int e = 0; e < kEngines; ++e)
    if (!streams[static_cast<size_t>(e)].empty())
      p.streams.push_back(
          {static_cast<uint8_t>(core_), static_cast<Engine>(e), std::move(streams[static_cast<size_t>(e)])});
}

void SemaphoreInserter::write_line(const Line& line, std::vector<arch::Insn>& out) {
  arch::Program& p = kernel_.program();
  arch::Insn insn;
  insn.opcode = line.opcode;
  insn.wait = static_cast<uint32_t>(p.waits.size());
  insn.update = static_cast<uint32_t>(p.updates.size());
  for (uint32_t i = 0; i < line.waits; ++i) {
    const Need& n = waits_[line.wait + i];
    arch::Wait wait;
    wait.semaphore = static_cast<uint16_t>(n.unit);
    wait.value = count_[static_cast<size_t>(n.unit)][n.index];
    p.waits.push_back(wait);
  }
  const auto release = [&](int stream) { return static_cast<uint16_t>(units_ + static_cast<size_t>(stream)); };
  if (line.signals)
    p.updates.push_back({static_cast<uint16_t>(line.unit), arch::UpdateOp::add, line.unit < kEngines ? 1 : kQueueStep});
  if (line.loop >= 0 && line.opcode == kOpWait) {
    const Loop& loop = loops_[static_cast<size_t>(line.loop)];
    if (line.stream == kSyncUnit) {
      for (const auto& [unit, count] : loop.taken)
        p.updates.push_back({static_cast<uint16_t>(unit), arch::UpdateOp::subtract, count});
      for (int e = 0; e < kEngines; ++e)
        if (e != kSyncUnit && (loop.streams & (1 << e))) p.updates.push_back({release(e), arch::UpdateOp::add, 1});
    } else {
      p.waits.push_back({release(line.stream), arch::WaitOp::ge, 0, 1});
      p.updates.push_back({release(line.stream), arch::UpdateOp::subtract, 1});
    }
  }
  for (int e = 0; e < kEngines; ++e)
    if (line.releases & (1 << e)) p.updates.push_back({release(e), arch::UpdateOp::add, 1});
  if (line.held) {
    p.waits.push_back({release(line.stream), arch::WaitOp::ge, 0, 1});
    p.updates.push_back({release(line.stream), arch::UpdateOp::subtract, 1});
  }
  insn.waits = static_cast<uint8_t>(p.waits.size() - insn.wait);
  insn.updates = static_cast<uint8_t>(p.updates.size() - insn.update);
  if (line.step >= 0) {
    const Step& s = steps_[static_cast<size_t>(line.step)];
    const KernelInsn& w = kernel_.insns[s.insn];
    insn.opcode = w.opcode();
    insn.operand = w.operand;
    insn.attr = w.unit() == arch::Unit::queue ? kernel_.attrs_with(w, "queue", s.queue) : w.attr;
    insn.line = w.line;
  } else if (line.loop >= 0 && line.opcode != kOpWait) {
    return write_loop(line, out);
  } else if (line.opcode == kOpWait) {
    if (!insn.waits && !insn.updates) return;
    if (!insn.waits) insn.opcode = kOpIncrement;
  }
  out.push_back(insn);
}

// A loop that goes on while a register is not zero is one iteration of a loop with a branch and a jump inside.
void SemaphoreInserter::write_loop(const Line& line, std::vector<arch::Insn>& out) {
  arch::Program& p = kernel_.program();
  Loop& loop = loops_[static_cast<size_t>(line.loop)];
  const KernelInsn& kernel_insn = kernel_.insns[loop.insn];
  const auto here = [&] { return static_cast<int64_t>(out.size()); };
  arch::Insn insn;
  insn.opcode = line.opcode;
  insn.operand = kernel_insn.operand;
  if (!kernel_insn.repeats) return out.push_back(insn);
  int64_t& top = loop.top[line.stream];
  if (line.opcode == arch::kOpLoop) {
    insn.operand = static_cast<uint32_t>(p.operands.size());
    p.operands.push_back(arch::immediate_operand(1));
    out.push_back(insn);
    top = here();
    arch::Insn leave;
    leave.opcode = arch::kOpBranch;
    leave.operand = static_cast<uint32_t>(p.operands.size());
    const arch::Operand condition = p.operands[kernel_insn.operand];
    p.operands.push_back(condition);
    p.operands.push_back(arch::immediate_operand(0));
    return out.push_back(leave);
  }
  arch::Insn again;
  again.opcode = arch::kOpJump;
  again.attr = kernel_.attr_block({top});
  out.push_back(again);
  out[static_cast<size_t>(top)].attr = kernel_.attr_block({static_cast<int64_t>(arch::Compare::eq), here()});
  out.push_back(insn);
}

}  // namespace

Result<void> insert_semaphores(Kernel& kernel, const Edges& edges, const std::vector<std::vector<Step>>& steps) {
  for (size_t core = 0; core < steps.size(); ++core)
    TRY(SemaphoreInserter(kernel, edges, steps[core], static_cast<int>(core)).run());
  return {};
}

}  // namespace trine::compile
