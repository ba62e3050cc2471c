// Choose: of the variants of a unit, the one that ends first on the chip. Each variant is recorded apart, made into
// streams as if it were a program of its own, and timed by the timer that was handed in.
// Invariant: the answer follows from the kernels and the chip alone; what was asked before only makes it quicker.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/program/kernel.h"
#include "base/result.h"
#include "compile/device/choose/choice.h"

namespace trine::compile::device {

// Femtoseconds that a program takes on the chip, launch and end left out. A plain function: the same program, the same
// answer.
using Timer = Result<int64_t> (*)(const arch::Program& program, const arch::Chip& chip);

// 128 bits of everything a kernel's time follows from; names and lines are left out.
class Digest {
 public:
  using Key = std::array<uint64_t, 2>;

  void add(uint64_t v);
  void add(std::string_view s);
  void add(const arch::Kernel& kernel);
  const Key& key() const { return key_; }

 private:
  void add(const arch::Operand& o);
  void add(const arch::Pattern& p);

  Key key_ = {0x243f6a8885a308d3, 0x13198a2e03707344};
};

// A unit by itself, recorded as one variant. Between others it begins while what it needs of memory is on its way
// already: it is then recorded twice in a row, the second waiting for the first as one layer for another, and takes
// what that adds.
struct Trial {
  arch::Kernel kernel = {};
  std::optional<arch::Kernel> alone = {};  // where `kernel` has it twice

  bool transposes() const;  // rows and columns
};

// Femtoseconds of each variant, launch and end left out; less than 0: not timed.
inline constexpr int64_t kUnwritable = -1, kSameAsBefore = -2, kSurelySlower = -3;
struct Comparison {
  size_t best = 0;
  std::vector<int64_t> fs = {};
};

// Nothing: that variant could not be recorded.
Comparison fastest(std::vector<std::optional<Trial>> variants, const arch::Chip& chip, Timer timer);

// A unit that had a choice, for who looks on.
struct Chosen {
  std::string unit = {};
  std::vector<Choice> variants = {};
  Comparison comparison = {};

  const Choice& taken() const { return variants[comparison.best]; }
  std::string text() const;
};

// What was found for units that are written alike.
struct ChosenOnce {
  std::vector<Choice> variants = {};  // to cut it
  Comparison cut = {};
  bool transposes = false;                // the fastest of them, rows and columns
  std::optional<Chosen> transposed = {};  // with who else may do that, where that was asked for

  Chosen of(std::string unit, bool others_transpose) const;
};
struct Choices {
  std::map<Digest::Key, ChosenOnce> by_unit = {}, by_kernel = {};
};

}  // namespace trine::compile::device
