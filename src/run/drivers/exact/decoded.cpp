// One pass over the streams; see decoded.h.
#include "run/drivers/exact/decoded.h"

#include <algorithm>

namespace trine::run {

namespace {

bool may_write(const arch::RowInfo& info) {
  constexpr uint8_t kMemories = arch::kHbm | arch::kSbuf | arch::kPsum;
  return std::any_of(info.slots.begin(), info.slots.end(),
                     [](const arch::OperandSlot& s) { return s.writes() && (s.kinds & kMemories); });
}

// A loop or branch that a register decides.
bool is_decided(const arch::Program& p, const arch::Insn& insn) {
  if (insn.opcode == arch::kOpBranch) return true;
  return insn.opcode == arch::kOpLoop && p.operands[insn.operand].kind == arch::OperandKind::reg;
}

}  // namespace

DecodedProgram::DecodedProgram(const arch::Program& p, const arch::Chip& on)
    : program(p), chip(on), forms(p), written(p.tensors.size()) {
  bool loads = false, decided = false, by_register = false;
  for (const arch::Stream& s : p.streams) {
    DecodedStream stream{arch::Sequencer(p, s), {}, {}};
    for (const arch::Insn& insn : s.insns) {
      const arch::RowInfo& info = *arch::row_by_opcode(insn.opcode);
      stream.infos.push_back(&info);
      stream.changes.push_back(insn.updates || may_write(info));
      at_rendezvous |= info.row->unit == arch::Unit::rendezvous;
      loads |= insn.opcode == arch::kOpRegisterLoad;
      decided |= is_decided(p, insn);
      for (size_t i = 0; i < info.slots.size(); ++i) {
        const arch::Operand& o = p.operands[insn.operand + i];
        if (o.kind != arch::OperandKind::tile) continue;
        if (o.dynamic) (p.dynamics[o.dynamic - 1].kind == arch::DynamicKind::reg ? by_register : moves) = true;
        if (!info.slots[i].writes()) continue;
        written[o.tensor] = true;
        if (p.tensors[o.tensor].alias >= 0) written[static_cast<size_t>(p.tensors[o.tensor].alias)] = true;
      }
    }
    streams.push_back(std::move(stream));
  }
  moves |= by_register && loads;
  wanders = decided && loads;
}

}  // namespace trine::run
