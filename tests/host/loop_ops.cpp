// Every loop op on every type it takes, with special values, vectors and single numbers; conversions between all types.
#include <cmath>

#include "base/text.h"
#include "host/loops/ops.h"
#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;
using test::check_program;
using test::kBuilds;

namespace {

const Dtype kTypes[] = {Dtype::f32, Dtype::f64, Dtype::boolean, Dtype::s2,  Dtype::u2,
                        Dtype::s4,  Dtype::u4,  Dtype::s8,      Dtype::u8,  Dtype::s16,
                        Dtype::u16, Dtype::s32, Dtype::u32,     Dtype::s64, Dtype::u64};

// `uniform` bit k: input k is one number.
LoopProgram one_op(LoopOp op, Dtype type, int uniform, int64_t n) {
  LoopBuilder t;
  t.dim(n);
  const LoopOpRow& r = row(op);
  LoopValue in[3] = {};
  for (int k = 0; k < r.inputs; ++k) {
    Dtype d = r.kind == LoopOpClass::select && k == 0 ? Dtype::boolean : type;
    in[k] = t.load(t.input(d, n, {uniform >> k & 1 ? 0 : 1}));
  }
  LoopValue v = r.inputs == 1   ? t.unary(op, in[0])
                : r.inputs == 2 ? t.binary(op, in[0], in[1])
                                : t.ternary(op, in[0], in[1], in[2]);
  t.store(t.output(t.type_of(v), n, {1}), v);
  return t.take();
}

bool takes(const LoopOpRow& r, Dtype d) {
  int one = is_floating(d) ? 1 : is_integer(d) ? 2 : 4;
  return (int(r.types) & one) != 0;
}

// Of f32, computed in f64 and rounded once.
bool is_through_f64(LoopOp op) {
  return op == LoopOp::pow || op == LoopOp::atan2 || op == LoopOp::cbrt || (op >= LoopOp::asin && op <= LoopOp::atanh);
}

// In ulp; the ops not named are exact.
double allowed(LoopOp op, bool wide) {
  if (op == LoopOp::digamma) return wide ? 1e5 : 16;  // near its zeros
  if (op == LoopOp::erf_inv) return wide ? 1e6 : 64;  // near its zero XLA's approximation, too, loses some bits
  if (op == LoopOp::erfc) return wide ? 4 : 64;       // builds without a fused multiply-add round x^2
  if (op == LoopOp::rsqrt || op == LoopOp::logistic || op == LoopOp::lgamma) return wide ? 64 : 4;
  if (is_through_f64(op) && !wide) return 1;
  if ((op == LoopOp::sin || op == LoopOp::cos) && !wide) return 1;
  if ((op == LoopOp::exp || op == LoopOp::tanh) && wide) return 2;  // of the C library's, which is off by 1 itself
  bool elementary = (op >= LoopOp::cbrt && op <= LoopOp::digamma) || op == LoopOp::pow || op == LoopOp::atan2;
  return elementary ? 4 : 0;
}

}  // namespace

TEST_CASE("every op on every type") {
  for (const auto& build : kBuilds) {
    for (int o = int(LoopOp::add); o < int(LoopOp::convert); ++o) {
      const LoopOpRow& r = row(LoopOp(o));
      for (Dtype d : kTypes) {
        if (!takes(r, d)) continue;
        for (int uniform = 0; uniform < 1 << r.inputs; ++uniform) {
          INFO(std::string(r.name), " ", std::string(row(d).name), " ", uniform);
          double ulps = is_floating(d) ? allowed(r.op, d == Dtype::f64) : 0;
          CHECK(check_program(one_op(r.op, d, uniform, 403), 5, build, ulps, 0, true) == "");
        }
      }
    }
  }
}

TEST_CASE("quotients and remainders by constants, powers of two among them") {
  for (const auto& build : kBuilds)
    for (Dtype d : kTypes)
      for (LoopOp op : {LoopOp::div, LoopOp::rem})
        for (int by : {0, 1, 2, 3, 8, 64, -2}) {
          if (!is_integer(d)) continue;
          LoopBuilder t;
          t.dim(403);
          const LoopValue x = t.load(t.input(d, 403, {1}));
          t.store(t.output(d, 403, {1}), t.binary(op, x, t.constant(d, by)));
          INFO(std::string(row(op).name), " ", std::string(row(d).name), " by ", by);
          CHECK(check_program(t.take(), 5, build) == "");
        }
}

TEST_CASE("every op and conversion on one and on a few numbers of 64 bits among others") {
  const Dtype types[] = {Dtype::f32, Dtype::f64, Dtype::boolean, Dtype::s32, Dtype::u32, Dtype::s64, Dtype::u64};
  for (const auto& build : kBuilds)
    for (int64_t n : {1, 5})
      for (uint64_t seed = 1; seed < 12; ++seed) {
        for (int o = int(LoopOp::add); o < int(LoopOp::convert); ++o)
          for (Dtype d : types) {
            const LoopOpRow& r = row(LoopOp(o));
            if (!takes(r, d)) continue;
            INFO(std::string(r.name), " ", std::string(row(d).name), " ", n, " ", seed);
            const double ulps = is_floating(d) ? allowed(r.op, d == Dtype::f64) : 0;
            CHECK(check_program(one_op(r.op, d, 0, n), seed, build, ulps, 0, true) == "");
          }
        for (Dtype from : types)
          for (Dtype to : types) {
            LoopBuilder t;
            t.dim(n);
            const LoopValue wide = t.convert(t.load(t.input(Dtype::s64, n, {1})), Dtype::f64);
            t.store(t.output(Dtype::f64, n, {1}), wide);
            t.store(t.output(to, n, {1}), t.convert(t.load(t.input(from, n, {1})), to));
            INFO(std::string(row(from).name), " to ", std::string(row(to).name), " ", n, " ", seed);
            CHECK(check_program(t.take(), seed, build, 0, 0, true) == "");
          }
      }
}

TEST_CASE("functions computed in f64 have the same bits in every build") {
  for (int o = int(LoopOp::add); o < int(LoopOp::convert); ++o) {
    const LoopOpRow& r = row(LoopOp(o));
    const bool is_wide = r.op == LoopOp::exp || r.op == LoopOp::tanh || r.op == LoopOp::logistic;
    if (!is_through_f64(r.op) && !is_wide) continue;
    const LoopProgram p = one_op(r.op, is_wide ? Dtype::f64 : Dtype::f32, 0, 4003);
    std::string first;
    for (const auto& build : kBuilds) {
      INFO(std::string(r.name));
      auto kernel = host::prepare(p, build);
      REQUIRE(kernel);
      test::LoopBuffers buffers = test::random_buffers(p, 9, true);
      host::run(*kernel, buffers.pointers());
      const auto& out = buffers.data.back();
      std::string bits(reinterpret_cast<const char*>(out.data()), out.size());
      if (first.empty()) first = bits;
      CHECK(bits == first);
    }
  }
}

TEST_CASE("lanes of 64 bits: AVX-512's kernels give AVX2's bits") {
  if (!has_avx512_dq()) return;
  const host::LoopKernels &wide = host::loop_kernels_avx512(), &narrow = host::loop_kernels_avx2();
  constexpr int64_t n = 403;
  const Dtype types[] = {Dtype::f64, Dtype::s64, Dtype::u64};
  for (Dtype d : types) {
    const host::Lane lane = host::lane_of(d);
    LoopBuilder t;
    t.dim(n);
    for (int k = 0; k < 3; ++k) {
      const LoopValue x = t.load(t.input(d, n, {1}));
      t.store(t.output(d, n, {1}), x);
    }
    test::LoopBuffers in = test::random_buffers(t.program(), 7, true);
    const auto given = in.pointers();
    std::vector<int32_t> truth(n);
    for (int64_t i = 0; i < n; ++i) truth[size_t(i)] = -int32_t(i % 3 == 0);
    const host::LoopAux aux{.start = 3, .bits = 64, .exponent = 8, .mantissa = 10};
    auto bits_of = [&](host::LoopFn f, const void* a, const void* b, const void* c) {
      std::vector<int64_t> out(n);
      f(out.data(), a, b, c, n, aux);
      return out;
    };
    for (int o = int(LoopOp::add); o < int(LoopOp::convert); ++o) {
      const LoopOpRow& r = row(LoopOp(o));
      if (!takes(r, d)) continue;
      const bool selects = r.op == LoopOp::select;
      const void* a = selects ? truth.data() : given[0];
      for (int uniform = 0; uniform < 8; ++uniform) {
        INFO(std::string(r.name), " ", std::string(row(d).name), " ", uniform);
        const host::LoopFnKey key{r.op, lane, lane, (uniform & 1) != 0, (uniform & 2) != 0, (uniform & 4) != 0};
        const host::LoopFn f = wide.find(key), g = narrow.find(key);
        REQUIRE((f == nullptr) == (g == nullptr));
        if (f) CHECK((f != g));
        if (f) CHECK(bits_of(f, a, given[2], given[4]) == bits_of(g, a, given[2], given[4]));
      }
    }
    for (int o = int(LoopOp::reduce_sum); o <= int(LoopOp::reduce_xor); ++o) {
      if (!takes(row(LoopOp(o)), d)) continue;
      INFO(std::string(row(LoopOp(o)).name), " ", std::string(row(d).name));
      const host::LoopFn f = wide.accumulate(LoopOp(o), lane), g = narrow.accumulate(LoopOp(o), lane);
      CHECK((f != g));
      CHECK(bits_of(f, given[0], nullptr, nullptr) == bits_of(g, given[0], nullptr, nullptr));
    }
  }
}

TEST_CASE("tanh is never above 1, tanh and erf of far numbers are 1") {
  for (LoopOp op : {LoopOp::tanh, LoopOp::erf}) {
    const int64_t n = 4001;
    const LoopProgram p = one_op(op, Dtype::f32, 0, n);
    for (const auto& build : kBuilds) {
      auto kernel = host::prepare(p, build);
      REQUIRE(kernel);
      std::vector<float> in(n), out(n);
      for (int64_t i = 0; i < n; ++i) in[i] = float(i % 2 ? -1 : 1) * (7 + float(i) / 1000);
      void* operands[] = {in.data(), out.data()};
      host::run(*kernel, operands);
      for (int64_t i = 0; i < n; ++i) {
        const bool is_far = op == LoopOp::erf || std::fabs(in[i]) > 9.1f;
        CHECK(std::fabs(out[i]) <= 1);
        if (is_far) CHECK(out[i] == std::copysign(1.0f, in[i]));
      }
    }
  }
}

TEST_CASE("s64 is divided exactly, near quotients that are whole and near the limits of f64") {
  std::vector<int64_t> a, b;
  for (int64_t by : {1, -1, 3, 7, -7, 1000, 1 << 20, 0})
    for (int shift : {0, 3, 20, 31, 40, 49, 50, 51, 53, 62})
      for (int64_t off : {-8, -7, -1, 0, 1, 6, 7})
        for (int64_t sign : {1, -1}) a.push_back(sign * ((int64_t{1} << shift) / 7 * 7 + off)), b.push_back(by);
  a.push_back(INT64_MIN), b.push_back(-1);
  for (size_t i = 0; i < 200; ++i)  // parts of small numbers alone
    a.push_back((int64_t{1} << 50) - 1 - int64_t(i)), b.push_back(i % 2 ? 3 + int64_t(i) : -1 - int64_t(i));
  const auto n = int64_t(a.size());
  LoopBuilder t;
  t.dim(n);
  LoopValue x = t.load(t.input(Dtype::s64, n, {1})), y = t.load(t.input(Dtype::s64, n, {1}));
  t.store(t.output(Dtype::s64, n, {1}), t.binary(LoopOp::div, x, y));
  t.store(t.output(Dtype::s64, n, {1}), t.binary(LoopOp::rem, x, y));
  for (const auto& build : kBuilds) {
    auto kernel = host::prepare(t.program(), build);
    REQUIRE(kernel);
    std::vector<int64_t> whole(a.size()), rest(a.size());
    void* operands[] = {a.data(), b.data(), whole.data(), rest.data()};
    host::run(*kernel, operands);
    for (size_t i = 0; i < a.size(); ++i) {
      const bool wraps = a[i] == INT64_MIN && b[i] == -1;
      INFO(a[i], " ", b[i]);
      CHECK(whole[i] == (b[i] == 0 ? -1 : wraps ? a[i] : a[i] / b[i]));
      CHECK(rest[i] == (b[i] == 0 ? a[i] : wraps ? 0 : a[i] % b[i]));
    }
  }
}

TEST_CASE("conversions and bit casts between all types") {
  for (const auto& build : kBuilds) {
    for (Dtype from : kTypes) {
      for (Dtype to : kTypes) {
        for (bool cast : {false, true}) {
          bool same = bits(from) == bits(to) && from != Dtype::boolean && to != Dtype::boolean;
          if (cast && !same) continue;
          LoopBuilder t;
          t.dim(301);
          LoopValue x = t.load(t.input(from, 301, {1}));
          t.store(t.output(to, 301, {1}), cast ? t.bit_cast(x, to) : t.convert(x, to));
          INFO(std::string(row(from).name), " to ", std::string(row(to).name), cast);
          CHECK(check_program(t.program(), 3, build, 0, 0, true) == "");
        }
      }
    }
  }
}

TEST_CASE("floats saturate to integers, NaN gives 0") {
  LoopBuilder t;
  t.dim(8);
  LoopValue x = t.load(t.input(Dtype::f32, 8, {1}));
  t.store(t.output(Dtype::s8, 8, {1}), t.convert(x, Dtype::s8));
  t.store(t.output(Dtype::u32, 8, {1}), t.convert(x, Dtype::u32));
  for (const auto& build : kBuilds) {
    auto kernel = host::prepare(t.program(), build);
    REQUIRE(kernel);
    float in[8] = {300, -300, NAN, 3e9f, -0.9f, 1.9f, INFINITY, -INFINITY};
    int8_t narrow[8];
    uint32_t wide[8];
    void* operands[] = {in, narrow, wide};
    host::run(*kernel, operands);
    CHECK(std::vector<int>(narrow, narrow + 8) == std::vector<int>{127, -128, 0, 127, 0, 1, 127, -128});
    CHECK(std::vector<uint32_t>(wide, wide + 8) == std::vector<uint32_t>{300, 0, 0, 3000000000u, 0, 1, UINT32_MAX, 0});
  }
}

TEST_CASE("memory of every dtype, side by side and apart") {
  for (const auto& build : kBuilds) {
    for (const DtypeRow& r : kDtypes) {
      if (!is_loop_dtype(r.dtype)) continue;
      for (int64_t stride : {1, 2, -1}) {
        LoopBuilder t;
        t.dim(301);
        int64_t offset = stride < 0 ? 300 : 0;
        LoopValue x = t.load(t.input(r.dtype, 602, {stride}, offset));
        t.store(t.output(r.dtype, 602, {-stride}, stride < 0 ? 0 : 300 * stride), x);
        INFO(std::string(r.name), " ", stride);
        CHECK(check_program(t.program(), 3, build, 0, 0, true) == "");
      }
    }
  }
}

TEST_CASE("rounding inside a program") {
  for (const auto& build : kBuilds) {
    for (Dtype type : {Dtype::f32, Dtype::f64}) {
      for (const DtypeRow& r : kDtypes) {
        if (r.kind != DtypeKind::floating || r.bits > 32) continue;
        LoopBuilder t;
        t.dim(301);
        LoopValue x = t.load(t.input(type, 301, {1}));
        t.store(t.output(type, 301, {1}), t.round_to(x, r.dtype));
        INFO(std::string(r.name));
        CHECK(check_program(t.program(), 3, build, 0, 0, true) == "");
      }
      for (auto [e, m] : {std::pair{5, 10}, {8, 7}, {4, 3}, {8, 23}, {11, 52}, {2, 0}, {8, 0}}) {
        LoopBuilder t;
        t.dim(301);
        LoopValue x = t.load(t.input(type, 301, {1}));
        t.store(t.output(type, 301, {1}), t.reduce_precision(x, e, m));
        INFO(e, " ", m);
        CHECK(check_program(t.program(), 3, build, 0, 0, true) == "");
      }
    }
  }
}
