// reduce_precision: rounds each float as if it had `exponent_bits` and `mantissa_bits`, in its own dtype.
// C1: exponent_bits is at least 1, mantissa_bits at least 0. C2: what overflows is infinite, what would be subnormal in
// fewer exponent bits is a zero; both keep their sign. NaN stays.
#include "ops/elementwise.h"

namespace trine::ops {

namespace {

// Bits of an IEEE-like format with e and m bits, rounded to keep e_bits and m_bits of them.
uint64_t reduce(uint64_t x, int e, int m, int e_bits, int m_bits) {
  const uint64_t sign = uint64_t{1} << (e + m), exponents = ((uint64_t{1} << e) - 1) << m;
  if ((x & (sign - 1)) > exponents) return x;
  if (m_bits < m) {
    const int drop = m - m_bits;
    const uint64_t odd = (x >> drop) & 1;
    x += odd + ((uint64_t{1} << (drop - 1)) - 1);
    x &= ~((uint64_t{1} << drop) - 1);
  }
  if (e_bits < e) {
    const uint64_t bias = (uint64_t{1} << (e - 1)) - 1, reach = (uint64_t{1} << (e_bits - 1)) - 1;
    const uint64_t exponent = (x & exponents) >> m;
    if (exponent > bias + reach) return (x & sign) | exponents;
    if (exponent <= bias - reach) return x & sign;
  }
  return x;
}

Inferred infer(const Call& call) {
  const int64_t e = call.attrs.integer("exponent_bits"), m = call.attrs.integer("mantissa_bits", -1);
  if (e < 1 || m < 0)
    return fail(Code::invalid, cat("exponent_bits ", e, ", mantissa_bits ", m, "; expected 1 and 0 at least"));
  return infer_each<1, decltype([]<Floating T>(T x) { return x; })>(call);
}

Result<void> eval(const Eval& e) {
  const int e_bits = int(std::min<int64_t>(e.node.attrs.integer("exponent_bits"), 64));
  const int m_bits = int(std::min<int64_t>(e.node.attrs.integer("mantissa_bits"), 64));
  return dispatch_element(e.in[0].dtype, [&](auto element) -> Result<void> {
    using E = decltype(element);
    using Storage = typename E::Storage;
    const auto* in = e.in[0].as<const Storage>();
    auto* out = e.out[0].as<Storage>();
    // Formats without infinities are reduced as doubles.
    constexpr bool kIsOwn = E::kIsFloating && E::kRow.format.has_inf;
    for (int64_t i = 0, n = e.out[0].elements(); i < n; ++i) {
      if constexpr (kIsOwn) {
        using Bits = typename E::Bits;
        const auto x = std::bit_cast<Bits>(in[i]);
        const FloatFormat f = E::kRow.format;
        out[i] = std::bit_cast<Storage>(Bits(reduce(x, f.exponent_bits, f.mantissa_bits, e_bits, m_bits)));
      } else if constexpr (E::kIsFloating) {
        const auto x = std::bit_cast<uint64_t>(E::load(in[i]));
        out[i] = E::store(std::bit_cast<double>(reduce(x, 11, 52, e_bits, m_bits)));
      } else {
        return no_dtype(e.node.op.name(), E::kDtype);
      }
    }
    return {};
  });
}

}  // namespace

extern const Op op_reduce_precision{.name = "reduce_precision",
                                    .kind = OpKind::elementwise,
                                    .arity = 1,
                                    .attrs = "exponent_bits mantissa_bits",
                                    .infer = infer,
                                    .eval = eval,
                                    .host = {.op = arch::LoopOp::reduce_precision, .cost = 3}};

}  // namespace trine::ops
