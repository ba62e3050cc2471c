// Packed weights: rows mean what GGUF's blocks mean, multiplies are near the exact product, and every instruction set
// and every number of rows gives the same bits. The blocks themselves are held against the `gguf` package in Python.
#include "host/packed/multiply.h"

#include <cmath>
#include <cstring>
#include <random>

#include "base/simd.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::host;

namespace {

// Random blocks whose scales are small numbers.
std::vector<std::byte> random_blocks(Packed format, int64_t outputs, int64_t inputs, std::mt19937& random) {
  const PackedFormat& f = row(format);
  std::vector<std::byte> out(size_t(outputs * inputs / f.elements * f.bytes));
  for (auto& b : out) b = std::byte(random());
  const auto half = [&](size_t at) {
    const auto h = static_cast<_Float16>(0.001f * float(1 + random() % 50));
    std::memcpy(out.data() + at, &h, 2);
  };
  for (size_t at = 0; f.bits && at < out.size(); at += size_t(f.bytes)) {
    if (format == Packed::q6_k) {
      half(at + 208);
      continue;
    }
    half(at);
    if (f.scales != ScaleKind::half) half(at + 2);
  }
  if (!f.bits && f.bytes >= 2)
    for (size_t at = 0; at < out.size(); at += size_t(f.bytes)) {
      const float v = std::normal_distribution<float>()(random);
      const auto h = static_cast<_Float16>(v);
      if (format == Packed::f16) std::memcpy(out.data() + at, &h, 2);
      if (format == Packed::f32) std::memcpy(out.data() + at, &v, 4);
      if (format == Packed::bf16) std::memcpy(out.data() + at, reinterpret_cast<const char*>(&v) + 2, 2);
    }
  if (format == Packed::fp8)
    for (auto& b : out)
      if ((b & std::byte(0x7f)) == std::byte(0x7f)) b = std::byte(0);  // no NaN
  return out;
}

std::vector<const PackedKernels*> sets() {
  std::vector<const PackedKernels*> all{&kPackedPortable};
#if defined(__x86_64__)
  if (simd_best() == Simd::avx2) all.push_back(&kPackedAvx2);
  if (&packed_kernels() == &kPackedAvx512) all.push_back(&kPackedAvx512);
#endif
  return all;
}

}  // namespace

TEST_CASE("every format: near the product of its rows, the same bits in every set and for any number of rows") {
  std::mt19937 random(1);
  for (size_t f = 0; f < size_t(Packed::count); ++f) {
    const Packed format = Packed(f);
    const int64_t outputs = 37, inputs = 512, rows = 7;
    CAPTURE(row(format).name);
    const bool scaled = format == Packed::i8 || format == Packed::fp8;
    const std::vector<float> scales(scaled ? size_t(outputs) : 0, 0.25f);
    const auto made =
        PackedMatrix::make(format, outputs, inputs, random_blocks(format, outputs, inputs, random), scales);
    REQUIRE(made);
    std::vector<float> x(size_t(rows * inputs)), w(static_cast<size_t>(inputs));
    for (float& v : x) v = std::normal_distribution<float>()(random);
    std::vector<std::vector<float>> found;
    for (const PackedKernels* k : sets())
      for (const int64_t at_once : {rows, int64_t{1}, int64_t{3}}) {
        std::vector<float> out(size_t(rows * outputs), -1.0f);
        std::vector<int8_t> codes(size_t(rows * inputs));
        std::vector<float> by(size_t(rows * inputs / kGroup)), sums(2 * by.size());
        k->quantise(x.data(), rows, inputs, inputs, codes.data(), by.data(), sums.data());
        for (int64_t r = 0; r < rows; r += at_once) {
          const int64_t count = std::min(at_once, rows - r);
          if (row(format).bits)
            k->multiply_codes(*made, 0, made->tiles(), {codes.data(), by.data(), sums.data(), inputs}, r, count,
                              out.data(), outputs);
          else
            k->multiply_floats(*made, 0, made->tiles(), x.data(), inputs, r, count, out.data(), outputs);
        }
        found.push_back(std::move(out));
      }
    for (const auto& other : found) CHECK(std::memcmp(other.data(), found[0].data(), other.size() * 4) == 0);
    for (int64_t o = 0; o < outputs; ++o) {
      made->row(o, w.data());
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < inputs; ++i) {
          const double product = double(w[size_t(i)]) * double(x[size_t(r * inputs + i)]);
          sum += product, size += product * product;
        }
        CHECK(std::abs(double(found[0][size_t(r * outputs + o)]) - sum) < 0.03 * std::sqrt(size) + 1e-4);
      }
    }
  }
}

TEST_CASE("what a weight cannot be is said") {
  const std::vector<std::byte> bytes(18);
  CHECK_FALSE(PackedMatrix::make(Packed::q4_0, 1, 31, bytes));
  CHECK_FALSE(PackedMatrix::make(Packed::q4_0, 2, 32, bytes));
  CHECK(PackedMatrix::make(Packed::q4_0, 1, 32, bytes));
  CHECK_FALSE(PackedMatrix::make(Packed::q4_0, 1, 32, bytes, std::vector<float>(1)));
  CHECK_FALSE(PackedMatrix::make(Packed::q4_0, 1, 32, bytes, {}, std::vector<int32_t>{1}));
  CHECK_FALSE(packed_named("Q3_K"));
  CHECK_FALSE(packed_of_gguf(99));
}
