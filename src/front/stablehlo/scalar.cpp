// The rows of scalar.h, and the conversion between a float's bits and a double, one routine for all layouts.
#include "front/stablehlo/scalar.h"

#include <array>
#include <bit>
#include <cmath>

namespace trine::front::stablehlo {

namespace {

constexpr auto kSigned = ScalarKind::signed_integer;
constexpr auto kUnsigned = ScalarKind::unsigned_integer;
constexpr auto kFloat = ScalarKind::floating;

// Codes: StableHLO's VhloBytecode.cpp and MLIR's BuiltinDialectBytecode.td. Layouts: the names spell them.
constexpr std::array<ScalarRow, size_t(Scalar::count)> kRows = {{
    {Scalar::i1, "i1", 1, ScalarKind::boolean, 0},
    {Scalar::i2, "i2", 2, kSigned, 31},
    {Scalar::i4, "i4", 4, kSigned, 10},
    {Scalar::i8, "i8", 8, kSigned, 11},
    {Scalar::i16, "i16", 16, kSigned, 12},
    {Scalar::i32, "i32", 32, kSigned, 13},
    {Scalar::i64, "i64", 64, kSigned, 14},
    {Scalar::ui2, "ui2", 2, kUnsigned, 32},
    {Scalar::ui4, "ui4", 4, kUnsigned, 15},
    {Scalar::ui8, "ui8", 8, kUnsigned, 16},
    {Scalar::ui16, "ui16", 16, kUnsigned, 17},
    {Scalar::ui32, "ui32", 32, kUnsigned, 18},
    {Scalar::ui64, "ui64", 64, kUnsigned, 19},
    {Scalar::index, "index", 64, kSigned, 9, 1},
    {Scalar::f4e2m1fn, "f4E2M1FN", 4, kFloat, 37, 29, 2, 1, 1, Specials::finite},
    {Scalar::f6e2m3fn, "f6E2M3FN", 6, kFloat, 38, 30, 2, 3, 1, Specials::finite},
    {Scalar::f6e3m2fn, "f6E3M2FN", 6, kFloat, 39, 31, 3, 2, 3, Specials::finite},
    {Scalar::f8e3m4, "f8E3M4", 8, kFloat, 36, 28, 3, 4, 3},
    {Scalar::f8e4m3, "f8E4M3", 8, kFloat, 35, 23, 4, 3, 7},
    {Scalar::f8e4m3fn, "f8E4M3FN", 8, kFloat, 6, 24, 4, 3, 7, Specials::nan_ones},
    {Scalar::f8e4m3fnuz, "f8E4M3FNUZ", 8, kFloat, 27, 26, 4, 3, 8, Specials::nan_zero},
    {Scalar::f8e4m3b11fnuz, "f8E4M3B11FNUZ", 8, kFloat, 29, 27, 4, 3, 11, Specials::nan_zero},
    {Scalar::f8e5m2, "f8E5M2", 8, kFloat, 7, 22, 5, 2, 15},
    {Scalar::f8e5m2fnuz, "f8E5M2FNUZ", 8, kFloat, 28, 25, 5, 2, 16, Specials::nan_zero},
    {Scalar::f8e8m0fnu, "f8E8M0FNU", 8, kFloat, 40, 32, 8, 0, 127, Specials::nan_ones, false},
    {Scalar::bf16, "bf16", 16, kFloat, 2, 3, 8, 7, 127},
    {Scalar::f16, "f16", 16, kFloat, 3, 4, 5, 10, 15},
    {Scalar::tf32, "tf32", 19, kFloat, 34, 21, 8, 10, 127},
    {Scalar::f32, "f32", 32, kFloat, 4, 5, 8, 23, 127},
    {Scalar::f64, "f64", 64, kFloat, 5, 6, 11, 52, 1023},
}};

constexpr bool in_order() {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (size_t(kRows[i].scalar) != i) return false;
  return true;
}
static_assert(in_order(), "one row per Scalar, in its order");

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
  return find([&](const ScalarRow& r) { return r.name == name; });
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
