// Assembly text: docs/assembly.md is its grammar. Driven by the rows' specs alone, so a new row needs nothing here.
// Invariant: disassemble(*assemble(disassemble(p))) == disassemble(p), and a Program made in the order of its text is
// read back equal, pools and all.
#pragma once

#include <string>
#include <string_view>

#include "arch/program/program.h"
#include "base/result.h"

namespace trine::arch {

// The error's where is file:line:column. What it returns has passed check_structure().
// `mark_lines`: an instruction that names no source line of its own gets its line of this text.
Result<Program> assemble(std::string_view text, std::string_view file_name, bool mark_lines = false);

// For programs that have passed check_structure(), as do the two below.
std::string disassemble(const Program& p);
// One instruction as the disassembler prints it, without indentation; labels show as instruction numbers.
std::string describe_insn(const Program& p, const Stream& s, uint32_t pc);
std::string describe_tensor(const Program& p, uint32_t tensor);

}  // namespace trine::arch
