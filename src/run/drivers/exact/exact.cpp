// Sets the machine up, lets the engines run, collects outputs and findings; see exact.h.
#include "run/drivers/exact/exact.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>

#include "arch/program/verify.h"
#include "arch/row.h"
#include "base/text.h"
#include "run/drivers/exact/engines.h"

namespace trine::run {

using arch::Memory;
using arch::Program;
using arch::Space;
using arch::Tensor;
using arch::TensorKind;

namespace {

arch::CoreShape shape_of(const arch::Chip& chip) {
  return {.partitions = static_cast<int>(chip.partitions), .semaphores = static_cast<int>(chip.semaphore.count)};
}

Result<void> check_inputs(const Program& program, const Inputs& inputs) {
  std::vector<std::string> names;
  for (const Tensor& t : program.tensors) {
    if (t.kind != TensorKind::input) continue;
    names.push_back(t.name);
    const auto it = inputs.find(t.name);
    if (it == inputs.end()) return fail(Code::invalid, cat("input ", t.name, " is missing"), program.name);
    if (static_cast<int64_t>(it->second.size()) != tensor_bytes(t))
      return fail(Code::invalid,
                  cat("input ", t.name, " has ", it->second.size(), " bytes; expected ", tensor_bytes(t)),
                  program.name);
  }
  for (const auto& [name, bytes] : inputs) {
    bool known = false;
    for (const std::string& n : names) known |= n == name;
    if (!known)
      return fail(Code::invalid, cat("no input is called ", name, "; the program's inputs are ", join(names, ", ")),
                  program.name);
  }
  return {};
}

// On-chip constants and inputs are there when the program starts, partition by partition.
void write_on_chip(arch::Machine& machine, const Tensor& t, const std::byte* from) {
  arch::Core& core = machine.cores[t.core];
  Memory& m = t.space == Space::sbuf ? core.sbuf : core.psum;
  const size_t row = static_cast<size_t>(bytes_per_partition(t));
  const int partitions = t.shape.empty() ? 1 : static_cast<int>(t.shape[0]);
  for (int p = 0; p < partitions; ++p, from += row)
    std::memcpy(m.bytes + static_cast<size_t>(t.partition + p) * m.pitch + static_cast<size_t>(t.address), from, row);
  m.written_in.set(t.partition, partitions, static_cast<size_t>(t.address), row);
}

void write_tensors(arch::Machine& machine, const std::vector<bool>& written, const Inputs& inputs) {
  const Program& program = machine.program();
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    std::span<const std::byte> from;
    if (t.kind == TensorKind::input) from = inputs.find(t.name)->second;
    if (t.kind == TensorKind::constant)
      from = std::span(program.data.data(), program.data.size()).subspan(t.data_offset, t.data_bytes);
    if (from.empty()) continue;
    if (t.space != Space::hbm) {
      write_on_chip(machine, t, from.data());
    } else if (written[i]) {
      std::memcpy(machine.hbm[i].bytes, from.data(), from.size());
      machine.hbm[i].complete = true;
    } else {
      machine.hbm[i] = Memory::borrow(from.data(), from.size());
    }
  }
}

std::vector<std::byte> read_back(arch::Machine& machine, uint32_t index, bool& complete) {
  const Tensor& t = machine.program().tensors[index];
  if (!tensor_bytes(t)) return {};
  if (t.space == Space::hbm) {
    const Memory& m = machine.hbm_of(index);
    complete = m.complete || m.written.all(0, m.size);
    return {m.bytes, m.bytes + tensor_bytes(t)};
  }
  std::vector<std::byte> out(static_cast<size_t>(tensor_bytes(t)));
  const arch::Core& core = machine.cores[t.core];
  const Memory& m = t.space == Space::sbuf ? core.sbuf : core.psum;
  const size_t row = static_cast<size_t>(bytes_per_partition(t));
  for (size_t p = 0; p * row < out.size(); ++p)
    std::memcpy(out.data() + p * row,
                m.bytes + (static_cast<size_t>(t.partition) + p) * m.pitch + static_cast<size_t>(t.address), row);
  complete = m.written_in.all(t.partition, static_cast<int>(out.size() / row), static_cast<size_t>(t.address), row);
  return out;
}

// The first instruction that touches a tensor which reaches past the end of its memory.
ProgramPoint first_use_past_end(const Program& program, const arch::Chip& chip) {
  const auto past = [&](const Tensor& t) {
    if (t.space == Space::hbm) return t.address + tensor_bytes(t) > chip.hbm.bytes;
    return t.address + bytes_per_partition(t) >
           (t.space == Space::sbuf ? chip.sbuf.bytes_per_partition : chip.psum.banks * chip.psum.bank_bytes);
  };
  ProgramPoint p;
  for (size_t s = 0; s < program.streams.size(); ++s)
    for (uint32_t pc = 0; pc < program.streams[s].insns.size(); ++pc) {
      const arch::Insn& insn = program.streams[s].insns[pc];
      for (size_t i = 0; i < arch::row_by_opcode(insn.opcode)->slots.size(); ++i) {
        const arch::Operand& o = program.operands[insn.operand + i];
        if (o.kind != arch::OperandKind::tile || !past(program.tensors[o.tensor])) continue;
        p.stream = static_cast<int>(s);
        p.index = pc;
        return p;
      }
    }
  return p;
}

// A pattern may visit an element again (stride 0), but a result that does so without end is a mistake, and its work
// has no bound. Reads are bounded by what they are written to.
constexpr int64_t kRewrittenMax = 1 << 20;  // elements

Result<void> check_results(const Program& program) {
  for (size_t s = 0; s < program.streams.size(); ++s)
    for (uint32_t pc = 0; pc < program.streams[s].insns.size(); ++pc) {
      const arch::Insn& insn = program.streams[s].insns[pc];
      const arch::RowInfo& info = *arch::row_by_opcode(insn.opcode);
      for (size_t i = 0; i < info.slots.size(); ++i) {
        const arch::Operand& o = program.operands[insn.operand + i];
        if (o.kind != arch::OperandKind::tile || !info.slots[i].writes()) continue;
        const arch::Pattern& pattern = program.patterns[o.pattern];
        const int64_t held = tensor_bytes(program.tensors[o.tensor]) * 8 / bits(pattern.dtype);
        if (pattern.elements() > std::max(held, kRewrittenMax))
          return fail(Code::invalid,
                      cat(info.row->name, ": operand ", info.slots[i].name, " writes ", pattern.elements(),
                          " elements into a tensor of ", held, "; give its pattern no stride of 0"),
                      arch::where_of(program, static_cast<int>(s), pc));
      }
    }
  return {};
}

// What does not fit is a finding about the program; everything else that the verifier says keeps it from running.
Result<void> check_program(const Program& program, const arch::Chip& chip, Findings& findings) {
  for (const arch::Finding& problem : arch::verify(program, chip)) {
    if (problem.error.code != Code::out_of_memory) return problem.error;
    Finding f;
    f.kind = arch::FaultKind::over_capacity;
    f.point = first_use_past_end(program, chip);
    f.found = problem.error.message;
    findings.add(std::move(f), findings.list().size());
  }
  return check_results(program);
}

void collect_outputs(arch::Machine& machine, Findings& findings, RunResult& result) {
  const Program& program = machine.program();
  for (uint32_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    if (t.kind != TensorKind::output) continue;
    bool complete = true;
    result.outputs.push_back({t.name, t.dtype, t.shape, read_back(machine, i, complete)});
    if (!machine.cores[0].tracked) continue;
    if (complete || !result.finished) continue;
    Finding f;
    f.kind = arch::FaultKind::uninitialized_read;
    f.operand = t.name;
    f.found = "part of this output was never written";
    f.expected = "every element of an output to be written by the program's end";
    f.fix = "store the missing rows, or make the output smaller";
    findings.add(std::move(f), i);
  }
}

// Machines that have run a program, for its next run: fresh memory costs more than a small program. Few, since each
// holds an SBUF.
class MachineCache {
 public:
  std::unique_ptr<arch::Machine> take(const ExactProgram* owner) {
    const std::lock_guard held(mutex_);
    for (auto& [who, machine] : machines_)
      if (who == owner && machine) return std::move(machine);
    return nullptr;
  }
  void put(const ExactProgram* owner, std::unique_ptr<arch::Machine> machine) {
    const std::lock_guard held(mutex_);
    machines_.emplace_back(owner, std::move(machine));
    std::erase_if(machines_, [](const auto& k) { return !k.second; });
    if (machines_.size() > kMost) machines_.erase(machines_.begin());
  }
  void drop(const ExactProgram* owner) {
    const std::lock_guard held(mutex_);
    std::erase_if(machines_, [&](const auto& k) { return k.first == owner; });
  }
  static MachineCache& process() {
    static MachineCache* const all =
        new MachineCache;  // stays to the end: programs may be dropped after other statics are
    return *all;
  }

 private:
  static constexpr size_t kMost = 4;
  std::mutex mutex_;
  std::vector<std::pair<const ExactProgram*, std::unique_ptr<arch::Machine>>> machines_;
};

Result<std::unique_ptr<arch::Machine>> machine_for(const DecodedProgram& p) {
  auto machine = std::make_unique<arch::Machine>(p.program, shape_of(p.chip));
  if (const std::string name = machine->refused(); !name.empty())
    return fail(Code::out_of_memory, cat("the host has no memory for ", name), p.program.name);
  return machine;
}

// What a value alone decides, on any run.
bool by_value(const Finding& f) {
  return f.kind == arch::FaultKind::nan || f.kind == arch::FaultKind::out_of_range_input;
}

bool reads_unwritten(const Finding& f) { return f.kind == arch::FaultKind::uninitialized_read && f.point.stream >= 0; }

// Every byte of the machine's own memory; false where that is more than a second look is worth.
bool fill_memory(arch::Machine& machine, std::byte with) {
  constexpr size_t kMost = size_t{1} << 30;
  size_t total = 0;
  for (const Memory& m : machine.hbm) total += m.owned.size();
  if (total > kMost) return false;
  for (Memory& m : machine.hbm) std::fill_n(m.owned.data(), m.owned.size(), with);
  for (arch::Core& core : machine.cores)
    for (Memory* m : {&core.sbuf, &core.psum}) std::fill_n(m->bytes, m->size, with);
  return true;
}

// What nobody wrote of an output says nothing about what the program computed.
void clear_unwritten(Memory& m) {
  constexpr size_t kBlock = 64;
  if (m.complete || !m.owned.data()) return;
  for (size_t b = 0; b < m.size; b += kBlock) {
    const size_t end = std::min(b + kBlock, m.size);
    if (m.written.all(b, end - b)) continue;
    for (size_t i = b; i < end; ++i)
      if (!m.written.all(i, 1)) m.bytes[i] = std::byte{0};
  }
}

bool same_point(const Finding& a, const Finding& b) {
  return a.kind == b.kind && a.point.stream == b.point.stream && a.point.index == b.point.index;
}

// The output that differs, or null.
const Output* first_difference(const RunResult& a, const RunResult& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (a.outputs[i].bytes != b.outputs[i].bytes) return &a.outputs[i];
  return nullptr;
}

}  // namespace

ExactProgram::ExactProgram(const Program& program, const arch::Chip& chip)
    : decoded_(std::make_unique<const DecodedProgram>(program, chip)) {}
const arch::Chip& ExactProgram::chip() const { return decoded_->chip; }
ExactProgram::~ExactProgram() { MachineCache::process().drop(this); }

Result<std::shared_ptr<const ExactProgram>> ExactProgram::make(const Program& program, const arch::Chip& chip) {
  Findings findings(program, std::numeric_limits<int>::max());
  TRY(check_program(program, chip, findings));
  std::shared_ptr<ExactProgram> out(new ExactProgram(program, chip));
  out->unfit_ = findings.take();
  if (out->decoded_->wanders) out->state_ = State::never;
  return std::shared_ptr<const ExactProgram>(std::move(out));
}

// Every finding; `settled`: other data could not have given others. Where addresses depend on data, a strict run takes
// every row for touched that any data could name; it ends where that cannot be settled, and its result is of no use.
Result<RunResult> ExactProgram::run_tracked(const Inputs& inputs, const ExactOptions& options, bool strict,
                                            bool& settled) const {
  const DecodedProgram& p = *decoded_;
  Findings findings(p.program, options.findings_max);
  Races::Known known;
  RunResult result;
  std::set<int> lasts = {-1};  // then the streams whose waits were met too early to be sure of what they tell
  std::unique_ptr<arch::Machine> first;
  settled = options.check_races;
  while (!lasts.empty()) {  // findings come once, so later runs add only the races that the first could not see
    const int last = lasts.extract(lasts.begin()).value();
    auto machine = TRY(machine_for(p));
    write_tensors(*machine, p.written, inputs);
    Engines engines(*machine, p, options, findings, known, {options.check_races, strict && p.moves, last});
    RunResult again;
    RunResult& here = last < 0 ? result : again;
    engines.run(here);
    collect_outputs(*machine, findings, here);
    settled = settled && machine->settled && here.finished;
    if (options.keeps_state && last < 0 && (!here.finished || !findings.list().empty()))
      here.stopped = std::make_shared<const StopState>(engines.state());
    if (last >= 0) continue;
    lasts = engines.hasty();
    first = std::move(machine);
  }
  result.findings_dropped = findings.dropped();
  result.findings = findings.take();
  settled =
      settled && !result.findings_dropped && std::all_of(result.findings.begin(), result.findings.end(), by_value);
  if (settled && strict) MachineCache::process().put(this, std::move(first));
  return result;
}

// False where it met what only a watched run tells in full.
Result<bool> ExactProgram::run_settled(const Inputs& inputs, const ExactOptions& options, RunResult& result) const {
  const DecodedProgram& p = *decoded_;
  auto machine = MachineCache::process().take(this);
  const bool fresh = !machine;
  if (fresh) machine = TRY(machine_for(p));
  machine->restart();
  // A machine's written bits say what has to be cleared before another program may have it, so its first run is
  // watched.
  for (arch::Core& core : machine->cores) core.tracked = fresh;
  write_tensors(*machine, p.written, inputs);
  Findings findings(p.program, options.findings_max);
  Races::Known known;
  Engines engines(*machine, p, options, findings, known, {.races = false});
  engines.run(result);
  collect_outputs(*machine, findings, result);
  result.findings_dropped = findings.dropped();
  result.findings = findings.take();
  if (result.findings_dropped || !std::all_of(result.findings.begin(), result.findings.end(), by_value)) return false;
  MachineCache::process().put(this, std::move(machine));
  return true;
}

// With flipped bits: what it would have been worth to know of other runs does not hold, and nothing is kept.
Result<RunResult> ExactProgram::run_faulted(const Inputs& inputs, const ExactOptions& options) const {
  const DecodedProgram& p = *decoded_;
  auto machine = TRY(machine_for(p));
  std::vector<bool> written = p.written;
  for (const Flip& f : options.flips)
    if (f.tensor >= 0) written[machine->storage(static_cast<uint32_t>(f.tensor))] = true;  // a copy of the caller's
  write_tensors(*machine, written, inputs);
  Findings findings(p.program, options.findings_max);
  Races::Known known;
  RunResult result;
  Engines engines(*machine, p, options, findings, known, {.races = false});
  engines.run(result);
  collect_outputs(*machine, findings, result);
  result.findings_dropped = findings.dropped();
  result.findings = findings.take();
  if (options.keeps_state && (!result.finished || !result.findings.empty()))
    result.stopped = std::make_shared<const StopState>(engines.state());
  return result;
}

// A run on memory that holds `fill` where nobody has written. Unfinished where there is too much of it.
Result<RunResult> ExactProgram::run_filled(const Inputs& inputs, const ExactOptions& options, std::byte fill) const {
  const DecodedProgram& p = *decoded_;
  auto machine = TRY(machine_for(p));
  RunResult result;
  if (fill_memory(*machine, fill)) {
    write_tensors(*machine, p.written, inputs);
    Findings findings(p.program, options.findings_max);
    Races::Known known;
    Engines engines(*machine, p, options, findings, known, {.races = false});
    engines.run(result);
    for (Memory& m : machine->hbm) clear_unwritten(m);
    collect_outputs(*machine, findings, result);
    result.findings = findings.take();
  }
  for (arch::Core& core : machine->cores)  // the next machine's are zero where nobody wrote
    for (Memory* m : {&core.sbuf, &core.psum}) std::fill_n(m->bytes, m->size, std::byte{0});
  return result;
}

Result<void> ExactProgram::weigh(const Inputs& inputs, const ExactOptions& options, RunResult& result) const {
  // Not a number; then large values of either sign, which survive where a comparison drops the first.
  constexpr std::byte kFills[] = {std::byte{0xff}, std::byte{0x5a}, std::byte{0xda}};
  auto& found = result.findings;
  if (!result.finished || std::none_of(found.begin(), found.end(), reads_unwritten)) return {};
  std::string reached;
  std::vector<bool> everywhere(found.size(), true);
  for (const std::byte fill : kFills) {
    const RunResult other = TRY(run_filled(inputs, options, fill));
    const Output* const differs = other.finished ? first_difference(result, other) : nullptr;
    if (differs) reached = cat("; what was there reaches ", differs->name);
    const auto stray = [&](const Finding& f) {
      return !by_value(f) && f.kind != arch::FaultKind::uninitialized_read &&
             std::none_of(found.begin(), found.end(), [&](const Finding& g) { return same_point(f, g); });
    };
    if (reached.empty() && (!other.finished || std::any_of(other.findings.begin(), other.findings.end(), stray)))
      reached = "; what was there decides where the program goes";
    if (!reached.empty()) break;
    for (size_t i = 0; i < found.size(); ++i)
      everywhere[i] = everywhere[i] && std::any_of(other.findings.begin(), other.findings.end(),
                                                   [&](const Finding& g) { return same_point(found[i], g); });
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (reads_unwritten(found[i]) && !reached.empty()) found[i].found += reached;
    if (!reached.empty()) continue;
    found[i].warning |= reads_unwritten(found[i]) || (by_value(found[i]) && !everywhere[i]);
  }
  return {};
}

Result<RunResult> ExactProgram::run(const Inputs& inputs, const ExactOptions& options) const {
  TRY(check_inputs(decoded_->program, inputs));
  if (!unfit_.empty()) {  // so there is nothing to run it on
    RunResult result;
    const size_t shown = std::min(unfit_.size(), static_cast<size_t>(std::max(options.findings_max, 0)));
    result.findings.assign(unfit_.begin(), unfit_.begin() + static_cast<ptrdiff_t>(shown));
    result.findings_dropped = static_cast<int64_t>(unfit_.size() - shown);
    return result;
  }
  if (!options.flips.empty()) return run_faulted(inputs, options);
  if (state_ == State::settled) {
    RunResult result;
    if (TRY(run_settled(inputs, options, result))) return result;
  }
  bool settled = false;
  if (state_ == State::open && options.check_races) {
    auto result = TRY(run_tracked(inputs, options, true, settled));
    state_ = settled ? State::settled : State::never;
    if (settled || !decoded_->moves) {
      if (options.weigh_unwritten) TRY(weigh(inputs, options, result));
      return result;
    }
  }
  auto result = TRY(run_tracked(inputs, options, false, settled));
  if (options.weigh_unwritten) TRY(weigh(inputs, options, result));
  return result;
}

Result<RunResult> run_exact(const Program& program, const arch::Chip& chip, const Inputs& inputs,
                            const ExactOptions& options) {
  return TRY(ExactProgram::make(program, chip))->run(inputs, options);
}

}  // namespace trine::run
