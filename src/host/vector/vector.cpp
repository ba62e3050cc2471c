// From a nest to vector code: each instruction becomes a few vector operations, or a call of the interpreter's kernel.
#include "host/vector/vector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>

#include "base/number/number.h"
#include "host/loops/math.h"
#include "host/vector/bytes.h"
#include "host/vector/symbols.h"

namespace trine::host {

using arch::kNoValue;
using arch::LoopInsn;
using arch::LoopOp;
using arch::LoopOpClass;
using arch::LoopStage;
using arch::LoopValue;

Ref VWriter::constant(uint32_t bits) {
  if (program_.of_bytes) bits = (bits & 255) * 0x01010101U;
  auto& pool = program_.constants;
  auto found = std::find(pool.begin(), pool.end(), bits);
  if (found == pool.end()) found = pool.insert(pool.end(), bits);
  return {Ref::constant, uint32_t(found - pool.begin())};
}

VMemory memory_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
    case Dtype::s32:
    case Dtype::u32:
      return VMemory::word;
    case Dtype::bf16:
      return VMemory::bf16;
    case Dtype::f16:
      return VMemory::f16;
    case Dtype::s8:
    case Dtype::s4:
    case Dtype::s2:
      return VMemory::s8;
    case Dtype::u8:
    case Dtype::u4:
    case Dtype::u2:
      return VMemory::u8;
    case Dtype::s16:
      return VMemory::s16;
    case Dtype::u16:
      return VMemory::u16;
    case Dtype::boolean:
      return VMemory::truth;
    default:
      return VMemory::call;
  }
}

namespace {

using Math = LaneMath<SymbolLanes>;

// One instruction's operations, written to one list.
struct Meaning {
  VectorProgram& program;
  VWriter w;
  const LoopKernels& kernels = loop_kernels(Simd::avx2);

  Ref k(float x) { return w.constant(std::bit_cast<uint32_t>(x)); }
  Ref ki(int32_t x) { return w.constant(uint32_t(x)); }
  Ref not_of(Ref a) { return w.put(VOp::bxor, a, ki(-1)); }

  Ref call(LoopFn fn, const LoopAux& aux, Ref a, Ref b = {}, Ref c = {}) {
    program.calls.push_back({fn, aux});
    return w.put(VOp::call, a, b, c, uint32_t(program.calls.size() - 1));
  }
  Ref call_kernel(const LoopInsn& n, Lane from, const std::array<Ref, 3>& in, const LoopAux& aux) {
    return call(kernels.find({n.op, from, lane_of(n.type)}), aux, in[0], in[1], in[2]);
  }

  // The larger or smaller of two: NaN if either is, and -0 is below 0. The engine's own op gives its second operand
  // where they are equal or one is NaN, so both orders differ in just these cases.
  Ref extreme(Ref a, Ref b, VOp op) {
    if (a.kind == Ref::constant) std::swap(a, b);
    if (b.kind == Ref::constant) {
      const auto limit = std::bit_cast<float>(program.constants[b.id]);
      const bool is_plus = !std::signbit(limit), is_most = op == VOp::fmax;
      if (limit != 0 && limit == limit) return w.put(op, b, a);
      if (limit == 0 && is_plus != is_most) return w.put(op, b, a);  // a is the one asked for, if it is a zero
      if (limit == 0 && is_most) return w.put(VOp::fadd, w.put(op, b, a), b);
    }
    const Ref one = w.put(op, b, a), other = w.put(op, a, b);
    if (op == VOp::fmin) return w.put(VOp::bor, one, other);
    const Ref apart = w.put(VOp::bxor, one, other);  // a sign, or anything if one of them is NaN
    return w.put(VOp::fsub, w.put(VOp::bor, one, apart), apart);
  }

  Ref wrap(Ref a, Dtype type) {
    const int up = 32 - trine::bits(type);
    if (!is_integer(type) || up <= 0 || program.of_bytes) return a;
    bool is_signed = trine::row(type).kind == DtypeKind::signed_int;
    if (!is_signed) return w.put(VOp::band, a, w.constant(UINT32_MAX >> up));
    return w.put(VOp::sar, w.put(VOp::shl, a, {}, {}, 0, up), {}, {}, 0, up);
  }

  Ref elementary(LoopOp op, Ref a) {
    SymbolF x(Symbol{&w, a});
    switch (op) {
      case LoopOp::exp:
        return Math::exp(x).ref;
      case LoopOp::expm1:
        return Math::expm1(x).ref;
      case LoopOp::log:
        return Math::log(x).ref;
      case LoopOp::log1p:
        return Math::log1p(x).ref;
      case LoopOp::logistic:
        return Math::logistic(x).ref;
      case LoopOp::tanh:
        return Math::tanh(x).ref;
      case LoopOp::erf:
        return Math::erf(x).ref;
      case LoopOp::erfc:
        return Math::erfc(x).ref;
      case LoopOp::erf_inv:
        return Math::erf_inv(x).ref;
      case LoopOp::sin:
        return patched(op, a, Math::sin(x).ref);
      case LoopOp::cos:
        return patched(op, a, Math::cos(x).ref);
      case LoopOp::tan:
        return patched(op, a, Math::tan(x).ref);
      default:
        return {};
    }
  }
  Ref patched(LoopOp op, Ref x, Ref y) {
    program.calls.push_back({kernels.find({.op = op}), {}});
    Ref size = w.put(VOp::band, x, ki(0x7fffffff));
    Ref large = w.put(VOp::fcmp, size, k(Math::kTrigMax), {}, 0, kGreater);
    return w.put(VOp::patch, x, y, large, uint32_t(program.calls.size() - 1));
  }

  Ref floating(const LoopInsn& n, const std::array<Ref, 3>& in) {
    auto [a, b, c] = in;
    switch (n.op) {
      case LoopOp::add:
        return w.put(VOp::fadd, a, b);
      case LoopOp::sub:
        return w.put(VOp::fsub, a, b);
      case LoopOp::mul:
        return w.put(VOp::fmul, a, b);
      case LoopOp::div:
        return w.put(VOp::fdiv, a, b);
      case LoopOp::max:
        return extreme(a, b, VOp::fmax);
      case LoopOp::min:
        return extreme(a, b, VOp::fmin);
      case LoopOp::clamp:
        return extreme(extreme(b, a, VOp::fmax), c, VOp::fmin);
      case LoopOp::neg:
        return w.put(VOp::bxor, a, ki(INT32_MIN));
      case LoopOp::abs:
        return w.put(VOp::band, a, ki(INT32_MAX));
      case LoopOp::sign: {
        Ref one = w.put(VOp::bor, w.put(VOp::band, a, ki(INT32_MIN)), k(1));
        Ref other = w.put(VOp::fcmp, w.put(VOp::band, a, ki(INT32_MAX)), k(0), {}, 0, kGreater);
        return w.put(VOp::blend, other, one, a);
      }
      case LoopOp::round_even:
        return w.put(VOp::fround, a, {}, {}, 0, 8);
      case LoopOp::round_away:
        return away(a);
      case LoopOp::floor:
        return w.put(VOp::fround, a, {}, {}, 0, 9);
      case LoopOp::ceil:
        return w.put(VOp::fround, a, {}, {}, 0, 10);
      case LoopOp::sqrt:
        return w.put(VOp::fsqrt, a);
      case LoopOp::rsqrt:
        return w.put(VOp::fdiv, k(1), w.put(VOp::fsqrt, a));
      case LoopOp::round_to:
        return round_to(n, a);
      default:
        return elementary(n.op, a);
    }
  }
  // Toward zero, then one further where a half or more was lost.
  Ref away(Ref a) {
    const Ref whole = w.put(VOp::fround, a, {}, {}, 0, 11);
    const Ref lost = w.put(VOp::band, w.put(VOp::fsub, a, whole), ki(INT32_MAX));
    const Ref one = w.put(VOp::bor, w.put(VOp::band, a, ki(INT32_MIN)), k(1));
    const Ref is_half = w.put(VOp::fcmp, lost, k(0.5F), {}, 0, kGreaterEqual);
    return w.put(VOp::blend, is_half, w.put(VOp::fadd, whole, one), whole);
  }
  Ref round_to(const LoopInsn& n, Ref a) {
    if (Dtype(n.at) == Dtype::f32) return a;
    if (Dtype(n.at) == Dtype::f16) return w.put(VOp::f16, a);
    if (Dtype(n.at) != Dtype::bf16) return {};
    return w.put(VOp::bf16, a);
  }

  Ref shift(const LoopInsn& n, Ref a, Ref b) {
    const int up = 32 - trine::bits(n.type);
    const bool is_signed = trine::row(n.type).kind == DtypeKind::signed_int;
    if (n.op == LoopOp::shl) return w.put(VOp::shlv, a, b);
    if (n.op == LoopOp::shr_arith) {
      if (!is_signed && up > 0) a = w.put(VOp::sar, w.put(VOp::shl, a, {}, {}, 0, up), {}, {}, 0, up);
      return w.put(VOp::sarv, a, b);
    }
    if (is_signed && up > 0) a = w.put(VOp::band, a, w.constant(UINT32_MAX >> up));
    Ref shifted = w.put(VOp::shrv, a, b);
    return shifted;
  }

  Ref integer(const LoopInsn& n, const std::array<Ref, 3>& in) {
    auto [a, b, c] = in;
    const bool is_signed = trine::row(n.type).kind == DtypeKind::signed_int;
    const VOp most = is_signed ? VOp::smax : VOp::umax, least = is_signed ? VOp::smin : VOp::umin;
    switch (n.op) {
      case LoopOp::add:
        return w.put(VOp::iadd, a, b);
      case LoopOp::sub:
        return w.put(VOp::isub, a, b);
      case LoopOp::mul:
        return w.put(VOp::imul, a, b);
      case LoopOp::div:
      case LoopOp::rem:
        return divided(n, a, b);
      case LoopOp::max:
        return w.put(most, a, b);
      case LoopOp::min:
        return w.put(least, a, b);
      case LoopOp::clamp:
        return w.put(least, w.put(most, b, a), c);
      case LoopOp::neg:
        return w.put(VOp::isub, ki(0), a);
      case LoopOp::abs:
        return is_signed ? w.put(VOp::iabs, a) : a;
      case LoopOp::sign:
        return w.put(least, is_signed ? w.put(VOp::smax, a, ki(-1)) : a, ki(1));
      case LoopOp::shl:
      case LoopOp::shr_arith:
      case LoopOp::shr_logical:
        return shift(n, a, b);
      case LoopOp::popcount:
        return popcount(unsigned_bits(a, n.type));
      case LoopOp::clz:
        return leading_zeros(unsigned_bits(a, n.type), trine::bits(n.type));
      default:
        return bitwise(n, in);
    }
  }
  // By a power of two. What is below zero rounds up: so much is added before its bits go.
  Ref divided(const LoopInsn& n, Ref a, Ref b) {
    const uint32_t by = b.kind == Ref::constant ? program.constants[b.id] : 0;
    const bool is_signed = trine::row(n.type).kind == DtypeKind::signed_int;
    if (!std::has_single_bit(by) || by >> 31) return {};
    const int bits = std::countr_zero(by);
    if (bits == 0) return n.op == LoopOp::div ? a : ki(0);
    if (!is_signed) return n.op == LoopOp::div ? shifted(a, bits) : w.put(VOp::band, a, ki(int32_t(by - 1)));
    const Ref below = shifted(w.put(VOp::sar, a, {}, {}, 0, 31), 32 - bits), up = w.put(VOp::iadd, a, below);
    if (n.op == LoopOp::div) return w.put(VOp::sar, up, {}, {}, 0, bits);
    return w.put(VOp::isub, a, w.put(VOp::band, up, ki(int32_t(~(by - 1)))));
  }
  Ref unsigned_bits(Ref a, Dtype type) {
    const int up = 32 - trine::bits(type);
    return up > 0 ? w.put(VOp::band, a, w.constant(UINT32_MAX >> up)) : a;
  }
  Ref shifted(Ref a, int32_t by) { return w.put(VOp::shr, a, {}, {}, 0, by); }
  // Sums of neighbouring bits, in fields twice as wide each time.
  Ref popcount(Ref a) {
    a = w.put(VOp::isub, a, w.put(VOp::band, shifted(a, 1), ki(0x55555555)));
    a = w.put(VOp::iadd, w.put(VOp::band, a, ki(0x33333333)), w.put(VOp::band, shifted(a, 2), ki(0x33333333)));
    a = w.put(VOp::band, w.put(VOp::iadd, a, shifted(a, 4)), ki(0x0f0f0f0f));
    return shifted(w.put(VOp::imul, a, ki(0x01010101)), 24);
  }
  // Ones from the highest down: as many as are not leading zeros.
  Ref leading_zeros(Ref a, int bits) {
    for (int by : {1, 2, 4, 8, 16}) a = w.put(VOp::bor, a, shifted(a, by));
    return w.put(VOp::isub, ki(bits), popcount(a));
  }
  Ref bitwise(const LoopInsn& n, const std::array<Ref, 3>& in) {
    switch (n.op) {
      case LoopOp::bit_and:
        return w.put(VOp::band, in[0], in[1]);
      case LoopOp::bit_or:
        return w.put(VOp::bor, in[0], in[1]);
      case LoopOp::bit_xor:
        return w.put(VOp::bxor, in[0], in[1]);
      case LoopOp::bit_not:
        return not_of(in[0]);
      default:
        return {};
    }
  }
  Ref truth(const LoopInsn& n, const std::array<Ref, 3>& in) {
    if (n.op == LoopOp::max) return w.put(VOp::bor, in[0], in[1]);
    if (n.op == LoopOp::min) return w.put(VOp::band, in[0], in[1]);
    return bitwise(n, in);
  }

  Ref compare(LoopOp op, Lane lane, Ref a, Ref b) {
    if (lane == Lane::f32) {
      constexpr int32_t kBy[] = {kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual};
      return w.put(VOp::fcmp, a, b, {}, 0, kBy[int(op) - int(LoopOp::eq)]);
    }
    if (op == LoopOp::eq) return w.put(VOp::ieq, a, b);
    if (op == LoopOp::ne) return not_of(w.put(VOp::ieq, a, b));
    if (lane != Lane::s32) {
      const Ref sign = program.of_bytes ? ki(INT8_MIN) : ki(INT32_MIN);
      a = w.put(VOp::bxor, a, sign);
      b = w.put(VOp::bxor, b, sign);
    }
    if (op == LoopOp::lt || op == LoopOp::ge) std::swap(a, b);
    Ref greater = w.put(VOp::igt, a, b);
    return op == LoopOp::le || op == LoopOp::ge ? not_of(greater) : greater;
  }

  Ref convert(const LoopInsn& n, Lane from, Ref a) {
    const Lane to = lane_of(n.type);
    if (to == Lane::mask) {
      if (from == Lane::mask) return a;
      return from == Lane::f32 ? w.put(VOp::fcmp, a, k(0), {}, 0, kNotEqual) : not_of(w.put(VOp::ieq, a, ki(0)));
    }
    if (from == Lane::mask) return w.put(VOp::band, a, to == Lane::f32 ? k(1) : ki(1));
    if (to == Lane::f32) return from == Lane::f32 ? a : to_float(from, a);
    if (from != Lane::f32) return wrap(a, n.type);
    return to_int(n.type, a);
  }
  Ref to_float(Lane from, Ref a) {
    if (from == Lane::s32) return w.put(VOp::to_float, a);
    Ref high = w.put(VOp::to_float, w.put(VOp::shr, a, {}, {}, 0, 16));
    Ref low = w.put(VOp::to_float, w.put(VOp::band, a, ki(0xffff)));
    return w.put(VOp::fadd, w.put(VOp::fmul, high, k(65536)), low);
  }
  // vcvttps2dq gives 0x80000000 where it cannot: its complement is what too large numbers want.
  Ref to_int(Dtype type, Ref a) {
    if (type == Dtype::u32) return {};
    Ref is_number = w.put(VOp::fcmp, a, a, {}, 0, 7);
    if (type == Dtype::s32) {
      Ref large = w.put(VOp::fcmp, a, k(0x1p31f), {}, 0, kGreaterEqual);
      return w.put(VOp::band, w.put(VOp::bxor, w.put(VOp::to_int, a), large), is_number);
    }
    Ref up = w.put(VOp::fmax, k(float(trine::row(type).min_finite)), a);
    Ref whole = w.put(VOp::to_int, w.put(VOp::fmin, k(float(trine::row(type).max_finite)), up));
    return w.put(VOp::band, whole, is_number);
  }

  // Empty where there are no operations for it.
  Ref inlined(const LoopInsn& n, Lane from, const std::array<Ref, 3>& in) {
    if (n.op == LoopOp::select) return w.put(VOp::blend, in[0], in[1], in[2]);
    if (n.op == LoopOp::convert) return convert(n, from, in[0]);
    if (n.op == LoopOp::bit_cast) return in[0];
    if (row(n.op).kind == LoopOpClass::compare) return compare(n.op, from, in[0], in[1]);
    if (n.op == LoopOp::is_finite) {
      Ref size = w.put(VOp::band, in[0], ki(INT32_MAX));
      return w.put(VOp::fcmp, size, k(std::numeric_limits<float>::infinity()), {}, 0, kLess);
    }
    if (from == Lane::f32) return floating(n, in);
    return from == Lane::mask ? truth(n, in) : integer(n, in);
  }

  Ref value(const LoopInsn& n, Lane from, const std::array<Ref, 3>& in, const LoopAux& aux) {
    Ref r = inlined(n, from, in);
    if (r.kind == Ref::none) r = call_kernel(n, from, in, aux);
    bool saturated = n.op == LoopOp::convert && from == Lane::f32;
    return saturated ? r : wrap(r, n.type);
  }
};

struct Translator {
  const LoopNest& nest;
  VectorProgram out = {};
  std::vector<Ref> in_loop = {};         // per value: its register in the current stage's loop
  std::vector<Ref> in_before = {};       // likewise in the list before the loop
  std::vector<Ref> slot = {};            // per uniform value
  std::vector<uint32_t> array = {};      // per value that lives in the frame
  std::vector<uint32_t> widened = {};    // per operand that is widened before all rows: its array
  std::map<uint32_t, Ref> waiting = {};  // per operand: what is to be stored with the one beside
  uint16_t stage = 0;

  static constexpr uint32_t kNone = UINT32_MAX;

  bool supported() const {
    constexpr size_t kRowsMax = 15;  // words for indices of loops in machine code
    constexpr size_t kInnerMax = 2;
    if (nest.inner.size() > kInnerMax || nest.rows.size() > kRowsMax) return false;
    if (nest.operands.size() > 64 || nest.insns.size() > 4000) return false;
    if (nest.vector.size == 1 && !nest.inner.empty()) return false;
    for (size_t i = 0; i < nest.insns.size(); ++i) {
      const LoopInsn& n = nest.insns[i];
      if (bytes(lane_of(n.type)) == 8 || (nest.vector.size == 1 && row(n.op).kind == LoopOpClass::reduce)) return false;
      if (nest.facts[i].buffered && nest.facts[i].uniform && !nest.inner.empty()) return false;
      if (n.op == LoopOp::load || n.op == LoopOp::store) {
        int64_t step = nest.vector.steps[n.at] / trine::bytes(nest.operands[n.at].dtype);
        if (step != 0 && step != 1 && !is_shuffled(n, step)) return false;
        if (is_row_format(nest.operands[n.at].dtype)) return false;
      }
      if (n.op == LoopOp::pick && memory_of(nest.operands[n.at].dtype) == VMemory::call) return false;
      if (n.op == LoopOp::round_to && is_row_format(Dtype(n.at))) return false;
    }
    return true;
  }

  // Every other word; of outputs, where the one beside is stored in the same stage.
  bool is_shuffled(const LoopInsn& n, int64_t step) const {
    if (step != 2 || memory_of(nest.operands[n.at].dtype) != VMemory::word) return false;
    if (n.op == LoopOp::load) return true;
    const uint32_t other = partner_of(nest.operands, n.at);
    auto stores = [&](uint32_t operand) {
      return std::count_if(nest.insns.begin(), nest.insns.end(), [&](const LoopInsn& m) {
        return m.op == LoopOp::store && m.at == operand && m.stage == n.stage;
      });
    };
    return other != kNoPartner && stores(n.at) == 1 && stores(other) == 1;
  }

  // Narrow formats without vector operations of their own: a kernel over a row of them is quicker than calls for eight.
  static bool is_row_format(Dtype d) { return memory_of(d) == VMemory::call && is_floating(d) && trine::bits(d) <= 8; }

  VStage& now() { return out.stages[stage]; }
  bool uniform(LoopValue v) const { return nest.facts[v].uniform && nest.insns[v].op != LoopOp::constant; }

  static uint32_t constant_bits(const LoopInsn& n) {
    if (n.type == Dtype::boolean) return n.bits & 1 ? UINT32_MAX : 0;
    if (!is_integer(n.type)) return uint32_t(n.bits);
    int up = 64 - trine::bits(n.type);
    bool is_signed = trine::row(n.type).kind == DtypeKind::signed_int;
    return uint32_t(is_signed ? uint64_t(int64_t(n.bits << up) >> up) : n.bits << up >> up);
  }

  Ref use(LoopValue v, bool in_loop_list) {
    const LoopInsn& n = nest.insns[v];
    VWriter loop(out, now().each), before(out, now().before);
    if (n.op == LoopOp::constant) return loop.constant(constant_bits(n));
    if (uniform(v)) return in_loop_list || in_before[v].kind == Ref::none ? slot[v] : in_before[v];
    if (in_loop[v].kind == Ref::none) in_loop[v] = loop.put(VOp::array_load, {}, {}, {}, array[v]);
    return in_loop[v];
  }

  uint32_t new_array(bool buffered) {
    out.arrays.push_back({buffered});
    return uint32_t(out.arrays.size() - 1);
  }

  LoopAux aux_of(const LoopInsn& n) const {
    LoopAux x;
    x.bits = uint32_t(trine::bits(n.type));
    if (n.op == LoopOp::load || n.op == LoopOp::store) {
      x.dtype = nest.operands[n.at].dtype;
      x.bits = uint32_t(trine::bits(x.dtype));
    }
    if (n.op == LoopOp::round_to) x.dtype = Dtype(n.at);
    x.exponent = uint32_t(n.bits >> 8 & 255);
    x.mantissa = uint32_t(n.bits & 255);
    return x;
  }

  // Half a first-level cache for what all rows read alike.
  static constexpr int64_t kWidenedBytesMax = 16 << 10;

  // Does every row read the operand, element by element, in a format that takes work to widen?
  bool is_widened(uint32_t o) const {
    const VMemory kind = memory_of(nest.operands[o].dtype);
    if ((kind != VMemory::bf16 && kind != VMemory::f16) || nest.vertical || !nest.inner.empty()) return false;
    if (nest.rows.empty() || nest.vector.steps[o] == 0 || 4 * nest.vector.size > kWidenedBytesMax) return false;
    return std::all_of(nest.rows.begin(), nest.rows.end(), [&](const NestLoop& l) { return l.steps[o] == 0; });
  }
  uint32_t widened_array(uint32_t o) {
    if (widened.empty()) widened.assign(nest.operands.size(), kNone);
    if (widened[o] != kNone) return widened[o];
    VWriter first(out, out.first.each);
    widened[o] = new_array(false);
    first.effect(VOp::array_store, first.put(VOp::load, {}, {}, {}, o, -1), widened[o]);
    out.first.operands.push_back(o);
    return widened[o];
  }

  void touch(uint32_t operand) {
    auto& list = now().operands;
    if (std::find(list.begin(), list.end(), operand) == list.end()) list.push_back(operand);
  }

  // Memory goes through a kernel where its format has no few operations: imm is that call, or -1.
  int32_t memory_call(const LoopInsn& n) {
    Dtype d = nest.operands[n.at].dtype;
    if (memory_of(d) != VMemory::call) return -1;
    const LoopKernels& kernels = loop_kernels(Simd::avx2);
    LoopFn fn = n.op == LoopOp::load ? kernels.load(d, false) : kernels.store(d, false);
    out.calls.push_back({fn, aux_of(n)});
    return int32_t(out.calls.size() - 1);
  }

  void reduction(LoopValue v, const LoopInsn& n) {
    VReduction r{.op = n.op, .lane = lane_of(n.type), .bits = uint32_t(trine::bits(n.type))};
    uint32_t start = 0;
    LoopAux aux;
    aux.bits = r.bits;
    loop_kernels(Simd::avx2).identity(n.op, r.lane)(&start, nullptr, nullptr, nullptr, 1, aux);
    VWriter loop(out, now().each);
    r.identity = loop.constant(start).id;
    Ref x = use(n.in[0], true);
    uint32_t number = uint32_t(now().reductions.size());
    if (nest.vertical) {
      r.total = array[v] = new_array(false);
      r.part = new_array(false);
      Meaning m{out, loop};
      Ref part = loop.put(VOp::array_load, {}, {}, {}, r.part);
      loop.effect(VOp::array_store, pair_of(m, n, part, x), r.part);
    } else {
      slot[v] = {Ref::slot, out.slots++};
      r.total = slot[v].id;
      loop.effect(VOp::accumulate, x, number);
    }
    now().reductions.push_back(r);
  }

  static Ref pair_of(Meaning& m, const LoopInsn& n, Ref a, Ref b) {
    constexpr LoopOp kPairs[] = {LoopOp::add,     LoopOp::mul,    LoopOp::max,    LoopOp::min,
                                 LoopOp::bit_and, LoopOp::bit_or, LoopOp::bit_xor};
    LoopInsn pair{.op = kPairs[int(n.op) - int(LoopOp::reduce_sum)], .type = n.type};
    return m.inlined(pair, lane_of(n.type), {a, b, {}});
  }

  void define(LoopValue v, bool in_loop_list, Ref r) {
    VList& list = in_loop_list ? now().each : now().before;
    VWriter w(out, list);
    if (!in_loop_list) {
      in_before[v] = r;
      slot[v] = {Ref::slot, out.slots++};
      w.effect(VOp::slot_store, r, slot[v].id);
      return;
    }
    in_loop[v] = r;
    bool stays = nest.facts[v].buffered || nest.facts[v].of_row;
    if (!stays) return;
    array[v] = new_array(nest.facts[v].buffered);
    w.effect(VOp::array_store, r, array[v]);
  }

  void insn(LoopValue v) {
    const LoopInsn& n = nest.insns[v];
    if (n.op == LoopOp::constant) return;
    if (row(n.op).kind == LoopOpClass::reduce) return reduction(v, n);
    const bool one_lane = nest.vector.size == 1 || (now().kind == LoopStage::once && !nest.vertical);
    const bool loops = n.op == LoopOp::store ? !one_lane : !uniform(v);
    VList& list = loops ? now().each : now().before;
    VWriter w(out, list);
    if (n.op == LoopOp::load && loops && is_widened(n.at))
      return define(v, loops, w.put(VOp::array_load, {}, {}, {}, widened_array(n.at)));
    if (n.op == LoopOp::load) {
      touch(n.at);
      return define(v, loops, part_of_byte(w, n, w.put(VOp::load, {}, {}, {}, n.at, memory_call(n))));
    }
    if (n.op == LoopOp::store) {
      touch(n.at);
      Ref x = use(n.in[0], loops);
      if (loops && nest.vector.steps[n.at] == 2 * trine::bytes(nest.operands[n.at].dtype)) return store_part(n, x);
      list.insns.push_back({VOp::store, 0, {x, {}, {}}, n.at, memory_call(n)});
      return;
    }
    Meaning m{out, w};
    if (n.op == LoopOp::iota) return define(v, loops, m.wrap(iota(w, n), n.type));
    if (n.op == LoopOp::pick) {
      touch(n.at);
      return define(v, loops, part_of_byte(w, n, w.put(VOp::pick, index_of(m, n, use(n.in[0], loops)), {}, {}, n.at)));
    }
    std::array<Ref, 3> in = {};
    for (int k = 0; k < row(n.op).inputs; ++k) in[size_t(k)] = use(n.in[size_t(k)], loops);
    Lane from = lane_of(nest.insns[n.in[n.op == LoopOp::select ? 1 : 0]].type);
    define(v, loops, m.value(n, from, in, aux_of(n)));
  }

  // What was read as a byte, of a type with fewer bits.
  Ref part_of_byte(VWriter& w, const LoopInsn& n, Ref byte) {
    const Dtype type = nest.operands[n.at].dtype;
    return is_integer(type) && trine::bits(type) < 8 ? Meaning{out, w}.wrap(byte, type) : byte;
  }

  // The index of a pick, held inside, counted from where the vector begins.
  Ref index_of(Meaning& m, const LoopInsn& n, Ref index) {
    const Ref held = m.w.put(VOp::smin, m.w.put(VOp::smax, index, m.ki(0)), m.ki(int32_t(n.bits)));
    const int64_t step = nest.vector.steps[n.at] / trine::bytes(nest.operands[n.at].dtype);
    if (step == 0 || nest.vector.size == 1) return held;
    const Ref along = step == 1 ? m.w.put(VOp::iota) : m.w.put(VOp::imul, m.w.put(VOp::iota), m.ki(int32_t(step)));
    return m.w.put(VOp::iadd, held, along);
  }

  // The first of two that lie side by side waits for the other.
  void store_part(const LoopInsn& n, Ref x) {
    const uint32_t other = partner_of(nest.operands, n.at);
    const bool is_first = nest.operands[n.at].beside < 0;
    if (waiting.count(other)) {
      const Ref y = waiting[other];
      waiting.erase(other);
      now().each.insns.push_back(
          {VOp::store, 0, {is_first ? x : y, is_first ? y : x, {}}, is_first ? n.at : other, -1});
    } else {
      waiting[n.at] = x;
    }
  }

  Ref iota(VWriter& w, const LoopInsn& n) {
    LoopAt at = nest.iota_loops[n.at];
    Ref whole = at.kind == LoopKind::vector ? w.put(VOp::iota)
                                            : w.put(VOp::index, {}, {}, {}, uint32_t(at.kind) << 8 | at.index);
    return n.type == Dtype::f32 ? w.put(VOp::to_float, whole) : whole;
  }

  void run() {
    const size_t count = nest.insns.size();
    in_loop.resize(count);
    in_before.resize(count);
    slot.resize(count);
    array.assign(count, kNone);
    for (LoopStage kind : nest.stages) out.stages.push_back({.kind = kind});
    for (LoopValue v = 0; v < count; ++v) {
      if (nest.insns[v].stage != stage) {
        stage = nest.insns[v].stage;
        std::fill(in_loop.begin(), in_loop.end(), Ref{});
        std::fill(in_before.begin(), in_before.end(), Ref{});
      }
      insn(v);
    }
  }
};

}  // namespace

std::optional<VectorProgram> make_vectors(const LoopNest& nest) {
  Translator t{nest};
  if (!t.supported()) return std::nullopt;
  t.out.of_bytes = is_of_bytes(nest);
  t.run();
  return std::move(t.out);
}

}  // namespace trine::host
