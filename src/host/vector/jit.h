// Machine code for a nest on x86-64 with AVX2 and FMA, AVX-512 for bf16: the loops and stages of a row in one function.
// Not everything: where make_code() gives nothing the interpreter runs the program, with the same results.
// Memory is writable while code is written and executable afterwards, never both.
#pragma once

#include <memory>
#include <span>

#include "host/loops/nest.h"

namespace trine::host {

struct NestCode;

// `block`: lanes of a unit along a vertical vector. `whole_rows`: it is always run from its first to its last. `bf16`:
// the processor converts to bf16, see has_avx512_bf16().
std::shared_ptr<const NestCode> make_code(const LoopNest& nest, int64_t block, bool whole_rows, bool bf16);

struct LoopRange {
  int64_t row = 0, rows = 1;   // along the innermost row loop
  int64_t begin = 0, end = 0;  // along the vector
};

// May a range along a vertical vector be longer than a block? So if nothing is buffered per lane.
bool is_unblocked(const NestCode& code);
size_t code_scratch_bytes(const NestCode& code);

// `pointers`: operands at row 0 of the innermost row loop; `steps`: bytes from row to row; `index`: of the other row
// loops.
void set_call(const NestCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const LoopRange& range, std::byte* scratch);
// A call that was set; where the nest has no row loops, it may be entered again and again.
void enter(const NestCode& code, std::byte* scratch);
// The same for machine code: called with the scratch in rdi on a stack aligned to 64 bytes, it may change any register
// but rsp and r15.
const void* inner_entry(const NestCode& code);
size_t call_bytes(const NestCode& code);  // of the scratch: what set_call() writes
void run_code(const NestCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const LoopRange& range, std::byte* scratch);

}  // namespace trine::host
