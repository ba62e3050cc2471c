// Loop programs: what a fused loop nest computes, as plain data. The compiler writes them, host/ runs them.
// Not how it is computed: the executor may reorder and merge loops, keep or recompute values, and split the work.
// Invariant: a value is defined before it is used, and verify() holds before anyone runs a program.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/number/number.h"
#include "base/result.h"

namespace trine::arch {

// A dim is either part of the row index (each row is independent of the others) or walked inside a row.
// Reductions go over all inner dims at once and leave one number per row.
struct LoopDim {
  int64_t size = 1;
  bool inner = false;

  bool operator==(const LoopDim&) const = default;
};

// A view of one buffer: element index = offset + sum of stride[d] * i[d]. Stride 0 repeats, a negative one reverses.
// Sub-byte elements take a byte each. Outputs may not write an element twice.
struct LoopOperand {
  Dtype dtype = Dtype::f32;
  bool output = false;
  int64_t elements = 0;  // in the buffer; every index must be below
  int64_t offset = 0;
  std::vector<int64_t> strides = {};  // in elements, one per dim
  int64_t beside = -1;                // of an output: the operand of the same buffer that writes one element before it

  bool operator==(const LoopOperand&) const = default;
};

enum class LoopOp : uint8_t {
  // clang-format off
  load, store, constant, iota, pick,
  add, sub, mul, div, rem, max, min, pow, atan2, next_after,
  bit_and, bit_or, bit_xor, shl, shr_arith, shr_logical,
  eq, ne, lt, le, gt, ge,
  select, clamp,
  neg, abs, sign, bit_not, is_finite, popcount, clz,
  round_even, round_away, floor, ceil,
  sqrt, rsqrt, cbrt, exp, expm1, log, log1p, logistic, tanh, sin, cos, tan,
  asin, acos, atan, sinh, cosh, asinh, acosh, atanh, erf, erfc, erf_inv, lgamma, digamma,
  convert, bit_cast, round_to, reduce_precision,
  reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or, reduce_xor,
  count,
  // clang-format on
};

enum class LoopOpTypes : uint8_t { none = 0, floating = 1, integer = 2, boolean = 4, number = 3, bits = 6, any = 7 };

// What an op's types are: map: all alike; compare, test: boolean from its inputs; select: the first input boolean;
// cast: from any type to its own; pick: its input an s32.
enum class LoopOpClass : uint8_t { source, store, pick, map, compare, test, select, cast, reduce };

struct LoopOpRow {
  LoopOp op = LoopOp::count;
  std::string_view name = {};
  int inputs = 0;
  LoopOpTypes types = LoopOpTypes::none;  // it works on; of a source, of its result
  LoopOpClass kind = LoopOpClass::map;
  std::string_view summary = {};
};
const LoopOpRow& row(LoopOp op);

using LoopValue = uint32_t;
inline constexpr LoopValue kNoValue = UINT32_MAX;

// Value types: f32, f64, boolean and the integers of 2 to 64 bits, which wrap. Narrower floats are f32 values that
// a store, or round_to, rounds to nearest even.
struct LoopInsn {
  LoopOp op = LoopOp::count;
  Dtype type = Dtype::f32;  // of the result; of a store, of the stored value
  uint16_t stage = 0;
  std::array<LoopValue, 3> in = {kNoValue, kNoValue, kNoValue};
  uint32_t at = 0;    // load, store, pick: operand; iota: dim; round_to: Dtype
  uint64_t bits = 0;  // constant: in its type, integers sign-extended; reduce_precision: exponent << 8 | mantissa;
                      // pick: the largest index

  bool operator==(const LoopInsn&) const = default;
};

// Rows run their stages one after another. `each` stages run for every element of the row, `once` stages once.
// An element's value may be used in later stages too, at the same element; a reduction only in later stages.
enum class LoopStage : uint8_t { each, once };

struct LoopProgram {
  std::vector<LoopDim> dims = {};  // in the order the author would loop, innermost last
  std::vector<LoopOperand> operands = {};
  std::vector<LoopStage> stages = {};
  std::vector<LoopInsn> insns = {};  // value i is what instruction i gives; stages never go down

  bool operator==(const LoopProgram&) const = default;
};

// What a load from memory of this dtype gives: f32 for narrow floats, else the dtype itself.
Dtype loop_value_type(Dtype dtype);
bool is_loop_dtype(Dtype dtype);  // may be in memory: all but carriers, complex and tf32

Result<void> verify(const LoopProgram& program);
std::string text(const LoopProgram& program);

// Writes a program. Stages follow the calls of each() and once(); the first stage is `each`.
class LoopBuilder {
 public:
  uint32_t dim(int64_t size, bool inner = false);
  uint32_t input(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset = 0);
  uint32_t output(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset = 0);
  void each() { begin(LoopStage::each); }
  void once() { begin(LoopStage::once); }

  LoopValue load(uint32_t operand);
  LoopValue pick(uint32_t operand, LoopValue index, int64_t most);
  void store(uint32_t operand, LoopValue value);
  LoopValue constant(Dtype type, double value);  // integers: of up to 53 bits; beyond, constant_bits
  LoopValue constant_bits(Dtype type, uint64_t bits);
  LoopValue iota(Dtype type, uint32_t dim);
  LoopValue unary(LoopOp op, LoopValue a);
  LoopValue binary(LoopOp op, LoopValue a, LoopValue b);  // compares among them
  LoopValue ternary(LoopOp op, LoopValue a, LoopValue b, LoopValue c);
  LoopValue convert(LoopValue a, Dtype type);
  LoopValue bit_cast(LoopValue a, Dtype type);
  LoopValue round_to(LoopValue a, Dtype format);
  LoopValue reduce_precision(LoopValue a, int exponent_bits, int mantissa_bits);
  Dtype type_of(LoopValue v) const { return program_.insns[v].type; }

  const LoopProgram& program() const { return program_; }
  LoopProgram take() { return std::move(program_); }

 private:
  void begin(LoopStage stage) { program_.stages.push_back(stage); }
  LoopValue push(LoopInsn insn);

  LoopProgram program_;
};

}  // namespace trine::arch
