// A nest as steps for the interpreter: one kernel call per instruction and chunk of lanes, values in slots that stay
// in the first-level cache. Not for reading: nest.h says what is computed, this says by which calls.
#pragma once

#include <cstdint>
#include <vector>

#include "host/loops/nest.h"
#include "host/loops/ops.h"

namespace trine::host {

inline constexpr uint32_t kNoStorage = UINT32_MAX;

enum class StepKind : uint8_t {
  compute,     // fn over values in storage
  load_view,   // storage d is the operand's memory itself
  load,        // fn from the operand's memory
  pick,        // likewise, at the indices in storage a
  store_view,  // storage d is the output's memory: what is computed into it next is stored
  store,       // fn to the operand's memory
  iota_vector,
  iota_loop,  // index of another loop: fn writes it once
};

struct InterpStep {
  StepKind kind = StepKind::compute;
  bool uniform = false;  // works on one lane
  LoopFn fn = nullptr;
  LoopFn wrap = nullptr;  // afterwards, in place
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t operand = 0;
  LoopAt loop = {};
  LoopAux aux = {};
};

struct LoopReduction {
  uint32_t value = 0;  // storage of the result
  uint32_t part = 0;   // storage of the accumulators
  uint32_t input = 0;
  Lane lane = Lane::f32;
  LoopFn identity = nullptr, accumulate = nullptr, fold = nullptr, pair = nullptr, wrap = nullptr;
  LoopAux aux = {};
};

struct StageSteps {
  arch::LoopStage kind = arch::LoopStage::each;
  std::vector<InterpStep> steps = {};
  std::vector<LoopReduction> reductions = {};
};

enum class StorageKind : uint8_t { slot, row, buffered, constant };
struct ValueStorage {
  StorageKind kind = StorageKind::slot;
  bool uniform = false;
  uint32_t lane_bytes = 4;
  int64_t at = 0;  // slot number; bytes in the row area, per lane in the buffered area; bytes in the constants
};

struct LoopInterp {
  std::vector<ValueStorage> storage = {};  // value i has storage i; then accumulators and spread copies
  std::vector<StageSteps> stages = {};
  std::vector<uint32_t> buffered = {};  // the values that are
  std::vector<uint64_t> constants = {};
  int64_t block = 0;       // lanes a step works on at most
  int64_t slot_bytes = 0;  // of one slot
  int64_t slots = 0;
  int64_t row_bytes = 0;       // of the row area
  int64_t buffered_bytes = 0;  // of the buffered area, for a whole row (or block of rows)
};

LoopInterp make_interp(const LoopNest& nest, const LoopKernels& kernels);

}  // namespace trine::host
