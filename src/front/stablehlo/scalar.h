// The element types StableHLO and VHLO know, one row each: name in text, width, codes in bytecode, float layout.
// The rows follow from the dtypes' (base/number/number.h): a new format needs nothing here. Values are only bits here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/number/number.h"

namespace trine::front::stablehlo {

// A dtype by the name of StableHLO, and its `index` beside them; only those that code speaks of are named.
enum class Scalar : uint8_t {
  i1 = uint8_t(Dtype::boolean),
  i8 = uint8_t(Dtype::s8),
  i16 = uint8_t(Dtype::s16),
  i32 = uint8_t(Dtype::s32),
  i64 = uint8_t(Dtype::s64),
  tf32 = uint8_t(Dtype::tf32),
  f32 = uint8_t(Dtype::f32),
  f64 = uint8_t(Dtype::f64),
  index = uint8_t(Dtype::count),
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
