// Reads the `tensor` and `const` lines of assembly into a Builder. Not the operands that use them (operand.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/asm/cursor.h"
#include "arch/program/builder.h"
#include "base/result.h"

namespace trine::arch {

class TensorReader {
 public:
  explicit TensorReader(Builder& b) : b_(b) {}
  Result<void> tensor_line(Cursor& c);  // after the word `tensor`
  Result<void> const_line(Cursor& c);
  Result<void> resolve_aliases();  // at the end: an alias may be named before its input

 private:
  Result<Tensor> tensor_head(Cursor& c);
  Result<void> tensor_shape(Cursor& c, Tensor& t);
  Result<void> read_address(Cursor& c, Tensor& t, const Tensor* alias = nullptr);
  Result<std::vector<std::byte>> constant_bytes(Cursor& c, const Tensor& t);

  struct Alias {
    uint32_t tensor = 0;
    std::string name;
    Cursor at;
    size_t position = 0;
  };
  Builder& b_;
  std::vector<Alias> aliases_;
};

}  // namespace trine::arch
