// Row: everything Trine knows of one instruction, in one place. Decoder, assembler, disassembler, verifier, NKI call,
// profiler label and reference page are derived from it. `cycles` is the uncontended cost; what crosses instructions
// (hidden weight loads, shared ports, DMA contention, table loads, throttling) belongs to sim/core.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/call.h"
#include "arch/chips/feature.h"
#include "arch/enums.h"
#include "base/result.h"

namespace trine::arch {

class Core;

// Uncontended cost on the instruction's own engine, in that engine's cycles.
struct Cost {
  int64_t cycles = 0;  // initiation interval: the engine can start its next instruction after this
  int64_t load = 0;    // tensor engine: stationary load that may hide behind the previous multiply
  int64_t flops = 0;   // tensor engine: 2·K·M·N, what MFU counts
  int table = -1;      // scalar engine: the activation table it needs, -1 for any
  bool fast = false;   // vector engine: a fast mode, which takes GpSimd's SBUF port as well
};

enum class Unit : uint8_t {
  engine,      // runs on the engine whose stream holds it
  queue,       // is triggered from the stream and runs on a DMA queue (attribute `queue`); updates at completion
  rendezvous,  // a rendezvous of the program's cores: barriers, exchanges, collectives
  control,     // sequencer only: semaphores, registers, loops, branches
};

using Exec = void (*)(Core&, const Call&);
using Cycles = Cost (*)(const Chip&, const Call&);
using Check = Result<void> (*)(const Chip&, const Call&);  // rules of this row beyond the general ones

// The row's nki.isa call, where its arguments are operands and attributes of the row as they stand; Python makes the
// function in both dialects (python/trine/nki/isa_rows.py). Empty: the call is written there by hand, or there is none.
struct NkiCall {
  std::string_view takes = {};  // parameters in order: "dst data imm dst_idx"; "engine=vector" where there is a choice
  std::string_view old = {};    // of the functional dialect, which makes dst itself: "* data imm dst_idx"
  std::string_view returns = {};  // what it makes: "data" a tile as that operand is, "data 8 u32" of 8 u32 a partition
};

struct Row {
  std::string_view name = {};  // the nki.isa spelling where there is one
  uint16_t opcode = 0;
  EngineMask engines = 0;  // streams that may hold it
  Unit unit = Unit::engine;
  Feature needs = Feature::base;  // of the chip; finer rules go in `check`
  // "dst:w:sbuf|psum data:r:sbuf|psum bias?:r:sbuf|imm"; modes r, w, rw, m (may write); kinds hbm sbuf psum imm reg
  std::string_view operands = {};
  // "op0:alu op1:alu=bypass negate:bool=false mask:ints tile:ints="; an enum's name, or int float bool ints string
  // label
  std::string_view attrs = {};
  Exec exec = nullptr;
  Cycles cycles = nullptr;
  Check check = nullptr;
  NkiCall nki = {};
  std::string_view summary = {};  // its meaning in one line, for people
  std::string_view source = {};   // of the cost: "doc: …", "measured: …" or "estimate: …"
  std::string_view label = {};    // the profiler's opcode name
};

enum class Mode : uint8_t { read, write, read_write, may_write };
enum : uint8_t { kHbm = 1, kSbuf = 2, kPsum = 4, kImm = 8, kReg = 16 };

struct OperandSlot {
  std::string_view name;
  Mode mode = Mode::read;
  uint8_t kinds = 0;  // kHbm…kReg
  bool optional = false;
  bool reads() const { return mode == Mode::read || mode == Mode::read_write; }
  bool writes() const { return mode != Mode::read; }
};

enum class AttrType : uint8_t { integer, real, boolean, enumeration, ints, string, label };
struct AttrSlot {
  std::string_view name;
  AttrType type = AttrType::integer;
  const EnumRow* set = nullptr;  // enumeration
  bool required = true;
  int64_t initial = 0;  // in the encoding of Program::attrs; ints: -1 is the empty list
};

// A row with its specs parsed.
struct RowInfo {
  const Row* row = nullptr;
  std::vector<OperandSlot> slots;
  std::vector<AttrSlot> attrs;
  int slot(std::string_view name) const;  // -1 when absent
  int attr(std::string_view name) const;
};

std::span<const RowInfo> rows();                // every row, by opcode order
const RowInfo* row_by_opcode(uint16_t opcode);  // null when unknown
const RowInfo* row_by_name(std::string_view name);

// Compile-time check of one table: names and opcodes unique, nothing missing.
template <size_t N>
constexpr bool well_formed(const Row (&table)[N]) {
  for (size_t i = 0; i < N; ++i) {
    const Row& r = table[i];
    if (r.name.empty() || !r.opcode || !r.engines || !r.exec || !r.cycles || r.summary.empty() || r.source.empty())
      return false;
    for (size_t j = 0; j < i; ++j)
      if (table[j].name == r.name || table[j].opcode == r.opcode) return false;
  }
  return true;
}

// The six tables, one per file in insns/.
std::span<const Row> tensor_rows();
std::span<const Row> vector_rows();
std::span<const Row> scalar_rows();
std::span<const Row> gpsimd_rows();
std::span<const Row> dma_rows();
std::span<const Row> sync_rows();

}  // namespace trine::arch
