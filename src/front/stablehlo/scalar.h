// The element types StableHLO and VHLO know, one row each: name in text, width, codes in bytecode, float layout.
// Not base/number/number.h: f64, complex and the formats no chip has are read here too, and only as bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace trine::front::stablehlo {

enum class Scalar : uint8_t {
  i1,
  i2,
  i4,
  i8,
  i16,
  i32,
  i64,
  ui2,
  ui4,
  ui8,
  ui16,
  ui32,
  ui64,
  index,
  f4e2m1fn,
  f6e2m3fn,
  f6e3m2fn,
  f8e3m4,
  f8e4m3,
  f8e4m3fn,
  f8e4m3fnuz,
  f8e4m3b11fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0fnu,
  bf16,
  f16,
  tf32,
  f32,
  f64,
  count,
};

enum class ScalarKind : uint8_t { boolean, signed_integer, unsigned_integer, floating };

// What the largest codes of a float mean.
enum class Specials : uint8_t {
  ieee,      // infinities and NaNs
  nan_ones,  // only all ones is NaN; no infinity
  nan_zero,  // only negative zero's code is NaN
  finite,    // neither
};

struct ScalarRow {
  Scalar scalar = Scalar::count;
  std::string_view name = {};
  int bits = 0;
  ScalarKind kind = ScalarKind::signed_integer;
  int vhlo = -1;     // type code in VHLO bytecode
  int builtin = -1;  // type code in the builtin dialect's bytecode; integers share one code
  int exponent = 0, mantissa = 0, bias = 0;
  Specials specials = Specials::ieee;
  bool has_sign = true;
};

const ScalarRow& row(Scalar scalar);
std::optional<Scalar> scalar_by_name(std::string_view name);
std::optional<Scalar> scalar_by_vhlo(uint64_t code);
std::optional<Scalar> scalar_by_builtin(uint64_t code);

inline bool is_floating(Scalar s) { return row(s).kind == ScalarKind::floating; }
inline int bytes(Scalar s) { return (row(s).bits + 7) / 8; }  // one element of a dense constant, also below 8 bits

// Nearest even; overflow becomes infinity, NaN or the largest value, whichever the format has first.
uint64_t float_bits(Scalar s, double value);
double float_value(Scalar s, uint64_t bits);

}  // namespace trine::front::stablehlo
