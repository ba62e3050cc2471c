// A loop unit (graph/fuse.h) as instructions: its space is cut into tiles of partitions and blocks of columns; inside
// one, every member is an instruction or a few on tiles that stay in SBUF.
#pragma once

#include "compile/device/loops/map.h"
#include "compile/device/memory/store.h"
#include "compile/device/multiplies/dot.h"
#include "compile/device/multiplies/summed.h"
#include "compile/graph/fuse.h"

namespace trine::compile::device {

// Why the unit cannot run on the device; empty where it can.
std::string loop_obstacle(const Unit& unit);

// Its variants: cuts of its columns into blocks, those that differ.
std::vector<Choice> loop_variants(Recorder& rec, Store& store, const Unit& unit);

void lower_loop(Recorder& rec, Store& store, const Unit& unit);
// With the unit's product made block by block as the loop reads it; false, and nothing done, where it cannot be.
bool lower_epilogue(Recorder& rec, Store& store, const Unit& unit, Product& product);
// What a loop makes, summed over its rows into `out` and kept nowhere; false likewise.
bool lower_summed(Recorder& rec, Store& store, const Summed& sum, Memory& out);

}  // namespace trine::compile::device
