// MX quantisation: the shared scale from the largest magnitude, then each element rounded against it.
#include "base/number/mx.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/number/convert.h"
#include "base/text.h"

namespace trine {
namespace {

constexpr uint8_t kNanScale = 0xff;
constexpr size_t kCodeBytesMax = kMxBlock;  // of one block, packed

int floor_log2(uint32_t magnitude) {
  int exponent = int(magnitude >> 23);
  return exponent ? exponent - 127 : int(std::bit_width(magnitude)) - 150;
}

uint8_t scale_of(uint32_t largest, Dtype element, MxRule rule) {
  if (largest >= 0x7f800000) return kNanScale;
  if (largest == 0) return 0;
  int emax = std::ilogb(row(element).max_finite) - (rule == MxRule::chip ? 1 : 0);
  return uint8_t(std::clamp(floor_log2(largest) - emax + 127, 0, 254));
}

// Writes the packed codes of one block and returns its scale.
uint8_t quantize_packed(const float* values, Dtype element, MxRule rule, void* codes, Rounding& rounding) {
  uint32_t largest = 0;
  for (size_t i = 0; i < kMxBlock; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffff);
  }
  uint8_t scale = scale_of(largest, element, rule);
  float scaled[kMxBlock] = {};
  if (scale != kNanScale) {
    const float inverse = Number<Dtype::f8e8m0>::widen(uint8_t(254 - scale));
    const float most = float(row(element).max_finite);
    for (size_t i = 0; i < kMxBlock; ++i) scaled[i] = std::clamp(values[i] * inverse, -most, most);
  }
  round_row(scaled, codes, element, kMxBlock, rounding);
  return scale;
}

void dequantize_packed(const void* codes, uint8_t scale, Dtype element, float* values) {
  widen_row(codes, element, values, kMxBlock);
  const float factor = Number<Dtype::f8e8m0>::widen(scale);
  for (size_t i = 0; i < kMxBlock; ++i) values[i] *= factor;
}

// The number of blocks, when all three sizes agree on it.
Result<size_t> block_count(size_t values, Dtype element, size_t code_bytes, size_t scales) {
  if (mx_element(element) == Dtype::count) {
    return fail(Code::unsupported, cat(row(element).name, " is not an MX element; f8e4m3fn, f8e5m2 and f4e2m1 are"));
  }
  size_t blocks = values / kMxBlock;
  size_t need = bytes(mx_element(element), values);
  if (values % kMxBlock != 0 || scales != blocks || code_bytes != need) {
    return fail(Code::invalid,
                cat(values, " values with ", scales, " scales and ", code_bytes, " bytes of ", row(element).name,
                    "; MX needs whole blocks of 32, here ", blocks, " scales and ", need, " bytes"));
  }
  return blocks;
}

}  // namespace

MxBlock mx_quantize_block(const float* values, Dtype element, MxRule rule, Rounding& rounding) {
  MxBlock out;
  uint8_t packed[kCodeBytesMax];
  out.scale = quantize_packed(values, element, rule, packed, rounding);
  for (size_t i = 0; i < kMxBlock; ++i) {
    out.codes[i] = bits(element) == 4 ? uint8_t((packed[i / 2] >> (i % 2 * 4)) & 15) : packed[i];
  }
  return out;
}

void mx_dequantize_block(const MxBlock& block, Dtype element, float* values) {
  uint8_t packed[kCodeBytesMax] = {};
  for (size_t i = 0; i < kMxBlock; ++i) {
    if (bits(element) == 4) {
      packed[i / 2] = uint8_t(packed[i / 2] | (block.codes[i] & 15) << (i % 2 * 4));
    } else {
      packed[i] = block.codes[i];
    }
  }
  dequantize_packed(packed, block.scale, element, values);
}

Result<void> mx_quantize(std::span<const float> values, Dtype element, MxRule rule, std::span<std::byte> codes,
                         std::span<uint8_t> scales, Rounding rounding) {
  size_t blocks = TRY(block_count(values.size(), element, codes.size(), scales.size()));
  element = mx_element(element);
  for (size_t b = 0; b < blocks; ++b) {
    scales[b] = quantize_packed(values.data() + b * kMxBlock, element, rule,
                                codes.data() + bytes(element, b * kMxBlock), rounding);
  }
  return {};
}

Result<void> mx_dequantize(std::span<const std::byte> codes, Dtype element, std::span<const uint8_t> scales,
                           std::span<float> values) {
  size_t blocks = TRY(block_count(values.size(), element, codes.size(), scales.size()));
  element = mx_element(element);
  for (size_t b = 0; b < blocks; ++b) {
    dequantize_packed(codes.data() + bytes(element, b * kMxBlock), scales[b], element, values.data() + b * kMxBlock);
  }
  return {};
}

}  // namespace trine
