// Any text, or any bytes as choices (exact_text.h), as a program on a chip with small memories: refused with a message,
// or run twice to the same bytes and the same findings within a step budget; and again with other inputs by a program
// that may have settled. Inputs hold small integers, so that indices and registers reach into tensors.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/asm/asm.h"
#include "arch/chips/chip.h"
#include "arch/program/verify.h"
#include "arch/sequencer.h"
#include "run/drivers/exact/exact.h"
#include "tests/fuzz/exact_text.h"

namespace {

using namespace trine;

arch::Chip small_chip() {
  arch::Chip chip = **arch::find_chip("trn4");  // with every feature
  chip.sbuf.bytes_per_partition = 2048;
  chip.psum.bank_bytes = 256;
  chip.hbm.bytes = 1 << 18;
  chip.lnc_max = 4;
  return chip;
}

// Takes out the instructions that the verifier refuses, so that the others run.
void drop_refused(arch::Program& program, const arch::Chip& chip) {
  for (int round = 0; round < 3; ++round) {
    const auto refused = arch::verify(program, chip);
    for (auto it = refused.rbegin(); it != refused.rend(); ++it) {
      if (it->stream < 0) continue;
      auto& insns = program.streams[static_cast<size_t>(it->stream)].insns;
      if (it->pc < insns.size() && insns[it->pc].opcode > arch::kOpJump) insns.erase(insns.begin() + it->pc);
    }
  }
}

void check_same(const run::RunResult& a, const run::RunResult& b) {
  CHECK(a.finished == b.finished && a.counts.instructions == b.counts.instructions, "a run is deterministic");
  CHECK(a.findings.size() == b.findings.size() && a.outputs.size() == b.outputs.size(), "a run is deterministic");
  for (size_t i = 0; i < a.outputs.size(); ++i)
    CHECK(a.outputs[i].bytes == b.outputs[i].bytes, "outputs are the same every time");
  for (size_t i = 0; i < a.findings.size(); ++i) {
    CHECK(a.findings[i].text() == b.findings[i].text(), "findings are the same every time");
    CHECK(!a.findings[i].found.empty(), "a finding says what was found");
  }
}

using Bytes = std::map<std::string, std::vector<std::byte>>;

Bytes inputs_of(const arch::Program& program, const arch::Chip& chip, size_t below) {
  Bytes out;
  for (const arch::Tensor& t : program.tensors) {
    if (t.kind != arch::TensorKind::input || tensor_bytes(t) > chip.hbm.bytes) continue;
    std::vector<std::byte>& bytes = out[t.name];
    bytes.resize(static_cast<size_t>(tensor_bytes(t)));
    for (size_t b = 0; b < bytes.size(); b += 4) bytes[b] = static_cast<std::byte>(b / 4 % below);
  }
  return out;
}

run::Inputs views(const Bytes& bytes) {
  run::Inputs out;
  for (const auto& [name, of] : bytes) out[name] = of;
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const arch::Chip chip = small_chip();
  if (size == 0 || size > 4096) return 0;
  // A first byte below a blank is no text: the rest are choices.
  const bool choices = data[0] < ' ';
  const std::string text =
      choices ? ExactText(data + 1, size - 1).text() : std::string(reinterpret_cast<const char*>(data), size);
  auto program = arch::assemble(text, "fuzz.tasm");
  if (!program) return 0;
  if (choices) drop_refused(*program, chip);
  const auto given = inputs_of(*program, chip, 7), other = inputs_of(*program, chip, 5);
  const run::ExactOptions options{.stochastic = size % 2 == 1, .trap_nan = size % 4 > 1, .steps_max = 500};
  const auto first = run::run_exact(*program, chip, views(given), options);
  if (!first) {
    CHECK(!first.error().message.empty(), "an error has text");
    return 0;
  }
  const auto ready = run::ExactProgram::make(*program, chip);
  CHECK(ready.has_value(), "what ran once is made ready again");
  for (int round = 0; round < 3; ++round) {
    const auto again = (*ready)->run(views(given), options);
    CHECK(again.has_value(), "what ran once runs again");
    check_same(*first, *again);
  }
  const auto fresh = run::run_exact(*program, chip, views(other), options);
  const auto second_run = (*ready)->run(views(other), options);
  CHECK(fresh.has_value() && second_run.has_value(), "what ran once runs with other data");
  check_same(*fresh, *second_run);
  return 0;
}
