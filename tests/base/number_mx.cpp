// MX blocks: scales by both rules, element bounds, specials, packing, errors.
#include "base/number/mx.h"

#include <cmath>
#include <cstring>
#include <vector>

#include "base/number/random.h"
#include "tests/testing.h"

using namespace trine;

namespace {

constexpr Dtype kElements[] = {Dtype::f8e4m3fn, Dtype::f8e5m2, Dtype::f4e2m1};

std::vector<float> block_with(float largest) {
  std::vector<float> out(kMxBlock);
  for (size_t i = 0; i < kMxBlock; ++i) out[i] = largest * (2 * uniform(random_at(4, i)) - 1);
  out[7] = -largest;
  return out;
}

}  // namespace

TEST_CASE("the chip's scale is twice OCP's") {
  Rounding r;
  for (Dtype element : kElements) {
    const int emax = element == Dtype::f8e4m3fn ? 8 : element == Dtype::f8e5m2 ? 15 : 2;
    for (float largest : {1.0f, 1.5f, 447.0f, 0x1p-100f, 3e38f, 0.99999994f}) {
      auto values = block_with(largest);
      int exponent = std::ilogb(largest);
      CHECK(mx_quantize_block(values.data(), element, MxRule::chip, r).scale ==
            std::max(0, exponent - (emax - 1) + 127));
      CHECK(mx_quantize_block(values.data(), element, MxRule::ocp, r).scale == std::max(0, exponent - emax + 127));
    }
  }
}

TEST_CASE("zeros have scale 2^-127; subnormals reach it too; specials make the scale NaN") {
  Rounding r;
  std::vector<float> values(kMxBlock, 0.0f), back(kMxBlock);
  for (Dtype element : kElements) {
    values.assign(kMxBlock, -0.0f);
    MxBlock zeros = mx_quantize_block(values.data(), element, MxRule::chip, r);
    CHECK(zeros.scale == 0);
    mx_dequantize_block(zeros, element, back.data());
    for (float v : back) CHECK((v == 0 && std::signbit(v)));
    values[3] = 1e-45f;
    CHECK(mx_quantize_block(values.data(), element, MxRule::chip, r).scale == 0);
    for (float special : {INFINITY, -INFINITY, NAN}) {
      values[3] = special;
      MxBlock block = mx_quantize_block(values.data(), element, MxRule::chip, r);
      CHECK(block.scale == 0xff);
      mx_dequantize_block(block, element, back.data());
      for (float v : back) CHECK(std::isnan(v));
    }
  }
}

TEST_CASE("a block comes back within half a step of its largest") {
  Rounding r;
  for (Dtype element : kElements) {
    const double step = std::ldexp(1.0, -row(element).format.mantissa_bits);
    for (MxRule rule : {MxRule::chip, MxRule::ocp}) {
      auto values = block_with(5.3f);
      MxBlock block = mx_quantize_block(values.data(), element, rule, r);
      std::vector<float> back(kMxBlock);
      mx_dequantize_block(block, element, back.data());
      // OCP saturates what lies between the largest code and the next power of two.
      double most = row(element).max_finite * row(Dtype::f8e8m0).widen(block.scale);
      for (size_t i = 0; i < kMxBlock; ++i) {
        double clamped = std::min<double>(std::abs(values[i]), most);
        CHECK(std::abs(std::abs(back[i]) - clamped) <=
              clamped * step / 2 + most * step * 0.51 / (element == Dtype::f4e2m1 ? 4 : 64));
        CHECK(back[i] * values[i] >= 0);
      }
    }
  }
}

TEST_CASE("buffers hold the bytes of x4 carriers") {
  Rounding r;
  for (Dtype element : kElements) {
    auto values = block_with(100.0f);
    MxBlock block = mx_quantize_block(values.data(), element, MxRule::chip, r);
    std::vector<std::byte> codes(bytes(element, kMxBlock));
    std::vector<uint8_t> scales(1);
    Dtype carrier = element == Dtype::f8e4m3fn ? Dtype::f8e4m3fn_x4
                    : element == Dtype::f8e5m2 ? Dtype::f8e5m2_x4
                                               : Dtype::f4e2m1fn_x4;
    REQUIRE(mx_quantize(values, carrier, MxRule::chip, codes, scales));
    CHECK(scales[0] == block.scale);
    for (size_t i = 0; i < kMxBlock; i += 4) {
      uint32_t stored = 0;
      std::memcpy(&stored, &codes[i / 4 * size_t(bytes(carrier))], size_t(bytes(carrier)));
      CHECK(stored == mx_pack(&block.codes[i], element));
      auto four = mx_unpack(stored, element);
      CHECK(std::equal(four.begin(), four.end(), block.codes.begin() + long(i)));
    }
    std::vector<float> a(kMxBlock), b(kMxBlock);
    REQUIRE(mx_dequantize(codes, carrier, scales, a));
    mx_dequantize_block(block, element, b.data());
    CHECK(a == b);
  }
}

TEST_CASE("wrong dtypes and sizes are errors") {
  std::vector<float> values(33);
  std::vector<std::byte> codes(33);
  std::vector<uint8_t> scales(1);
  CHECK(!mx_quantize(values, Dtype::f8e4m3fn, MxRule::chip, codes, scales).has_value());
  auto bad = mx_dequantize(codes, Dtype::bf16, scales, values);
  CHECK(!bad.has_value());
  CHECK(bad.error().message == "bf16 is not an MX element; f8e4m3fn, f8e5m2 and f4e2m1 are");
}
