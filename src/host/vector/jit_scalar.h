// Machine code for programs of a few numbers with 64-bit lanes: bodies of small loops, where calling one kernel per
// instruction is most of the work. Values lie on the stack, eight bytes each, in the interpreter's form of lanes; those
// of late, where they are floats, in registers besides.
// Not for long vectors, nor those of 32 bits, which are jit.cpp's. Invariant: same results as the interpreter's.
#pragma once

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <xbyak/xbyak.h>

#include <array>
#include <deque>
#include <memory>
#include <utility>

#include "host/loops/nest.h"
#include "host/vector/vector.h"

namespace trine::host {

class ScalarCode : public Xbyak::CodeGenerator {
 public:
  using Entry = void (*)(int64_t* words);

  // Null where the nest has loops or types that are not meant here. Operands' pointers are found in the words of a
  // call from `first_pointer` on.
  static std::unique_ptr<ScalarCode> make(const LoopNest& nest, int first_pointer);
  Entry entry() const { return getCode<Entry>(); }

 private:
  explicit ScalarCode(int64_t lanes) : lanes_(lanes) {}

  void all(const LoopNest& nest, int first_pointer);
  void one(const LoopNest& nest, arch::LoopValue v, int first_pointer);
  void load(arch::LoopValue v, const arch::LoopInsn& n, Dtype stored);
  void store(const arch::LoopInsn& n, Dtype stored);
  bool floating(arch::LoopValue v, const arch::LoopInsn& n, bool is_wide);
  bool whole(arch::LoopValue v, const arch::LoopInsn& n, bool is_wide);
  bool compare(arch::LoopValue v, const arch::LoopInsn& n, Lane lane);
  bool convert(arch::LoopValue v, const arch::LoopInsn& n, Lane from);
  void call(arch::LoopValue v, const arch::LoopInsn& n, Lane from);
  int at(arch::LoopValue v) const { return 8 * int(int64_t(v) * lanes_ + lane_); }
  // A float in a register, read into one where it is in none; and one for a result, which keep() then writes to its
  // slot.
  Xbyak::Xmm held(arch::LoopValue v, bool is_wide);
  std::pair<Xbyak::Xmm, Xbyak::Xmm> held(arch::LoopValue a, arch::LoopValue b, bool is_wide);
  Xbyak::Xmm fresh(arch::LoopValue v);
  void keep(const Xbyak::Xmm& x, arch::LoopValue v);
  void read(const Xbyak::Xmm& x, const Xbyak::RegExp& from, bool is_wide);
  void forget() { holds_.fill(kNothing); }

  Xbyak::Address slot(arch::LoopValue v) { return qword[rsp + at(v)]; }
  Xbyak::Address half(arch::LoopValue v) { return dword[rsp + at(v)]; }

  const int64_t lanes_;      // of a value
  int64_t lane_ = 0;         // that is being written
  std::deque<VCall> calls_;  // their addresses stay

  static constexpr int kNothing = -1, kRegisters = 15;  // xmm1 to xmm15; xmm0 is free for anyone
  std::array<int, kRegisters> holds_ = {};              // at() of what each holds
  int next_ = 0;                                        // to be written over: the oldest
  int busy_ = kNothing;                                 // not to be
};

}  // namespace trine::host
#endif
