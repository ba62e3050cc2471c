// Transposes of tiles, by the engine that the unit's choice names, or, where that one cannot,
// by one that can. Three can: the tensor engine (blocks of 128 by 128 into PSUM, then a copy), the vector engine
// (blocks of 32 by 32, any format) and DMA (2- and 4-byte elements, from HBM too, so that rows need not come first).
#pragma once

#include <span>

#include "compile/device/choose/choice.h"
#include "compile/device/record.h"

namespace trine::compile::device {

// Which engine transposes elements of this format, bit for bit.
TransposeEngine transpose_engine_of(const arch::Chip& chip, TransposeEngine wanted, Dtype dtype);

// The same where elements that are not finite must not reach others, as they do where the tensor engine multiplies by
// an identity to transpose them: for whoever does not multiply the result.
TransposeEngine exact_transpose_engine(const arch::Chip& chip, TransposeEngine wanted);

// dst [columns, rows of all] = tiles [rows, columns] of SBUF, side by side: at most 128 of each, and a bank in all.
// Cast on the way where dst has another format.
// room: columns of PSUM that it takes at least.
void emit_transpose(Recorder& rec, TransposeEngine by, const View& dst, std::span<const View> tiles, int64_t room = 0);
// The same of one tile, where engines can read it: in PSUM where the tensor engine transposed it.
View transposed_tile(Recorder& rec, TransposeEngine by, const View& tile);

// Rows of HBM, `runs` of some neighbouring elements in each.
struct HbmRows {
  uint32_t tensor = 0;
  Dtype dtype = Dtype::f32;
  int64_t e0 = 0;
  Axis rows = {}, runs = {0, 1};
};
// dst [columns, run, row] straight from rows [row, run, column]; false where nobody does that for this choice.
bool load_transposed(Recorder& rec, TransposeEngine by, const View& dst, const HbmRows& from);

}  // namespace trine::compile::device
