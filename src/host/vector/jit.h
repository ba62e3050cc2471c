// Machine code for a nest on x86-64 with AVX2 and FMA, AVX-512 for bf16: the loops and stages of a row in one function.
// Not everything: where make_code() gives nothing the interpreter runs the program, with the same results.
// Memory is writable while code is written and executable afterwards, never both.
#pragma once

#include <memory>
#include <span>

#include "host/loops/nest.h"

namespace trine::host {

struct TileCode;

// `block`: lanes of a unit along a vertical vector. `bf16`: the processor converts to bf16, see has_avx512_bf16().
std::shared_ptr<const TileCode> make_code(const TileNest& nest, int64_t block, bool bf16);

struct TileRange {
  int64_t row = 0, rows = 1;   // along the innermost row loop
  int64_t begin = 0, end = 0;  // along the vector
};

// May a range along a vertical vector be longer than a block? So if nothing is kept per lane.
bool is_unblocked(const TileCode& code);
size_t code_scratch_bytes(const TileCode& code);

// `pointers`: operands at row 0 of the innermost row loop; `steps`: bytes from row to row; `index`: of the other row
// loops.
void set_call(const TileCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const TileRange& range, std::byte* scratch);
// A call that was set; where the nest has no row loops, it may be entered again and again.
void enter(const TileCode& code, std::byte* scratch);
void run_code(const TileCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const TileRange& range, std::byte* scratch);

}  // namespace trine::host
