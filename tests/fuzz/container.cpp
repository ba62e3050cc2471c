// Any bytes into the container reader, as they are and with size and checksums made right, so that what lies behind
// them is reached too. What is accepted writes and prints back the same, and every chip's verifier has an answer.
#include "arch/program/container.h"

#include <cstdint>
#include <vector>

#include "arch/asm/asm.h"
#include "arch/program/verify.h"

namespace {

using namespace trine::arch;

void read(std::span<const std::byte> file) {
  const auto program = parse_program(file, "fuzz.tprog");
  if (!program) {
    CHECK(!program.error().message.empty(), "an error has text");
    return;
  }
  const auto bytes = program_bytes(*program);
  const auto same = parse_program(bytes, "again.tprog");
  CHECK(same && program_bytes(*same) == bytes, "what was read writes back");
  const std::string text = disassemble(*program);
  const auto again = assemble(text, "again.tasm");
  CHECK(again && disassemble(*again) == text, "canonical text is read back");
  for (const Chip& chip : all_chips()) verify(*program, chip);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read(std::as_bytes(std::span(data, size)));
  std::vector<std::byte> sealed(reinterpret_cast<const std::byte*>(data),
                                reinterpret_cast<const std::byte*>(data) + size);
  if (seal(sealed)) read(sealed);
  return 0;
}
