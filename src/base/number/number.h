// Number formats: one row per dtype (size, names, range, round, widen), and dispatch() from a dtype to its C++ type.
// Not bulk conversion (base/number/convert.h), not MX blocks (base/number/mx.h). No other switch on dtype exists in the
// tree. Invariant: round(widen(bits)) == bits for every value that is not a NaN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/number/number_math.h"

namespace trine {

enum class Dtype : uint8_t {
  f32,
  tf32,  // f32 storage, 10 mantissa bits; the low 13 bits are zero
  bf16,
  f16,
  f8e4m3,  // IEEE-like, max 240: the fp8_e4m3 of NeuronCore v2 and v3
  f8e4m3fn,
  f8e5m2,
  f8e3m4,
  f8e8m0,  // power-of-two scale of an MX block
  f4e2m1,
  boolean,
  s4,
  u4,
  s8,
  u8,
  s16,
  u16,
  s32,
  u32,
  s64,
  u64,
  f8e4m3fn_x4,  // MX carriers: four elements as one, element 0 in the lowest bits
  f8e5m2_x4,
  f4e2m1fn_x4,
  chip_count,
  f64 = chip_count,  // from here on: formats that only the host computes in; no instruction has them
  c64,
  c128,
  s2,
  u2,
  f8e4m3fnuz,
  f8e4m3b11fnuz,
  f8e5m2fnuz,
  f6e2m3,  // elements of MX blocks, without infinity or NaN
  f6e3m2,
  count,
};

enum class DtypeKind : uint8_t { floating, signed_int, unsigned_int, boolean, packed, complex };

enum class RoundingMode : uint8_t { nearest_even, stochastic };

// How to round, and where in the random sequence: a stochastic result depends only on (value, seed, index).
// Integers and booleans always round to nearest even; stochastic rounding is of floating formats.
struct Rounding {
  RoundingMode mode = RoundingMode::nearest_even;
  uint64_t seed = 0;
  uint64_t index = 0;  // of the next element; every element rounded, in either mode, advances it

  uint32_t next();  // the random word of element `index`, which advances
};

// The numbers others give it in files and calls, each defined by the one named; 0 or -1 where they have no such type.
struct CodesAbroad {
  int onnx = 0;      // TensorProto.DataType
  int pjrt = 0;      // PJRT_Buffer_Type
  int vhlo = -1;     // its type in VHLO bytecode (StableHLO's VhloBytecode.cpp)
  int builtin = -1;  // its type in bytecode of MLIR's builtin dialect (BuiltinDialectBytecode.td); integers share one
};

// What others call it; empty where they have no such type.
struct NamesAbroad {
  std::string_view numpy = {};  // with ml_dtypes
  std::string_view nki = {};
  std::string_view stablehlo = {};
  std::string_view torch = {};
  std::string_view safetensors = {};
  CodesAbroad codes = {};
};

struct DtypeRow {
  Dtype dtype = Dtype::count;
  std::string_view name = {};
  int bits = 0;  // of storage
  DtypeKind kind = DtypeKind::floating;
  NamesAbroad abroad = {};
  FloatFormat format = {};       // floating kinds
  double max_finite = 0;         // the largest value
  double min_finite = 0;         // the most negative value, or the smallest of f8e8m0
  int lanes = 1;                 // elements in one carrier
  Dtype element = Dtype::count;  // of a packed carrier; a complex number's part

  // Of one value, and of every dtype but packed carriers, f64 and complex numbers.
  uint64_t round(float value, Rounding& rounding) const;  // to storage bits
  float widen(uint64_t bits) const;                       // high bits are ignored
};

// Sub-byte integers: the stored nibble, sign-extended or not.
template <class T, int kBits>
constexpr T int_from_bits(uint64_t bits) {
  return T(T(bits << (sizeof(T) * 8 - kBits)) >> (sizeof(T) * 8 - kBits));
}

template <FloatFormat F, int kBits>
constexpr DtypeRow float_row(Dtype dtype, std::string_view name, NamesAbroad abroad) {
  double max = double(widen_float<F>(F.max_bits << F.low_zeros));
  double min = F.has_sign ? -max : double(widen_float<F>(0));
  return {dtype, name, kBits, DtypeKind::floating, abroad, F, max, min, 1, dtype};
}

template <class T, int kBits = int(sizeof(T) * 8)>
constexpr DtypeRow int_row(Dtype dtype, std::string_view name, NamesAbroad abroad) {
  constexpr int kValueBits = kBits - std::is_signed_v<T>;
  double top = double(uint64_t{1} << (kValueBits - 1)) * 2;
  return {.dtype = dtype,
          .name = name,
          .bits = kBits,
          .kind = std::is_signed_v<T> ? DtypeKind::signed_int : DtypeKind::unsigned_int,
          .abroad = abroad,
          .max_finite = top - 1,  // of 64-bit types, the nearest double
          .min_finite = std::is_signed_v<T> ? -top : 0,
          .element = dtype};
}

constexpr DtypeRow packed_row(Dtype dtype, std::string_view name, std::string_view nki, int bits, Dtype element) {
  return {.dtype = dtype,
          .name = name,
          .bits = bits,
          .kind = DtypeKind::packed,
          .abroad = {.nki = nki},
          .lanes = 4,
          .element = element};
}

constexpr DtypeRow complex_row(Dtype dtype, std::string_view name, NamesAbroad abroad, Dtype part) {
  return {.dtype = dtype,
          .name = name,
          .bits = part == Dtype::f32 ? 64 : 128,
          .kind = DtypeKind::complex,
          .abroad = abroad,
          .element = part};
}

namespace formats {
//                                      exp man bias  sign   inf   nan    overflow          max       nan   zeros
inline constexpr FloatFormat kF32{8, 23, 127, true, true, true, Overflow::infinity, 0x7f7fffff, 0x7fc00000};
inline constexpr FloatFormat kTf32{8, 10, 127, true, true, true, Overflow::infinity, 0x3fbff, 0x3fe00, 13};
inline constexpr FloatFormat kBf16{8, 7, 127, true, true, true, Overflow::infinity, 0x7f7f, 0x7fc0};
inline constexpr FloatFormat kF16{5, 10, 15, true, true, true, Overflow::infinity, 0x7bff, 0x7e00};
inline constexpr FloatFormat kF8e4m3{4, 3, 7, true, true, true, Overflow::infinity, 0x77, 0x7c};
inline constexpr FloatFormat kF8e4m3fn{4, 3, 7, true, false, true, Overflow::nan, 0x7e, 0x7f};
inline constexpr FloatFormat kF8e5m2{5, 2, 15, true, true, true, Overflow::infinity, 0x7b, 0x7e};
inline constexpr FloatFormat kF8e3m4{3, 4, 3, true, true, true, Overflow::infinity, 0x6f, 0x78};
inline constexpr FloatFormat kF8e8m0{8, 0, 127, false, false, true, Overflow::nan, 0xfe, 0xff};
inline constexpr FloatFormat kF4e2m1{2, 1, 1, true, false, false, Overflow::saturate, 0x7, 0};
inline constexpr FloatFormat kF8e4m3fnuz{4, 3, 8, true, false, false, Overflow::nan, 0x7f, 0x80, 0, true};
inline constexpr FloatFormat kF8e4m3b11fnuz{4, 3, 11, true, false, false, Overflow::nan, 0x7f, 0x80, 0, true};
inline constexpr FloatFormat kF8e5m2fnuz{5, 2, 16, true, false, false, Overflow::nan, 0x7f, 0x80, 0, true};
inline constexpr FloatFormat kF6e2m3{2, 3, 1, true, false, false, Overflow::saturate, 0x1f, 0};
inline constexpr FloatFormat kF6e3m2{3, 2, 3, true, false, false, Overflow::saturate, 0x1f, 0};
}  // namespace formats

inline constexpr std::array<DtypeRow, size_t(Dtype::count)> kDtypes = {{
    float_row<formats::kF32, 32>(
        Dtype::f32, "f32",
        {"float32", "float32", "f32", "float32", "F32", {.onnx = 1, .pjrt = 11, .vhlo = 4, .builtin = 5}}),
    float_row<formats::kTf32, 32>(Dtype::tf32, "tf32", {"", "tfloat32", "tf32", "", "", {.vhlo = 34, .builtin = 21}}),
    float_row<formats::kBf16, 16>(
        Dtype::bf16, "bf16",
        {"bfloat16", "bfloat16", "bf16", "bfloat16", "BF16", {.onnx = 16, .pjrt = 13, .vhlo = 2, .builtin = 3}}),
    float_row<formats::kF16, 16>(
        Dtype::f16, "f16",
        {"float16", "float16", "f16", "float16", "F16", {.onnx = 10, .pjrt = 10, .vhlo = 3, .builtin = 4}}),
    float_row<formats::kF8e4m3, 8>(
        Dtype::f8e4m3, "f8e4m3",
        {"float8_e4m3", "float8_e4m3", "f8E4M3", "", "", {.pjrt = 26, .vhlo = 35, .builtin = 23}}),
    float_row<formats::kF8e4m3fn, 8>(Dtype::f8e4m3fn, "f8e4m3fn",
                                     {"float8_e4m3fn",
                                      "float8_e4m3fn",
                                      "f8E4M3FN",
                                      "float8_e4m3fn",
                                      "F8_E4M3",
                                      {.onnx = 17, .pjrt = 17, .vhlo = 6, .builtin = 24}}),
    float_row<formats::kF8e5m2, 8>(Dtype::f8e5m2, "f8e5m2",
                                   {"float8_e5m2",
                                    "float8_e5m2",
                                    "f8E5M2",
                                    "float8_e5m2",
                                    "F8_E5M2",
                                    {.onnx = 19, .pjrt = 16, .vhlo = 7, .builtin = 22}}),
    float_row<formats::kF8e3m4, 8>(Dtype::f8e3m4, "f8e3m4",
                                   {"float8_e3m4", "", "f8E3M4", "", "", {.pjrt = 27, .vhlo = 36, .builtin = 28}}),
    float_row<formats::kF8e8m0, 8>(Dtype::f8e8m0, "f8e8m0",
                                   {"float8_e8m0fnu",
                                    "float8_e8m0fnu",
                                    "f8E8M0FNU",
                                    "float8_e8m0fnu",
                                    "F8_E8M0",
                                    {.onnx = 24, .pjrt = 28, .vhlo = 40, .builtin = 32}}),
    float_row<formats::kF4e2m1, 4>(
        Dtype::f4e2m1, "f4e2m1",
        {"float4_e2m1fn", "", "f4E2M1FN", "", "F4", {.onnx = 23, .pjrt = 29, .vhlo = 37, .builtin = 29}}),
    {.dtype = Dtype::boolean,
     .name = "bool",
     .bits = 8,
     .kind = DtypeKind::boolean,
     .abroad = {"bool", "bool_", "i1", "bool", "BOOL", {.onnx = 9, .pjrt = 1, .vhlo = 0}},
     .max_finite = 1,
     .element = Dtype::boolean},
    int_row<int8_t, 4>(Dtype::s4, "s4", {"int4", "", "i4", "int4", "", {.onnx = 22, .pjrt = 21, .vhlo = 10}}),
    int_row<uint8_t, 4>(Dtype::u4, "u4", {"uint4", "", "ui4", "uint4", "", {.onnx = 21, .pjrt = 22, .vhlo = 15}}),
    int_row<int8_t>(Dtype::s8, "s8", {"int8", "int8", "i8", "int8", "I8", {.onnx = 3, .pjrt = 2, .vhlo = 11}}),
    int_row<uint8_t>(Dtype::u8, "u8", {"uint8", "uint8", "ui8", "uint8", "U8", {.onnx = 2, .pjrt = 6, .vhlo = 16}}),
    int_row<int16_t>(Dtype::s16, "s16", {"int16", "int16", "i16", "int16", "I16", {.onnx = 5, .pjrt = 3, .vhlo = 12}}),
    int_row<uint16_t>(Dtype::u16, "u16",
                      {"uint16", "uint16", "ui16", "uint16", "U16", {.onnx = 4, .pjrt = 7, .vhlo = 17}}),
    int_row<int32_t>(Dtype::s32, "s32", {"int32", "int32", "i32", "int32", "I32", {.onnx = 6, .pjrt = 4, .vhlo = 13}}),
    int_row<uint32_t>(Dtype::u32, "u32",
                      {"uint32", "uint32", "ui32", "uint32", "U32", {.onnx = 12, .pjrt = 8, .vhlo = 18}}),
    int_row<int64_t>(Dtype::s64, "s64", {"int64", "", "i64", "int64", "I64", {.onnx = 7, .pjrt = 5, .vhlo = 14}}),
    int_row<uint64_t>(Dtype::u64, "u64", {"uint64", "", "ui64", "uint64", "U64", {.onnx = 13, .pjrt = 9, .vhlo = 19}}),
    packed_row(Dtype::f8e4m3fn_x4, "f8e4m3fn_x4", "float8_e4m3fn_x4", 32, Dtype::f8e4m3fn),
    packed_row(Dtype::f8e5m2_x4, "f8e5m2_x4", "float8_e5m2_x4", 32, Dtype::f8e5m2),
    packed_row(Dtype::f4e2m1fn_x4, "f4e2m1fn_x4", "float4_e2m1fn_x4", 16, Dtype::f4e2m1),
    {.dtype = Dtype::f64,
     .name = "f64",
     .bits = 64,
     .abroad = {"float64", "", "f64", "float64", "F64", {.onnx = 11, .pjrt = 12, .vhlo = 5, .builtin = 6}},
     .max_finite = 0x1.fffffffffffffp1023,
     .min_finite = -0x1.fffffffffffffp1023,
     .element = Dtype::f64},
    complex_row(Dtype::c64, "c64", {"complex64", "", "complex<f32>", "complex64", "C64", {.onnx = 14, .pjrt = 14}},
                Dtype::f32),
    complex_row(Dtype::c128, "c128", {"complex128", "", "complex<f64>", "complex128", "", {.onnx = 15, .pjrt = 15}},
                Dtype::f64),
    int_row<int8_t, 2>(Dtype::s2, "s2", {"int2", "", "i2", "", "", {.onnx = 26, .pjrt = 24, .vhlo = 31}}),
    int_row<uint8_t, 2>(Dtype::u2, "u2", {"uint2", "", "ui2", "", "", {.onnx = 25, .pjrt = 25, .vhlo = 32}}),
    float_row<formats::kF8e4m3fnuz, 8>(Dtype::f8e4m3fnuz, "f8e4m3fnuz",
                                       {"float8_e4m3fnuz",
                                        "",
                                        "f8E4M3FNUZ",
                                        "float8_e4m3fnuz",
                                        "",
                                        {.onnx = 18, .pjrt = 20, .vhlo = 27, .builtin = 26}}),
    float_row<formats::kF8e4m3b11fnuz, 8>(
        Dtype::f8e4m3b11fnuz, "f8e4m3b11fnuz",
        {"float8_e4m3b11fnuz", "", "f8E4M3B11FNUZ", "", "", {.pjrt = 18, .vhlo = 29, .builtin = 27}}),
    float_row<formats::kF8e5m2fnuz, 8>(Dtype::f8e5m2fnuz, "f8e5m2fnuz",
                                       {"float8_e5m2fnuz",
                                        "",
                                        "f8E5M2FNUZ",
                                        "float8_e5m2fnuz",
                                        "",
                                        {.onnx = 20, .pjrt = 19, .vhlo = 28, .builtin = 25}}),
    float_row<formats::kF6e2m3, 6>(Dtype::f6e2m3, "f6e2m3",
                                   {"float6_e2m3fn", "", "f6E2M3FN", "", "", {.onnx = 27, .vhlo = 38, .builtin = 30}}),
    float_row<formats::kF6e3m2, 6>(Dtype::f6e3m2, "f6e3m2",
                                   {"float6_e3m2fn", "", "f6E3M2FN", "", "", {.onnx = 28, .vhlo = 39, .builtin = 31}}),
}};

constexpr bool dtypes_in_order() {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (size_t(kDtypes[i].dtype) != i || kDtypes[i].name.empty() || kDtypes[i].bits == 0) return false;
  }
  return true;
}
static_assert(dtypes_in_order(), "kDtypes has one row per Dtype, in its order");

// The formats an instruction may name.
inline constexpr std::span<const DtypeRow> kChipDtypes = std::span(kDtypes).first<size_t(Dtype::chip_count)>();

// `dtype` must be one of the enum's: readers of files check the byte they found before they cast it.
constexpr const DtypeRow& row(Dtype dtype) { return kDtypes[size_t(dtype)]; }
std::optional<Dtype> dtype_by_name(std::string_view name);  // ours, or anyone's abroad

constexpr int bits(Dtype dtype) { return row(dtype).bits; }
constexpr int bytes(Dtype dtype) { return (bits(dtype) + 7) / 8; }  // of one element on its own
// Of a row of elements. Sub-byte types pack two a byte, the first in the low nibble.
constexpr size_t bytes(Dtype dtype, size_t elements) { return (size_t(bits(dtype)) * elements + 7) / 8; }
constexpr bool is_floating(Dtype dtype) { return row(dtype).kind == DtypeKind::floating; }
constexpr bool is_integer(Dtype dtype) {
  return row(dtype).kind == DtypeKind::signed_int || row(dtype).kind == DtypeKind::unsigned_int;
}
constexpr bool is_packed(Dtype dtype) { return row(dtype).kind == DtypeKind::packed; }
constexpr bool is_complex(Dtype dtype) { return row(dtype).kind == DtypeKind::complex; }
constexpr bool is_on_chip(Dtype dtype) { return dtype < Dtype::chip_count; }

template <int kBits, bool kSigned>
struct StorageOf {
  using U = std::conditional_t<
      kBits <= 8, uint8_t,
      std::conditional_t<kBits == 16, uint16_t, std::conditional_t<kBits == 32, uint32_t, uint64_t>>>;
  using Type = std::conditional_t<kSigned, std::make_signed_t<U>, U>;
};

// A dtype as a C++ type, given to dispatch()'s function. Floating Storage is raw bits; integers are themselves
// (sub-byte ones in a byte). Packed carriers have Storage but no widen or round: test kIsPacked first.
template <Dtype D>
struct Number {
  static constexpr Dtype kDtype = D;
  static constexpr const DtypeRow& kRow = kDtypes[size_t(D)];
  static constexpr int kBits = kRow.bits;
  static constexpr bool kIsFloating = kRow.kind == DtypeKind::floating;
  static constexpr bool kIsInteger = kRow.kind == DtypeKind::signed_int || kRow.kind == DtypeKind::unsigned_int;
  static constexpr bool kIsPacked = kRow.kind == DtypeKind::packed;
  using Storage = typename StorageOf<kBits, kRow.kind == DtypeKind::signed_int>::Type;

  static constexpr float widen(Storage stored)
    requires(!kIsPacked)
  {
    if constexpr (kIsFloating) {
      return widen_float<kRow.format>(stored);
    } else if constexpr (kIsInteger) {
      return float(stored);
    } else {
      return float(stored != 0);
    }
  }
  static constexpr float widen_bits(uint64_t bits)  // high bits are ignored
    requires(!kIsPacked)
  {
    if constexpr (kIsInteger) {
      return widen(int_from_bits<Storage, kBits>(bits));
    } else {
      return widen(Storage(bits & (~uint64_t{0} >> (64 - kBits))));
    }
  }
  // Nearest even.
  static constexpr Storage round(float value)
    requires(!kIsPacked)
  {
    if constexpr (kIsFloating) {
      return Storage(round_float<kRow.format>(value));
    } else if constexpr (kIsInteger) {
      return round_int<Storage, kBits>(value);
    } else {
      return value != 0;
    }
  }
  // Stochastic where the dtype is floating.
  static constexpr Storage round(float value, uint32_t random)
    requires(!kIsPacked)
  {
    if constexpr (kIsFloating) {
      return Storage(round_float<kRow.format, true>(value, random));
    } else {
      return round(value);
    }
  }
};

// Calls f(Number<D>{}) for the D that `dtype` is, one of the chip's. f returns the same type for every D.
template <class F>
auto dispatch(Dtype dtype, F&& f) {
  using R = decltype(f(Number<Dtype::f32>{}));
  return [&]<size_t... I>(std::index_sequence<I...>) -> R {
    using Call = R (*)(F&);
    static constexpr Call kCalls[] = {[](F& g) -> R { return g(Number<Dtype(I)>{}); }...};
    return kCalls[size_t(dtype)](f);
  }(std::make_index_sequence<size_t(Dtype::chip_count)>{});
}

}  // namespace trine
