// The table of activation functions; see activation.h.
// Outside its range hardware "may produce invalid results"; only sin's are published (a cubic). We choose, as
// estimates: 0, infinities and inputs where the function has no value give IEEE's answer, the rest the value at the
// range's edge.
#include "arch/activation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "arch/activation_math.h"

namespace trine::arch {

namespace {

constexpr size_t kChunk = 256;  // elements, so that the f64 copy stays in the first-level cache

template <double (*f)(double)>
[[gnu::always_inline]] inline void over_row(const float* in, float* out, size_t n) {
  double x[kChunk];
  for (size_t done = 0; done < n; done += kChunk) {
    const size_t part = std::min(kChunk, n - done);
    for (size_t i = 0; i < part; ++i) x[i] = static_cast<double>(in[done + i]);
    for (size_t i = 0; i < part; ++i) x[i] = f(x[i]);
    for (size_t i = 0; i < part; ++i) out[done + i] = static_cast<float>(x[i]);
  }
}

#if defined(__x86_64__)
template <double (*f)(double)>
__attribute__((target("avx2"))) void over_row_avx2(const float* in, float* out, size_t n) {
  over_row<f>(in, out, n);
}
#endif

// The same code twice; without fused multiply-add both give the same bits.
template <double (*f)(double)>
void wide(const float* in, float* out, size_t n, [[maybe_unused]] Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return over_row_avx2<f>(in, out, n);
#endif
  over_row<f>(in, out, n);
}

// For what one f32 operation rounds correctly.
template <float (*f)(float)>
void narrow(const float* in, float* out, size_t n, Simd) {
  for (size_t i = 0; i < n; ++i) out[i] = f(in[i]);
}

// --- the functions; clamps stand where an infinite input would meet 0·∞ ---
using flat::at_least, flat::at_most;
[[gnu::always_inline]] inline float copy(float x) { return x; }
[[gnu::always_inline]] inline float absolute(float x) { return std::fabs(x); }
[[gnu::always_inline]] inline float relu(float x) { return x <= 0 ? 0 : x; }
[[gnu::always_inline]] inline float sign(float x) { return x > 0 ? 1 : x < 0 ? -1 : x + 0; }
[[gnu::always_inline]] inline float square(float x) { return x * x; }
[[gnu::always_inline]] inline float square_root(float x) { return std::sqrt(x); }
[[gnu::always_inline]] inline float reciprocal(float x) { return 1 / x; }
[[gnu::always_inline]] inline double rsqrt(double x) { return 1 / std::sqrt(x); }
[[gnu::always_inline]] inline double erf_dx(double x) { return 1.12837916709551257390 * flat::exp(-x * x); }
[[gnu::always_inline]] inline double gelu(double x) {
  x = at_least(-15, x);
  return x * flat::normal_below(x);
}
[[gnu::always_inline]] inline double gelu_dx(double x) {
  x = at_most(15, at_least(-15, x));
  return flat::normal_below<flat::Sum::full>(x) + x * flat::normal_density(x);
}
[[gnu::always_inline]] inline double swish(double x, double beta) {
  x = at_least(-200, x);
  return x * flat::sigmoid(beta * x);
}
[[gnu::always_inline]] inline double swish_dx(double x, double beta) {
  const double y = beta * at_most(200, at_least(-200, x)), s = flat::sigmoid<flat::Sum::full>(y);
  return s + y * s * flat::sigmoid<flat::Sum::full>(-y);
}
[[gnu::always_inline]] inline double gelu_apprx_sigmoid(double x) { return swish(x, 1.702); }
[[gnu::always_inline]] inline double gelu_apprx_sigmoid_dx(double x) { return swish_dx(x, 1.702); }
[[gnu::always_inline]] inline double gelu_apprx_tanh(double x) {
  constexpr double kTwoRootTwoOverPi = 1.59576912160573071176;
  x = at_least(-20, x);
  const double bounded = at_most(20, x);  // (1 + tanh u)/2 = sigmoid(2u)
  return x * flat::sigmoid(kTwoRootTwoOverPi * (bounded + 0.044715 * bounded * bounded * bounded));
}
[[gnu::always_inline]] inline double silu(double x) { return swish(x, 1); }
[[gnu::always_inline]] inline double silu_dx(double x) { return swish_dx(x, 1); }
[[gnu::always_inline]] inline double mish(double x) {
  x = at_least(-200, x);
  const double e = flat::exp(at_most(50, x)), grown = e * (e + 2);  // tanh(log(1 + e)) = grown/(grown + 2)
  return x * (grown / (grown + 2));
}
[[gnu::always_inline]] inline double softplus(double x) {
  return at_least(0, x) + flat::log1p(flat::exp(-flat::absolute(x)));
}
double cosine(double x) { return std::cos(x); }
double arctan(double x) { return std::atan(x); }

// --- outside the published ranges ---
constexpr float kPi = 3.14159265f;  // the largest f32 inside [−π, π] is one step below
constexpr float kPiInside = 0x1.921fb4p+1f, kHalfPiInside = 0x1.921fb4p+0f;
static_assert(kPiInside < kPi);

// The cubic that sin has at ±π, −d + d³/6 in the distance d: gives the published sin(9) ≈ 27.65.
float sin_outside(float x) {
  const double d = std::fabs(static_cast<double>(x)) - flat::kPi;
  return static_cast<float>(std::copysign(1.0, x) * (d * d * d / 6 - d));
}
float arctan_outside(float x) { return std::copysign(std::atan(kHalfPiInside), x); }
template <float (*f)(float)>
float clamped(float x, float min, float max) {
  const float magnitude = std::fabs(x);
  if (x == 0 || std::isinf(x)) return f(x);
  return f(std::copysign(std::clamp(magnitude, min, max), x));
}
float log_f32(float x) { return std::log(x); }
float rsqrt_f32(float x) { return static_cast<float>(rsqrt(x)); }
float log_outside(float x) { return clamped<log_f32>(x, 0x1p-64f, 0x1p64f); }
float sqrt_outside(float x) { return clamped<square_root>(x, 0x1p-116f, 0x1p118f); }
float rsqrt_outside(float x) { return clamped<rsqrt_f32>(x, 0x1p-87f, 0x1p97f); }
float reciprocal_outside(float x) { return clamped<reciprocal>(x, 0x1p-42f, 0x1p42f); }

// Which functions share a table set is not published; NEFFs name sets "<function>_and_others". Estimate: by family,
// with the plain pieces (copy, relu, …) in every set. Reason: a set holds about one family's polynomials.
constexpr std::string_view kTableSets[] = {"exp_and_others",  "gelu_and_others", "sigmoid_and_others",
                                           "sqrt_and_others", "log_and_others",  "sin_and_others"};
enum : int { kEvery = -1, kExp, kGelu, kSigmoid, kSqrt, kLog, kSin };

constexpr ActRow everywhere(Act act, void (*run)(const float*, float*, size_t, Simd), int table,
                            std::string_view summary) {
  return {.act = act, .run = run, .table = table, .summary = summary};
}

constexpr ActRow kRows[] = {
    everywhere(Act::copy, narrow<copy>, kEvery, "x"),
    everywhere(Act::abs, narrow<absolute>, kEvery, "|x|"),
    {.act = Act::arctan,
     .run = wide<arctan>,
     .min = -kHalfPiInside,
     .max = kHalfPiInside,
     .outside = arctan_outside,
     .table = kSin,
     .summary = "arctan x",
     .range = "[-π/2, π/2]"},
    everywhere(Act::cos, wide<cosine>, kSin, "cos x"),
    everywhere(Act::erf, wide<flat::erf>, kGelu, "erf x"),
    everywhere(Act::erf_dx, wide<erf_dx>, kGelu, "2/√π · exp(−x²)"),
    everywhere(Act::exp, wide<flat::exp<>>, kExp, "exp x"),
    everywhere(Act::gelu, wide<gelu>, kGelu, "x·Φ(x)"),
    everywhere(Act::gelu_dx, wide<gelu_dx>, kGelu, "Φ(x) + x·φ(x)"),
    everywhere(Act::gelu_apprx_sigmoid, wide<gelu_apprx_sigmoid>, kSigmoid, "x·sigmoid(1.702x)"),
    everywhere(Act::gelu_apprx_sigmoid_dx, wide<gelu_apprx_sigmoid_dx>, kSigmoid, "derivative of gelu_apprx_sigmoid"),
    everywhere(Act::gelu_apprx_tanh, wide<gelu_apprx_tanh>, kGelu, "x/2·(1 + tanh(√(2/π)·(x + 0.044715x³)))"),
    {.act = Act::log,
     .run = wide<flat::log>,
     .min = 0x1p-64f,
     .max = 0x1p64f,
     .outside = log_outside,
     .table = kLog,
     .summary = "log x",
     .range = "[2^-64, 2^64]"},
    everywhere(Act::mish, wide<mish>, kLog, "x·tanh(softplus x)"),
    {.act = Act::reciprocal,
     .run = narrow<reciprocal>,
     .min = 0x1p-42f,
     .max = 0x1p42f,
     .mirrored = true,
     .outside = reciprocal_outside,
     .table = kSqrt,
     .summary = "1/x",
     .range = "±[2^-42, 2^42]"},
    everywhere(Act::relu, narrow<relu>, kEvery, "max(x, 0)"),
    everywhere(Act::prelu, narrow<copy>, kEvery, "x where x ≥ 0, else slope·x"),
    {.act = Act::rsqrt,
     .run = wide<rsqrt>,
     .min = 0x1p-87f,
     .max = 0x1p97f,
     .outside = rsqrt_outside,
     .table = kSqrt,
     .summary = "1/√x",
     .range = "[2^-87, 2^97]"},
    everywhere(Act::sigmoid, wide<flat::sigmoid<>>, kSigmoid, "1/(1 + exp(−x))"),
    everywhere(Act::sign, narrow<sign>, kEvery, "−1, 0 or 1"),
    everywhere(Act::silu, wide<silu>, kSigmoid, "x·sigmoid x"),
    everywhere(Act::silu_dx, wide<silu_dx>, kSigmoid, "sigmoid x·(1 + x·(1 − sigmoid x))"),
    {.act = Act::sin,
     .run = wide<flat::sin_pi>,
     .min = -kPiInside,
     .max = kPiInside,
     .outside = sin_outside,
     .table = kSin,
     .summary = "sin x",
     .range = "[-π, π]"},
    everywhere(Act::softplus, wide<softplus>, kLog, "log(1 + exp x)"),
    {.act = Act::sqrt,
     .run = narrow<square_root>,
     .min = 0x1p-116f,
     .max = 0x1p118f,
     .outside = sqrt_outside,
     .table = kSqrt,
     .summary = "√x",
     .range = "[2^-116, 2^118]"},
    everywhere(Act::square, narrow<square>, kEvery, "x²"),
    everywhere(Act::tanh, wide<flat::tanh>, kSigmoid, "tanh x"),
};
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kRows); ++i)
    if (static_cast<size_t>(kRows[i].act) != i || !kRows[i].run) return false;
  return std::size(kRows) == static_cast<size_t>(Act::tanh) + 1;
}
static_assert(in_order(), "kRows has one row per Act, in its order");

}  // namespace

bool ActRow::takes(float x) const {
  if (!ranged() || std::isnan(x)) return true;
  const float v = mirrored ? std::fabs(x) : x;
  return v >= min && v <= max;
}

const ActRow& activation(Act act) { return kRows[static_cast<size_t>(act)]; }
std::span<const ActRow> activations() { return kRows; }
std::span<const std::string_view> activation_table_sets() { return kTableSets; }

// ActRow::takes over a row, in a loop without branches.
static size_t count_outside(const ActRow& row, const float* in, size_t n) {
  if (!row.ranged()) return 0;
  const float min = row.min, max = row.max;
  const uint32_t keep = row.mirrored ? 0x7fffffff : 0xffffffff;  // drops the sign
  uint32_t count = 0;
  for (size_t i = 0; i < n; ++i) {
    const float v = std::bit_cast<float>(std::bit_cast<uint32_t>(in[i]) & keep);
    count += (v < min) | (v > max);
  }
  return count;
}

// Inputs outside are few or none: they go through the function with the rest, and are then put right one by one.
OutsideRange activate(Act act, const float* in, float* out, size_t n, float slope, Simd simd) {
  const ActRow& row = activation(act);
  if (act == Act::prelu) {
    for (size_t i = 0; i < n; ++i) out[i] = in[i] < 0 ? slope * in[i] : in[i];
    return {};
  }
  const size_t outside = count_outside(row, in, n);
  if (!outside) {
    row.run(in, out, n, simd);
    return {};
  }
  OutsideRange found{.count = outside};
  bool first = true;
  for (size_t i = 0; i < n; ++i) {
    const float x = in[i];
    if (row.takes(x)) {
      row.run(&x, out + i, 1, simd);
      continue;
    }
    if (first) found.first = x;
    first = false;
    out[i] = row.outside(x);
  }
  return found;
}

}  // namespace trine::arch
