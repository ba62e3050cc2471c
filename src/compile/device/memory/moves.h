// Ops that only move elements, by DMA from HBM to HBM: concatenate, pad, and bits under another element size.
#pragma once

#include "compile/device/loops/map.h"
#include "compile/device/memory/store.h"

namespace trine::compile::device {

// How far each side moves, in elements, for `count` of a dim.
struct Move {
  int64_t to = 0, from = 0, count = 1;
};
// to[...] = from[...] over the dims, outermost first, both in HBM.
void move(Recorder& rec, const View& to, const View& from, const std::vector<Move>& dims);
// Every element of the value's memory in HBM.
void fill(Recorder& rec, Store& store, Memory& m, const ir::Value& value);
void copy_all(Recorder& rec, uint32_t to, Dtype to_dtype, uint32_t from, Dtype from_dtype, int64_t elements);

std::string move_obstacle(const ir::Node& node);
void lower_concatenate(Recorder& rec, Store& store, const ir::Node& node);
// From memory to memory where it does not stay on chip; false: it is to be done by a loop.
bool lower_slice(Recorder& rec, Store& store, const ir::Node& node);
void lower_pad(Recorder& rec, Store& store, const ir::Node& node);
void lower_bits(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
