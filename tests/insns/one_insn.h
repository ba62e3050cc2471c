// One instruction on its own, from text: its row's check and its uncontended cost. For the tables of *_rules.cpp.
#pragma once

#include <string>
#include <string_view>

#include "arch/asm/asm.h"
#include "arch/chips/chip.h"
#include "arch/row.h"
#include "base/text.h"
#include "tests/testing.h"

namespace trine::arch {

struct Judged {
  std::string error;  // of the row's needs and check; empty when it may run
  Cost cost;
};

// `tensors` are declarations separated by ';', e.g. "a sbuf f32[128,512]; b psum f32[128,512]".
inline Judged judge(std::string_view chip_name, std::string_view engine, std::string_view tensors,
                    std::string_view insn) {
  std::string text = "program one\n";
  for (const auto t : split(tensors, ';')) text += cat("tensor ", trim(t), "\n");
  text += cat("stream ", engine, "\n  ", insn, "\n");
  auto program = assemble(text, "one");
  REQUIRE_MESSAGE(program, (program ? "" : program.error().text()), "\n", text);
  auto chip = find_chip(chip_name);
  REQUIRE(chip);
  const Stream& stream = program->streams[0];
  const RowInfo& info = *row_by_opcode(stream.insns[0].opcode);
  const Call call{*program, **chip, stream.insns[0], info, stream.engine, stream.core};
  Judged out;
  if (!(*chip)->has(info.row->needs))
    out.error = cat("needs ", feature_name(info.row->needs));
  else if (info.row->check)
    if (auto ok = info.row->check(**chip, call); !ok) out.error = ok.error().message;
  if (out.error.empty()) out.cost = info.row->cycles(**chip, call);
  return out;
}

}  // namespace trine::arch
