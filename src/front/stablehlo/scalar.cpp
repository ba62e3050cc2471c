// The rows of scalar.h from those of the dtypes, and the conversion between a float's bits and a double, one routine
// for all layouts.
#include "front/stablehlo/scalar.h"

#include <array>
#include <bit>
#include <cmath>

namespace trine::front::stablehlo {

namespace {

constexpr ScalarKind kind_of(DtypeKind kind) {
  if (kind == DtypeKind::boolean) return ScalarKind::boolean;
  if (kind == DtypeKind::floating) return ScalarKind::floating;
  return kind == DtypeKind::signed_int ? ScalarKind::signed_integer : ScalarKind::unsigned_integer;
}

constexpr Specials specials_of(const FloatFormat& f) {
  if (f.has_inf) return Specials::ieee;
  if (f.nan_is_minus_zero) return Specials::nan_zero;
  return f.has_nan ? Specials::nan_ones : Specials::finite;
}

// Without a name where StableHLO has no such scalar: carriers, and complex numbers, which are a type of their own.
constexpr ScalarRow row_of(const DtypeRow& d) {
  ScalarRow r{.scalar = Scalar(d.dtype)};
  if (d.kind == DtypeKind::packed || d.kind == DtypeKind::complex) return r;
  r.name = d.abroad.stablehlo;
  r.bits = d.kind == DtypeKind::boolean ? 1 : d.bits - d.format.low_zeros;
  r.kind = kind_of(d.kind);
  r.vhlo = d.abroad.codes.vhlo;
  r.builtin = d.abroad.codes.builtin;
  r.exponent = d.format.exponent_bits;
  r.mantissa = d.format.mantissa_bits;
  r.bias = d.format.bias;
  r.specials = specials_of(d.format);
  r.has_sign = d.format.has_sign;
  return r;
}

constexpr auto kRows = [] {
  std::array<ScalarRow, size_t(Scalar::count)> rows = {};
  for (const DtypeRow& d : kDtypes) rows[size_t(d.dtype)] = row_of(d);
  rows[size_t(Scalar::index)] = {Scalar::index, "index", 64, ScalarKind::signed_integer, 9, 1};  // codes as in number.h
  return rows;
}();

template <class Match>
std::optional<Scalar> find(Match match) {
  for (const ScalarRow& r : kRows)
    if (match(r)) return r.scalar;
  return std::nullopt;
}

uint64_t ones(int n) { return n <= 0 ? 0 : ~uint64_t{0} >> (64 - n); }

// The code of the largest finite magnitude, without its sign.
uint64_t largest(const ScalarRow& r) {
  const uint64_t all = ones(r.exponent + r.mantissa);
  if (r.specials == Specials::ieee) return all - ones(r.mantissa) - 1;
  return r.specials == Specials::nan_ones ? all - 1 : all;
}

uint64_t nan_code(const ScalarRow& r) {
  const uint64_t all = ones(r.exponent + r.mantissa);
  if (r.specials == Specials::ieee) return all - ones(r.mantissa - 1);  // quiet
  if (r.specials == Specials::nan_ones) return all;
  return r.specials == Specials::nan_zero ? all + 1 : largest(r);
}

uint64_t overflow_code(const ScalarRow& r) {
  if (r.specials == Specials::ieee) return ones(r.exponent) << r.mantissa;
  return r.specials == Specials::finite ? largest(r) : nan_code(r);
}

// |value| rounded to a code without sign: nearest even over the normal and subnormal range.
uint64_t magnitude_code(const ScalarRow& r, double value) {
  int power = 0;
  std::frexp(value, &power);                                              // value = f * 2^power, f in [0.5, 1)
  int exponent = std::max(power - 1, r.has_sign ? 1 - r.bias : -r.bias);  // of the last place's leading one
  const double scaled = std::ldexp(value, r.mantissa - exponent);         // exact: a power of two
  double whole = std::nearbyint(scaled);
  if (whole >= std::ldexp(1.0, r.mantissa + 1)) {
    whole /= 2;
    ++exponent;
  }
  const auto digits = uint64_t(whole);
  if (!r.has_sign) return exponent + r.bias > 254 ? ones(8) : uint64_t(exponent + r.bias);
  const bool normal = digits >> r.mantissa != 0;
  const uint64_t code = (uint64_t(normal ? exponent + r.bias : 0) << r.mantissa) | (digits & ones(r.mantissa));
  return code > largest(r) ? overflow_code(r) : code;
}

}  // namespace

const ScalarRow& row(Scalar scalar) { return kRows[size_t(scalar)]; }

std::optional<Scalar> scalar_by_name(std::string_view name) {
  return find([&](const ScalarRow& r) { return !name.empty() && r.name == name; });
}
std::optional<Scalar> scalar_by_vhlo(uint64_t code) {
  return find([&](const ScalarRow& r) { return uint64_t(r.vhlo) == code && r.vhlo >= 0; });
}
std::optional<Scalar> scalar_by_builtin(uint64_t code) {
  return find([&](const ScalarRow& r) { return uint64_t(r.builtin) == code && r.builtin >= 0; });
}

uint64_t float_bits(Scalar s, double value) {
  const ScalarRow& r = row(s);
  if (s == Scalar::f64) return std::bit_cast<uint64_t>(value);
  const int width = r.exponent + r.mantissa;
  uint64_t sign = r.has_sign && std::signbit(value) ? uint64_t{1} << width : 0;
  if (std::isnan(value)) return r.specials == Specials::nan_zero ? nan_code(r) : nan_code(r) | sign;
  if (!r.has_sign && std::signbit(value)) return nan_code(r);
  if (value == 0) return r.specials == Specials::nan_zero ? 0 : sign;
  const uint64_t code = std::isinf(value) ? overflow_code(r) : magnitude_code(r, std::fabs(value));
  if (r.specials == Specials::nan_zero && (code == 0 || code == nan_code(r))) return code;
  return code | sign;
}

double float_value(Scalar s, uint64_t bits) {
  const ScalarRow& r = row(s);
  if (s == Scalar::f64) return std::bit_cast<double>(bits);
  const int width = r.exponent + r.mantissa;
  const uint64_t code = bits & ones(width);
  const bool negative = r.has_sign && (bits >> width & 1) != 0;
  const double nan = std::nan("");
  if (r.specials == Specials::nan_zero && negative && code == 0) return nan;
  if (r.specials == Specials::nan_ones && code == ones(width)) return negative ? -nan : nan;
  const uint64_t digits = code & ones(r.mantissa), raised = code >> r.mantissa;
  if (r.specials == Specials::ieee && raised == ones(r.exponent))
    return digits != 0 ? (negative ? -nan : nan) : (negative ? -INFINITY : INFINITY);
  if (!r.has_sign) return std::ldexp(1.0, int(raised) - r.bias);
  const double magnitude =
      raised == 0 ? std::ldexp(double(digits), 1 - r.bias - r.mantissa)
                  : std::ldexp(double(digits | (uint64_t{1} << r.mantissa)), int(raised) - r.bias - r.mantissa);
  return negative ? -magnitude : magnitude;
}

}  // namespace trine::front::stablehlo
