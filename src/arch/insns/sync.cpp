// Control flow, registers, semaphores, and rendezvous of cores. Loops, branches and register arithmetic are carried out
// by the Sequencer, so their exec does nothing here; semaphores are the driver's, from the instruction's own wait and
// then clauses. What cores do to memory at a rendezvous is in rendezvous.cpp.
#include <algorithm>

#include "arch/insns/lanes.h"
#include "arch/insns/rendezvous.h"
#include "base/text.h"

namespace trine::arch {

namespace {

void nothing(Core&, const Call&) {}

Cost control_cycles(const Chip& k, const Call&) { return {.cycles = static_cast<int64_t>(k.sequencer.control_cycles)}; }

uint32_t& register_of(Core& c, const Call& i, std::string_view slot) {
  return c.registers[static_cast<size_t>(i.engine)][i.operand(slot).reg];
}

void clear_register(Core& c, const Call& i) { register_of(c, i, "dst") = 0; }

void load_register(Core& c, const Call& i) {
  c.set_slot("src");
  int64_t value = 0;
  c.read_int(i.tile("src"), 0, &value);
  register_of(c, i, "dst") = static_cast<uint32_t>(value);
}

void store_register(Core& c, const Call& i) {
  c.set_slot("dst");
  const Operand& src = i.operand("src");
  const Tile d = i.tile("dst");
  int64_t value = src.kind == OperandKind::reg ? static_cast<int32_t>(register_of(c, i, "src"))
                                               : static_cast<int64_t>(src.immediate);
  if (d.dtype == Dtype::u32) value = static_cast<int64_t>(static_cast<uint32_t>(value));
  c.write_int(d, 0, &value);
}

// A register is one 32-bit integer, so its memory side is one element of at most that.
Result<void> one_integer(const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  if (t.elements() != 1)
    return fail(Code::invalid, cat(slot, " has ", t.elements(), " elements; a register holds one, so name one"));
  if (!is_integer(t.dtype) || bits(t.dtype) > 32)
    return fail(Code::invalid, cat(slot, " is ", row(t.dtype).name,
                                   "; registers are 32-bit integers, so view it as s32, u32 or a smaller integer"));
  return {};
}
Result<void> load_check(const Chip&, const Call& i) { return one_integer(i, "src"); }
Result<void> store_check(const Chip&, const Call& i) { return one_integer(i, "dst"); }

Result<void> alu_check(const Chip&, const Call& i) {
  static constexpr Alu kLegal[] = {Alu::bypass,      Alu::add,        Alu::subtract,    Alu::multiply,
                                   Alu::max,         Alu::min,        Alu::bitwise_and, Alu::bitwise_or,
                                   Alu::bitwise_xor, Alu::shift_left, Alu::shift_right};
  const Alu op = i.as<Alu>("op");
  if (std::find(std::begin(kLegal), std::end(kLegal), op) != std::end(kLegal)) return {};
  return fail(Code::invalid, cat("op=", name(op),
                                 " has no register form; registers take bypass, add, subtract, multiply, "
                                 "max, min, bitwise_and, bitwise_or, bitwise_xor, left_shift and right_shift"));
}

Result<void> wait_check(const Chip&, const Call& i) {
  if (i.insn.waits) return {};
  return fail(Code::invalid, "semaphore_wait has no wait clause; add `wait sN>=value`");
}

bool updates_by(const Call& i, UpdateOp op) {
  for (size_t u = 0; u < i.insn.updates; ++u)
    if (i.program.updates[i.insn.update + u].op == op) return true;
  return false;
}
Result<void> set_check(const Chip&, const Call& i) {
  if (updates_by(i, UpdateOp::set)) return {};
  return fail(Code::invalid, "semaphore_set sets no semaphore; add `then sN=value`");
}
Result<void> increment_check(const Chip&, const Call& i) {
  if (updates_by(i, UpdateOp::add)) return {};
  return fail(Code::invalid, "semaphore_increment increments no semaphore; add `then sN+=value`");
}

constexpr std::string_view kUnpublished = "estimate: unpublished; the issue floor of data instructions";

constexpr Row control(Row row) {
  row.engines = kAnyEngine;
  row.unit = Unit::control;
  row.cycles = control_cycles;
  row.source = kUnpublished;
  if (!row.exec) row.exec = nothing;
  return row;
}

constexpr Row rendezvous(Row row) {
  row = control(row);
  row.unit = Unit::rendezvous;
  return row;
}

constexpr Row kRows[] = {
    control({.name = "loop",
             .opcode = 0x01,
             .operands = "trips:r:imm|reg",
             .summary = "runs what follows, up to its end_loop, trips times",
             .label = "LOOP"}),
    control({.name = "end_loop", .opcode = 0x02, .summary = "ends the innermost loop's body", .label = "LOOP"}),
    control({.name = "branch",
             .opcode = 0x03,
             .operands = "a:r:reg b:r:imm|reg",
             .attrs = "cmp:compare to:label",
             .summary = "goes to the label when a cmp b, as signed 32-bit integers",
             .label = "COMPARE_BRANCH"}),
    control({.name = "jump",
             .opcode = 0x04,
             .attrs = "to:label",
             .summary = "goes to the label",
             .label = "COMPARE_BRANCH"}),
    control({.name = "register_move",
             .opcode = 0x05,
             .operands = "dst:w:reg src:r:imm|reg",
             .summary = "dst = src",
             .label = "WRITE"}),
    control({.name = "register_alu",
             .opcode = 0x06,
             .operands = "dst:w:reg a:r:reg b:r:imm|reg",
             .attrs = "op:alu",
             .check = alu_check,
             .summary = "dst = a op b in 32-bit integers that wrap",
             .label = "WRITE"}),
    control({.name = "register_load",
             .opcode = 0x07,
             .operands = "dst:w:reg src:r:sbuf|hbm",
             .exec = load_register,
             .check = load_check,
             .summary = "dst = the one integer of src",
             .label = "TENSOR_LOAD"}),
    control({.name = "register_store",
             .opcode = 0x08,
             .operands = "dst:w:sbuf|hbm src:r:reg|imm",
             .exec = store_register,
             .check = store_check,
             .summary = "the one integer of dst = src",
             .label = "WRITE"}),
    control({.name = "register_alloc",
             .opcode = 0x09,
             .operands = "dst:w:reg",
             .exec = clear_register,
             .summary = "takes a register into use; it starts at zero",
             .label = "WRITE"}),
    control({.name = "semaphore_wait",
             .opcode = 0x0a,
             .check = wait_check,
             .summary = "does nothing until its wait clause holds",
             .label = "EVENT_SEMAPHORE"}),
    control({.name = "semaphore_set",
             .opcode = 0x0b,
             .check = set_check,
             .summary = "sets the semaphores of its then clause",
             .label = "EVENT_SEMAPHORE"}),
    control({.name = "semaphore_increment",
             .opcode = 0x0c,
             .check = increment_check,
             .summary = "increments the semaphores of its then clause",
             .label = "EVENT_SEMAPHORE"}),
    rendezvous({.name = "core_barrier",
                .opcode = 0x90,
                .needs = Feature::core_pair,
                .attrs = "cores:ints=",
                .exec = barrier,
                .check = barrier_check,
                .summary = "waits until this engine of every core has come here",
                .label = "PSEUDO_CORE_BARRIER"}),
    rendezvous({.name = "sendrecv",
                .opcode = 0x91,
                .needs = Feature::core_pair,
                .operands = "dst:w:sbuf src:r:sbuf",
                .attrs = "send_to_rank:int recv_from_rank:int pipe_id:int=0 gpsimd_dma:bool=false",
                .exec = exchange,
                .check = exchange_check,
                .summary = "dst = the src of core recv_from_rank; this core's src goes to core send_to_rank",
                .label = "PSEUDO_CORE_BARRIER"}),
    rendezvous({.name = "collective",
                .opcode = 0x92,
                .operands = "dst:w:hbm|sbuf src:r:hbm|sbuf",
                .attrs = "kind:collective op:alu=add groups:ints= dim:int=0 pairs:ints= root:int=0",
                .exec = collective,
                .check = collective_check,
                .summary = "dst = what the collective makes of the group's src tiles, ranks being cores in order",
                .label = "PSEUDO_TRIGGER_COLLECTIVE_2"}),
    rendezvous({.name = "collective_v",
                .opcode = 0x93,
                .operands = "dst:w:hbm src:r:hbm metadata:rw:hbm|sbuf",
                .attrs = "kind:collective groups:ints= recv_counts_known:bool=false has_rdispls:bool=false",
                .exec = collective_v,
                .check = collective_v_check,
                .summary = "a collective whose sizes are data: metadata has counts and offsets of each rank",
                .label = "PSEUDO_TRIGGER_COLLECTIVE_2"}),
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> sync_rows() { return kRows; }

}  // namespace trine::arch
