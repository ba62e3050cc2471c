// Straight lists of vector code as AVX2 instructions. See the header for who uses which register.
#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "host/vector/jit_lines.h"

#include <algorithm>
#include <stdexcept>

#include "base/number/number.h"

namespace trine::host {

using arch::LoopOp;
using namespace Xbyak;

namespace {

constexpr int kPointerRegisters = 6;  // r9 to r14

bool gives(VOp op) {
  return op != VOp::store && op != VOp::array_store && op != VOp::slot_store && op != VOp::accumulate;
}

}  // namespace

int Lines::pressure(const VList& list) {
  std::vector<size_t> last(list.regs, 0);
  for (size_t i = 0; i < list.insns.size(); ++i) {
    for (const Ref& r : list.insns[i].in) {
      if (r.kind == Ref::reg) last[r.id] = i;
    }
  }
  int alive = 0, most = 0;
  for (size_t i = 0; i < list.insns.size(); ++i) {
    const VInsn& n = list.insns[i];
    for (size_t k = 0; k < 3; ++k) {
      bool repeated = std::find(n.in.begin(), n.in.begin() + long(k), n.in[k]) != n.in.begin() + long(k);
      if (n.in[k].kind == Ref::reg && last[n.in[k].id] == i && !repeated) --alive;
    }
    if (gives(n.op)) ++alive;
    most = std::max(most, alive);
  }
  return most;
}

void Lines::emit(const VList& list, const VStage& stage, const Layout& layout) {
  std::vector<Item> items;
  for (const VInsn& n : list.insns) {
    for (int c = 0; c < layout.copies; ++c) items.push_back({&n, c});
  }
  std::vector<std::vector<uint32_t>> uses(size_t(list.regs) * size_t(layout.copies));
  for (uint32_t i = 0; i < items.size(); ++i) {
    for (const Ref& r : items[i].insn->in) {
      if (r.kind == Ref::reg) uses[size_t(items[i].copy) * list.regs + r.id].push_back(i);
    }
  }
  State s{stage, layout, list.regs, Registers(std::move(uses), layout.registers())};
  for (uint32_t i = 0; i < items.size(); ++i) {
    s.at = i;
    s.item = &items[i];
    one(s);
    finish(s);
  }
}

void Lines::finish(State& s) {
  for (const Ref& r : s.item->insn->in) {
    if (r.kind == Ref::reg) s.registers.finish_uses(number(s, r), s.at);
  }
  uint32_t d = uint32_t(s.item->copy) * s.regs + s.item->insn->d;
  if (gives(s.item->insn->op)) s.registers.finish_uses(d, s.at);  // frees what nobody reads
  s.registers.unlock_all();
}

Ymm Lines::take(State& s, uint32_t v) {
  Registers::Taken t = s.registers.take(v);
  if (t.reg == kNoRegister || s.registers.spill_count() > Stack::kSpillsMax) throw std::length_error("registers");
  if (t.save_to != kNoRegister) vmovaps(spill(t.save_to), Ymm(t.reg));
  s.registers.lock(t.reg);
  return Ymm(t.reg);
}

Address Lines::memory(const State& s, Ref r) {
  if (r.kind == Ref::constant) return constant(r.id);
  if (r.kind == Ref::slot) return yword[rsp + stack_.slots + 32 * int(r.id)];
  return spill(s.registers.spill(number(s, r)));
}

// The value in a register, which stays its own until the item is done.
Ymm Lines::reg_of(State& s, Ref r) {
  if (in_register(s, r)) {
    int held = s.registers.where(number(s, r));
    s.registers.lock(held);
    return Ymm(held);
  }
  Address from = memory(s, r);
  Ymm d = take(s, r.kind == Ref::reg ? number(s, r) : Registers::kFree);
  vmovaps(d, from);
  return d;
}

// A register for the result: that of an input which ends here, if there is one. Inputs must have been read.
Ymm Lines::result(State& s) {
  uint32_t d = uint32_t(s.item->copy) * s.regs + s.item->insn->d;
  for (const Ref& r : s.item->insn->in) {
    if (!in_register(s, r) || !s.registers.ends(number(s, r), s.at)) continue;
    int held = s.registers.where(number(s, r));
    s.registers.release(number(s, r));
    s.registers.assign(d, held);
    s.registers.lock(held);
    return Ymm(held);
  }
  return take(s, d);
}

void Lines::two(State& s, void (Lines::*op)(const Ymm&, const Ymm&, const Operand&), bool commutes) {
  Ref a = s.item->insn->in[0], b = s.item->insn->in[1];
  if (commutes && !in_register(s, a) && in_register(s, b)) std::swap(a, b);
  Ymm x = reg_of(s, a);
  if (in_register(s, b)) {
    Ymm y = reg_of(s, b);
    (this->*op)(result(s), x, y);
  } else {
    Address y = memory(s, b);
    (this->*op)(result(s), x, y);
  }
}

// a * b + c: the result takes the place of an input that ends, or of a copy.
void Lines::fused(State& s) {
  auto [a, b, c] = s.item->insn->in;
  auto ends = [&](Ref r) { return in_register(s, r) && s.registers.ends(number(s, r), s.at); };
  if (!in_register(s, a) && in_register(s, b)) std::swap(a, b);
  if (ends(b) && !ends(a)) std::swap(a, b);
  const bool loads = !in_register(s, b) && !in_register(s, c) && !ends(a);  // b, which saves the copy of a
  if (loads) std::swap(a, b);
  const bool replaces_sum = ends(c) && !ends(a) && a != c && b != c;
  Ref base = replaces_sum ? c : a;
  Ref second = replaces_sum ? a : b, third = replaces_sum ? b : c;
  if (!in_register(s, second) && in_register(s, third) && !replaces_sum) {  // a * mem + c
    Ymm x = reg_of(s, base), z = reg_of(s, third);
    Address y = memory(s, second);
    Ymm d = result(s);
    if (d.getIdx() == z.getIdx() && z.getIdx() != x.getIdx()) return vfmadd231ps(d, x, y);
    if (d.getIdx() != x.getIdx()) vmovaps(d, x);
    return vfmadd132ps(d, z, y);
  }
  Ymm y = reg_of(s, second);
  bool third_in_register = in_register(s, third);
  Ymm z = third_in_register ? reg_of(s, third) : Ymm(0);
  bool base_in_register = in_register(s, base);
  Ymm x = base_in_register ? reg_of(s, base) : Ymm(0);
  Address base_memory = base_in_register ? Address(yword[rsp]) : memory(s, base);
  Address third_memory = third_in_register ? Address(yword[rsp]) : memory(s, third);
  Ymm d =
      base_in_register && ends(base) ? take_over(s, base) : take(s, uint32_t(s.item->copy) * s.regs + s.item->insn->d);
  if (!base_in_register) {
    vmovaps(d, base_memory);
  } else if (d.getIdx() != x.getIdx()) {
    vmovaps(d, x);
  }
  const Operand& w = third_in_register ? static_cast<const Operand&>(z) : third_memory;
  if (replaces_sum) {
    vfmadd231ps(d, y, w);
  } else {
    vfmadd213ps(d, y, w);
  }
}

Ymm Lines::take_over(State& s, Ref r) {
  int held = s.registers.where(number(s, r));
  s.registers.release(number(s, r));
  s.registers.assign(uint32_t(s.item->copy) * s.regs + s.item->insn->d, held);
  s.registers.lock(held);
  return Ymm(held);
}

void Lines::blend(State& s) {
  auto [m, a, b] = s.item->insn->in;
  Ymm mask = reg_of(s, m), no = reg_of(s, b);
  if (in_register(s, a)) {
    Ymm yes = reg_of(s, a);
    of_bytes() ? vpblendvb(result(s), no, yes, mask) : vblendvps(result(s), no, yes, mask);
  } else {
    Address yes = memory(s, a);
    of_bytes() ? vpblendvb(result(s), no, yes, mask) : vblendvps(result(s), no, yes, mask);
  }
}

void Lines::shift(State& s) {
  const VInsn& n = *s.item->insn;
  Ymm x = reg_of(s, n.in[0]);
  Ymm d = result(s);
  uint8_t by = uint8_t(n.imm);
  if (n.op == VOp::shl) vpslld(d, x, by);
  if (n.op == VOp::shr) vpsrld(d, x, by);
  if (n.op == VOp::sar) vpsrad(d, x, by);
}

bool Lines::simple(State& s) {
  switch (s.item->insn->op) {
    case VOp::fadd:
      return two(s, &Lines::op_add, true), true;
    case VOp::fsub:
      return two(s, &Lines::op_sub, false), true;
    case VOp::fmul:
      return two(s, &Lines::op_mul, true), true;
    case VOp::fdiv:
      return two(s, &Lines::op_div, false), true;
    case VOp::fmin:
      return two(s, &Lines::op_min, false), true;
    case VOp::fmax:
      return two(s, &Lines::op_max, false), true;
    case VOp::iadd:
      return two(s, &Lines::op_iadd, true), true;
    case VOp::isub:
      return two(s, &Lines::op_isub, false), true;
    case VOp::imul:
      return two(s, &Lines::op_imul, true), true;
    case VOp::smax:
      return two(s, &Lines::op_smax, true), true;
    case VOp::smin:
      return two(s, &Lines::op_smin, true), true;
    case VOp::umax:
      return two(s, &Lines::op_umax, true), true;
    case VOp::umin:
      return two(s, &Lines::op_umin, true), true;
    case VOp::ieq:
      return two(s, &Lines::op_ieq, true), true;
    case VOp::igt:
      return two(s, &Lines::op_igt, false), true;
    case VOp::band:
      return two(s, &Lines::op_and, true), true;
    case VOp::bor:
      return two(s, &Lines::op_or, true), true;
    case VOp::bxor:
      return two(s, &Lines::op_xor, true), true;
    case VOp::bandn:
      return two(s, &Lines::op_andn, false), true;
    case VOp::shlv:
      return two(s, &Lines::op_shlv, false), true;
    case VOp::shrv:
      return two(s, &Lines::op_shrv, false), true;
    case VOp::sarv:
      return two(s, &Lines::op_sarv, false), true;
    default:
      return false;
  }
}

// What simple() does not cover: memory and indices, then ops of one AVX2 instruction, then those of several.
void Lines::one(State& s) {
  if (simple(s)) return;
  const VInsn& n = *s.item->insn;
  const int vectors = s.layout.first + s.item->copy;
  switch (n.op) {
    case VOp::load:
      return load(s);
    case VOp::pick:
      return pick(s);
    case VOp::store:
      return store(s);
    case VOp::array_load:
      return vmovups(result(s), array(n, vectors));
    case VOp::array_store:
      return vmovups(array(n, vectors), reg_of(s, n.in[0]));
    case VOp::slot_store:
      return vmovaps(yword[rsp + stack_.slots + 32 * int(n.at)], reg_of(s, n.in[0]));
    case VOp::iota: {
      Ymm d = result(s);
      lea(eax, ptr[rbp + 8 * vectors]);
      vmovd(Xmm(d.getIdx()), eax);
      vpbroadcastd(d, Xmm(d.getIdx()));
      return vpaddd(d, d, ptr[rip + lanes_]);
    }
    case VOp::index:
      return vpbroadcastd(result(s), dword[rdi + 8 * JitWords::index(LoopKind(n.at >> 8), int(n.at & 255))]);
    case VOp::fsqrt: {
      Ymm x = reg_of(s, n.in[0]);
      return vsqrtps(result(s), x);
    }
    case VOp::fround: {
      Ymm x = reg_of(s, n.in[0]);
      return vroundps(result(s), x, uint8_t(n.imm));
    }
    case VOp::iabs: {
      Ymm x = reg_of(s, n.in[0]);
      return of_bytes() ? vpabsb(result(s), x) : vpabsd(result(s), x);
    }
    case VOp::to_float: {
      Ymm x = reg_of(s, n.in[0]);
      return vcvtdq2ps(result(s), x);
    }
    case VOp::to_int: {
      Ymm x = reg_of(s, n.in[0]);
      return vcvttps2dq(result(s), x);
    }
    case VOp::f16: {
      Ymm x = reg_of(s, n.in[0]), d = result(s);
      vcvtps2ph(Xmm(d.getIdx()), x, 0);
      return vcvtph2ps(d, Xmm(d.getIdx()));
    }
    case VOp::bf16: {
      Ymm x = reg_of(s, n.in[0]), t = spare(s), u = spare(s);
      return round_lanes(result(s), x, t, u);
    }
    case VOp::fcmp: {
      Ymm x = reg_of(s, n.in[0]);
      if (in_register(s, n.in[1])) {
        Ymm y = reg_of(s, n.in[1]);
        return vcmpps(result(s), x, y, uint8_t(n.imm));
      }
      Address y = memory(s, n.in[1]);
      return vcmpps(result(s), x, y, uint8_t(n.imm));
    }
    case VOp::fma:
      return fused(s);
    case VOp::blend:
      return blend(s);
    case VOp::call:
      return call(s);
    case VOp::patch:
      return patch(s);
    case VOp::accumulate:
      return accumulate(s);
    default:
      return shift(s);
  }
}

// --- calls of the interpreter's kernels

// Arguments lie in the call area: result, then three inputs of 32 bytes. Vector registers are lost.
void Lines::call_kernel(const VCall& c, int64_t lanes, bool counts_tail) {
  const Reg64 pushed[] = {rdi, rsi, rdx, r9, r10, r11};
  for (int i = 0; i < 6; ++i) mov(stack_word(8 + i), pushed[i]);
  if (counts_tail) {
    mov(r8, rbx);
    sub(r8, rbp);
  } else {
    mov(r8d, uint32_t(lanes));
  }
  mov(rdi, rax);
  mov(rsi, rcx);
  lea(rdx, ptr[rsp + stack_.call + 64]);
  lea(rcx, ptr[rsp + stack_.call + 96]);
  mov(r9, reinterpret_cast<uint64_t>(&c.aux));
  mov(rax, reinterpret_cast<uint64_t>(c.fn));
  vzeroupper();
  Xbyak::CodeGenerator::call(rax);
  for (int i = 0; i < 6; ++i) mov(pushed[i], stack_word(8 + i));
}

void Lines::call(State& s) {
  const VInsn& n = *s.item->insn;
  for (int k = 0; k < 3; ++k) {
    if (n.in[size_t(k)].kind == Ref::none) continue;
    vmovaps(yword[rsp + stack_.call + 32 * (k + 1)], reg_of(s, n.in[size_t(k)]));
    s.registers.unlock_all();
  }
  for (auto [reg, slot] : s.registers.take_all()) vmovaps(spill(slot), Ymm(reg));
  if (s.registers.spill_count() > Stack::kSpillsMax) throw std::length_error("spills");
  save_pinned(s, true);
  lea(rax, ptr[rsp + stack_.call]);
  lea(rcx, ptr[rsp + stack_.call + 32]);
  call_kernel(program_.calls[n.at], s.layout.uniform ? 1 : 8, false);
  save_pinned(s, false);
  if (s.layout.uniform) return vbroadcastss(result(s), dword[rsp + stack_.call]);
  vmovaps(result(s), yword[rsp + stack_.call]);
}

void Lines::save_pinned(State& s, bool saves) {
  for (int k = 0; k < s.layout.pinned; ++k) {
    Address at = yword[rsp + stack_.saved + 32 * (15 - k)];
    if (saves) {
      vmovaps(at, Ymm(15 - k));
    } else {
      vmovaps(Ymm(15 - k), at);
    }
  }
}

// Seldom taken: every register is saved around it.
void Lines::patch(State& s) {
  const VInsn& n = *s.item->insn;
  Label done;
  Ymm mask = reg_of(s, n.in[2]), x = reg_of(s, n.in[0]), y = reg_of(s, n.in[1]);
  vmovaps(yword[rsp + stack_.call + 32], x);
  Ymm d = result(s);
  vtestps(mask, mask);
  if (d.getIdx() != y.getIdx()) vmovaps(d, y);
  jz(done, T_NEAR);
  for (int r = 0; r < 16; ++r) vmovaps(yword[rsp + stack_.saved + 32 * r], Ymm(r));
  lea(rax, ptr[rsp + stack_.call]);
  lea(rcx, ptr[rsp + stack_.call + 32]);
  call_kernel(program_.calls[n.at], 8, false);
  for (int r = 0; r < 16; ++r) vmovaps(Ymm(r), yword[rsp + stack_.saved + 32 * r]);
  vmovaps(d, yword[rsp + stack_.call]);
  L(done);
}

// --- reductions

void Lines::pair(const VReduction& r, const Ymm& d, const Ymm& a, const Operand& b, const Ymm& spare) {
  const bool is_float = r.lane == Lane::f32, is_signed = r.lane == Lane::s32;
  switch (r.op) {
    case LoopOp::reduce_sum:
      return is_float ? vaddps(d, a, b) : vpaddd(d, a, b);
    case LoopOp::reduce_prod:
      return is_float ? vmulps(d, a, b) : vpmulld(d, a, b);
    case LoopOp::reduce_and:
      return vpand(d, a, b);
    case LoopOp::reduce_or:
      return vpor(d, a, b);
    case LoopOp::reduce_xor:
      return vpxor(d, a, b);
    default:
      break;
  }
  const bool most = r.op == LoopOp::reduce_max;
  if (r.lane == Lane::mask) return most ? vpor(d, a, b) : vpand(d, a, b);
  if (!is_float && is_signed) return most ? vpmaxsd(d, a, b) : vpminsd(d, a, b);
  if (!is_float) return most ? vpmaxud(d, a, b) : vpminud(d, a, b);
  // b if greater or NaN, else a, be it a zero of the other sign.
  const Ymm& y = static_cast<const Ymm&>(b);
  vcmpps(spare, y, y, uint8_t(3));
  if (most) {
    vmaxps(d, y, a);
  } else {
    vminps(d, y, a);
  }
  vblendvps(d, d, y, spare);
}

void Lines::wrap(const VReduction& r, const Ymm& d) {
  if (r.bits >= 32 || r.lane == Lane::mask || r.lane == Lane::f32) return;
  const uint8_t up = uint8_t(32 - r.bits);
  vpslld(d, d, up);
  if (r.lane == Lane::s32) {
    vpsrad(d, d, up);
  } else {
    vpsrld(d, d, up);
  }
}

void Lines::accumulate(State& s) {
  const VInsn& n = *s.item->insn;
  const VReduction& r = s.stage.reductions[n.at];
  Ymm x = reg_of(s, n.in[0]), t = spare(s);
  if (s.layout.masked) {
    Ymm pushed = spare(s);
    vmovaps(t, yword[rsp + stack_.mask]);
    vmovaps(pushed, constant(r.identity));
    vblendvps(pushed, pushed, x, t);
    x = pushed;
  }
  const int vector = s.layout.before + s.layout.first + s.item->copy;
  if (s.layout.pinned > 0) {
    Ymm total(15 - int(4 * n.at) - vector);
    return pair(r, total, total, x, t);
  }
  // One vector at a time: accumulator ((index - begin) / 8) modulo 4.
  Ymm total = spare(s);
  mov(rcx, rbp);
  sub(rcx, stack_word(0));
  if (vector > 0) add(rcx, 8 * vector);
  shl(rcx, 2);
  and_(rcx, kAccumulatorBytes - 1);
  vmovaps(total, yword[rsp + rcx + reduction_base(n.at)]);
  pair(r, total, total, x, t);
  vmovaps(yword[rsp + rcx + reduction_base(n.at)], total);
}

void Lines::load_pointers(const VStage& stage, bool inner) {
  in_registers_.clear();
  inner_ = inner;
  for (size_t i = 0; i < stage.operands.size() && i < size_t(kPointerRegisters); ++i) {
    in_registers_.push_back(stage.operands[i]);
    mov(Reg64(9 + int(i)), word(inner ? words_.now(stage.operands[i]) : words_.current(stage.operands[i])));
  }
}

// The operand's pointer in a register; r8 where it has none of its own.
Reg64 Lines::pointer(uint32_t operand) {
  auto found = std::find(in_registers_.begin(), in_registers_.end(), operand);
  if (found != in_registers_.end()) return Reg64(9 + int(found - in_registers_.begin()));
  mov(r8, word(inner_ ? words_.now(operand) : words_.current(operand)));
  return r8;
}

void Lines::write_constants() {
  align(32);
  for (size_t i = 0; i < constants_.size(); ++i) {
    L(constants_[i]);
    for (int k = 0; k < 8; ++k) dd(program_.constants[i]);
  }
  write_rounding();
  L(lanes_);
  for (uint32_t k = 0; k < 8; ++k) dd(k);
  L(doubled_);
  for (uint32_t k = 0; k < 8; ++k) dd(2 * k);
  L(masks_);
  for (int k = 0; k < 16; ++k) dd(k < 8 ? UINT32_MAX : 0);
}

}  // namespace trine::host
#endif
