// Dependences: which instructions must be over before which, from the bytes they touch once every tensor has its
// address: a read after a write, a write after a read or a write, the engines' hidden values, registers, and what the
// user asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compile/stream/kernel.h"

namespace trine::compile {

enum class EdgeKind : uint8_t {
  data,  // reads or overwrites what the earlier one wrote
  anti,  // overwrites what the earlier one read
};
struct Edge {
  uint32_t insn = 0;
  EdgeKind kind = EdgeKind::data;
};

// Of each instruction, earlier instructions of the same core; each named once.
class Edges {
 public:
  std::span<const Edge> before(uint32_t insn) const {
    return {pool_.data() + begin_[insn], pool_.data() + begin_[insn + 1]};
  }
  void add(uint32_t earlier, EdgeKind kind) { pool_.push_back({earlier, kind}); }
  void close() { begin_.push_back(static_cast<uint32_t>(pool_.size())); }  // the instruction in hand is complete

 private:
  std::vector<Edge> pool_;
  std::vector<uint32_t> begin_{0};
};

// What an engine keeps from one instruction to the next, beside their operands.
bool keeps_sum(const arch::Program& program, const KernelInsn& insn);  // reads or writes the engine's accumulators
bool keeps_random(const KernelInsn& insn);                             // advances its random numbers

// Sizes of the on-chip memories in bytes per partition, where they are not the chip's.
Edges find_edges(Kernel& kernel, int64_t sbuf_bytes = 0, int64_t psum_bytes = 0);

}  // namespace trine::compile
