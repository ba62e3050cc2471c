// Sets the machine up, lets the engines run, collects outputs and findings; see exact.h.
#include "run/drivers/exact/exact.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "arch/row.h"
#include "arch/verify.h"
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
  arch::CoreShape s;
  s.partitions = static_cast<int>(chip.partitions);
  s.sbuf_bytes = chip.sbuf.bytes_per_partition;
  s.psum_bytes = chip.psum.banks * chip.psum.bank_bytes;
  s.psum_bank_bytes = static_cast<int>(chip.psum.bank_bytes);
  s.semaphores = static_cast<int>(chip.semaphore.count);
  return s;
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

// Which tensors an instruction may write.
std::vector<bool> written_tensors(const Program& program) {
  std::vector<bool> written(program.tensors.size());
  for (const arch::Stream& s : program.streams)
    for (const arch::Insn& insn : s.insns) {
      const arch::RowInfo* info = arch::row_by_opcode(insn.opcode);
      for (size_t i = 0; i < info->slots.size(); ++i) {
        const arch::Operand& o = program.operands[insn.operand + i];
        if (o.kind != arch::OperandKind::tile || !info->slots[i].writes()) continue;
        written[o.tensor] = true;
        if (program.tensors[o.tensor].alias >= 0) written[static_cast<size_t>(program.tensors[o.tensor].alias)] = true;
      }
    }
  return written;
}

// On-chip constants and inputs are there when the program starts, partition by partition.
void place_on_chip(arch::Machine& machine, const Tensor& t, const std::byte* from) {
  arch::Core& core = machine.cores[t.core];
  Memory& m = t.space == Space::sbuf ? core.sbuf : core.psum;
  const size_t row = static_cast<size_t>(bytes_per_partition(t));
  for (int64_t p = 0; p < (t.shape.empty() ? 1 : t.shape[0]); ++p, from += row) {
    const size_t at = static_cast<size_t>(t.partition + p) * m.pitch + static_cast<size_t>(t.address);
    std::memcpy(m.bytes + at, from, row);
    m.written.set(at, row);
  }
}

void place_tensors(arch::Machine& machine, const Inputs& inputs) {
  const Program& program = machine.program();
  const std::vector<bool> written = written_tensors(program);
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const Tensor& t = program.tensors[i];
    std::span<const std::byte> from;
    if (t.kind == TensorKind::input) from = inputs.find(t.name)->second;
    if (t.kind == TensorKind::constant)
      from = std::span(program.data.data(), program.data.size()).subspan(t.data_offset, t.data_bytes);
    if (from.empty()) continue;
    if (t.space != Space::hbm) {
      place_on_chip(machine, t, from.data());
    } else if (written[i]) {
      machine.hbm[i] = Memory::make(from.size(), 0);
      std::memcpy(machine.hbm[i].bytes, from.data(), from.size());
      machine.hbm[i].complete = true;
    } else {
      machine.hbm[i] = Memory::borrow(from.data(), from.size());
    }
  }
}

std::vector<std::byte> read_back(arch::Machine& machine, uint32_t index, bool& complete) {
  const Tensor& t = machine.program().tensors[index];
  std::vector<std::byte> out(static_cast<size_t>(tensor_bytes(t)));
  if (out.empty()) return out;
  if (t.space == Space::hbm) {
    const Memory& m = machine.hbm_of(index);
    complete = m.complete || m.written.all(0, m.size);
    std::memcpy(out.data(), m.bytes, out.size());
    return out;
  }
  const arch::Core& core = machine.cores[t.core];
  const Memory& m = t.space == Space::sbuf ? core.sbuf : core.psum;
  const size_t row = static_cast<size_t>(bytes_per_partition(t));
  for (size_t p = 0; p * row < out.size(); ++p) {
    const size_t at = (static_cast<size_t>(t.partition) + p) * m.pitch + static_cast<size_t>(t.address);
    complete &= m.written.all(at, row);
    std::memcpy(out.data() + p * row, m.bytes + at, row);
  }
  return out;
}

// The first instruction that touches a tensor which reaches past the end of its memory.
Place first_use_past_end(const Program& program, const arch::CoreShape& shape, int64_t hbm_bytes) {
  const auto past = [&](const Tensor& t) {
    if (t.space == Space::hbm) return t.address + tensor_bytes(t) > hbm_bytes;
    return t.address + bytes_per_partition(t) > (t.space == Space::sbuf ? shape.sbuf_bytes : shape.psum_bytes);
  };
  Place p;
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
    f.place = first_use_past_end(program, shape_of(chip), chip.hbm.bytes);
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

// One run with every finding; the streams whose waits were met too early to be sure of what they tell.
Result<std::set<int>> run_once(const Program& program, const arch::Chip& chip, const Inputs& inputs,
                               const ExactOptions& options, int last, Findings& findings, Races::Known& races,
                               RunResult& result) {
  arch::Machine machine(program, shape_of(chip));
  if (const std::string name = machine.refused(); !name.empty())
    return fail(Code::out_of_memory, cat("the host has no memory for ", name), program.name);
  place_tensors(machine, inputs);
  Engines engines(machine, chip, options, findings, races, last);
  engines.run(result);
  collect_outputs(machine, findings, result);
  return engines.hasty();
}

}  // namespace

Result<RunResult> run_exact(const Program& program, const arch::Chip& chip, const Inputs& inputs,
                            const ExactOptions& options) {
  Findings findings(program, options.findings_max);
  TRY(check_program(program, chip, findings));
  TRY(check_inputs(program, inputs));
  RunResult result;
  if (!findings.list().empty()) {  // it does not fit, so there is nothing to run it on
    result.findings = findings.take();
    return result;
  }
  Races::Known races;
  const std::set<int> hasty = TRY(run_once(program, chip, inputs, options, -1, findings, races, result));
  for (const int last : hasty) {  // findings come once, so these add only the races that the first run could not see
    RunResult again;
    TRY(run_once(program, chip, inputs, options, last, findings, races, again));
  }
  result.findings_dropped = findings.dropped();
  result.findings = findings.take();
  return result;
}

}  // namespace trine::run
