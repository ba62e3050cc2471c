// Lanes that record what is done to them: LaneMath over SymbolLanes writes vector code instead of computing.
#pragma once

#include <bit>
#include <cstdint>

#include "host/vector/vector.h"

namespace trine::host {

// Appends to a list, with constants shared by the whole program.
class VWriter {
 public:
  VWriter(VectorProgram& program, VList& list) : program_(program), list_(list) {}

  Ref constant(uint32_t bits);
  Ref put(VOp op, Ref a = {}, Ref b = {}, Ref c = {}, uint32_t at = 0, int32_t imm = 0) {
    list_.insns.push_back({op, list_.regs, {a, b, c}, at, imm});
    return {Ref::reg, list_.regs++};
  }
  void effect(VOp op, Ref a, uint32_t at) { list_.insns.push_back({op, 0, {a, {}, {}}, at, 0}); }
  bool is_constant(Ref r, uint32_t bits) const { return r.kind == Ref::constant && program_.constants[r.id] == bits; }

 private:
  VectorProgram& program_;
  VList& list_;
};

// Of vcmpps.
enum Compare : int32_t {
  kEqual = 0,
  kUnordered = 3,
  kNotEqual = 4,
  kLess = 17,
  kLessEqual = 18,
  kGreaterEqual = 29,
  kGreater = 30
};

// A lane's value: written already, or a constant that no writer has seen.
struct Symbol {
  VWriter* w = nullptr;
  Ref ref = {};
  uint32_t bits = 0;

  Ref in(VWriter& writer) const { return w ? ref : writer.constant(bits); }
};

inline Symbol symbol_op(VOp op, const Symbol& a, const Symbol& b, int32_t imm = 0) {
  VWriter& w = a.w ? *a.w : *b.w;
  return {&w, w.put(op, a.in(w), b.in(w), {}, 0, imm)};
}

struct SymbolF : Symbol {
  SymbolF() = default;
  explicit SymbolF(float x) : Symbol{nullptr, {}, std::bit_cast<uint32_t>(x)} {}
  explicit SymbolF(const Symbol& s) : Symbol(s) {}
};
struct SymbolI : Symbol {
  SymbolI() = default;
  explicit SymbolI(int32_t x) : Symbol{nullptr, {}, uint32_t(x)} {}
  explicit SymbolI(const Symbol& s) : Symbol(s) {}
};
struct SymbolM : Symbol {
  SymbolM() = default;
  explicit SymbolM(const Symbol& s) : Symbol(s) {}
};

inline SymbolF operator+(const SymbolF& a, const SymbolF& b) { return SymbolF(symbol_op(VOp::fadd, a, b)); }
inline SymbolF operator-(const SymbolF& a, const SymbolF& b) { return SymbolF(symbol_op(VOp::fsub, a, b)); }
inline SymbolF operator*(const SymbolF& a, const SymbolF& b) { return SymbolF(symbol_op(VOp::fmul, a, b)); }
inline SymbolF operator/(const SymbolF& a, const SymbolF& b) { return SymbolF(symbol_op(VOp::fdiv, a, b)); }
inline SymbolM operator<(const SymbolF& a, const SymbolF& b) { return SymbolM(symbol_op(VOp::fcmp, a, b, kLess)); }
inline SymbolM operator>(const SymbolF& a, const SymbolF& b) { return SymbolM(symbol_op(VOp::fcmp, a, b, kGreater)); }
inline SymbolM operator<=(const SymbolF& a, const SymbolF& b) {
  return SymbolM(symbol_op(VOp::fcmp, a, b, kLessEqual));
}
inline SymbolM operator>=(const SymbolF& a, const SymbolF& b) {
  return SymbolM(symbol_op(VOp::fcmp, a, b, kGreaterEqual));
}
inline SymbolM operator==(const SymbolF& a, const SymbolF& b) { return SymbolM(symbol_op(VOp::fcmp, a, b, kEqual)); }
inline SymbolI operator+(const SymbolI& a, const SymbolI& b) { return SymbolI(symbol_op(VOp::iadd, a, b)); }
inline SymbolI operator-(const SymbolI& a, const SymbolI& b) { return SymbolI(symbol_op(VOp::isub, a, b)); }
inline SymbolI operator&(const SymbolI& a, const SymbolI& b) { return SymbolI(symbol_op(VOp::band, a, b)); }
inline SymbolI operator^(const SymbolI& a, const SymbolI& b) { return SymbolI(symbol_op(VOp::bxor, a, b)); }
inline SymbolI operator<<(const SymbolI& a, int by) {
  return SymbolI(Symbol{a.w, a.w->put(VOp::shl, a.ref, {}, {}, 0, by)});
}
inline SymbolI operator>>(const SymbolI& a, int by) {
  return SymbolI(Symbol{a.w, a.w->put(VOp::sar, a.ref, {}, {}, 0, by)});
}
inline SymbolM operator==(const SymbolI& a, const SymbolI& b) { return SymbolM(symbol_op(VOp::ieq, a, b)); }
inline SymbolM operator|(const SymbolM& a, const SymbolM& b) { return SymbolM(symbol_op(VOp::bor, a, b)); }

struct SymbolLanes {
  using F = SymbolF;
  using I = SymbolI;
  using M = SymbolM;
  static F fma(const F& a, const F& b, const F& c) {
    VWriter& w = a.w ? *a.w : b.w ? *b.w : *c.w;
    return F(Symbol{&w, w.put(VOp::fma, a.in(w), b.in(w), c.in(w))});
  }
  static I bits(const F& x) { return I(static_cast<const Symbol&>(x)); }
  static F value(const I& x) { return F(static_cast<const Symbol&>(x)); }
  static F select(const M& m, const F& a, const F& b) {
    VWriter& w = *m.w;
    return F(Symbol{&w, w.put(VOp::blend, m.ref, a.in(w), b.in(w))});
  }
  static F root(const F& x) { return F(Symbol{x.w, x.w->put(VOp::fsqrt, x.ref)}); }
  static F magnitude(const F& x) { return F(symbol_op(VOp::band, x, I(0x7fffffff))); }
  static F to_float(const I& x) { return F(Symbol{x.w, x.w->put(VOp::to_float, x.ref)}); }
  static F least(const F& x, const F& limit) { return F(symbol_op(VOp::fmin, limit, x)); }
  static F most(const F& x, const F& limit) { return F(symbol_op(VOp::fmax, limit, x)); }
};

}  // namespace trine::host
