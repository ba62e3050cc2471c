// What a program keeps in HBM, tensor by tensor, from its first use to its last: for who asks whether it fits, and why
// not.
#pragma once

#include <string>
#include <vector>

#include "arch/program/kernel.h"

namespace trine::compile::device {

struct MemoryMap {
  enum class Kind : uint8_t { weights, inputs, outputs, constants, scratch };
  struct Row {
    std::string name = {}, type = {};
    Kind kind = Kind::scratch;
    int64_t bytes = 0;
    double begin = 0, end = 1;  // in use; the program's first instruction is at 0, its last at 1
  };
  std::vector<Row> rows = {};  // largest first
  int64_t room = 0;            // bytes of HBM there are

  int64_t bytes() const;  // all together: nothing is given back before the end
  int64_t bytes(Kind kind) const;
  // Where the most bytes are in use, and what is then.
  double peak() const;
  int64_t bytes_at(double time) const;

  std::string text() const;
  std::string svg() const;
};
inline constexpr std::string_view kMemoryKinds[] = {"weights", "inputs", "outputs", "constants", "scratch"};

// Before addresses were given. weights: which of arg0, arg1, … are.
MemoryMap memory_map(const arch::Kernel& kernel, const std::vector<bool>& weights, int64_t room);

}  // namespace trine::compile::device
