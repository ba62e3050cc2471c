// Tile programs: what a fused loop nest computes, as plain data. The compiler writes them, host/ runs them.
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
struct TileDim {
  int64_t size = 1;
  bool inner = false;

  bool operator==(const TileDim&) const = default;
};

// A view of one buffer: element index = offset + sum of stride[d] * i[d]. Stride 0 repeats, a negative one reverses.
// Sub-byte elements take a byte each. Outputs may not write an element twice.
struct TileOperand {
  Dtype dtype = Dtype::f32;
  bool output = false;
  int64_t elements = 0;  // in the buffer; every index must be below
  int64_t offset = 0;
  std::vector<int64_t> strides = {};  // in elements, one per dim
  int64_t beside = -1;                // of an output: the operand of the same buffer that writes one element before it

  bool operator==(const TileOperand&) const = default;
};

enum class TileOp : uint8_t {
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

enum class TileTypes : uint8_t { none = 0, floating = 1, integer = 2, boolean = 4, number = 3, bits = 6, any = 7 };

// What an op's types are: map: all alike; compare, test: boolean from its inputs; select: the first input boolean;
// cast: from any type to its own; pick: its input an s32.
enum class TileClass : uint8_t { source, store, pick, map, compare, test, select, cast, reduce };

struct TileOpRow {
  TileOp op = TileOp::count;
  std::string_view name = {};
  int inputs = 0;
  TileTypes types = TileTypes::none;  // it works on; of a source, of its result
  TileClass kind = TileClass::map;
  std::string_view says = {};
};
const TileOpRow& row(TileOp op);

using TileValue = uint32_t;
inline constexpr TileValue kNoValue = UINT32_MAX;

// Value types: f32, f64, boolean and the integers of 2 to 64 bits, which wrap. Narrower floats are f32 values that
// a store, or round_to, rounds to nearest even.
struct TileInsn {
  TileOp op = TileOp::count;
  Dtype type = Dtype::f32;  // of the result; of a store, of the stored value
  uint16_t stage = 0;
  std::array<TileValue, 3> in = {kNoValue, kNoValue, kNoValue};
  uint32_t at = 0;    // load, store, pick: operand; iota: dim; round_to: Dtype
  uint64_t bits = 0;  // constant: in its type, integers sign-extended; reduce_precision: exponent << 8 | mantissa;
                      // pick: the largest index

  bool operator==(const TileInsn&) const = default;
};

// Rows run their stages one after another. `each` stages run for every element of the row, `once` stages once.
// An element's value may be used in later stages too, at the same element; a reduction only in later stages.
enum class TileStage : uint8_t { each, once };

struct TileProgram {
  std::vector<TileDim> dims = {};  // in the order the author would loop, innermost last
  std::vector<TileOperand> operands = {};
  std::vector<TileStage> stages = {};
  std::vector<TileInsn> insns = {};  // value i is what instruction i gives; stages never go down

  bool operator==(const TileProgram&) const = default;
};

// What a load from memory of this dtype gives: f32 for narrow floats, else the dtype itself.
Dtype tile_value_type(Dtype dtype);
bool is_tile_dtype(Dtype dtype);  // may be in memory: all but carriers, complex and tf32

Result<void> verify(const TileProgram& program);
std::string text(const TileProgram& program);

// Writes a program. Stages follow the calls of each() and once(); the first stage is `each`.
class TileBuilder {
 public:
  uint32_t dim(int64_t size, bool inner = false);
  uint32_t input(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset = 0);
  uint32_t output(Dtype dtype, int64_t elements, std::vector<int64_t> strides, int64_t offset = 0);
  void each() { begin(TileStage::each); }
  void once() { begin(TileStage::once); }

  TileValue load(uint32_t operand);
  TileValue pick(uint32_t operand, TileValue index, int64_t most);
  void store(uint32_t operand, TileValue value);
  TileValue constant(Dtype type, double value);  // integers: of up to 53 bits; beyond, constant_bits
  TileValue constant_bits(Dtype type, uint64_t bits);
  TileValue iota(Dtype type, uint32_t dim);
  TileValue unary(TileOp op, TileValue a);
  TileValue binary(TileOp op, TileValue a, TileValue b);  // compares among them
  TileValue ternary(TileOp op, TileValue a, TileValue b, TileValue c);
  TileValue convert(TileValue a, Dtype type);
  TileValue bit_cast(TileValue a, Dtype type);
  TileValue round_to(TileValue a, Dtype format);
  TileValue reduce_precision(TileValue a, int exponent_bits, int mantissa_bits);
  Dtype type_of(TileValue v) const { return program_.insns[v].type; }

  const TileProgram& program() const { return program_; }
  TileProgram take() { return std::move(program_); }

 private:
  void begin(TileStage stage) { program_.stages.push_back(stage); }
  TileValue push(TileInsn insn);

  TileProgram program_;
};

}  // namespace trine::arch
