// Control flow of one stream; see sequencer.h. Runs only verified programs, so nesting and targets are known good.
#include "arch/sequencer.h"

#include "arch/enums.h"

namespace trine::arch {

Sequencer::Sequencer(const Program& program, const Stream& stream) : program_(&program), stream_(&stream) {
  match_.resize(stream.insns.size());
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < stream.insns.size(); ++i) {
    if (stream.insns[i].opcode == kOpLoop) open.push_back(i);
    if (stream.insns[i].opcode == kOpEndLoop && !open.empty()) {
      match_[open.back()] = i;
      open.pop_back();
    }
  }
}

bool Sequencer::at_control() const {
  const uint16_t op = insn().opcode;
  return op >= kOpLoop && op <= kOpRegisterAlu;
}

int64_t Sequencer::value(const Operand& o) const {
  return o.kind == OperandKind::reg ? static_cast<int32_t>(at_.registers[o.reg]) : static_cast<int64_t>(o.immediate);
}

void Sequencer::step_control() {
  switch (insn().opcode) {
    case kOpLoop:
      return enter_loop();
    case kOpEndLoop:
      return end_iteration();
    case kOpBranch:
      return branch();
    case kOpJump:
      at_.pc = static_cast<uint32_t>(program_->attrs[insn().attr]);
      return;
    case kOpRegisterMove: {
      const Operand* o = &program_->operands[insn().operand];
      at_.registers[o[0].reg] = static_cast<uint32_t>(value(o[1]));
      ++at_.pc;
      return;
    }
    default:
      return alu();
  }
}

// loop trips:r:imm|reg
void Sequencer::enter_loop() {
  const int64_t count = value(program_->operands[insn().operand]);
  if (count <= 0) {
    at_.pc = match_[at_.pc] + 1;
    return;
  }
  ++at_.pc;
  at_.frames[static_cast<size_t>(at_.depth)] = {at_.pc, count};
  at_.loops[static_cast<size_t>(at_.depth)] = 0;
  ++at_.depth;
}

void Sequencer::end_iteration() {
  const size_t d = static_cast<size_t>(at_.depth - 1);
  if (++at_.loops[d] < at_.frames[d].count) {
    at_.pc = at_.frames[d].begin;
    return;
  }
  at_.loops[d] = 0;
  --at_.depth;
  ++at_.pc;
}

// branch a:r:reg b:r:imm|reg  cmp:compare to:label
void Sequencer::branch() {
  const Operand* o = &program_->operands[insn().operand];
  const int64_t a = value(o[0]), b = value(o[1]);
  bool taken = false;
  switch (static_cast<Compare>(program_->attrs[insn().attr])) {
    case Compare::eq:
      taken = a == b;
      break;
    case Compare::ne:
      taken = a != b;
      break;
    case Compare::ge:
      taken = a >= b;
      break;
    case Compare::gt:
      taken = a > b;
      break;
    case Compare::le:
      taken = a <= b;
      break;
    case Compare::lt:
      taken = a < b;
      break;
  }
  at_.pc = taken ? static_cast<uint32_t>(program_->attrs[insn().attr + 1]) : at_.pc + 1;
}

// register_alu dst:w:reg a:r:reg b:r:imm|reg  op:alu, 32-bit integers that wrap
void Sequencer::alu() {
  const Operand* o = &program_->operands[insn().operand];
  const uint32_t a = static_cast<uint32_t>(value(o[1])), b = static_cast<uint32_t>(value(o[2]));
  uint32_t r = 0;
  switch (static_cast<Alu>(program_->attrs[insn().attr])) {
    case Alu::add:
      r = a + b;
      break;
    case Alu::subtract:
      r = a - b;
      break;
    case Alu::multiply:
      r = a * b;
      break;
    case Alu::max:
      r = static_cast<int32_t>(a) > static_cast<int32_t>(b) ? a : b;
      break;
    case Alu::min:
      r = static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
      break;
    case Alu::bitwise_and:
      r = a & b;
      break;
    case Alu::bitwise_or:
      r = a | b;
      break;
    case Alu::bitwise_xor:
      r = a ^ b;
      break;
    case Alu::shift_left:
      r = b < 32 ? a << b : 0;
      break;
    case Alu::shift_right:
      r = b < 32 ? a >> b : 0;
      break;
    default:
      r = a;
      break;
  }
  at_.registers[o[0].reg] = r;
  ++at_.pc;
}

}  // namespace trine::arch
