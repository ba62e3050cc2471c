// Every activation function against the same formula in long double, over all of f32's scale.
#include "arch/activation.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

using Real = long double;
const Real kPi = 3.141592653589793238462643383279502884L;

Real normal_below(Real x) { return 0.5L * erfcl(-x / sqrtl(2)); }
Real sigmoid(Real x) { return 1 / (1 + expl(-x)); }
Real swish_dx(Real x, Real b) { return sigmoid(b * x) + b * x * sigmoid(b * x) * sigmoid(-b * x); }

Real truth(Act act, Real x) {
  switch (act) {
    case Act::copy:
      return x;
    case Act::abs:
      return fabsl(x);
    case Act::arctan:
      return atanl(x);
    case Act::cos:
      return cosl(x);
    case Act::erf:
      return erfl(x);
    case Act::erf_dx:
      return 2 / sqrtl(kPi) * expl(-x * x);
    case Act::exp:
      return expl(x);
    case Act::gelu:
      return x * normal_below(x);
    case Act::gelu_dx:
      return normal_below(x) + x * expl(-x * x / 2) / sqrtl(2 * kPi);
    case Act::gelu_apprx_sigmoid:
      return x * sigmoid(1.702L * x);
    case Act::gelu_apprx_sigmoid_dx:
      return swish_dx(x, 1.702L);
    case Act::gelu_apprx_tanh:
      return x * sigmoid(2 * sqrtl(2 / kPi) * (x + 0.044715L * x * x * x));
    case Act::log:
      return logl(x);
    case Act::mish:
      return x * tanhl(log1pl(expl(x)));
    case Act::reciprocal:
      return 1 / x;
    case Act::relu:
      return x > 0 ? x : 0;
    case Act::prelu:
      return x > 0 ? x : 0.25L * x;
    case Act::rsqrt:
      return 1 / sqrtl(x);
    case Act::sigmoid:
      return sigmoid(x);
    case Act::sign:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Act::silu:
      return x * sigmoid(x);
    case Act::silu_dx:
      return swish_dx(x, 1);
    case Act::sin:
      return sinl(x);
    case Act::softplus:
      return fmaxl(x, 0) + log1pl(expl(-fabsl(x)));
    case Act::sqrt:
      return sqrtl(x);
    case Act::square:
      return x * x;
    case Act::tanh:
      return tanhl(x);
  }
  return 0;
}

// Distance in f32 steps at the true value; subnormals have the step of the smallest.
Real steps(Real expected, float got) {
  if (fabsl(expected) > std::numeric_limits<float>::max()) return std::isinf(got) ? 0 : 1e9L;
  int exponent = 0;
  frexpl(expected, &exponent);
  return fabsl(expected - got) / ldexpl(1, std::max(exponent - 24, -149));
}

std::vector<float> sweep() {
  std::vector<float> v;
  for (uint64_t bits = 0; bits < 0x100000000ull; bits += 48611) {  // a prime: every exponent, many mantissas
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(x)) v.push_back(x);
  }
  for (int i = -60000; i <= 60000; ++i) v.push_back(static_cast<float>(i) * 0.000357f);
  return v;
}

}  // namespace

TEST_CASE("every activation is within one f32 step of its formula") {
  const std::vector<float> all = sweep();
  for (const ActRow& row : activations()) {
    std::vector<float> in;
    for (float x : all)
      if (row.takes(x)) in.push_back(x);
    std::vector<float> out(in.size());
    CHECK(activate(row.act, in.data(), out.data(), in.size(), 0.25f).count == 0);
    Real worst = 0;
    float where = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const Real off = steps(truth(row.act, in[i]), out[i]);
      if (!(off <= worst)) worst = off, where = in[i];
    }
    CHECK_MESSAGE(worst <= 1, cat(name(row.act), " is ", double(worst), " steps off at ", double(where)));
  }
}

TEST_CASE("rows of any length give the same bits as single elements") {
  std::vector<float> in;
  for (int i = 0; i < 1000; ++i) in.push_back(0.011f * static_cast<float>(i - 270));
  for (const ActRow& row : activations())
    for (size_t n : {1u, 3u, 7u, 255u, 256u, 257u, 1000u}) {
      std::vector<float> out(n);
      activate(row.act, in.data(), out.data(), n, 0.25f);
      for (size_t i = 0; i < n; i += 1 + n / 50) {
        float one = 0;
        activate(row.act, &in[i], &one, 1, 0.25f);
        REQUIRE(std::bit_cast<uint32_t>(one) == std::bit_cast<uint32_t>(out[i]));
      }
    }
}

TEST_CASE("portable and vector code give the same bits") {
  const std::vector<float> in = sweep();
  std::vector<float> portable(in.size()), best(in.size());
  for (const ActRow& row : activations()) {
    activate(row.act, in.data(), portable.data(), in.size(), 0.25f, Simd::portable);
    activate(row.act, in.data(), best.data(), in.size(), 0.25f, simd_best());
    size_t different = 0;
    for (size_t i = 0; i < in.size(); ++i)
      different += std::bit_cast<uint32_t>(portable[i]) != std::bit_cast<uint32_t>(best[i]) && !std::isnan(best[i]);
    CHECK_MESSAGE(different == 0, name(row.act));
  }
}

TEST_CASE("infinities and NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  for (const ActRow& row : activations()) {
    float x = std::nanf(""), y = 0;
    CHECK(activate(row.act, &x, &y, 1).count == 0);
    CHECK_MESSAGE(std::isnan(y), name(row.act));
  }
  const auto at = [](Act act, float x) {
    float y = 0;
    activate(act, &x, &y, 1);
    return y;
  };
  for (Act act : {Act::gelu, Act::silu, Act::mish, Act::softplus, Act::exp, Act::relu, Act::gelu_apprx_tanh,
                  Act::gelu_apprx_sigmoid}) {
    CHECK_MESSAGE(at(act, inf) == inf, name(act));
    CHECK_MESSAGE(at(act, -inf) == 0, name(act));
  }
  for (Act act : {Act::gelu_dx, Act::silu_dx, Act::sigmoid, Act::gelu_apprx_sigmoid_dx}) {
    CHECK_MESSAGE(at(act, inf) == 1, name(act));
    CHECK_MESSAGE(at(act, -inf) == 0, name(act));
  }
  CHECK(at(Act::tanh, -inf) == -1);
  CHECK(at(Act::erf, -inf) == -1);
  CHECK(at(Act::sqrt, 0) == 0);
  CHECK(at(Act::log, 0) == -inf);
  CHECK(std::isnan(at(Act::log, -1)));
}

TEST_CASE("outside the range: counted, and sin is the published cubic") {
  const float in[] = {0.5f, 9.0f, -9.0f, 1.0f};
  float out[4];
  const OutsideRange found = activate(Act::sin, in, out, 4);
  CHECK(found.count == 2);
  CHECK(found.first == 9.0f);
  CHECK(out[1] == doctest::Approx(27.65).epsilon(0.001));
  CHECK(out[2] == -out[1]);
  CHECK(out[0] == doctest::Approx(std::sin(0.5)));
  CHECK(!activation(Act::reciprocal).takes(0x1p43f));
  CHECK(activation(Act::reciprocal).takes(-0x1p42f));
  CHECK(!activation(Act::rsqrt).takes(-1.0f));
}
