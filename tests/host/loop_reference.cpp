// See the header.
#include "tests/host/loop_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/number/element.h"

namespace trine::test {

using namespace arch;

namespace {

struct Value {
  double f = 0;    // floats
  uint64_t i = 0;  // integers, sign-extended; truth is 0 or 1
};

bool is_signed(Dtype t) { return row(t).kind == DtypeKind::signed_int; }

Value wrapped(Dtype t, uint64_t x) {
  if (t == Dtype::boolean) return {0, x & 1};
  int up = 64 - bits(t);
  return {0, is_signed(t) ? uint64_t(int64_t(x << up) >> up) : x << up >> up};
}
Value rounded(Dtype t, double x) { return {t == Dtype::f32 ? double(float(x)) : x, 0}; }

double digamma(double x) {
  if (std::floor(x) == x && x <= 0) return NAN;
  double below = 0;
  for (; x < 50; x += 1) below += 1 / x;
  return std::log(x) - 0.5 / x - 1 / (12 * x * x) + 1 / (120 * std::pow(x, 4)) - below;
}

double erf_inv(double x) {
  if (std::fabs(x) == 1) return x * INFINITY;
  if (!(std::fabs(x) < 1)) return NAN;
  if (std::fabs(x) < 1e-8) return x * 0.88622692545275801;
  double low = -30, high = 30;
  for (int i = 0; i < 200; ++i) {
    double mid = (low + high) / 2;
    bool below = mid < 0 ? std::erfc(-mid) < 1 + x : 1 - x < std::erfc(mid);
    (below ? low : high) = mid;
  }
  return (low + high) / 2;
}

double float_unary(LoopOp op, double x) {
  switch (op) {
    case LoopOp::neg:
      return -x;
    case LoopOp::abs:
      return std::fabs(x);
    case LoopOp::sign:
      return x > 0 ? 1 : x < 0 ? -1 : x;
    case LoopOp::round_even:
      return std::nearbyint(x);
    case LoopOp::round_away:
      return std::round(x);
    case LoopOp::floor:
      return std::floor(x);
    case LoopOp::ceil:
      return std::ceil(x);
    case LoopOp::sqrt:
      return std::sqrt(x);
    case LoopOp::rsqrt:
      return 1 / std::sqrt(x);
    case LoopOp::cbrt:
      return std::cbrt(x);
    case LoopOp::exp:
      return std::exp(x);
    case LoopOp::expm1:
      return std::expm1(x);
    case LoopOp::log:
      return std::log(x);
    case LoopOp::log1p:
      return std::log1p(x);
    case LoopOp::logistic:
      return 1 / (1 + std::exp(-x));
    case LoopOp::tanh:
      return std::tanh(x);
    case LoopOp::sin:
      return std::sin(x);
    case LoopOp::cos:
      return std::cos(x);
    case LoopOp::tan:
      return std::tan(x);
    case LoopOp::asin:
      return std::asin(x);
    case LoopOp::acos:
      return std::acos(x);
    case LoopOp::atan:
      return std::atan(x);
    case LoopOp::sinh:
      return std::sinh(x);
    case LoopOp::cosh:
      return std::cosh(x);
    case LoopOp::asinh:
      return std::asinh(x);
    case LoopOp::acosh:
      return std::acosh(x);
    case LoopOp::atanh:
      return std::atanh(x);
    case LoopOp::erf:
      return std::erf(x);
    case LoopOp::erfc:
      return std::erfc(x);
    case LoopOp::erf_inv:
      return erf_inv(x);
    case LoopOp::lgamma:
      return std::lgamma(x);
    case LoopOp::digamma:
      return digamma(x);
    default:
      std::abort();
  }
}

double float_binary(LoopOp op, Dtype t, double a, double b) {
  switch (op) {
    case LoopOp::add:
      return a + b;
    case LoopOp::sub:
      return a - b;
    case LoopOp::mul:
      return a * b;
    case LoopOp::div:
      return a / b;
    case LoopOp::rem:
      return std::fmod(a, b);
    case LoopOp::max:
      return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
    case LoopOp::min:
      return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
    case LoopOp::pow:
      return std::pow(a, b);
    case LoopOp::atan2:
      return std::atan2(a, b);
    case LoopOp::next_after:
      return t == Dtype::f32 ? double(std::nextafter(float(a), float(b))) : std::nextafter(a, b);
    default:
      std::abort();
  }
}

uint64_t int_power(Dtype t, uint64_t a, uint64_t b) {
  if (is_signed(t) && int64_t(b) < 0) {
    return int64_t(a) == 1 ? 1 : int64_t(a) == -1 ? (b & 1 ? ~uint64_t{0} : 1) : 0;
  }
  uint64_t r = 1;
  for (uint64_t base = a; b; b >>= 1, base *= base) r *= b & 1 ? base : 1;
  return r;
}

uint64_t divide(Dtype t, uint64_t a, uint64_t b, bool quotient) {
  if (b == 0) return quotient ? ~uint64_t{0} : a;
  if (!is_signed(t)) return quotient ? a / b : a % b;
  if (int64_t(b) == -1) return quotient ? 0 - a : 0;
  return quotient ? uint64_t(int64_t(a) / int64_t(b)) : uint64_t(int64_t(a) % int64_t(b));
}

uint64_t low(Dtype t, uint64_t a) { return a & (~uint64_t{0} >> (64 - bits(t))); }

bool less(Dtype t, Value a, Value b) { return is_signed(t) ? int64_t(a.i) < int64_t(b.i) : a.i < b.i; }

uint64_t int_op(LoopOp op, Dtype t, Value a, Value b) {
  const uint64_t width = uint64_t(bits(t)), by = low(t, b.i);
  switch (op) {
    case LoopOp::add:
      return a.i + b.i;
    case LoopOp::sub:
      return a.i - b.i;
    case LoopOp::mul:
      return a.i * b.i;
    case LoopOp::div:
      return divide(t, a.i, b.i, true);
    case LoopOp::rem:
      return divide(t, a.i, b.i, false);
    case LoopOp::pow:
      return int_power(t, a.i, b.i);
    case LoopOp::max:
      return less(t, a, b) ? b.i : a.i;
    case LoopOp::min:
      return less(t, a, b) ? a.i : b.i;
    case LoopOp::bit_and:
      return a.i & b.i;
    case LoopOp::bit_or:
      return a.i | b.i;
    case LoopOp::bit_xor:
      return a.i ^ b.i;
    case LoopOp::shl:
      return by < width ? a.i << by : 0;
    case LoopOp::shr_logical:
      return by < width ? low(t, a.i) >> by : 0;
    case LoopOp::shr_arith: {
      int64_t own = int64_t(a.i << (64 - width)) >> (64 - width);
      return uint64_t(own >> (by < width ? by : width - 1));
    }
    case LoopOp::neg:
      return 0 - a.i;
    case LoopOp::abs:
      return is_signed(t) && int64_t(a.i) < 0 ? 0 - a.i : a.i;
    case LoopOp::sign:
      return is_signed(t) ? uint64_t((int64_t(a.i) > 0) - (int64_t(a.i) < 0)) : a.i != 0;
    case LoopOp::bit_not:
      return ~a.i;
    case LoopOp::popcount:
      return uint64_t(std::popcount(low(t, a.i)));
    case LoopOp::clz:
      return uint64_t(std::countl_zero(low(t, a.i))) - (64 - width);
    default:
      std::abort();
  }
}

bool compare(LoopOp op, Dtype t, Value a, Value b) {
  bool lt = is_floating(t) ? a.f < b.f : less(t, a, b);
  bool gt = is_floating(t) ? a.f > b.f : less(t, b, a);
  bool eq = is_floating(t) ? a.f == b.f : a.i == b.i;
  switch (op) {
    case LoopOp::eq:
      return eq;
    case LoopOp::ne:
      return !eq;
    case LoopOp::lt:
      return lt;
    case LoopOp::le:
      return lt || eq;
    case LoopOp::gt:
      return gt;
    default:
      return gt || eq;
  }
}

Value convert(Dtype from, Dtype to, Value a) {
  if (is_floating(from)) {
    if (is_floating(to)) return rounded(to, a.f);
    if (to == Dtype::boolean) return {0, a.f != 0};
    if (std::isnan(a.f)) return {};
    double past = std::ldexp(1.0, bits(to) - is_signed(to)), least = is_signed(to) ? -past : 0;
    if (a.f >= past) return wrapped(to, ~uint64_t{0} >> (64 - bits(to) + is_signed(to)));
    if (a.f <= least) return is_signed(to) ? wrapped(to, uint64_t{1} << (bits(to) - 1)) : Value{};
    return {0, is_signed(to) ? uint64_t(int64_t(a.f)) : uint64_t(a.f)};
  }
  if (to == Dtype::boolean) return {0, a.i != 0};
  if (to == Dtype::f32) return {is_signed(from) ? double(float(int64_t(a.i))) : double(float(a.i)), 0};
  if (to == Dtype::f64) return {is_signed(from) ? double(int64_t(a.i)) : double(a.i), 0};
  return wrapped(to, a.i);
}

double reduce_precision(double x, Dtype t, int exponent, int mantissa) {
  if (std::isnan(x) || std::isinf(x) || x == 0) return x;
  int e;
  std::frexp(x, &e);
  int own = t == Dtype::f32 ? 23 : 52, least = t == Dtype::f32 ? -125 : -1021;
  double unit = std::ldexp(1.0, std::max(e, least) - 1 - std::min(mantissa, own));
  double r = std::nearbyint(x / unit) * unit;
  if (exponent >= (t == Dtype::f32 ? 8 : 11)) return rounded(t, r).f;
  int reach = (1 << (exponent - 1)) - 1;
  if (std::fabs(r) >= std::ldexp(1.0, reach + 1)) return std::copysign(INFINITY, x);
  if (std::fabs(r) < std::ldexp(1.0, 1 - reach)) return std::copysign(0.0, x);
  return r;
}

struct Machine {
  const LoopProgram& p;
  std::span<void* const> operands;
  std::vector<int64_t> index = {};
  std::vector<std::vector<Value>> values = {};  // by value and element of the row

  std::byte* address(uint32_t o) const {
    int64_t e = p.operands[o].offset;
    for (size_t d = 0; d < p.dims.size(); ++d) e += p.operands[o].strides[d] * index[d];
    return static_cast<std::byte*>(operands[o]) + e * bytes(p.operands[o].dtype);
  }
  Value load(uint32_t o, int64_t further = 0) const {
    return dispatch_element(p.operands[o].dtype, [&](auto element) -> Value {
      using E = decltype(element);
      typename E::Storage s;
      std::memcpy(&s, address(o) + further * int64_t(sizeof s), sizeof s);
      if constexpr (E::kIsComplex)
        return {};
      else if constexpr (E::kIsFloating)
        return {E::load(s), 0};
      else
        return wrapped(E::kDtype, uint64_t(E::load(s)));
    });
  }
  void store(uint32_t o, Value v) const {
    dispatch_element(p.operands[o].dtype, [&](auto element) {
      using E = decltype(element);
      if constexpr (!E::kIsComplex) {
        typename E::Storage s;
        if constexpr (E::kIsFloating)
          s = E::store(v.f);
        else
          s = E::store(typename E::Wide(v.i));
        std::memcpy(address(o), &s, sizeof s);
      }
    });
  }

  int64_t element() const {
    int64_t e = 0;
    for (size_t d = 0; d < p.dims.size(); ++d) {
      if (p.dims[d].inner) e = e * p.dims[d].size + index[d];
    }
    return e;
  }
  Value get(LoopValue v) const {
    const LoopInsn& n = p.insns[v];
    bool of_row = p.stages[n.stage] == LoopStage::once || row(n.op).kind == LoopOpClass::reduce;
    if (n.op == LoopOp::constant) return constant(n);
    return values[v][size_t(of_row ? 0 : element())];
  }
  static Value constant(const LoopInsn& n) {
    if (n.type == Dtype::f32) return {double(std::bit_cast<float>(uint32_t(n.bits))), 0};
    if (n.type == Dtype::f64) return {std::bit_cast<double>(n.bits), 0};
    return wrapped(n.type, n.bits);
  }

  Value map(const LoopInsn& n) const {
    const LoopOpRow& r = row(n.op);
    Value a = get(n.in[0]), b = r.inputs > 1 ? get(n.in[1]) : Value{}, c = r.inputs > 2 ? get(n.in[2]) : Value{};
    Dtype from = p.insns[n.in[0]].type;
    if (n.op == LoopOp::select) return a.i ? b : c;
    if (r.kind == LoopOpClass::compare) return {0, compare(n.op, from, a, b)};
    if (n.op == LoopOp::is_finite) return {0, std::isfinite(a.f)};
    if (n.op == LoopOp::convert) return convert(from, n.type, a);
    if (n.op == LoopOp::bit_cast) return cast(from, n.type, a);
    if (n.op == LoopOp::clamp) return clamp(n.type, a, b, c);
    if (n.op == LoopOp::round_to) {
      Rounding nearest;
      const DtypeRow& format = row(Dtype(n.at));
      if (Dtype(n.at) == Dtype::f32) return rounded(Dtype::f32, a.f);
      float x = n.type == Dtype::f32 ? float(a.f) : to_float_odd(a.f);
      return {double(format.widen(format.round(x, nearest))), 0};
    }
    if (n.op == LoopOp::reduce_precision)
      return {reduce_precision(a.f, n.type, int(n.bits >> 8), int(n.bits & 255)), 0};
    if (is_floating(n.type)) {
      return rounded(n.type, r.inputs == 1 ? float_unary(n.op, a.f) : float_binary(n.op, n.type, a.f, b.f));
    }
    return wrapped(n.type, int_op(n.op, n.type, a, b));
  }
  static Value clamp(Dtype t, Value low_limit, Value x, Value high) {
    if (is_floating(t)) {
      return {float_binary(LoopOp::min, t, float_binary(LoopOp::max, t, x.f, low_limit.f), high.f), 0};
    }
    Value up = less(t, x, low_limit) ? low_limit : x;
    return less(t, high, up) ? high : up;
  }
  static Value cast(Dtype from, Dtype to, Value a) {
    uint64_t raw = from == Dtype::f32   ? std::bit_cast<uint32_t>(float(a.f))
                   : from == Dtype::f64 ? std::bit_cast<uint64_t>(a.f)
                                        : a.i;
    if (to == Dtype::f32) return {double(std::bit_cast<float>(uint32_t(raw))), 0};
    if (to == Dtype::f64) return {std::bit_cast<double>(raw), 0};
    return wrapped(to, raw);
  }

  static Value start(const LoopInsn& n) {
    Dtype t = n.type;
    double inf = INFINITY;
    uint64_t most = t == Dtype::boolean ? 1 : ~uint64_t{0} >> (64 - bits(t) + is_signed(t));
    uint64_t least = is_signed(t) ? ~most : 0;
    switch (n.op) {
      case LoopOp::reduce_prod:
        return {1, 1};
      case LoopOp::reduce_max:
        return {-inf, least};
      case LoopOp::reduce_min:
        return {inf, most};
      case LoopOp::reduce_and:
        return wrapped(t, ~uint64_t{0});
      default:
        return {};
    }
  }
  void accumulate(const LoopInsn& n, Value& total) const {
    constexpr LoopOp kPairs[] = {LoopOp::add,     LoopOp::mul,    LoopOp::max,    LoopOp::min,
                                 LoopOp::bit_and, LoopOp::bit_or, LoopOp::bit_xor};
    LoopOp op = kPairs[int(n.op) - int(LoopOp::reduce_sum)];
    Value x = get(n.in[0]);
    if (is_floating(n.type))
      total.f = float_binary(op, Dtype::f64, total.f, x.f);
    else
      total = wrapped(n.type, int_op(op, n.type, total, x));
  }

  void run_insn(LoopValue v, bool of_row) {
    const LoopInsn& n = p.insns[v];
    if (n.op == LoopOp::constant) return;
    if (n.op == LoopOp::store) return store(n.at, get(n.in[0]));
    Value& to = values[v][size_t(of_row ? 0 : element())];
    if (n.op == LoopOp::load)
      to = load(n.at);
    else if (n.op == LoopOp::pick)
      to = load(n.at, std::clamp<int64_t>(int64_t(get(n.in[0]).i), 0, int64_t(n.bits)));
    else if (n.op == LoopOp::iota)
      to = convert(Dtype::s64, n.type, {0, uint64_t(index[n.at])});
    else if (row(n.op).kind == LoopOpClass::reduce)
      accumulate(n, values[v][0]);
    else
      to = map(n);
  }

  void run_row() {
    int64_t elements = 1;
    for (const LoopDim& d : p.dims) elements *= d.inner ? std::max<int64_t>(d.size, 1) : 1;
    values.assign(p.insns.size(), std::vector<Value>(size_t(elements)));
    for (size_t s = 0; s < p.stages.size(); ++s) {
      for (LoopValue v = 0; v < p.insns.size(); ++v) {
        const LoopInsn& n = p.insns[v];
        if (n.stage == s && row(n.op).kind == LoopOpClass::reduce) values[v][0] = start(n);
      }
      bool once = p.stages[s] == LoopStage::once;
      walk(0, true, once, [&] {
        for (LoopValue v = 0; v < p.insns.size(); ++v) {
          bool of_row = once || row(p.insns[v].op).kind == LoopOpClass::reduce;
          if (p.insns[v].stage == s) run_insn(v, of_row);
        }
      });
      for (LoopValue v = 0; v < p.insns.size(); ++v) {
        const LoopInsn& n = p.insns[v];
        bool sum = n.stage == s && row(n.op).kind == LoopOpClass::reduce;
        if (sum && is_floating(n.type)) values[v][0] = rounded(n.type, values[v][0].f);
      }
    }
  }

  template <class F>
  void walk(size_t d, bool inner, bool skip, F&& f) {
    if (d == p.dims.size()) return f();
    if (p.dims[d].inner != inner || skip) return walk(d + 1, inner, skip, f);
    for (int64_t i = 0; i < p.dims[d].size; ++i) {
      index[d] = i;
      walk(d + 1, inner, skip, f);
    }
    index[d] = 0;
  }
};

}  // namespace

void evaluate(const LoopProgram& program, std::span<void* const> operands) {
  Machine m{program, operands};
  m.index.assign(program.dims.size(), 0);
  m.walk(0, false, false, [&] { m.run_row(); });
}

}  // namespace trine::test
