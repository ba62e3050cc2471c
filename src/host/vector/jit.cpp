// The emitter's upper half: rows, stages, parts and vector loops around straight lists; and the calls of the result.
#include "host/vector/jit.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "host/vector/unroll.h"
#include "host/vector/vector.h"

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include "host/vector/jit_lines.h"
#include "host/vector/jit_scalar.h"

namespace trine::host {

using arch::LoopStage;
using namespace Xbyak;

namespace {

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

class Emitter : public Lines {
 public:
  Emitter(const LoopNest& nest, const VectorProgram& program, int64_t block, bool whole_rows, bool bf16)
      : Lines(nest, program, bf16), whole_rows_(whole_rows) {
    width_ = round_up(nest.vertical ? block : nest.vector.size, 8);
    for (const VArray& a : program.arrays) {
      array_offsets_.push_back(frame_bytes_);
      frame_bytes_ += round_up(4 * (a.buffered ? width_ * nest.inner_count : width_) + 32, 64);
    }
    if (frame_bytes_ > int64_t{1} << 30) throw std::length_error("frame");
  }

  int64_t frame_bytes() const { return frame_bytes_; }
  using Entry = void (*)(int64_t* words);
  const void* inner_entry() const { return getCode() + inner_at_; }

  // Two functions: one as C calls it, around one that saves nothing and wants an aligned stack.
  Entry finish() {
    Label row, inner;
    save_and_call(inner);
    inner_at_ = getSize();
    L(inner);
    begin();
    before_rows();
    L(row);
    for (const VStage& s : program_.stages) stage(s);
    if (!nest_.rows.empty()) {
      next_row();
      dec(word(JitWords::kRows));
      jnz(row, T_NEAR);
    }
    leave();
    write_unusual();
    write_constants();
    ready(PROTECT_RE);
    return getCode<Entry>();
  }

 private:
  static constexpr size_t kChain = 8;
  static constexpr int64_t kChainRow = 512;  // elements: of fewer, what eight vectors leave over is too much

  // Words on the stack: begin of the part, its end, the inner index; of two inner loops the deep one's index, and where
  // the outer one's part ends meanwhile.
  static constexpr int kPartBegin = 0, kPartEnd = 1, kInnerAt = 2, kDeepAt = 3, kOuterEnd = 4;

  void save_and_call(const Label& inner) {
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    mov(r15, rsp);
    and_(rsp, -64);
    CodeGenerator::call(inner);
    vzeroupper();
    mov(rsp, r15);
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    ret();
  }

  // With the way back, a multiple of 64 bytes.
  int stack_bytes() const { return int(round_up(stack_.size, 64)) + 56; }
  void begin() {
    sub(rsp, stack_bytes());
    // Arrays are addressed by the vector's index: those of a block begin at its first lane.
    mov(rsi, word(JitWords::kFrame));
    if (nest_.vertical) {
      mov(rax, word(JitWords::kBegin));
      shl(rax, 2);
      sub(rsi, rax);
    }
  }
  void leave() {
    add(rsp, stack_bytes());
    ret();
  }

  void before_rows() {
    if (program_.first.each.insns.empty()) return;
    load_pointers(program_.first, false);
    mov(rbp, word(JitWords::kBegin));
    mov(rbx, word(JitWords::kEnd));
    vector_loop(program_.first);
  }

  void next_row() {
    for (uint32_t o = 0; o < nest_.operands.size(); ++o) {
      if (nest_.rows.back().steps[o] == 0) continue;
      mov(rax, word(words_.row_step(o)));
      add(word(words_.current(o)), rax);
    }
    inc(word(JitWords::kIndex + int(nest_.rows.size()) - 1));
  }

  void stage(const VStage& s) {
    if (s.kind == LoopStage::once) return once(s);
    if (is_short(s)) return short_row(s);
    totals_begin(s);
    if (!nest_.inner.empty()) return with_inner(s);
    if (nest_.vertical) {
      parts_begin(s);
      load_pointers(s, false);
      mov(rdx, rsi);
      mov(rbp, word(JitWords::kBegin));
      mov(rbx, word(JitWords::kEnd));
      vector_loop(s);
      return parts_end(s);
    }
    along_vector(s);
  }

  void once(const VStage& s) {
    load_pointers(s, false);
    if (!s.before.insns.empty()) emit(s.before, s, {.uniform = true});
    if (!nest_.vertical || s.each.insns.empty()) return;
    mov(rbp, word(JitWords::kBegin));
    mov(rbx, word(JitWords::kEnd));
    vector_loop(s, false);
  }

  bool is_short(const VStage& s) const {
    if (of_bytes() || (nest_.vertical && !(whole_rows_ && s.reductions.empty()))) return false;
    return nest_.inner.empty() && nest_.vector.size > 0 && nest_.vector.size <= 32 &&
           nest_.vector.size <= nest_.inner_cut && s.reductions.size() <= 2;
  }

  // So few elements that no accumulator is met twice: no loop, and reductions stay in registers.
  void short_row(const VStage& s) {
    const int full = int(nest_.vector.size / 8), rest = int(nest_.vector.size % 8), used = full + (rest > 0);
    const int pinned = 4 * int(s.reductions.size()), room = 16 - pinned;
    const int alive = std::max(pressure(s.each), 1), copies = full > 1 && 2 * alive <= room + 2 ? 2 : 1;
    mov(rdx, rsi);
    load_pointers(s, false);
    if (!s.before.insns.empty()) emit(s.before, s, {.uniform = true});
    for (uint32_t k = 0; k < s.reductions.size(); ++k)
      for (int v = 0; v < used; ++v) vmovaps(Ymm(15 - int(4 * k) - v), constant(s.reductions[k].identity));
    xor_(ebp, ebp);
    for (int v = 0; v < full; v += copies)
      emit(s.each, s, {.copies = std::min(copies, full - v), .first = v, .pinned = pinned});
    if (rest > 0) {
      mov(ebp, uint32_t(8 * full));
      mov(ebx, uint32_t(nest_.vector.size));
      vmovups(ymm0, ptr[rip + masks_ + 4 * (8 - rest)]);
      vmovaps(yword[rsp + stack_.mask], ymm0);
      emit(s.each, s, {.masked = true, .rest = rest, .pinned = pinned, .before = full});
    }
    for (uint32_t k = 0; k < s.reductions.size(); ++k) {
      for (int v = 0; v < used; ++v) vmovaps(Ymm(v), Ymm(15 - int(4 * k) - v));
      fold(s.reductions[k], used);
      vmovaps(ymm1, constant(s.reductions[k].identity));
      add_to_total(s.reductions[k]);
    }
  }

  // A row's elements, in parts where the row is long.
  void along_vector(const VStage& s) {
    if (nest_.vector.size == 0) return;
    Label part;
    mov(rdx, rsi);
    load_pointers(s, false);
    const bool long_row = nest_.vector.size > nest_.inner_cut;
    mov(rax, word(JitWords::kBegin));
    mov(stack_word(kPartBegin), rax);
    L(part);
    parts_begin(s);
    mov(rbp, stack_word(kPartBegin));
    mov(rbx, word(JitWords::kEnd));
    if (long_row) {
      lea(rax, ptr[rbp + size_t(nest_.inner_cut)]);
      cmp(rax, rbx);
      cmovb(rbx, rax);
    }
    vector_loop(s);
    parts_end(s);
    if (!long_row) return;
    mov(stack_word(kPartBegin), rbx);
    cmp(rbx, word(JitWords::kEnd));
    jb(part, T_NEAR);
  }

  // Parts are cut along the outermost inner loop; where there are two, the other one runs inside.
  void with_inner(const VStage& s) {
    const NestLoop& outer = nest_.inner[0];
    if (nest_.inner_count == 0 || nest_.vector.size == 0) return;
    Label part, again, end;
    for (uint32_t o : s.operands) {
      mov(rax, word(words_.current(o)));
      mov(word(words_.now(o)), rax);
    }
    xor_(eax, eax);
    mov(stack_word(kInnerAt), rax);
    mov(word(JitWords::kInner), rax);
    mov(rdx, rsi);
    L(part);
    parts_begin(s);
    mov(rax, stack_word(kInnerAt));
    add(rax, int(std::min<int64_t>(nest_.inner_cut, INT32_MAX)));
    mov(rcx, uint64_t(outer.size));
    cmp(rax, rcx);
    cmova(rax, rcx);
    mov(stack_word(kPartEnd), rax);
    if (nest_.inner.size() == 1) {
      inner_loop(s, kInnerAt, JitWords::kInner);
    } else {
      L(again);
      mov(rax, stack_word(kInnerAt));
      cmp(rax, stack_word(kPartEnd));
      jae(end, T_NEAR);
      deep_loop(s);
      jmp(again, T_NEAR);
      L(end);
    }
    parts_end(s);
    mov(rax, uint64_t(outer.size));
    cmp(stack_word(kInnerAt), rax);
    jb(part, T_NEAR);
  }

  // The inner one of two loops from its first to its last index, then the outer index moves on.
  void deep_loop(const VStage& s) {
    const NestLoop &outer = nest_.inner[0], &deep = nest_.inner[1];
    mov(rax, stack_word(kPartEnd));
    mov(stack_word(kOuterEnd), rax);
    mov(rax, uint64_t(deep.size));
    mov(stack_word(kPartEnd), rax);
    xor_(eax, eax);
    mov(stack_word(kDeepAt), rax);
    mov(word(JitWords::kInner + 1), rax);
    inner_loop(s, kDeepAt, JitWords::kInner + 1);
    for (uint32_t o : s.operands) {
      const int64_t further = outer.steps[o] - deep.size * deep.steps[o];
      if (further == 0) continue;
      mov(rax, uint64_t(further));
      add(word(words_.now(o)), rax);
    }
    mov(rax, stack_word(kOuterEnd));
    mov(stack_word(kPartEnd), rax);
    mov(rax, stack_word(kInnerAt));
    inc(rax);
    mov(stack_word(kInnerAt), rax);
    mov(word(JitWords::kInner), rax);
  }

  // The innermost loop from the index at `at` to the part's end; `index`: the word that iotas read.
  void inner_loop(const VStage& s, int at, int index) {
    Label again, end;
    if (auto several = unroll(nest_, s)) {
      VStage wide = s;
      wide.each = std::move(*several);
      Label more;
      L(more);
      mov(rax, stack_word(at));
      add(rax, int(kRowsAtOnce));
      cmp(rax, stack_word(kPartEnd));
      ja(again, T_NEAR);
      inner_rows(wide, int(kRowsAtOnce), at, index);
      jmp(more, T_NEAR);
    }
    L(again);
    mov(rax, stack_word(at));
    cmp(rax, stack_word(kPartEnd));
    jae(end, T_NEAR);
    inner_rows(s, 1, at, index);
    jmp(again, T_NEAR);
    L(end);
  }

  // The vector's loop at the inner index, in a list for so many indices; then the index moves on.
  void inner_rows(const VStage& s, int rows, int at, int index) {
    load_pointers(s, true);
    mov(rbp, word(JitWords::kBegin));
    mov(rbx, word(JitWords::kEnd));
    mov(stack_word(kPartBegin), rbp);
    vector_loop(s);
    for (uint32_t o : s.operands) {
      if (nest_.inner.back().steps[o] == 0) continue;
      mov(rax, uint64_t(rows * nest_.inner.back().steps[o]));
      add(word(words_.now(o)), rax);
    }
    add(rdx, uint32_t(4 * width_ * rows));
    mov(rax, stack_word(at));
    add(rax, rows);
    mov(stack_word(at), rax);
    mov(word(index), rax);
  }

  // --- reductions: totals, and the accumulators of a part

  // f(address) over the lanes of an array, eight at a time.
  template <class F>
  void over_lanes(F f) {
    Label again;
    mov(rcx, word(JitWords::kEnd));
    mov(rax, word(JitWords::kBegin));
    L(again);
    f();
    add(rax, 8);
    cmp(rax, rcx);
    jb(again, T_NEAR);
  }
  Address lanes(uint32_t array) { return ptr[rsi + rax * 4 + size_t(array_offsets_[array])]; }

  void totals_begin(const VStage& s) {
    for (const VReduction& r : s.reductions) {
      vmovaps(ymm0, constant(r.identity));
      if (nest_.vertical) {
        over_lanes([&] { vmovups(lanes(r.total), ymm0); });
      } else {
        vmovaps(yword[rsp + stack_.slots + 32 * int(r.total)], ymm0);
      }
    }
  }

  void parts_begin(const VStage& s) {
    for (uint32_t k = 0; k < s.reductions.size(); ++k) {
      const VReduction& r = s.reductions[k];
      vmovaps(ymm0, constant(r.identity));
      if (nest_.vertical) {
        over_lanes([&] { vmovups(lanes(r.part), ymm0); });
      } else {
        for (int v = 0; v < 4; ++v) vmovaps(yword[rsp + reduction_base(k) + 32 * v], ymm0);
      }
    }
  }

  void parts_end(const VStage& s) {
    for (uint32_t k = 0; k < s.reductions.size(); ++k) {
      const VReduction& r = s.reductions[k];
      if (nest_.vertical) {
        over_lanes([&] {
          vmovups(ymm1, lanes(r.total));
          vmovups(ymm2, lanes(r.part));
          pair(r, ymm0, ymm1, ymm2, ymm3);
          wrap(r, ymm0);
          vmovups(lanes(r.total), ymm0);
        });
      } else {
        for (int v = 0; v < 4; ++v) vmovaps(Ymm(v), yword[rsp + reduction_base(k) + 32 * v]);
        fold(r, 4);
        vmovaps(ymm1, total(r));
        add_to_total(r);
      }
    }
  }

  Address total(const VReduction& r) { return yword[rsp + stack_.slots + 32 * int(r.total)]; }

  // Halves onto halves, as the interpreter does, of accumulators in ymm0 to 3; those not used hold the identity.
  void fold(const VReduction& r, int used) {
    if (used > 2) pair(r, ymm0, ymm0, ymm2, ymm4);
    if (used > 3) pair(r, ymm1, ymm1, ymm3, ymm4);
    if (used > 1) pair(r, ymm0, ymm0, ymm1, ymm4);
    vextractf128(xmm1, ymm0, 1);
    pair(r, ymm0, ymm0, ymm1, ymm4);
    vpshufd(xmm1, xmm0, 0x0e);
    pair(r, ymm0, ymm0, ymm1, ymm4);
    vpshufd(xmm1, xmm0, 0x01);
    pair(r, ymm0, ymm0, ymm1, ymm4);
    vbroadcastss(ymm2, xmm0);
  }
  // ymm1 and the folded ymm2; the total is the same in all lanes.
  void add_to_total(const VReduction& r) {
    pair(r, ymm0, ymm1, ymm2, ymm4);
    wrap(r, ymm0);
    vmovaps(total(r), ymm0);
  }

  // --- the vector loop: rbp to rbx

  void vector_loop(const VStage& s, bool with_before = true) {
    if (with_before && !s.before.insns.empty()) emit(s.before, s, {.uniform = true});
    if (s.each.insns.empty()) return;
    const bool accumulates = !s.reductions.empty() && !nest_.vertical;
    const int pinned = accumulates && s.reductions.size() <= 2 ? 4 * int(s.reductions.size()) : 0;
    const int alive = std::max(pressure(s.each), 1), room = 16 - pinned;
    // A long list whose values are few is a chain, each waiting for the one before: many of them side by side.
    const bool is_chain = !accumulates && s.each.insns.size() >= kChain && nest_.vector.size >= kChainRow;
    const int copies = is_chain && 8 * alive <= room ? 8 : 4 * alive <= room ? 4 : 2 * alive <= room + 2 ? 2 : 1;
    const int vectors = accumulates ? 4 : copies;
    Label single, tail, done;
    const bool has_room = copies * alive + pinned < 16 && widens(s.each);
    if (vectors > 1) main_loop(s, {.copies = copies, .pinned = pinned, .halves_in_register = has_room}, vectors);
    L(single);
    lea(rax, ptr[rbp + vector_lanes()]);
    cmp(rax, rbx);
    ja(tail, T_NEAR);
    emit(s.each, s, {});
    add(rbp, vector_lanes());
    jmp(single, T_NEAR);
    L(tail);
    mov(rax, rbx);
    sub(rax, rbp);
    jz(done, T_NEAR);
    if (!of_bytes()) {
      neg(rax);
      lea(rcx, ptr[rip + masks_]);
      vmovups(ymm0, ptr[rcx + rax * 4 + 32]);
      vmovaps(yword[rsp + stack_.mask], ymm0);
    }
    emit(s.each, s, {.masked = true});
    L(done);
  }

  void main_loop(const VStage& s, Layout layout, int vectors) {
    Label again, end;
    const int lanes_at_once = vector_lanes() * vectors;
    lea(rax, ptr[rbp + lanes_at_once]);
    cmp(rax, rbx);
    ja(end, T_NEAR);
    move_accumulators(layout.pinned, true);
    if (layout.halves_in_register) load_upper_halves(layout);
    align(32);
    L(again);
    for (layout.first = 0; layout.first < vectors; layout.first += layout.copies) emit(s.each, s, layout);
    add(rbp, lanes_at_once);
    lea(rax, ptr[rbp + lanes_at_once]);
    cmp(rax, rbx);
    jbe(again, T_NEAR);
    move_accumulators(layout.pinned, false);
    L(end);
  }

  void move_accumulators(int pinned, bool in) {
    for (int k = 0; k < pinned; ++k) {
      Address at = yword[rsp + stack_.accumulators + 32 * k];
      if (in) {
        vmovaps(Ymm(15 - k), at);
      } else {
        vmovaps(at, Ymm(15 - k));
      }
    }
  }

  int64_t frame_bytes_ = 0;
  size_t inner_at_ = 0;
  const bool whole_rows_;
};

}  // namespace

struct NestCode {
  NestCode(const LoopNest& nest, VectorProgram program_in, int64_t block, bool whole_rows, bool bf16)
      : program(std::move(program_in)), words{nest.operands.size()} {
    emitter = std::make_unique<Emitter>(nest, program, block, whole_rows, bf16);
    entry = emitter->finish();
    frame_bytes = emitter->frame_bytes();
    outer_rows = nest.rows.empty() ? 0 : nest.rows.size() - 1;
  }
  NestCode(const LoopNest& nest, std::unique_ptr<ScalarCode> code)
      : words{nest.operands.size()}, numbers(std::move(code)), entry(numbers->entry()) {}

  VectorProgram program = {};  // calls point into it
  JitWords words;
  std::unique_ptr<Emitter> emitter = {};
  std::unique_ptr<ScalarCode> numbers = {};  // instead of those, of single numbers
  Emitter::Entry entry = nullptr;
  int64_t frame_bytes = 0;
  size_t outer_rows = 0;
};

std::shared_ptr<const NestCode> make_code(const LoopNest& nest, int64_t block, bool whole_rows, bool bf16) {
  auto program = make_vectors(nest);
  if (!program) {
    auto numbers = ScalarCode::make(nest, JitWords{nest.operands.size()}.current(0));
    return numbers ? std::make_shared<NestCode>(nest, std::move(numbers)) : nullptr;
  }
  try {
    return std::make_shared<NestCode>(nest, std::move(*program), block, whole_rows, bf16);
  } catch (const std::exception&) {  // too many values or too much code: the interpreter takes it
    return nullptr;
  }
}

bool is_unblocked(const NestCode& code) { return code.program.arrays.empty(); }

size_t code_scratch_bytes(const NestCode& code) {
  return size_t(round_up(int64_t(code.words.count()) * 8, 64) + code.frame_bytes);
}

void set_call(const NestCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const LoopRange& range, std::byte* scratch) {
  const JitWords& w = code.words;
  auto* words = reinterpret_cast<int64_t*>(scratch);
  words[JitWords::kRows] = range.rows;
  words[JitWords::kBegin] = range.begin;
  words[JitWords::kEnd] = range.end;
  words[JitWords::kFrame] = reinterpret_cast<int64_t>(scratch + round_up(int64_t(w.count()) * 8, 64));
  for (size_t d = 0; d < code.outer_rows; ++d) words[size_t(JitWords::kIndex) + d] = index[d];
  words[size_t(JitWords::kIndex) + code.outer_rows] = range.row;
  for (uint32_t o = 0; o < pointers.size(); ++o) {
    int64_t step = steps.empty() ? 0 : steps[o];
    words[w.row_step(o)] = step;
    words[w.current(o)] = reinterpret_cast<int64_t>(pointers[o] + range.row * step);
  }
}

void enter(const NestCode& code, std::byte* scratch) { code.entry(reinterpret_cast<int64_t*>(scratch)); }

const void* inner_entry(const NestCode& code) {
  return code.emitter ? code.emitter->inner_entry() : reinterpret_cast<const void*>(code.entry);
}
size_t call_bytes(const NestCode& code) { return code.words.count() * 8; }

}  // namespace trine::host

#else

namespace trine::host {

struct NestCode {};
std::shared_ptr<const NestCode> make_code(const LoopNest&, int64_t, bool, bool) { return nullptr; }
bool is_unblocked(const NestCode&) { return false; }
size_t code_scratch_bytes(const NestCode&) { return 0; }
void set_call(const NestCode&, std::span<std::byte* const>, std::span<const int64_t>, std::span<const int64_t>,
              const LoopRange&, std::byte*) {}
void enter(const NestCode&, std::byte*) {}
const void* inner_entry(const NestCode&) { return nullptr; }
size_t call_bytes(const NestCode&) { return 0; }

}  // namespace trine::host

#endif

namespace trine::host {

void run_code(const NestCode& code, std::span<std::byte* const> pointers, std::span<const int64_t> steps,
              std::span<const int64_t> index, const LoopRange& range, std::byte* scratch) {
  set_call(code, pointers, steps, index, range, scratch);
  enter(code, scratch);
}

}  // namespace trine::host
