// window_load and window_store (decompose/decompose.h) by DMA whose addresses data decides: rows by an index tile where
// the chip gathers, else one window after the other by a register.
#pragma once

#include "compile/device/memory/moves.h"

namespace trine::compile::device {

std::string window_obstacle(const ir::Node& node);
// in_place: whoever reads a window reads it where it lies, one at a time.
void lower_window_load(Recorder& rec, Store& store, const ir::Node& node, bool in_place);
// into: the operand's memory, or -1 where others read it and the result has its own.
void lower_window_store(Recorder& rec, Store& store, const ir::Node& node, int64_t into);

}  // namespace trine::compile::device
