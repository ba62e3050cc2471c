// convert: each element in the declared dtype. Floats round to nearest even; to integers they are cut toward zero and
// saturate, NaN becomes 0; integers wrap; a boolean is whether the element is not zero; a complex number becomes real
// by losing its imaginary part. Where the compiler sets `nearest`, floats round to the nearest even integer instead.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/internal.h"

namespace trine::ops {

namespace {

// Rounded once, later, to a format narrower than double: bits a double cannot hold stick to its last one.
template <Integer T>
double to_double_odd(T x) {
  const double nearest = double(x);
  const double top = std::same_as<T, int64_t> ? 0x1p63 : 0x1p64;
  if (nearest < top && T(nearest) == x) return nearest;
  const double toward =
      nearest >= top || (x > T(0) ? T(nearest) > x : T(nearest) < x) ? std::nextafter(nearest, 0.0) : nearest;
  return std::bit_cast<double>(std::bit_cast<uint64_t>(toward) | 1);
}

template <class T>
double to_double(const DtypeRow& to, T x) {
  if constexpr (Complex<T>) {
    return x.real();
  } else if constexpr (Integer<T>) {
    const bool is_double = to.dtype == Dtype::f64 || to.dtype == Dtype::c128;
    return is_double ? double(x) : to_double_odd(x);
  } else {
    return x;
  }
}

template <Integer I>
I to_integer(const DtypeRow& to, double x) {
  if (std::isnan(x)) return 0;
  const int value_bits = to.bits - (to.kind == DtypeKind::signed_int);
  const I largest = I(~uint64_t{0} >> (64 - value_bits));
  const I smallest = to.kind == DtypeKind::signed_int ? I(-int64_t(largest) - 1) : I(0);
  if (x >= std::ldexp(1.0, value_bits)) return largest;
  return x <= double(smallest) ? smallest : I(x);
}

// nearest: to an integer, as engines write them.
template <class To, class From>
To convert_one(const DtypeRow& to, From x, bool nearest) {
  if constexpr (Logical<To>) {
    return x != From(0);
  } else if constexpr (Floating<To> || Complex<To>) {
    if constexpr (Complex<To> && Complex<From>) return x;
    return To(to_double(to, x));
  } else if constexpr (Complex<From>) {
    return to_integer<To>(to, x.real());
  } else if constexpr (Floating<From>) {
    return to_integer<To>(to, nearest ? std::nearbyint(x) : x);
  } else {
    return To(x);
  }
}

template <class To, class From>
Result<void> run(const Eval& e) {
  constexpr int64_t kChunk = 256;
  const DtypeRow& to = row(e.out[0].dtype);
  const bool nearest = e.node.attrs.flag(kNearest);
  From in[kChunk];
  To out[kChunk];
  for (int64_t at = 0, count = e.out[0].elements(); at < count; at += kChunk) {
    const int64_t n = std::min(kChunk, count - at);
    load_wide(e.in[0], at, n, in);
    for (int64_t i = 0; i < n; ++i) out[i] = convert_one<To>(to, in[i], nearest);
    store_wide(out, n, e.out[0], at);
  }
  return {};
}

Inferred infer(const Call& call) {
  TRY(elements_as_declared(call));
  for (Dtype dtype : {call.inputs[0].dtype, call.declared[0].dtype})
    if (row(dtype).kind == DtypeKind::packed) return no_dtype("", dtype);
  return one_type(call.declared[0].dtype, call.declared[0].dims);
}

Result<void> eval(const Eval& e) {
  return dispatch_wide(e.in[0].dtype, [&]<class From>() {
    return dispatch_wide(e.out[0].dtype, [&]<class To>() { return run<To, From>(e); });
  });
}

}  // namespace

extern const Op op_convert{.name = "convert",
                           .kind = OpKind::elementwise,
                           .arity = 1,
                           .attrs = "nearest",
                           .infer = infer,
                           .eval = eval,
                           .host = {.op = arch::LoopOp::convert}};

}  // namespace trine::ops
