// Choice: how a unit with several variants is written. Who reads a field says what it means; which
// choices a unit has, and which it gets, is choose.h's.
#pragma once

#include <cstdint>
#include <string>

namespace trine::compile::device {

// Which engine transposes (memory/transpose.h).
enum class TransposeEngine : uint8_t { tensor, dma, vector };

struct Choice {
  // Multiplies: panels of the left and the right operand take SBUF / left and SBUF / right each.
  int left = 4, right = 8;
  int64_t strip = 512;  // rows of the left panel that are loaded at once
  bool deep = false;    // the contracted dim in parts, whose products are summed in SBUF

  int64_t columns = 4096;  // loops: of a block; temporaries of a few members then fit many times over

  TransposeEngine transpose_engine = TransposeEngine::tensor;  // of everything the unit transposes

  bool operator==(const Choice&) const = default;
  std::string text() const;
};

}  // namespace trine::compile::device
