// The emitter's lower half: straight lists of vector code as AVX2 instructions, with registers and spills.
// General registers: rdi words of the call, rsi arrays of lanes, rdx kept arrays, rbp index and rbx end along the
// vector, r9 to r14 operands, r15 the caller's, rax rcx r8 free for anyone. On the stack: see Stack.
#pragma once

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <xbyak/xbyak.h>

#include <deque>
#include <vector>

#include "host/loops/nest.h"
#include "host/vector/bytes.h"
#include "host/vector/registers.h"
#include "host/vector/vector.h"

namespace trine::host {

// Words of 8 bytes that a call passes, by position.
struct JitWords {
  static constexpr int kRows = 0, kBegin = 1, kEnd = 2, kFrame = 3, kInner = 4, kIndex = 8, kOperands = 24;
  static int index(LoopKind kind, int number) { return (kind == LoopKind::inner ? kInner : kIndex) + number; }
  size_t operands = 0;
  int current(uint32_t o) const { return kOperands + int(o); }
  int row_step(uint32_t o) const { return kOperands + int(operands + o); }
  int now(uint32_t o) const { return kOperands + int(2 * operands + o); }
  size_t count() const { return kOperands + 3 * operands; }
};

// Bytes from rsp, all multiples of 32.
struct Stack {
  static constexpr int kSpillsMax = 96;
  int mask = 0, tail = 32, call = 64, saved = 192, words = 704, spills = 832, slots = 0, accumulators = 0, size = 0;
  void set(int slot_count, int reduction_count) {
    slots = spills + kSpillsMax * 32;
    accumulators = slots + slot_count * 32;
    size = accumulators + reduction_count * kAccumulatorBytes;
  }
};

// How a list is laid out: `copies` vectors side by side.
struct Layout {
  int copies = 1;
  int first = 0;                    // vectors before this one since the index
  bool masked = false;              // the last vector, of fewer than eight lanes
  int rest = 0;                     // its lanes, where they are known while code is written
  bool uniform = false;             // a list that runs before the loop: loads and stores of one element
  int pinned = 0;                   // accumulators in the highest registers: reduction r, vector u in 15 - (4 r + u)
  int before = 0;                   // vectors before the index, where each has an accumulator of its own
  bool halves_in_register = false;  // how bf16 is widened lies in the register below those

  int registers() const { return 16 - pinned - halves_in_register; }  // free for values, from 0 on
};

class Lines : public Xbyak::CodeGenerator {
 protected:
  using Address = Xbyak::Address;
  using Reg64 = Xbyak::Reg64;
  using Xmm = Xbyak::Xmm;
  using Ymm = Xbyak::Ymm;

  Lines(const LoopNest& nest, const VectorProgram& program, bool bf16)
      : Xbyak::CodeGenerator(16384, Xbyak::AutoGrow), nest_(nest), program_(program), has_bf16_(bf16) {
    words_.operands = nest.operands.size();
    size_t reductions = 0;
    for (const VStage& s : program.stages) reductions = std::max(reductions, s.reductions.size());
    stack_.set(int(program.slots), int(reductions));
  }

  void emit(const VList& list, const VStage& stage, const Layout& layout);
  static int pressure(const VList& list);  // values alive at once
  bool of_bytes() const { return program_.of_bytes; }
  int vector_lanes() const { return of_bytes() ? int(kByteLanes) : 8; }  // of a vector
  void pair(const VReduction& r, const Ymm& d, const Ymm& a, const Xbyak::Operand& b, const Ymm& spare);
  void wrap(const VReduction& r, const Ymm& d);
  Address constant(uint32_t id) { return ptr[rip + constants_[id]]; }
  Address word(int i) { return qword[rdi + 8 * i]; }
  Address stack_word(int i) { return qword[rsp + stack_.words + 8 * i]; }
  void load_pointers(const VStage& stage, bool inner);
  bool widens(const VList& list) const;  // bf16, and calls nothing that would lose registers
  void load_upper_halves(const Layout& layout);
  void write_unusual();
  void write_constants();

  const LoopNest& nest_;
  const VectorProgram& program_;
  JitWords words_;
  Stack stack_;
  std::vector<int64_t> array_offsets_;  // bytes in the frame
  int64_t width_ = 0;                   // lanes of a row of an array

 private:
  struct Item {
    const VInsn* insn;
    int copy;
  };
  struct State {
    const VStage& stage;
    const Layout& layout;
    uint32_t regs;
    Registers registers;
    uint32_t at = 0;
    const Item* item = nullptr;
  };

  // A vector, by register, that the processor's conversion may round otherwise than we do.
  struct Unusual {
    int t = 0, v = 0;
    Xbyak::Label begin = {}, back = {};
  };

  uint32_t number(const State& s, Ref r) const { return uint32_t(s.item->copy) * s.regs + r.id; }
  bool in_register(const State& s, Ref r) const {
    return r.kind == Ref::reg && s.registers.where(number(s, r)) != kNoRegister;
  }
  Ymm take(State& s, uint32_t v);
  Ymm spare(State& s) { return take(s, Registers::kFree); }
  Address memory(const State& s, Ref r);
  Ymm reg_of(State& s, Ref r);
  Ymm result(State& s);
  Ymm take_over(State& s, Ref r);
  void save_pinned(State& s, bool saves);
  void finish(State& s);
  void one(State& s);
  void two(State& s, void (Lines::*op)(const Ymm&, const Ymm&, const Xbyak::Operand&), bool commutes);
  void fused(State& s);
  void blend(State& s);
  void load(State& s);
  void load_uniform(VMemory kind, const Ymm& d, const Reg64& base);
  void load_lanes(State& s, const Ymm& d, int vectors);
  void store_lanes(State& s, const Ymm& v, int vectors);
  void load_vector(const Layout& layout, VMemory kind, const Ymm& d, const Address& from);
  void is_set(State& s, const Ymm& d);
  void pick(State& s);
  void pick_narrow(State& s, VMemory kind, const Ymm& d, const Ymm& index);
  void load_doubled(State& s, const Ymm& d, int vectors);
  void store(State& s);
  void store_doubled(State& s, const Ymm& v);
  void store_narrow(State& s, VMemory kind, const Ymm& v);
  void store_bytes(State& s, VMemory kind, const Ymm& v);
  void round_words(const Ymm& t, const Ymm& v, const Ymm& u);
  void round_lanes(const Ymm& d, const Ymm& v, const Ymm& t, const Ymm& u);
  void pack_rounded(const Ymm& t, const Ymm& v, const Ymm& u);
  void round_halves(State& s, const Ymm& t, const Ymm& v);
  void write_rounding();
  void store_call(State& s, const Ymm& v);
  void call(State& s);
  void patch(State& s);
  void accumulate(State& s);
  void shift(State& s);
  bool simple(State& s);
  void call_kernel(const VCall& c, int64_t lanes, bool counts_tail);
  void copy_tail(const Reg64& base, const VInsn& n, bool to_operand);

  Reg64 pointer(uint32_t operand);
  int row_offset(const VInsn& n) const;
  bool is_doubled(const VInsn& n) const;  // every other element along the vector
  Address address(const VInsn& n, int vectors, int further = 0);
  Address array(const VInsn& n, int vectors);
  Address spill(int slot) { return yword[rsp + stack_.spills + 32 * slot]; }

  void op_add(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vaddps(d, a, b); }
  void op_sub(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vsubps(d, a, b); }
  void op_mul(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vmulps(d, a, b); }
  void op_div(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vdivps(d, a, b); }
  void op_min(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vminps(d, a, b); }
  void op_max(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vmaxps(d, a, b); }
  void op_and(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vandps(d, a, b); }
  void op_or(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vorps(d, a, b); }
  void op_xor(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vxorps(d, a, b); }
  void op_andn(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vandnps(d, a, b); }
  void op_iadd(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { of_bytes() ? vpaddb(d, a, b) : vpaddd(d, a, b); }
  void op_isub(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { of_bytes() ? vpsubb(d, a, b) : vpsubd(d, a, b); }
  void op_imul(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vpmulld(d, a, b); }
  void op_smax(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpmaxsb(d, a, b) : vpmaxsd(d, a, b);
  }
  void op_smin(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpminsb(d, a, b) : vpminsd(d, a, b);
  }
  void op_umax(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpmaxub(d, a, b) : vpmaxud(d, a, b);
  }
  void op_umin(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpminub(d, a, b) : vpminud(d, a, b);
  }
  void op_ieq(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpcmpeqb(d, a, b) : vpcmpeqd(d, a, b);
  }
  void op_igt(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) {
    of_bytes() ? vpcmpgtb(d, a, b) : vpcmpgtd(d, a, b);
  }
  void op_shlv(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vpsllvd(d, a, b); }
  void op_shrv(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vpsrlvd(d, a, b); }
  void op_sarv(const Ymm& d, const Ymm& a, const Xbyak::Operand& b) { vpsravd(d, a, b); }

  std::vector<Xbyak::Label> constants_ = std::vector<Xbyak::Label>(program_.constants.size());
  Xbyak::Label lanes_, doubled_;        // 0 to 7; twice that
  std::vector<uint32_t> in_registers_;  // operands whose pointers r9 on hold
  bool inner_ = false;
  const bool has_bf16_;

  std::deque<Unusual> unusual_;
  Xbyak::Label rounding_;      // the words of round_words(), eight times each
  Xbyak::Label upper_halves_;  // of vpshufb: eight halves, twice, to the upper halves of eight words

 protected:
  Xbyak::Label masks_;  // eight words of ones, then eight of zeros
  int reduction_base(uint32_t r) const { return stack_.accumulators + int(r) * kAccumulatorBytes; }
};

}  // namespace trine::host
#endif
