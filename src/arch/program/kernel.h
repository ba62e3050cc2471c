// Kernel: a kernel as it was recorded, instructions in program order over tensors that may not have an address yet, and
// what the passes between the recording and the Program share. Operands, patterns and attributes lie in the pools of
// the Program to be, so a pass moves numbers, never instructions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/builder.h"
#include "arch/program/verify.h"
#include "arch/row.h"
#include "arch/sequencer.h"

namespace trine::arch {

// One recorded instruction. Its number is its index in Kernel::insns.
struct KernelInsn {
  const RowInfo* info = nullptr;
  uint32_t operand = 0, attr = 0;  // first in the program's pools
  uint32_t line = 0;               // as Insn::line
  uint32_t after = 0, afters = 0;  // in Kernel::afters: instructions that must be over before it
  uint8_t core = 0;
  EngineMask engines = 0;    // streams that may hold it; one bit once it is decided
  bool fixed_order = false;  // does not pass another such instruction on its engine
  bool queue_given = false;  // the DMA queue is the user's choice
  bool repeats = false;      // a loop that goes on while its register is not zero

  uint16_t opcode() const { return info->row->opcode; }
  Unit unit() const { return info->row->unit; }
};

// What the recording knows of a tensor beside the Program's own row.
struct Origin {
  bool fixed_address = false;  // the user chose the address
  uint32_t line = 0;           // where it was made, as Insn::line
  bool own = false;            // the user's own buffer: one place for all that is ever written to it
};

struct Kernel {
  const Chip* chip = nullptr;
  Builder builder;
  std::vector<KernelInsn> insns;  // of all cores, in program order
  std::vector<uint32_t> afters;
  std::vector<Origin> origins;  // of each tensor
  bool middle_end = false;      // Neuron's tensorizer rearranges it: NKI's functional dialect
  bool one_engine = false;      // work that two engines could take stays with one; see Segment::choices
  std::vector<std::string> messages;

  Program& program() { return builder.program(); }
  const Program& program() const { return builder.program(); }

  // The same attributes with one of them changed; blocks are shared.
  uint32_t attrs_with(const KernelInsn& w, std::string_view name, int64_t value);
  uint32_t attr_block(const std::vector<int64_t>& values);

 private:
  std::unordered_map<std::string, uint32_t> attr_blocks_;
};

inline bool begins_loop(const KernelInsn& w) { return w.opcode() == kOpLoop; }
inline bool ends_loop(const KernelInsn& w) { return w.opcode() == kOpEndLoop; }
// A point that everything before is over at, and that everything after waits for.
inline bool is_fence(const KernelInsn& w) {
  return begins_loop(w) || ends_loop(w) || w.info->row->name == "core_barrier";
}

// The general rules and the row's own, as if the instruction stood alone on this engine inside these loops.
Result<void> check_on(const Kernel& kernel, const KernelInsn& insn, Engine engine, const LoopNest& loops);

inline constexpr int kEngines = kEngineCount;
inline Engine only_engine(EngineMask mask) { return static_cast<Engine>(__builtin_ctz(mask)); }

}  // namespace trine::arch
