// A nest as steps for the interpreter: one kernel call per instruction and chunk of lanes, values in slots that stay
// in the first-level cache. Not for reading: tile_nest.h says what is computed, this says by which calls.
#pragma once

#include <cstdint>
#include <vector>

#include "host/loops/nest.h"
#include "host/loops/ops.h"

namespace trine::host {

inline constexpr uint32_t kNoPlace = UINT32_MAX;

enum class StepKind : uint8_t {
  compute,     // fn over places
  load_view,   // place d is the operand's memory itself
  load,        // fn from the operand's memory
  pick,        // likewise, at the indices of place a
  store_view,  // place d is the output's memory: what is computed into it next is stored
  store,       // fn to the operand's memory
  iota_vector,
  iota_loop,  // index of another loop: fn writes it once
};

struct TileStep {
  StepKind kind = StepKind::compute;
  bool uniform = false;  // works on one lane
  TileFn fn = nullptr;
  TileFn wrap = nullptr;  // afterwards, in place
  uint32_t d = 0, a = 0, b = 0, c = 0;
  uint32_t operand = 0;
  LoopAt loop = {};
  TileAux aux = {};
};

struct TileReduction {
  uint32_t value = 0;  // place of the result
  uint32_t part = 0;   // place of the accumulators
  uint32_t input = 0;
  Lane lane = Lane::f32;
  TileFn identity = nullptr, accumulate = nullptr, fold = nullptr, pair = nullptr, wrap = nullptr;
  TileAux aux = {};
};

struct TileStageSteps {
  arch::TileStage kind = arch::TileStage::each;
  std::vector<TileStep> steps = {};
  std::vector<TileReduction> reductions = {};
};

enum class PlaceKind : uint8_t { slot, row, kept, constant };
struct TilePlace {
  PlaceKind kind = PlaceKind::slot;
  bool uniform = false;
  uint32_t lane_bytes = 4;
  int64_t at = 0;  // slot number; bytes in the row area, per lane in the kept area; bytes in the constants
};

struct TileInterp {
  std::vector<TilePlace> places = {};  // value i is place i; then accumulators and spread copies
  std::vector<TileStageSteps> stages = {};
  std::vector<uint32_t> kept = {};  // the places that are
  std::vector<uint64_t> constants = {};
  int64_t block = 0;       // lanes a step works on at most
  int64_t slot_bytes = 0;  // of one slot
  int64_t slots = 0;
  int64_t row_bytes = 0;   // of the row area
  int64_t kept_bytes = 0;  // of the kept area, for a whole row (or block of rows)
};

TileInterp make_interp(const TileNest& nest, const TileKernels& kernels);

}  // namespace trine::host
