// Machine code for programs of a few numbers with 64-bit lanes: bodies of small loops, where calling one kernel per
// instruction is most of the work. Values lie on the stack, eight bytes each, in the interpreter's form of lanes.
// Not for long vectors, nor those of 32 bits, which are tile_jit.cpp's. Invariant: same results as the interpreter's.
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
  static std::unique_ptr<ScalarCode> make(const TileNest& nest, int first_pointer);
  Entry entry() const { return getCode<Entry>(); }

 private:
  explicit ScalarCode(int64_t lanes) : lanes_(lanes) {}

  void all(const TileNest& nest, int first_pointer);
  void one(const TileNest& nest, arch::TileValue v, int first_pointer);
  void load(const arch::TileInsn& n, Dtype stored, const Xbyak::Address& to);
  void store(const arch::TileInsn& n, Dtype stored);
  bool floating(arch::TileValue v, const arch::TileInsn& n, bool is_wide);
  bool whole(arch::TileValue v, const arch::TileInsn& n, bool is_wide);
  bool compare(arch::TileValue v, const arch::TileInsn& n, Lane lane);
  bool convert(arch::TileValue v, const arch::TileInsn& n, Lane from);
  void call(arch::TileValue v, const arch::TileInsn& n, Lane from);
  int at(arch::TileValue v) const { return 8 * int(int64_t(v) * lanes_ + lane_); }
  Xbyak::Address slot(arch::TileValue v) { return qword[rsp + at(v)]; }
  Xbyak::Address half(arch::TileValue v) { return dword[rsp + at(v)]; }

  const int64_t lanes_;      // of a value
  int64_t lane_ = 0;         // that is being written
  std::deque<VCall> calls_;  // their addresses stay
};

}  // namespace trine::host
#endif
