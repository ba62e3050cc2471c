// Operands and affine values as text, both ways. Shared by the assembler, the disassembler and messages.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "arch/asm/cursor.h"
#include "arch/program/builder.h"
#include "arch/program/program.h"

namespace trine::arch {

// 64+512*i0+4*r5: a number, a step per enclosing loop, and at most one register.
struct Affine {
  int64_t constant = 0;
  std::array<int64_t, kLoopDepthMax> steps{};
  int reg = -1;
  int64_t scale = 0;
};

Result<Affine> parse_affine(Cursor& c, int depth);
void append_affine(std::string& out, const Affine& a);

// A tile, a number or a register. `depth`: how many loops are open here.
Result<Operand> parse_operand(Cursor& c, Builder& b, int depth);
void append_operand(std::string& out, const Program& p, const Operand& o);

Result<Dtype> parse_dtype(Cursor& c);

}  // namespace trine::arch
