// A loop program made ready for any executor: dims dropped, merged and ordered, the vector dim chosen, values marked.
// Not code yet: the interpreter (interp.cpp) and the emitter of machine code read it.
// Invariant: what the nest computes is what the program says; only the order of reductions is chosen here.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/plan/loop.h"

namespace trine::host {

struct NestLoop {
  int64_t size = 1;
  std::vector<int64_t> steps = {};  // bytes, per operand
};

enum class LoopKind : uint8_t { none, row, inner, vector };
struct LoopAt {
  LoopKind kind = LoopKind::none;  // none: the dim has one index
  uint32_t index = 0;
};

struct ValueFacts {
  bool uniform = false;   // one number along the vector
  bool of_row = false;    // lives through the stages of a row
  bool buffered = false;  // of an element, and used in later stages: buffered in the row's scratch
};

// An operand that does not lie along the vector: blocks of it are moved to or from scratch that does.
struct StagedOperand {
  uint32_t operand = 0;
  int64_t row = 0, column = 0;  // bytes along the innermost row loop and the vector
};

// An input of few numbers that comes again and again along the vector, as a channel's mean does: run() writes it out
// `times` times, so that short rows make one long one.
struct RepeatedOperand {
  uint32_t operand = 0;
  int64_t count = 1, step = 0;  // numbers, and bytes from one to the next
  int64_t times = 1;
};

struct LoopNest {
  std::vector<arch::LoopOperand> operands = {};
  std::vector<arch::LoopStage> stages = {};
  std::vector<arch::LoopInsn> insns = {};  // with values that later stages compute again written out
  std::vector<ValueFacts> facts = {};      // per instruction
  std::vector<LoopAt> iota_loops = {};     // per dim of the program
  std::vector<int64_t> offsets = {};       // bytes, per operand

  std::vector<NestLoop> rows = {}, inner = {};  // outermost first, without the vector's loop
  NestLoop vector = {};
  std::vector<StagedOperand> staged = {};  // only where there are no inner dims
  std::vector<RepeatedOperand> repeated = {};
  bool vertical = true;  // the vector runs along a row dim: each lane is a row of its own

  int64_t row_count = 1;    // product of rows
  int64_t inner_count = 1;  // of inner
  int64_t inner_cut = 1;    // reductions are cut here: so many indices of the outermost inner loop per partial result
};

// Every other element along the vector, of 32 bits or more, read, or written together with the elements between:
// machine code shuffles these, and kernels step over what is between, so they are not staged.
bool is_doubled(const arch::LoopProgram& program, size_t operand, int64_t stride);
// The output that is written together with this one, or nothing.
inline constexpr uint32_t kNoPartner = UINT32_MAX;
uint32_t partner_of(const std::vector<arch::LoopOperand>& operands, uint32_t operand);

// `fixed`: the dims stay as they are, the last one is the vector.
LoopNest make_nest(const arch::LoopProgram& program, bool fixed = false);

int cost(arch::LoopOp op);  // of one element, in f32 additions, roughly

}  // namespace trine::host
