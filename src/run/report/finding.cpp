// Collecting and printing findings; see finding.h.
#include "run/report/finding.h"

#include "arch/asm/asm.h"
#include "base/text.h"

namespace trine::run {

using arch::FaultKind;

std::string_view fix_for(FaultKind k) {
  switch (k) {
    case FaultKind::uninitialized_read:
      return "write it first, or wait for the transfer that does";
    case FaultKind::out_of_bounds:
      return "check the index or register that makes the address, or let the transfer skip it (oob=skip)";
    case FaultKind::accumulate_uninitialized:
      return "start the group with accumulate=overwrite or accumulate=first";
    case FaultKind::nan:
      return "look for an overflow, 0/0 or a log of a negative before this instruction";
    case FaultKind::out_of_range_input:
      return "bring the input into range first; outside it the table's result is garbage";
    case FaultKind::bad_register:
      return "check what the register holds before this instruction";
    case FaultKind::race:
      return "let the first update a semaphore when it is done and the second wait for it";
    case FaultKind::deadlock:
      return "raise the semaphore that is waited for, or lower the value waited for";
    case FaultKind::over_capacity:
      return "use smaller tiles, or give tensors that do not live together the same place";
    case FaultKind::collective_mismatch:
      return "give every member of the group the same collective, in the same order";
  }
  return {};
}

std::string Finding::message() const {
  std::string out = operand.empty() ? found : cat(operand, ": ", found);
  if (!expected.empty()) out += cat("; expected ", expected);
  return out;
}

std::string Finding::text() const {
  std::string out = cat(warning ? "warning " : "finding ", name(kind));
  if (!operand.empty()) out += cat(": ", operand);
  if (!stream.empty()) {
    out += cat("\n  --> ",
               file.empty() ? cat(stream, " #", point.index) : cat(file, ":", line, "  ", stream, " #", point.index));
    for (size_t d = 0; d < point.loops.size(); ++d) out += cat(d ? ", i" : "  i", d, "=", point.loops[d]);
    out += cat("\n      ", instruction);
  }
  out += cat("\n  found     ", found);
  if (!expected.empty()) out += cat("\n  expected  ", expected);
  if (!fix.empty()) out += cat("\n  try       ", fix);
  return out + "\n";
}

std::string stream_name(const arch::Stream& s) {
  return s.core ? cat(static_cast<int>(s.core), ".", name(s.engine)) : std::string(name(s.engine));
}

ProgramPoint point_of(int stream, const arch::Sequencer& at) {
  ProgramPoint p;
  p.stream = stream;
  p.index = at.pc();
  p.loops.assign(at.loops(), at.loops() + at.depth());
  return p;
}

bool Findings::add(Finding f, uint64_t other) {
  if (!known_.emplace(static_cast<int>(f.kind), f.point.stream, f.point.index, f.operand, other).second) return false;
  if (full()) {
    ++dropped_;
    return false;
  }
  if (f.fix.empty()) f.fix = fix_for(f.kind);
  if (f.point.stream >= 0) {
    const arch::Stream& s = program_->streams[static_cast<size_t>(f.point.stream)];
    f.stream = stream_name(s);
    f.instruction = describe_insn(*program_, s, f.point.index);
    if (const uint32_t line = s.insns[f.point.index].line) {
      const arch::SourceLine& source = program_->lines[line - 1];
      f.file = program_->strings[source.file];
      f.line = source.line;
    }
  }
  list_.push_back(std::move(f));
  return true;
}

Finding* Findings::find(FaultKind kind, int stream, uint32_t index) {
  for (Finding& f : list_)
    if (f.kind == kind && f.point.stream == stream && f.point.index == index) return &f;
  return nullptr;
}

}  // namespace trine::run
