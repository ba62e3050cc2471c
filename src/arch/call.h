// Call: one execution of one instruction, its operands resolved. What a row's exec, cycles and check look at.
// A view: it owns nothing and is cheap to make.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/program/program.h"

namespace trine::arch {

struct Chip;
struct RowInfo;

// An operand in memory, addressed for one execution.
struct Tile {
  Space space = Space::sbuf;
  Dtype dtype = Dtype::f32;
  uint8_t core = 0;
  int partition = 0;   // first, absolute (on chip)
  int partitions = 1;  // rows
  int64_t row_elements = 1;
  int64_t offset = 0;          // bytes: inside the partition on chip, inside the tensor in HBM
  int64_t row_stride = 0;      // bytes between rows, HBM only
  int64_t low = 0, high = 0;   // bytes that a row covers, from its offset
  int64_t begin = 0, end = 0;  // where the tensor lies, in the terms of `offset`
  bool dense = false;          // a row is one run of neighbouring elements
  bool moves = false;          // its address depends on a register or an index tile
  uint32_t tensor = 0;
  const Pattern* pattern = nullptr;
  const Dynamic* dynamic = nullptr;  // rows and free only; register offsets are already in `offset`
  int64_t index_offset = 0;          // of the dynamic's index tile, like `offset`

  int element_bytes() const { return bits(dtype) / 8; }
  int64_t elements() const { return row_elements * partitions; }
  bool on_chip() const { return space != Space::hbm; }
  bool contiguous() const { return dense && !(dynamic && dynamic->kind == DynamicKind::free); }
};

// What every address of an operand asks of its pattern and its tensor, worked out once for a program.
struct Forms {
  explicit Forms(const Program& p);
  struct Part {
    int64_t begin = 0, end = 0;
  };
  std::vector<Tile> patterns;  // with what follows from the pattern alone
  std::vector<Part> tensors;
};

class Call {
 public:
  const Program& program;
  const Chip& chip;
  const Insn& insn;
  const RowInfo& info;
  Engine engine;
  uint8_t core = 0;
  const int64_t* loops = nullptr;       // index of each enclosing loop; null: all zero
  const uint32_t* registers = nullptr;  // of this engine; null: all zero
  const Forms* forms = nullptr;         // of the program, where somebody keeps them

  bool has(std::string_view slot) const;  // present and not `none`
  const Operand& operand(std::string_view slot) const;
  const Operand& operand(int slot) const { return program.operands[insn.operand + static_cast<size_t>(slot)]; }

  Tile tile(std::string_view slot) const { return tile_of(operand(slot)); }
  Tile tile(int slot) const { return tile_of(operand(slot)); }
  bool is_tile(std::string_view slot) const { return operand(slot).kind == OperandKind::tile; }
  Tile tile_of(const Operand& o) const;  // also for a Dynamic's index operand

  int64_t attr(std::string_view name) const;
  double real(std::string_view name) const { return std::bit_cast<double>(attr(name)); }
  template <class E>
  E as(std::string_view name) const {
    return static_cast<E>(attr(name));
  }
  std::span<const int64_t> list(std::string_view name) const;  // empty when absent
  std::string_view string(std::string_view name) const;
};

// The operand with its loop and register terms left out: shape, dtype, space and first partition are right.
Tile base_tile(const Program& p, const Operand& o);

// "dst=a[0:128, 0, 512@1]" style text of one operand or instruction, for messages; asm/asm.cpp prints the same.
std::string describe(const Program& p, const Operand& o);

}  // namespace trine::arch
