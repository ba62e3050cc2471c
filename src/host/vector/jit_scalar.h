// Machine code for programs of a few numbers with 64-bit lanes: bodies of small loops, where calling one kernel per
// instruction is most of the work. Values lie on the stack, eight bytes each, in the interpreter's form of lanes.
// Not for long vectors, nor those of 32 bits, which are jit.cpp's. Invariant: same results as the interpreter's.
#pragma once

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <xbyak/xbyak.h>

#include <deque>
#include <memory>

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
  void load(const arch::LoopInsn& n, Dtype stored, const Xbyak::Address& to);
  void store(const arch::LoopInsn& n, Dtype stored);
  bool floating(arch::LoopValue v, const arch::LoopInsn& n, bool is_wide);
  bool whole(arch::LoopValue v, const arch::LoopInsn& n, bool is_wide);
  bool compare(arch::LoopValue v, const arch::LoopInsn& n, Lane lane);
  bool convert(arch::LoopValue v, const arch::LoopInsn& n, Lane from);
  void call(arch::LoopValue v, const arch::LoopInsn& n, Lane from);
  int at(arch::LoopValue v) const { return 8 * int(int64_t(v) * lanes_ + lane_); }
  Xbyak::Address slot(arch::LoopValue v) { return qword[rsp + at(v)]; }
  Xbyak::Address half(arch::LoopValue v) { return dword[rsp + at(v)]; }

  const int64_t lanes_;      // of a value
  int64_t lane_ = 0;         // that is being written
  std::deque<VCall> calls_;  // their addresses stay
};

}  // namespace trine::host
#endif
