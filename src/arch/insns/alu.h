// The ALU operators of nki.isa as loops over one lane's row: f32 arithmetic, bitwise operators on raw bits, and the
// native 32-bit integers of GpSimd. The operator is looked up once per instruction. Not memory access (core.h).
// Invariant: out may be a itself or b itself; results do not depend on how the compiler vectorises the loop.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "arch/enums.h"

namespace trine::arch {

template <class T>
struct AluRow {
  T (*one)(T a, T b) = nullptr;
  void (*tiles)(const T* a, const T* b, T* out, int64_t n) = nullptr;
  void (*scalar)(const T* a, T b, T* out, int64_t n) = nullptr;    // a[i] op b
  void (*reversed)(const T* a, T b, T* out, int64_t n) = nullptr;  // b op a[i]
  T (*fold)(T start, const T* a, int64_t n) = nullptr;             // start op a[0] op a[1] …, from the left
};

// Arithmetic and logic in f32; comparisons and logic give 1 or 0. One-operand operators look at a alone.
const AluRow<float>& alu_f32(Alu op);  // not bitvec
// Raw bits, zero-extended to 32; the caller keeps the low ones.
const AluRow<uint32_t>& alu_bits(Alu op);  // bitvec and bypass
// Exact integers; results of add, subtract and multiply still have to be wrapped to 32 bits.
const AluRow<int64_t>& alu_int(Alu op);  // alu_has_int(op)

bool alu_has_int(Alu op);     // GpSimd's native integers: add to logical_xor
bool alu_is_unary(Alu op);    // takes one operand
bool alu_can_reduce(Alu op);  // may fold a row: add, subtract, multiply, max, min, logical, and, or, xor
float alu_identity(Alu op);   // what an accumulator is reset to
// The first value of a fold over a row: logical operators make it 1 or 0.
float alu_fold_first(Alu op, float first);

// Folds of many lanes' rows, each from the left as AluRow::fold does: eight lanes go side by side, since a lane alone
// waits for each of its additions. flush() before a result is read.
class RowFolds {
 public:
  RowFolds(Alu op, int64_t n) : op_(op), n_(n), rows_(kSideBySide * static_cast<size_t>(n)) {}
  void add(float* result, const float* row);  // *result is the start, later the fold; the row is copied
  void flush();

 private:
  static constexpr size_t kSideBySide = 8;
  Alu op_;
  int64_t n_;
  std::vector<float> rows_;
  std::array<float*, kSideBySide> results_{};
  size_t held_ = 0;
};

}  // namespace trine::arch
