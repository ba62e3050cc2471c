// Rounding to bf16 in the emitter, to nearest even, NaNs made the one of their sign as in base/number/number.cpp.
// AVX-512's own conversion rounds the same but for NaNs, whose bits it keeps, and numbers below the least normal one,
// which it makes 0: a vector that has any of them takes the way of AVX2. Invariant: both ways give the same bits.
#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "host/vector/jit_lines.h"

namespace trine::host {

using namespace Xbyak;

namespace {

Xmm low(const Ymm& y) { return Xmm(y.getIdx()); }

enum Word { kOne, kBelowHalf, kQuiet, kSign, kUpperHalf };
constexpr uint32_t kWords[] = {1, 0x7fff, 0x7fc00000, 0x80000000, 0xffff0000};
constexpr uint8_t kUnusual =
    0x01 | 0x80 | 0x20;  // of vfpclassps: NaNs, quiet or not, and below the least normal number

}  // namespace

bool Lines::widens(const VList& list) const {
  bool found = false;
  for (const VInsn& n : list.insns) {
    const bool moves = n.op == VOp::load || n.op == VOp::store;
    const VMemory kind = moves ? memory_of(nest_.operands[n.at].dtype) : VMemory::word;
    if (n.op == VOp::call || kind == VMemory::call) return false;
    found = found || (n.op == VOp::load && kind == VMemory::bf16);
  }
  return found;
}

void Lines::load_upper_halves(const Layout& layout) { vmovups(Ymm(layout.registers()), ptr[rip + upper_halves_]); }

// Into the upper half of each of t's lanes; the lower one holds anything. t, v and u differ.
void Lines::round_words(const Ymm& t, const Ymm& v, const Ymm& u) {
  auto word = [&](Word w) { return ptr[rip + rounding_ + 32 * int(w)]; };
  vpsrld(t, v, 16);
  vpand(t, t, word(kOne));
  vpaddd(t, t, word(kBelowHalf));
  vpaddd(t, t, v);
  vcmpps(u, v, v, uint8_t(3));  // unordered
  vblendvps(t, t, word(kQuiet), u);
  vpand(u, v, word(kSign));  // which no number loses by rounding
  vpor(t, t, u);
}

void Lines::round_lanes(const Ymm& d, const Ymm& v, const Ymm& t, const Ymm& u) {
  round_words(t, v, u);
  vpand(d, t, ptr[rip + rounding_ + 32 * int(kUpperHalf)]);
}

// Eight halves in t's low end.
void Lines::pack_rounded(const Ymm& t, const Ymm& v, const Ymm& u) {
  round_words(t, v, u);
  vpsrld(t, t, 16);
  vextracti128(low(u), t, 1);
  vpackusdw(low(t), low(t), low(u));
}

void Lines::round_halves(State& s, const Ymm& t, const Ymm& v) {
  if (!has_bf16_) return pack_rounded(t, v, spare(s));
  Unusual& unusual = unusual_.emplace_back();
  unusual.t = t.getIdx(), unusual.v = v.getIdx();
  vfpclassps(k1, v, kUnusual);
  vcvtneps2bf16(low(t), v, EvexEncoding);
  kmovw(eax, k1);  // quicker than kortest
  test(eax, eax);
  jnz(unusual.begin, T_NEAR);
  L(unusual.back);
}

// Their code lies behind all other. The register that it needs besides is saved: it runs seldom.
void Lines::write_unusual() {
  for (Unusual& x : unusual_) {
    int free = 0;
    while (free == x.t || free == x.v) ++free;
    const Address saved = yword[rsp + stack_.saved];
    L(x.begin);
    vmovaps(saved, Ymm(free));
    pack_rounded(Ymm(x.t), Ymm(x.v), Ymm(free));
    vmovaps(Ymm(free), saved);
    jmp(x.back, T_NEAR);
  }
}

void Lines::write_rounding() {
  L(rounding_);
  for (uint32_t w : kWords)
    for (int k = 0; k < 8; ++k) dd(w);
  L(upper_halves_);
  for (uint32_t k = 0; k < 8; ++k) dd((2 * k + 1) << 24 | (2 * k) << 16 | 0x8080);
}

}  // namespace trine::host
#endif
