// Recording: a recorded kernel of one core as bytes, and its instructions put into another kernel: how an NKI kernel
// becomes part of a larger program. The bytes are a Program: each instruction stands in the stream of the first engine
// that may run it, loops in all; the program order, and what is known of an instruction beside its encoding, is
// attached. Whoever reads them need not trust them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "arch/program/kernel.h"

namespace trine::arch {

struct Recording {
  // An instruction in program order.
  struct Beside {
    Insn insn = {};
    EngineMask engines = 0;
    bool fixed_order = false, queue_given = false, repeats = false;
    std::vector<uint32_t> after = {};  // numbers of instructions
  };
  Program program = {};
  std::vector<Beside> kernel_insns = {};
  std::vector<Origin> origins = {};             // of each tensor; without lines
  bool middle_end = false, one_engine = false;  // as the kernel's

  // Tensors of a kind, in the order in which they were made.
  std::vector<uint32_t> tensors(TensorKind kind) const;
};

Result<std::vector<std::byte>> recording_bytes(const Kernel& kernel);
Result<Recording> parse_recording(std::span<const std::byte> bytes);

// The instructions of `part` after those of `to`, inside `depth` loops. `tensors`: of each of the part's tensors the
// one that stands for it, or kOwn: a new one.
inline constexpr uint32_t kOwn = ~uint32_t{0};
Result<void> append(Kernel& to, const Recording& part, std::span<const uint32_t> tensors, int depth = 0);

}  // namespace trine::arch
