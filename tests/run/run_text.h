// Runs assembly text on a chip with made-up inputs, for the tests of the exact driver.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "arch/asm/asm.h"
#include "arch/chips/chip.h"
#include "run/drivers/exact/exact.h"
#include "tests/testing.h"

namespace trine::run {

struct TextRun {
  arch::Program program;
  RunResult result;

  // "race race deadlock": the kinds, in the order they were found.
  std::string kinds() const {
    std::string out;
    for (const Finding& f : result.findings) out += (out.empty() ? "" : " ") + std::string(name(f.kind));
    return out;
  }
  const Finding& only() const {
    REQUIRE(result.findings.size() == 1);
    return result.findings[0];
  }
  std::vector<float> floats(std::string_view output) const {
    for (const Output& o : result.outputs) {
      if (o.name != output) continue;
      std::vector<float> v(o.bytes.size() / 4);
      std::memcpy(v.data(), o.bytes.data(), o.bytes.size());
      return v;
    }
    return {};
  }
};

// Inputs hold 1, 2, 3, … as f32, or as s32 where the tensor is that.
inline std::vector<std::byte> counting(const arch::Tensor& t) {
  std::vector<std::byte> out(static_cast<size_t>(tensor_bytes(t)));
  for (size_t i = 0; i + 4 <= out.size(); i += 4) {
    const float f = static_cast<float>(i / 4 + 1);
    const int32_t n = static_cast<int32_t>(i / 4 + 1);
    std::memcpy(out.data() + i, t.dtype == Dtype::s32 ? static_cast<const void*>(&n) : &f, 4);
  }
  return out;
}

inline TextRun run_text(std::string_view text, const ExactOptions& options = {}, std::string_view chip = "trn2") {
  auto program = arch::assemble(text, "test.tasm");
  const std::string problem = program ? "" : program.error().text();
  REQUIRE(problem == "");
  TextRun out{*std::move(program), {}};
  std::map<std::string, std::vector<std::byte>> bytes;
  Inputs inputs;
  for (const arch::Tensor& t : out.program.tensors)
    if (t.kind == arch::TensorKind::input) inputs[t.name] = bytes[t.name] = counting(t);
  auto result = run_exact(out.program, **arch::find_chip(chip), inputs, options);
  const std::string failure = result ? "" : result.error().text();
  REQUIRE(failure == "");
  out.result = *std::move(result);
  return out;
}

}  // namespace trine::run
