// A nest as vector code: straight lists of operations on eight 32-bit lanes, or on 32 bytes, per stage one list for
// what is the same along the vector and one for the loop. The emitter of machine code (jit.cpp) adds loops and
// registers. Not for 64-bit lanes: such programs stay with the interpreter. Invariant: same order of operations as
// there.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "host/loops/nest.h"
#include "host/loops/ops.h"

namespace trine::host {

enum class VOp : uint8_t {
  // clang-format off
  load, store,              // at: operand; by kernel where `call` says so
  array_load, array_store,  // at: array of the frame, one number per lane
  slot_store,               // at: slot; the value is the same in all lanes
  pick,                     // at: operand, in[0]: elements further, held inside
  iota, index,              // along the vector; of another loop (at: LoopKind << 8 | number)
  fadd, fsub, fmul, fdiv, fmin, fmax, fcmp, fsqrt, fround, fma,
  to_float, to_int,
  iadd, isub, imul, smax, smin, umax, umin, ieq, igt, iabs,
  band, bor, bxor, bandn,
  shl, shr, sar,            // imm
  shlv, shrv, sarv,
  blend,                    // where the mask in[0]: in[1], else in[2]
  f16, bf16,                // rounded to it and back
  call,                     // at: one of `calls`, over eight lanes
  patch,                    // in[1], or where any lane of the mask in[2] is set: the call of in[0]
  accumulate,               // at: reduction of the stage
  // clang-format on
};

struct Ref {
  enum Kind : uint8_t { none, reg, constant, slot };
  Kind kind = none;
  uint32_t id = 0;
  bool operator==(const Ref&) const = default;
};

struct VInsn {
  VOp op = VOp::load;
  uint32_t d = 0;  // register number, where it gives a value
  std::array<Ref, 3> in = {};
  uint32_t at = 0;
  int32_t imm = 0;
  uint32_t row = 0;  // of a list for several indices of the inner loop: which
};

struct VList {
  std::vector<VInsn> insns = {};
  uint32_t regs = 0;
};

struct VCall {
  LoopFn fn = nullptr;
  LoopAux aux = {};
};

struct VReduction {
  arch::LoopOp op = arch::LoopOp::count;
  Lane lane = Lane::f32;
  uint32_t identity = 0;  // constant
  uint32_t bits = 32;     // of the type, to which totals wrap
  uint32_t total = 0;     // horizontal: slot; vertical: array
  uint32_t part = 0;      // vertical: array
};

struct VStage {
  arch::LoopStage kind = arch::LoopStage::each;
  VList before = {}, each = {};
  std::vector<VReduction> reductions = {};
  std::vector<uint32_t> operands = {};  // that it touches, those of the loop first
};

struct VArray {
  bool buffered = false;  // else one number per lane of the row block
};

struct VectorProgram {
  bool of_bytes = false;  // lanes of eight bits, 32 to a vector, and all values are such: see bytes.h
  VStage first = {};      // before all rows: operands that are the same for each of them, widened into arrays
  std::vector<VStage> stages = {};
  std::vector<uint32_t> constants = {};  // bits, the same in all lanes; of bytes, four alike
  std::deque<VCall> calls = {};          // their addresses stay
  std::vector<VArray> arrays = {};
  uint32_t slots = 0;
};

// Nothing where the nest has 64-bit lanes or more loops than machine code is written for.
std::optional<VectorProgram> make_vectors(const LoopNest& nest);

// How a memory dtype is loaded and stored without a call.
enum class VMemory : uint8_t { word, bf16, f16, s8, u8, s16, u16, truth, call };
VMemory memory_of(Dtype dtype);

}  // namespace trine::host
