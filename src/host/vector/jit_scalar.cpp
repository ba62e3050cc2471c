// One instruction after the other, each to the stack and, of floats, from registers where they are still in one: what
// waits for a float then does not wait for memory. What has no instruction of its own is a kernel's call.
#include "host/vector/jit_scalar.h"

#if defined(__x86_64__) && __has_include(<xbyak/xbyak.h>)
#include <algorithm>
#include <exception>

#include "base/number/number.h"
#include "host/vector/symbols.h"

namespace trine::host {

using arch::LoopInsn;
using arch::LoopOp;
using arch::LoopOpClass;
using arch::LoopValue;
using namespace Xbyak;

namespace {

constexpr int64_t kLanesMax = 8;    // of a vector, one after the other
constexpr size_t kValuesMax = 800;  // of all lanes

bool is_whole_type(Dtype d) {
  return d == Dtype::f32 || d == Dtype::f64 || d == Dtype::s32 || d == Dtype::u32 || d == Dtype::s64 ||
         d == Dtype::u64 || d == Dtype::boolean;
}

bool suits(const LoopNest& nest) {
  if (nest.vector.size < 1 || nest.vector.size > kLanesMax || !nest.rows.empty() || !nest.inner.empty() ||
      !nest.staged.empty())
    return false;
  if (nest.insns.size() * size_t(nest.vector.size) > kValuesMax) return false;
  return std::all_of(nest.insns.begin(), nest.insns.end(), [&](const LoopInsn& n) {
    const bool is_memory = n.op == LoopOp::load || n.op == LoopOp::store;
    if (is_memory && !is_whole_type(nest.operands[n.at].dtype)) return false;
    if (n.op == LoopOp::iota && is_floating(n.type)) return false;
    return is_whole_type(n.type) && n.op != LoopOp::round_to && row(n.op).kind != LoopOpClass::reduce;
  });
}

}  // namespace

std::unique_ptr<ScalarCode> ScalarCode::make(const LoopNest& nest, int first_pointer) {
  if (!suits(nest)) return nullptr;
  try {
    auto code = std::unique_ptr<ScalarCode>(new ScalarCode(nest.vector.size));
    code->all(nest, first_pointer);
    code->ready(PROTECT_RE);
    return code;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void ScalarCode::read(const Xmm& x, const RegExp& from, bool is_wide) {
  is_wide ? vmovsd(x, qword[from]) : vmovss(x, dword[from]);
}

Xmm ScalarCode::fresh(LoopValue v) {
  if (next_ == busy_) next_ = (next_ + 1) % kRegisters;
  const int r = next_;
  next_ = (next_ + 1) % kRegisters;
  holds_[size_t(r)] = at(v);
  return Xmm(r + 1);
}

Xmm ScalarCode::held(LoopValue v, bool is_wide) {
  const auto found = std::find(holds_.begin(), holds_.end(), at(v));
  if (found != holds_.end()) return Xmm(int(found - holds_.begin()) + 1);
  const Xmm x = fresh(v);
  read(x, rsp + at(v), is_wide);
  return x;
}

std::pair<Xmm, Xmm> ScalarCode::held(LoopValue a, LoopValue b, bool is_wide) {
  const Xmm x = held(a, is_wide);
  busy_ = x.getIdx() - 1;
  const Xmm y = held(b, is_wide);
  busy_ = kNothing;
  return {x, y};
}

// All eight bytes, whatever the upper ones are: a slot read whole would wait where half of it was written.
void ScalarCode::keep(const Xmm& x, LoopValue v) { vmovsd(slot(v), x); }

// rbx holds the words of the call.
void ScalarCode::all(const LoopNest& nest, int first_pointer) {
  push(rbx);
  push(rbp);
  mov(rbp, rsp);
  mov(rbx, rdi);
  forget();
  sub(rsp, int(int64_t(nest.insns.size()) * lanes_ * 8));
  and_(rsp, -32);
  // An instruction on all lanes before the next: a result may lie over what other lanes still read.
  for (LoopValue v = 0; v < nest.insns.size(); ++v)
    for (lane_ = 0; lane_ < lanes_; ++lane_) one(nest, v, first_pointer);
  mov(rsp, rbp);
  pop(rbp);
  pop(rbx);
  ret();
}

void ScalarCode::one(const LoopNest& nest, LoopValue v, int first_pointer) {
  const LoopInsn& n = nest.insns[v];
  if (n.op == LoopOp::constant) {
    const bool is_truth = n.type == Dtype::boolean;
    mov(rax, is_truth ? (n.bits & 1 ? ~uint64_t{0} : 0) : n.bits);
    return mov(slot(v), rax);
  }
  if (n.op == LoopOp::iota) {
    mov(rax, uint64_t(lane_));
    return mov(slot(v), rax);
  }
  if (n.op == LoopOp::load || n.op == LoopOp::store) {
    mov(rcx, qword[rbx + 8 * (first_pointer + int(n.at))]);
    if (const int64_t further = lane_ * nest.vector.steps[n.at]) {
      mov(rax, uint64_t(further));
      add(rcx, rax);
    }
    const Dtype stored = nest.operands[n.at].dtype;
    return n.op == LoopOp::load ? load(v, n, stored) : store(n, stored);
  }
  const Lane from = lane_of(nest.insns[n.in[n.op == LoopOp::select ? 1 : 0]].type);
  const bool is_wide = bytes(from) == 8;
  bool done = false;
  if (n.op == LoopOp::select) {
    mov(rax, slot(n.in[1]));
    cmp(half(n.in[0]), 0);
    cmove(rax, slot(n.in[2]));
    mov(slot(v), rax);
    done = true;
  } else if (n.op == LoopOp::bit_cast) {
    mov(rax, slot(n.in[0]));
    mov(slot(v), rax);
    done = true;
  } else if (n.op == LoopOp::convert) {
    done = convert(v, n, from);
  } else if (row(n.op).kind == LoopOpClass::compare) {
    done = compare(v, n, from);
  } else if (from == Lane::f64 || from == Lane::f32) {
    done = floating(v, n, is_wide);
  } else {
    done = whole(v, n, is_wide);
  }
  if (!done) call(v, n, from);
}

void ScalarCode::load(LoopValue v, const LoopInsn& n, Dtype stored) {
  const bool is_wide = bytes(lane_of(n.type)) == 8;
  if (is_floating(n.type)) {
    const Xmm x = fresh(v);
    read(x, rcx, is_wide);
    return keep(x, v);
  }
  if (stored == Dtype::boolean) {
    xor_(eax, eax);
    cmp(byte[rcx], 1);
    cmc();
    sbb(eax, eax);
  } else if (is_wide) {
    mov(rax, qword[rcx]);
  } else {
    mov(eax, dword[rcx]);
  }
  mov(slot(v), rax);
}

void ScalarCode::store(const LoopInsn& n, Dtype stored) {
  if (is_floating(n.type)) {
    const bool is_wide = bytes(lane_of(n.type)) == 8;
    const Xmm x = held(n.in[0], is_wide);
    is_wide ? vmovsd(qword[rcx], x) : vmovss(dword[rcx], x);
    return;
  }
  mov(rax, slot(n.in[0]));
  if (stored == Dtype::boolean) {
    and_(eax, 1);
    mov(byte[rcx], al);
  } else if (bytes(lane_of(n.type)) == 8) {
    mov(qword[rcx], rax);
  } else {
    mov(dword[rcx], eax);
  }
}

bool ScalarCode::floating(LoopValue v, const LoopInsn& n, bool is_wide) {
  const bool is_pair = n.op == LoopOp::add || n.op == LoopOp::sub || n.op == LoopOp::mul || n.op == LoopOp::div;
  if (n.op == LoopOp::neg || n.op == LoopOp::abs) {
    const Xmm x = held(n.in[0], is_wide), d = fresh(v);
    vpcmpeqd(xmm0, xmm0, xmm0);
    if (n.op == LoopOp::neg) {
      is_wide ? vpsllq(xmm0, xmm0, 63) : vpslld(xmm0, xmm0, 31);
      vpxor(d, x, xmm0);
    } else {
      is_wide ? vpsrlq(xmm0, xmm0, 1) : vpsrld(xmm0, xmm0, 1);
      vpand(d, x, xmm0);
    }
    keep(d, v);
    return true;
  }
  if (!is_pair && n.op != LoopOp::sqrt) return false;
  const auto [x, y] = held(n.in[0], is_pair ? n.in[1] : n.in[0], is_wide);
  const Xmm d = fresh(v);
  if (is_wide) {
    if (n.op == LoopOp::add) vaddsd(d, x, y);
    if (n.op == LoopOp::sub) vsubsd(d, x, y);
    if (n.op == LoopOp::mul) vmulsd(d, x, y);
    if (n.op == LoopOp::div) vdivsd(d, x, y);
    if (n.op == LoopOp::sqrt) vsqrtsd(d, x, y);
  } else {
    if (n.op == LoopOp::add) vaddss(d, x, y);
    if (n.op == LoopOp::sub) vsubss(d, x, y);
    if (n.op == LoopOp::mul) vmulss(d, x, y);
    if (n.op == LoopOp::div) vdivss(d, x, y);
    if (n.op == LoopOp::sqrt) vsqrtss(d, x, y);
  }
  keep(d, v);
  return true;
}

// Whole numbers and truths. The upper half of a 32-bit lane's slot is nobody's.
bool ScalarCode::whole(LoopValue v, const LoopInsn& n, bool is_wide) {
  const bool is_truth = n.type == Dtype::boolean;
  switch (n.op) {
    case LoopOp::add:
    case LoopOp::sub:
    case LoopOp::mul:
      if (is_truth) return false;
      break;
    case LoopOp::bit_and:
    case LoopOp::bit_or:
    case LoopOp::bit_xor:
    case LoopOp::bit_not:
      break;
    default:
      return false;
  }
  mov(rax, slot(n.in[0]));
  if (n.op == LoopOp::add) add(rax, slot(n.in[1]));
  if (n.op == LoopOp::sub) sub(rax, slot(n.in[1]));
  if (n.op == LoopOp::mul) is_wide ? imul(rax, slot(n.in[1])) : imul(eax, half(n.in[1]));
  if (n.op == LoopOp::bit_and) and_(rax, slot(n.in[1]));
  if (n.op == LoopOp::bit_or) or_(rax, slot(n.in[1]));
  if (n.op == LoopOp::bit_xor) xor_(rax, slot(n.in[1]));
  if (n.op == LoopOp::bit_not) not_(rax);
  mov(slot(v), rax);
  return true;
}

bool ScalarCode::compare(LoopValue v, const LoopInsn& n, Lane lane) {
  const LoopValue a = n.in[0], b = n.in[1];
  if (lane == Lane::f64 || lane == Lane::f32) {
    constexpr uint8_t kBy[] = {kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual};
    const uint8_t by = kBy[int(n.op) - int(LoopOp::eq)];
    const bool is_wide = lane == Lane::f64;
    const auto [x, y] = held(a, b, is_wide);
    is_wide ? vcmpsd(xmm0, x, y, by) : vcmpss(xmm0, x, y, by);
    keep(xmm0, v);
    return true;
  }
  if (lane == Lane::mask) return false;
  if (bytes(lane) == 8) {
    mov(rax, slot(a));
    cmp(rax, slot(b));
  } else {
    mov(eax, half(a));
    cmp(eax, half(b));
  }
  const bool is_signed = lane == Lane::s32 || lane == Lane::s64;
  if (n.op == LoopOp::eq) sete(al);
  if (n.op == LoopOp::ne) setne(al);
  if (n.op == LoopOp::lt) is_signed ? setl(al) : setb(al);
  if (n.op == LoopOp::le) is_signed ? setle(al) : setbe(al);
  if (n.op == LoopOp::gt) is_signed ? setg(al) : seta(al);
  if (n.op == LoopOp::ge) is_signed ? setge(al) : setae(al);
  movzx(eax, al);
  neg(eax);
  mov(slot(v), rax);
  return true;
}

bool ScalarCode::convert(LoopValue v, const LoopInsn& n, Lane from) {
  const Lane to = lane_of(n.type);
  const LoopValue a = n.in[0];
  vxorpd(xmm0, xmm0, xmm0);
  if (to == Lane::f64 && (from == Lane::s32 || from == Lane::s64 || from == Lane::f32)) {
    if (from == Lane::s32) vcvtsi2sd(xmm0, xmm0, half(a));
    if (from == Lane::s64) vcvtsi2sd(xmm0, xmm0, slot(a));
    if (from == Lane::f32) vcvtss2sd(xmm0, xmm0, half(a));
    vmovsd(slot(v), xmm0);
    return true;
  }
  if (to == Lane::f32 && from == Lane::f64) {
    vcvtsd2ss(xmm0, xmm0, slot(a));
    keep(xmm0, v);
    return true;
  }
  if (to == Lane::s64 && from == Lane::s32) {
    movsxd(rax, half(a));
    mov(slot(v), rax);
    return true;
  }
  if (to == Lane::s32 && from == Lane::s64) {
    mov(rax, slot(a));
    mov(slot(v), rax);
    return true;
  }
  return false;
}

void ScalarCode::call(LoopValue v, const LoopInsn& n, Lane from) {
  LoopAux aux;
  aux.bits = uint32_t(trine::bits(n.type));
  aux.exponent = uint32_t(n.bits >> 8 & 255);
  aux.mantissa = uint32_t(n.bits & 255);
  LoopFn fn = loop_kernels(Simd::avx2).find({n.op, from, lane_of(n.type)});
  if (!fn) throw std::length_error("an op without a kernel");
  calls_.push_back({fn, aux});
  const Reg64 to[] = {rsi, rdx, rcx};
  lea(rdi, slot(v));
  for (int k = 0; k < row(n.op).inputs; ++k) lea(to[k], slot(n.in[size_t(k)]));
  mov(r8d, 1);
  mov(r9, reinterpret_cast<uint64_t>(&calls_.back().aux));
  mov(rax, reinterpret_cast<uint64_t>(fn));
  CodeGenerator::call(rax);
  if (bytes(lane_of(n.type)) == 4) {
    mov(eax, half(v));
    mov(slot(v), rax);
  }
  forget();
}

}  // namespace trine::host
#endif
