// r15 holds the words of an iteration; on the stack lie the caller's stack, the other words, and whether iterations so
// far are odd.
#include "host/vector/jit_iteration.h"

#include <exception>

#include "base/simd.h"
#include "base/stop.h"

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <xbyak/xbyak.h>

namespace trine::host {

using namespace Xbyak;

namespace {

constexpr int kOdd = 1, kStopped = 2, kFailed = 4;

class Emitted : public IterationCode, private CodeGenerator {
 public:
  explicit Emitted(std::vector<Step> all) : IterationCode(std::move(all)), CodeGenerator(4096, AutoGrow) {
    write();
    ready(PROTECT_RE);
  }

 private:
  int enter(const int64_t* first, const int64_t* second) const override {
    return getCode<int (*)(const int64_t*, const int64_t*)>()(first, second);
  }

  Address word(size_t step, int which) { return qword[r15 + int(8 * (1 + step * kStepWords)) + 8 * which]; }

  void write() {
    Label again, done, stopped, failed, out;
    for (const Reg64& r : {rbx, rbp, r12, r13, r14, r15}) push(r);
    mov(rax, rsp);
    sub(rsp, 64);
    and_(rsp, -64);
    mov(ptr[rsp], rax);
    mov(r15, rdi);
    mov(ptr[rsp + 8], rsi);
    mov(dword[rsp + 16], 0);
    align(16);
    L(again);
    for (size_t i = 0; i < steps().size(); ++i) step(i, failed);
    xor_(dword[rsp + 16], kOdd);
    mov(rax, ptr[r15]);
    cmp(byte[rax], 0);
    je(done, T_NEAR);
    mov(rax, reinterpret_cast<uint64_t>(&stop_causes));
    cmp(dword[rax], 0);
    jne(stopped, T_NEAR);
    mov(rax, r15);
    mov(r15, ptr[rsp + 8]);
    mov(ptr[rsp + 8], rax);
    jmp(again, T_NEAR);
    L(failed);
    mov(dword[rsp + 16], kFailed);
    jmp(done, T_NEAR);
    L(stopped);
    or_(dword[rsp + 16], kStopped);
    L(done);
    mov(eax, dword[rsp + 16]);
    vzeroupper();
    mov(rsp, ptr[rsp]);
    for (const Reg64& r : {r15, r14, r13, r12, rbp, rbx}) pop(r);
    ret();
  }

  void step(size_t i, const Label& failed) {
    const Step& s = steps()[i];
    switch (s.kind) {
      case Kind::code:
        mov(rdi, word(i, 0));
        mov(rax, reinterpret_cast<uint64_t>(s.entry));
        return call(rax);
      case Kind::function:
        vzeroupper();
        mov(rdi, word(i, 1));
        call(word(i, 0));
        test(eax, eax);
        return jne(failed, T_NEAR);
      case Kind::move:
        return move(i, s);
    }
  }

  // rdx from, rcx to: as ShortMove::run().
  void move(size_t i, const Step& s) {
    Label end;
    mov(rcx, word(i, 1));
    mov(rdx, word(i, 2));
    if (s.stride != 0 || s.drops) {
      mov(rax, word(i, 0));
      s.is_wide ? mov(rax, qword[rax]) : movsxd(rax, dword[rax]);
      mov(esi, uint32_t(s.most));
      if (s.drops) {
        cmp(rax, rsi);
        ja(end, T_NEAR);
      } else {
        xor_(r8d, r8d);
        test(rax, rax);
        cmovs(rax, r8);
        cmp(rax, rsi);
        cmovg(rax, rsi);
      }
      if (s.stride != int32_t(s.stride)) {
        mov(rsi, uint64_t(s.stride));
        imul(rax, rsi);
      } else {
        imul(rax, rax, int(s.stride));
      }
      add(s.is_slice ? rdx : rcx, rax);
    }
    int at = 0;
    const auto left = [&] { return s.bytes - at; };
    for (; left() >= 32; at += 32) {
      vmovups(ymm0, ptr[rdx + at]);
      vmovups(ptr[rcx + at], ymm0);
    }
    for (; left() >= 16; at += 16) {
      vmovups(xmm0, ptr[rdx + at]);
      vmovups(ptr[rcx + at], xmm0);
    }
    const Reg units[] = {rax, eax, ax, al};
    for (int size = 8, u = 0; size > 0; size /= 2, ++u)
      for (; left() >= size; at += size) {
        mov(units[u], ptr[rdx + at]);
        mov(ptr[rcx + at], units[u]);
      }
    L(end);
  }
};

}  // namespace

std::shared_ptr<const IterationCode> IterationCode::make(std::vector<Step> steps) {
  constexpr size_t kStepsMax = 1000;
  if (simd_best() != Simd::avx2 || steps.size() > kStepsMax) return nullptr;
  try {
    return std::make_shared<const Emitted>(std::move(steps));
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace trine::host

#else

namespace trine::host {

namespace {
constexpr int kOdd = 1, kStopped = 2, kFailed = 4;
}  // namespace

std::shared_ptr<const IterationCode> IterationCode::make(std::vector<Step>) { return nullptr; }

}  // namespace trine::host

#endif

namespace trine::host {

IterationCode::Step IterationCode::step_of(const ShortMove& move) {
  return {.kind = Kind::move,
          .is_slice = move.is_slice,
          .is_wide = move.is_wide,
          .drops = move.drops,
          .most = move.most,
          .stride = move.stride,
          .bytes = move.bytes};
}

IterationCode::Outcome IterationCode::run(const Words& first, const Words& second) const {
  const int flags = enter(first.data(), second.data());
  const End end = flags & kFailed ? End::failed : flags & kStopped ? End::stopped : End::done;
  return {end, (flags & kOdd) != 0};
}

}  // namespace trine::host
