// Elements of host tensors: every dtype stores what it loads; f64 narrows with one rounding; the fnuz formats.
#include "base/number/element.h"

#include <doctest/doctest.h>
#include <cmath>

#include "base/tensor.h"

namespace trine {

TEST_CASE("every code of a narrow dtype loads and stores to itself") {
  for (const DtypeRow& r : kDtypes) {
    if (r.kind == DtypeKind::packed || r.bits > 16) continue;
    CAPTURE(r.name);
    dispatch_element(r.dtype, [&](auto element) {
      using E = decltype(element);
      if constexpr (E::kBits <= 16 && !E::kIsComplex) {
        for (uint32_t code = 0; code < 1u << (E::kIsBoolean ? 1 : E::kBits); ++code) {
          const auto stored = E::kIsInteger ? E::store(typename E::Wide(code)) : typename E::Storage(code);
          const auto wide = E::load(stored);
          if constexpr (E::kIsFloating) {
            if (std::isnan(wide)) continue;
          }
          CHECK(E::store(wide) == stored);
        }
      }
    });
  }
}

TEST_CASE("a double narrows with one rounding") {
  // Just above the middle of two bf16: through f32 it would become the middle and go to even.
  const double above = 1.0 + 0x1p-8 + 0x1p-40;
  CHECK(Element<Dtype::bf16>::store(above) == 0x3f81);
  CHECK(Element<Dtype::bf16>::store(1.0 + 0x1p-8) == 0x3f80);
  CHECK(Element<Dtype::bf16>::store(-above) == 0xbf81);
  CHECK(Element<Dtype::bf16>::store(1e300) == 0x7f80);
  CHECK(Element<Dtype::f16>::store(65519.99999999) == 0x7bff);
  CHECK(Element<Dtype::f16>::store(65520.0) == 0x7c00);
}

TEST_CASE("fnuz formats have one zero and one NaN") {
  using E = Element<Dtype::f8e4m3fnuz>;
  CHECK(E::load(0x7f) == 240);
  CHECK(E::load(0x08) == 0x1p-7);
  CHECK(std::isnan(E::load(0x80)));
  CHECK(E::store(-0.0) == 0);
  CHECK(E::store(-1e-9) == 0);
  CHECK(E::store(1000) == 0x80);
  CHECK(E::store(-240) == 0xff);
  CHECK(E::store(std::nan("")) == 0x80);
  CHECK(Element<Dtype::f8e4m3b11fnuz>::load(0x7f) == 30);
  CHECK(Element<Dtype::f8e5m2fnuz>::load(0x7f) == 57344);
}

TEST_CASE("integers wrap and sub-byte ones keep their sign") {
  CHECK(Element<Dtype::s4>::store(9) == -7);
  CHECK(Element<Dtype::u4>::store(17) == 1);
  CHECK(Element<Dtype::s2>::store(2) == -2);
  CHECK(Element<Dtype::s8>::store(200) == -56);
  CHECK(Element<Dtype::u32>::store(uint64_t(-1)) == 0xffffffffu);
}

TEST_CASE("tensors own aligned zeros and compare by bytes") {
  const Tensor a = Tensor::make(Dtype::c64, {2, 3}), b = Tensor::make(Dtype::c64, {2, 3});
  CHECK(a.bytes() == 48);
  CHECK(reinterpret_cast<uintptr_t>(a.data.get()) % 64 == 0);
  CHECK(a == b);
  b.view().as<float>()[11] = 1;
  CHECK(!(a == b));
  CHECK(shape_text(Dtype::bf16, {2, 0}) == "bf16[2,0]");
  CHECK(row_major_strides({2, 3, 4}) == Dims{12, 4, 1});
}

}  // namespace trine
