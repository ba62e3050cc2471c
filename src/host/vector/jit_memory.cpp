// Loads and stores of the emitter: every format's vectors, single elements and tails.
// Tails of words use masks; narrower ones pass through the stack, element by element, so nothing beyond is touched.
#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "base/number/number.h"
#include "host/vector/jit_lines.h"

namespace trine::host {

using namespace Xbyak;

namespace {

Xmm low(const Ymm& y) { return Xmm(y.getIdx()); }

}  // namespace

int Lines::row_offset(const VInsn& n) const { return n.row == 0 ? 0 : int(n.row * nest_.inner.back().steps[n.at]); }

bool Lines::is_doubled(const VInsn& n) const {
  return nest_.vector.steps[n.at] == 2 * trine::bytes(nest_.operands[n.at].dtype);
}

Address Lines::address(const VInsn& n, int vectors, int further) {
  const int size = trine::bytes(nest_.operands[n.at].dtype) * (is_doubled(n) ? 2 : 1);
  return ptr[pointer(n.at) + rbp * size + (vector_lanes() * size * vectors + row_offset(n) + further)];
}

Address Lines::array(const VInsn& n, int vectors) {
  const bool buffered = program_.arrays[n.at].buffered;
  const int64_t at = array_offsets_[n.at] + 32 * vectors + (buffered ? 4 * width_ * n.row : 0);
  return ptr[(buffered ? rdx : rsi) + rbp * 4 + size_t(at)];
}

void Lines::load_vector(const Layout& layout, VMemory kind, const Ymm& d, const Address& from) {
  if (of_bytes()) return vmovups(d, from);
  switch (kind) {
    case VMemory::bf16:
      vbroadcasti128(d, from);
      if (layout.halves_in_register) return vpshufb(d, d, Ymm(layout.registers()));
      return vpshufb(d, d, ptr[rip + upper_halves_]);
    case VMemory::f16:
      return vcvtph2ps(d, from);
    case VMemory::s8:
      return vpmovsxbd(d, from);
    case VMemory::truth:
    case VMemory::u8:
      return vpmovzxbd(d, from);
    case VMemory::s16:
      return vpmovsxwd(d, from);
    case VMemory::u16:
      return vpmovzxwd(d, from);
    default:
      return vmovups(d, from);
  }
}

void Lines::load(State& s) {
  const VInsn& n = *s.item->insn;
  const VMemory kind = memory_of(nest_.operands[n.at].dtype);
  const int vectors = s.layout.first + s.item->copy;
  if (kind == VMemory::call) {
    for (auto [reg, slot] : s.registers.take_all()) vmovaps(spill(slot), Ymm(reg));
    save_pinned(s, true);
    lea(rax, ptr[rsp + stack_.call]);
    if (s.layout.uniform) {
      mov(rcx, pointer(n.at));
    } else {
      lea(rcx, address(n, vectors));
    }
    call_kernel(program_.calls[size_t(n.imm)], s.layout.uniform ? 1 : 8, s.layout.masked);
    save_pinned(s, false);
    Ymm d = result(s);
    if (s.layout.uniform) return vbroadcastss(d, dword[rsp + stack_.call]);
    return vmovaps(d, yword[rsp + stack_.call]);
  }
  Ymm d = result(s);
  if (s.layout.uniform) return load_uniform(kind, d, pointer(n.at));
  if (is_doubled(n)) return load_doubled(s, d, vectors);
  if (s.layout.rest > 0 && kind == VMemory::word) {
    load_lanes(s, d, vectors);
  } else if (s.layout.masked && kind == VMemory::word) {
    vmovaps(d, yword[rsp + stack_.mask]);
    vmaskmovps(d, d, address(n, vectors));
  } else if (s.layout.masked) {
    copy_tail(pointer(n.at), n, false);
    load_vector(s.layout, kind, d, ptr[rsp + stack_.tail]);
  } else {
    load_vector(s.layout, kind, d, address(n, vectors));
  }
  if (kind == VMemory::truth) is_set(s, d);
}

// So many lanes as whole stores and loads of four, two and one: what one loop stores, the next one reads back before it
// is in the cache, which a masked store does not allow.
void Lines::load_lanes(State& s, const Ymm& d, int vectors) {
  const VInsn& n = *s.item->insn;
  const int rest = s.layout.rest, upper = rest > 4 ? rest - 4 : 0;
  auto few = [&](const Xmm& x, int count, int at) {
    if (count == 1) vmovss(x, address(n, vectors, at));
    if (count == 2 || count == 3) vmovq(x, address(n, vectors, at));
    if (count == 3) vpinsrd(x, x, address(n, vectors, at + 8), 2);
    if (count == 4) vmovups(x, address(n, vectors, at));
  };
  few(low(d), std::min(rest, 4), 0);
  if (upper == 0) return;
  Ymm t = spare(s);
  few(low(t), upper, 16);
  vinsertf128(d, d, low(t), 1);
}

void Lines::store_lanes(State& s, const Ymm& v, int vectors) {
  const VInsn& n = *s.item->insn;
  const int rest = s.layout.rest, upper = rest > 4 ? rest - 4 : 0;
  auto few = [&](const Xmm& x, int count, int at) {
    if (count == 1) vmovss(address(n, vectors, at), x);
    if (count == 2 || count == 3) vmovq(address(n, vectors, at), x);
    if (count == 3) vpextrd(address(n, vectors, at + 8), x, 2);
    if (count == 4) vmovups(address(n, vectors, at), x);
  };
  few(low(v), std::min(rest, 4), 0);
  if (upper == 0) return;
  Ymm t = spare(s);
  vextractf128(low(t), v, 1);
  few(low(t), upper, 16);
}

// Lanes beyond the end have indices that mean nothing: a masked vector reads none of them.
void Lines::pick(State& s) {
  const VInsn& n = *s.item->insn;
  const VMemory kind = memory_of(nest_.operands[n.at].dtype);
  Ymm index = reg_of(s, n.in[0]);
  Ymm d = take(s, uint32_t(s.item->copy) * s.regs + n.d);  // not the index's own register
  if (s.layout.uniform) {
    vmovd(eax, low(index));
    cdqe();
    const Reg64 base = pointer(n.at);
    const int size = trine::bytes(nest_.operands[n.at].dtype);
    lea(rcx, ptr[base + rax * size + row_offset(n)]);
    return load_uniform(kind, d, rcx);
  }
  if (kind != VMemory::word) return pick_narrow(s, kind, d, index);
  Ymm mask = spare(s);
  if (s.layout.masked) {
    vmovaps(mask, yword[rsp + stack_.mask]);
    vxorps(d, d, d);
  } else {
    vpcmpeqd(mask, mask, mask);
  }
  const Reg64 base = pointer(n.at);
  vgatherdps(d, ptr[base + index * 4 + row_offset(n)], mask);
}

// Element by element through the stack: a gather of words would read beyond the operand.
void Lines::pick_narrow(State& s, VMemory kind, const Ymm& d, const Ymm& index) {
  const VInsn& n = *s.item->insn;
  const int size = trine::bytes(nest_.operands[n.at].dtype);
  if (s.layout.masked) {
    vandps(d, index, yword[rsp + stack_.mask]);
    vmovaps(yword[rsp + stack_.call], d);
  } else {
    vmovaps(yword[rsp + stack_.call], index);
  }
  const Reg64 base = pointer(n.at);
  for (int k = 0; k < 8; ++k) {
    movsxd(rax, dword[rsp + stack_.call + 4 * k]);
    const Address from = ptr[base + rax * size + row_offset(n)], to = ptr[rsp + stack_.tail + size * k];
    if (size == 1) {
      mov(al, from);
      mov(to, al);
    } else {
      mov(ax, from);
      mov(to, ax);
    }
  }
  load_vector(s.layout, kind, d, ptr[rsp + stack_.tail]);
  if (kind == VMemory::truth) is_set(s, d);
}

// Bytes other than 0, widened, as truths.
void Lines::is_set(State& s, const Ymm& d) {
  Ymm zero = spare(s);
  vpxor(zero, zero, zero);
  if (!of_bytes()) return vpcmpgtd(d, d, zero);
  vpcmpeqb(d, d, zero);
  vpcmpeqb(zero, zero, zero);
  vpxor(d, d, zero);
}

// Words 0, 2 to 14: what lies beyond the last one is not touched.
void Lines::load_doubled(State& s, const Ymm& d, int vectors) {
  const VInsn& n = *s.item->insn;
  if (!s.layout.masked) {
    vmovups(d, address(n, vectors));
    vshufps(d, d, address(n, vectors, 28), 0xd8);
    return vpermpd(d, d, 0xd8);
  }
  Ymm index = spare(s), mask = spare(s);
  lea(rax, address(n, vectors));
  vmovups(index, ptr[rip + doubled_]);
  vmovaps(mask, yword[rsp + stack_.mask]);
  vxorps(d, d, d);
  vgatherdps(d, ptr[rax + index * 4], mask);
}

// Two vectors, element by element in turn.
void Lines::store_doubled(State& s, const Ymm& v) {
  const VInsn& n = *s.item->insn;
  const int vectors = s.layout.first + s.item->copy;
  Ymm w = reg_of(s, n.in[1]), low_half = spare(s), high_half = spare(s);
  auto interleave = [&](const Ymm& x, const Ymm& y, const Ymm& a, const Ymm& b) {
    vunpckhps(b, x, y);
    vunpcklps(a, x, y);
  };
  interleave(v, w, low_half, high_half);
  Ymm to = spare(s);
  vperm2f128(to, low_half, high_half, 0x20);
  vperm2f128(high_half, low_half, high_half, 0x31);
  if (!s.layout.masked) {
    vmovups(address(n, vectors), to);
    return vmovups(address(n, vectors, 32), high_half);
  }
  Ymm mask = spare(s), rest = spare(s);
  vmovaps(mask, yword[rsp + stack_.mask]);
  interleave(mask, mask, low_half, rest);
  vperm2f128(mask, low_half, rest, 0x20);
  vmaskmovps(address(n, vectors), mask, to);
  vperm2f128(mask, low_half, rest, 0x31);
  vmaskmovps(address(n, vectors, 32), mask, high_half);
}

void Lines::load_uniform(VMemory kind, const Ymm& d, const Reg64& base) {
  switch (kind) {
    case VMemory::word:
      return vbroadcastss(d, dword[base]);
    case VMemory::bf16:
      vpbroadcastw(d, Xbyak::util::word[base]);
      return vpslld(d, d, 16);
    case VMemory::f16:
      movzx(eax, Xbyak::util::word[base]);
      vmovd(low(d), eax);
      vcvtph2ps(low(d), low(d));
      return vbroadcastss(d, low(d));
    case VMemory::s8:
      movsx(eax, byte[base]);
      break;
    case VMemory::u8:
      movzx(eax, byte[base]);
      break;
    case VMemory::s16:
      movsx(eax, Xbyak::util::word[base]);
      break;
    case VMemory::u16:
      movzx(eax, Xbyak::util::word[base]);
      break;
    default:
      xor_(eax, eax);
      cmp(byte[base], 1);
      cmc();
      sbb(eax, eax);
  }
  vmovd(low(d), eax);
  of_bytes() ? vpbroadcastb(d, low(d)) : vpbroadcastd(d, low(d));
}

// The elements from the index to the end, between the operand and the stack.
void Lines::copy_tail(const Reg64& base, const VInsn& n, bool to_operand) {
  const int size = trine::bytes(nest_.operands[n.at].dtype);
  Label again;
  if (base.getIdx() != r8.getIdx()) mov(r8, base);
  lea(r8, ptr[r8 + rbp * size + row_offset(n)]);
  mov(rcx, rbx);
  sub(rcx, rbp);
  Label words, done;
  if (of_bytes()) {  // up to 31: by fours, as far as they go
    L(words);
    cmp(rcx, 4);
    jb(again);
    Address four = ptr[r8 + rcx - 4], own_four = ptr[rsp + rcx + stack_.tail - 4];
    mov(eax, to_operand ? own_four : four);
    mov(to_operand ? four : own_four, eax);
    sub(rcx, 4);
    jnz(words);
    jmp(done);
  }
  L(again);
  Address operand = ptr[r8 + rcx * size - size], own = ptr[rsp + rcx * size + stack_.tail - size];
  const Reg32 one = eax;
  if (size == 1) {
    mov(one.cvt8(), to_operand ? own : operand);
    mov(to_operand ? operand : own, one.cvt8());
  } else {
    mov(one.cvt16(), to_operand ? own : operand);
    mov(to_operand ? operand : own, one.cvt16());
  }
  dec(rcx);
  jnz(again);
  L(done);
}

void Lines::store(State& s) {
  const VInsn& n = *s.item->insn;
  const VMemory kind = memory_of(nest_.operands[n.at].dtype);
  Ymm v = reg_of(s, n.in[0]);
  if (kind == VMemory::call) return store_call(s, v);
  if (of_bytes()) return store_bytes(s, kind, v);
  if (kind != VMemory::word) return store_narrow(s, kind, v);
  if (s.layout.uniform) return vmovss(dword[pointer(n.at)], low(v));
  if (is_doubled(n)) return store_doubled(s, v);
  Address to = address(n, s.layout.first + s.item->copy);
  if (!s.layout.masked) return vmovups(to, v);
  if (s.layout.rest > 0) return store_lanes(s, v, s.layout.first + s.item->copy);
  Ymm mask = spare(s);
  vmovaps(mask, yword[rsp + stack_.mask]);
  vmaskmovps(to, mask, v);
}

void Lines::store_call(State& s, const Ymm& v) {
  const VInsn& n = *s.item->insn;
  vmovaps(yword[rsp + stack_.call + 32], v);
  s.registers.unlock_all();
  for (auto [reg, slot] : s.registers.take_all()) vmovaps(spill(slot), Ymm(reg));
  save_pinned(s, true);
  if (s.layout.uniform) {
    mov(rax, pointer(n.at));
  } else {
    lea(rax, address(n, s.layout.first + s.item->copy));
  }
  lea(rcx, ptr[rsp + stack_.call + 32]);
  call_kernel(program_.calls[size_t(n.imm)], s.layout.uniform ? 1 : 8, s.layout.masked);
  save_pinned(s, false);
}

void Lines::store_bytes(State& s, VMemory kind, const Ymm& v) {
  const VInsn& n = *s.item->insn;
  Ymm t = v;
  if (kind == VMemory::truth) {
    t = spare(s);
    mov(eax, 0x01010101);
    vmovd(low(t), eax);
    vpbroadcastd(t, low(t));
    vpand(t, t, v);
  }
  if (!s.layout.masked) return vmovups(address(n, s.layout.first + s.item->copy), t);
  vmovups(yword[rsp + stack_.tail], t);
  copy_tail(pointer(n.at), n, true);
}

// Eight lanes to eight halves or bytes in a register's low end, then out.
void Lines::store_narrow(State& s, VMemory kind, const Ymm& v) {
  const VInsn& n = *s.item->insn;
  const int size = trine::bytes(nest_.operands[n.at].dtype);
  Ymm t = spare(s);
  if (kind == VMemory::f16) {
    vcvtps2ph(low(t), v, 0);
  } else if (kind == VMemory::bf16) {
    round_halves(s, t, v);
  } else {
    mov(eax, kind == VMemory::truth ? 1 : size == 1 ? 0xff : 0xffff);
    vmovd(low(t), eax);
    vpbroadcastd(t, low(t));
    vpand(t, t, v);
    Ymm u = spare(s);
    vextracti128(low(u), t, 1);
    vpackusdw(low(t), low(t), low(u));
    if (size == 1) vpackuswb(low(t), low(t), low(t));
  }
  if (s.layout.uniform) {
    const Reg64 base = pointer(n.at);
    return size == 1 ? vpextrb(byte[base], low(t), 0) : vpextrw(Xbyak::util::word[base], low(t), 0);
  }
  if (s.layout.masked) {
    vmovups(xword[rsp + stack_.tail], low(t));
    return copy_tail(pointer(n.at), n, true);
  }
  Address to = address(n, s.layout.first + s.item->copy);
  if (size == 1) {
    vmovq(to, low(t));
  } else {
    vmovups(to, low(t));
  }
}

}  // namespace trine::host
#endif
