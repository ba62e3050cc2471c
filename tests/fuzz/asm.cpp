// Any bytes into the assembler: it answers with a program or an error that has a position. What it accepts prints and
// reads back the same, and every chip's verifier has an answer.
#include "arch/asm/asm.h"

#include <cstdint>

#include "arch/program/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine::arch;
  const auto program = assemble({reinterpret_cast<const char*>(data), size}, "fuzz.tasm");
  if (!program) {
    CHECK(!program.error().message.empty() && program.error().where.starts_with("fuzz.tasm"), "an error has a place");
    return 0;
  }
  const std::string text = disassemble(*program);
  const auto again = assemble(text, "again.tasm");
  CHECK(again && disassemble(*again) == text, "canonical text is read back");
  for (const Chip& chip : all_chips())
    for (const Finding& f : verify(*program, chip)) CHECK(!f.error.message.empty(), "a finding has text");
  return 0;
}
