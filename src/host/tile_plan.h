// What prepare() makes of a tile program and run() walks: the nest, its steps, and how the work is cut.
// Invariant: units and parts depend on the program alone, so results do not depend on threads.
#pragma once

#include <memory>

#include "host/tile.h"
#include "host/tile_interp.h"
#include "host/tile_jit.h"
#include "host/tile_nest.h"

namespace trine::host {

struct TilePlan {
  TileNest nest = {};
  TileInterp interp = {};
  std::shared_ptr<const TileCode> code = {};  // null: the interpreter runs it
  bool empty = false;                         // no rows: nothing happens
  int64_t blocks = 1;                         // of lanes, along a vertical vector
  int64_t units = 1;                          // rows times blocks: what threads share out
  int64_t parts = 1;                          // partial results of a reduction over a unit; 0: over nothing
  int64_t unit_cost = 0;                      // in f32 additions, roughly
};

// Of a verified program; `fixed` as in make_nest().
std::shared_ptr<const TilePlan> make_plan(const arch::TileProgram& program, const TileOptions& options, bool fixed);

}  // namespace trine::host
