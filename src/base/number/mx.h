// MX blocks: 32 values that share one power-of-two scale (f8e8m0), elements f8e4m3fn, f8e5m2 or f4e2m1.
// Not the layout on chip (8 partitions by 4 elements): callers gather a block's values and scatter its codes.
// Invariant: a value is widen(code) * scale; a block with a NaN or an infinity gets the NaN scale (estimate).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/number/number.h"
#include "base/result.h"

namespace trine {

inline constexpr size_t kMxBlock = 32;

// chip: quantize_mx, scale 2^(floor(log2 amax) - (Emax - 1)), so no element overflows (Neuron docs, quantize_mx).
// ocp: 2^(floor(log2 amax) - Emax), half of that; large elements saturate (OCP MX v1.0 §6.3).
enum class MxRule : uint8_t { chip, ocp };

// The dtype of the elements, given that or its x4 carrier; Dtype::count where there is no such MX format.
constexpr Dtype mx_element(Dtype dtype) {
  Dtype element = row(dtype).element;
  bool known = element == Dtype::f8e4m3fn || element == Dtype::f8e5m2 || element == Dtype::f4e2m1;
  return known ? element : Dtype::count;
}

struct MxBlock {
  uint8_t scale = 0;                         // f8e8m0
  std::array<uint8_t, kMxBlock> codes = {};  // one a byte, f4 in the low nibble
};

// `element` must be an MX element. A block of zeros has scale 2^-127.
MxBlock mx_quantize_block(const float* values, Dtype element, MxRule rule, Rounding& rounding);
void mx_dequantize_block(const MxBlock& block, Dtype element, float* values);

// Four codes as one carrier, the first in the lowest bits; and back.
constexpr uint32_t mx_pack(const uint8_t* codes, Dtype element) {
  const int width = bits(element);
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= uint32_t(codes[i]) << (i * width);
  return out;
}
constexpr std::array<uint8_t, 4> mx_unpack(uint32_t carrier, Dtype element) {
  const int width = bits(element);
  std::array<uint8_t, 4> out{};
  for (int i = 0; i < 4; ++i) out[size_t(i)] = uint8_t((carrier >> (i * width)) & ((1u << width) - 1));
  return out;
}

// Whole buffers, block after block. `codes` is packed as carriers and as bulk conversion pack: the bytes are the same.
Result<void> mx_quantize(std::span<const float> values, Dtype element, MxRule rule, std::span<std::byte> codes,
                         std::span<uint8_t> scales, Rounding rounding = {});
Result<void> mx_dequantize(std::span<const std::byte> codes, Dtype element, std::span<const uint8_t> scales,
                           std::span<float> values);

}  // namespace trine
