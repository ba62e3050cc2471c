// Packed multiplies of every dtype, layout and size of edge against sums in f64 or wrapping integers; packed before or
// not; portable or vector code; any number of threads, with the same bits.
#include "host/gemm/gemm.h"

#include <string>

#include "base/pool.h"
#include "base/text.h"
#include "tests/host/matrices.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::host;

namespace {

struct Case {
  int64_t m, n, k, batch = 1;
  Dtype a = Dtype::f32, b = Dtype::f32, c = Dtype::f32;
  Layout a_layout = Layout::rows, b_layout = Layout::rows, c_layout = Layout::rows;
};

struct Made {
  Held a, b, c;
};

Made make(const Case& t) {
  Made out{held(t.a, t.batch, t.m, t.k, t.a_layout), held(t.b, t.batch, t.k, t.n, t.b_layout),
           held(t.c, t.batch, t.m, t.n, t.c_layout)};
  fill(out.a, 1);
  fill(out.b, 5);
  return out;
}

Gemm gemm_of(const Case& t, Made& x, Simd simd) {
  Gemm g{.m = t.m, .n = t.n, .k = t.k, .batch = t.batch, .a = x.a.matrix(), .b = x.b.matrix(), .c = x.c.out()};
  g.simd = simd;
  return g;
}

// f32 sums of k products of values up to 1 stray at most this far; then the result's own rounding.
double tolerance(const Case& t, double expected) {
  if (t.c == Dtype::f64 || t.c == Dtype::c128) return 1e-15 * double(t.k + 1);
  double f32 = 1e-7 * double(t.k + 10);
  if (t.c == Dtype::f32 || t.c == Dtype::c64) return f32;
  return f32 + std::ldexp(std::abs(expected), -row(t.c).format.mantissa_bits) +
         std::ldexp(1.0, 1 - row(t.c).format.bias - row(t.c).format.mantissa_bits);
}

uint64_t as_stored(Dtype dtype, uint64_t sum) {
  return dispatch_element(dtype, [&](auto e) -> uint64_t {
    if constexpr (decltype(e)::kIsInteger || decltype(e)::kIsBoolean) {
      return uint64_t(e.load(e.store(typename decltype(e)::Wide(sum))));
    } else {
      return 0;
    }
  });
}

// The first wrong element, or nothing. T is f64, complex f64, or u64 for integers.
template <class T>
std::string wrong_as(const Case& t, Made& x) {
  auto read = [](Held& h, int64_t i, int64_t r, int64_t c) -> T {
    if constexpr (std::is_same_v<T, uint64_t>) {
      return h.integer(i, r, c);
    } else if constexpr (std::is_same_v<T, double>) {
      return h.value(i, r, c).real();
    } else {
      return h.value(i, r, c);
    }
  };
  for (int64_t i = 0; i < t.batch; ++i) {
    std::vector<T> a, sums(size_t(t.m * t.n));
    for (int64_t k = 0; k < t.k; ++k) {
      std::vector<T> b;
      for (int64_t c = 0; c < t.n; ++c) b.push_back(read(x.b, i, k, c));
      for (int64_t r = 0; r < t.m; ++r) {
        const T v = read(x.a, i, r, k);
        for (int64_t c = 0; c < t.n; ++c) sums[size_t(r * t.n + c)] += v * b[size_t(c)];
      }
    }
    for (int64_t j = 0; j < t.m * t.n; ++j) {
      T expected = sums[size_t(j)], found = read(x.c, i, j / t.n, j % t.n);
      bool good = false;
      if constexpr (std::is_same_v<T, uint64_t>) {
        good = found == (expected = as_stored(t.c, expected));
      } else {
        good = std::abs(found - expected) <= tolerance(t, std::abs(expected));
      }
      if (!good) return cat("at ", i, ",", j / t.n, ",", j % t.n, ": ", std::real(found), " for ", std::real(expected));
    }
  }
  return "";
}

std::string wrong(const Case& t, Made& x) {
  if (is_integer(t.c) || t.c == Dtype::boolean) return wrong_as<uint64_t>(t, x);
  return is_complex(t.c) ? wrong_as<std::complex<double>>(t, x) : wrong_as<double>(t, x);
}

// Runs a case in all ways; they must be right, and of equal bits but for portable against vector code.
void run(const Case& t) {
  CAPTURE(t.m);
  CAPTURE(t.n);
  CAPTURE(t.k);
  CAPTURE(t.batch);
  CAPTURE(row(t.a).name);
  CAPTURE(row(t.b).name);
  CAPTURE(row(t.c).name);
  CAPTURE(int(t.a_layout));
  CAPTURE(int(t.b_layout));
  CAPTURE(int(t.c_layout));
  for (Simd simd : {Simd::portable, simd_best()}) {
    CAPTURE(int(simd));
    std::vector<std::byte> first;
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      ThreadPool::Use use(pool);
      for (bool packed : {false, true}) {
        CAPTURE(threads);
        CAPTURE(packed);
        Made x = make(t);
        const std::vector<std::byte> before = x.c.bytes;
        Gemm g = gemm_of(t, x, simd);
        auto b = pack_b(g.b, t.k, t.n, t.batch, simd);
        REQUIRE(b);
        if (packed) g.packed_b = &*b;
        REQUIRE(gemm(g));
        if (first.empty()) {
          CHECK(wrong(t, x) == "");
          first = x.c.bytes;
        }
        CHECK(bool(x.c.bytes == first));
      }
    }
  }
}

}  // namespace

TEST_CASE("gemm: sizes around every edge") {
  for (int64_t m : {1, 2, 5, 6, 7, 8, 9, 13, 150, 301}) {
    for (int64_t n : {1, 3, 15, 16, 17, 33, 200}) run({m, n, 37});
  }
  for (int64_t k : {0, 1, 2, 255, 256, 257, 600}) run({7, 50, k});
  run({0, 4, 4});
  run({4, 0, 4});
  run({4, 4, 4, 0});
}

TEST_CASE("gemm: layouts of A, B and C") {
  constexpr Layout kAll[] = {Layout::rows, Layout::columns, Layout::padded_rows, Layout::padded_columns,
                             Layout::spread};
  for (Dtype d : {Dtype::f32, Dtype::bf16, Dtype::s8, Dtype::f64}) {
    const Dtype out = d == Dtype::s8 ? Dtype::s32 : d;
    for (Layout a : kAll) {
      for (Layout b : kAll) run({14, 35, 70, 1, d, d, out, a, b, Layout::rows});
    }
    for (Layout c : kAll) run({14, 35, 70, 2, d, d, out, Layout::rows, Layout::columns, c});
  }
}

TEST_CASE("gemm: every dtype") {
  for (const DtypeRow& r : kDtypes) {
    if (r.kind == DtypeKind::packed) continue;
    for (int64_t m : {1, 20}) run({m, 21, 31, 1, r.dtype, r.dtype, r.dtype});
    auto family = family_of(r.dtype);
    REQUIRE(family);
    run({9, 40, 300, 1, r.dtype, r.dtype, row(*family).sum, Layout::columns, Layout::columns, Layout::rows});
  }
}

TEST_CASE("gemm: mixed dtypes of one family") {
  run({20, 30, 40, 1, Dtype::bf16, Dtype::f32, Dtype::f32});
  run({20, 30, 40, 1, Dtype::f32, Dtype::f8e4m3fn, Dtype::bf16});
  run({2, 30, 40, 1, Dtype::f16, Dtype::bf16, Dtype::f16});
  run({20, 30, 41, 1, Dtype::u8, Dtype::s8, Dtype::s32});
  run({3, 30, 41, 1, Dtype::s8, Dtype::u8, Dtype::s32});
}

TEST_CASE("gemm: a row by a matrix where it lies") {
  for (Dtype d : {Dtype::f32, Dtype::f64}) {
    for (Layout b : {Layout::rows, Layout::columns, Layout::padded_rows, Layout::padded_columns}) {
      for (int64_t n : {1, 3, 4, 7, 8, 9, 31, 64, 77, 300})
        for (int64_t k : {1, 5, 8, 13, 100, 1600}) run({1, n, k, 1, d, d, d, Layout::rows, b, Layout::rows});
      run({1, 70, 90, 5, d, d, d, Layout::columns, b, Layout::columns});
      run({1, 600, 900, 1, d, d, d, Layout::spread, b, Layout::rows});
    }
  }
  run({1, 50, 60, 1, Dtype::f32, Dtype::f32, Dtype::bf16});
}

TEST_CASE("gemm: few rows by panels in cache, several at once") {
  for (int64_t m : {1, 2, 6, 7})
    for (int64_t n : {64, 65, 128, 200}) run({m, n, 900});
}

TEST_CASE("gemm: batches") {
  for (int64_t batch : {1, 2, 3, 7}) {
    run({10, 20, 30, batch});
    run({1, 20, 30, batch, Dtype::bf16, Dtype::bf16, Dtype::bf16});
  }
}

TEST_CASE("gemm: deep sums in parts, small results split, tall and wide") {
  run({3, 5, 20000, 1, Dtype::s8, Dtype::s8, Dtype::s32});
  run({20, 5, 20000});
  run({150, 260, 8500, 1, Dtype::bf16, Dtype::bf16, Dtype::bf16});
  run({1000, 40, 20});
  run({30, 2000, 20});
}

TEST_CASE("gemm: one B packed for all items of a batch") {
  Case t{5, 20, 30, 4};
  Made x = make(t), y = make(t);
  for (int64_t i = 1; i < t.batch; ++i) std::memcpy(x.b.at(i, 0, 0), x.b.at(0, 0, 0), size_t(x.b.batch_stride * 4));
  Gemm g = gemm_of(t, x, simd_best());
  auto b = pack_b(y.b.matrix(), t.k, t.n);
  REQUIRE(b);
  g.packed_b = &*b;
  REQUIRE(gemm(g));
  CHECK(wrong(t, x) == "");
}

TEST_CASE("gemm: results do not depend on the number of rows beside") {
  Case t{40, 50, 700};
  Made whole = make(t);
  REQUIRE(gemm(gemm_of(t, whole, simd_best())));
  auto b = pack_b(whole.b.matrix(), t.k, t.n);
  REQUIRE(b);
  for (int64_t m = 1; m <= 8; ++m) {
    Case few = t;
    few.m = m;
    Made x = make(few);
    Gemm g = gemm_of(few, x, simd_best());
    g.packed_b = &*b;
    REQUIRE(gemm(g));
    CHECK(std::memcmp(x.c.at(0, 0, 0), whole.c.at(0, 0, 0), size_t(m * t.n * 4)) == 0);
  }
}

TEST_CASE("gemm: the epilogue sees every element once, in its tile") {
  struct Ctx {
    std::vector<int> seen;
    int64_t n;
  };
  for (Case t : {Case{3, 50, 40, 2}, Case{200, 300, 600, 2}, Case{20, 5, 20000}, Case{1, 700, 300, 3}, Case{4, 4, 0}}) {
    for (Dtype out : {Dtype::f32, Dtype::bf16}) {
      for (bool packed : {false, true}) {
        t.c = out;
        Made x = make(t), y = make(t);
        Gemm g = gemm_of(t, x, simd_best());
        REQUIRE(gemm(g));
        Ctx ctx{std::vector<int>(size_t(t.batch * t.m * t.n)), t.n};
        Gemm h = gemm_of(t, y, simd_best());
        auto b = pack_b(h.b, t.k, t.n, t.batch);
        REQUIRE(b);
        if (packed) h.packed_b = &*b;
        h.epilogue.ctx = &ctx;
        h.epilogue.run = [](void* p, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld) {
          auto& c = *static_cast<Ctx*>(p);
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < cols; ++j) {
              ++c.seen[size_t((row0 + i) * c.n + col0 + j)];
              tile[i * ld + j] = -tile[i * ld + j];
            }
          }
        };
        REQUIRE(gemm(h));
        CHECK(ctx.seen == std::vector<int>(ctx.seen.size(), 1));
        for (int64_t i = 0; i < t.batch; ++i) {
          for (int64_t r = 0; r < t.m; ++r) {
            for (int64_t c = 0; c < t.n; ++c) REQUIRE(x.c.value(i, r, c) == -y.c.value(i, r, c));
          }
        }
      }
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("gemm: AVX-512 gives the bits of AVX2, panel by panel and several at once") {
  if (simd_best() != Simd::avx2 || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw")) return;
  constexpr int64_t kDepth = 67, kWidth = 16, kLd = kPanelsWide * kWidth + 3;
  for (PanelFormat format : {PanelFormat::floats, PanelFormat::bf16}) {
    const MicroKernels &narrow = *micro_kernels_avx2(format), &wide = *micro_kernels_avx512(format);
    const int64_t step = format == PanelFormat::bf16 ? 32 : 64;
    std::vector<float> a(size_t(kDepth * kRowsMax)), start(size_t(kRowsMax * kLd));
    std::vector<std::byte> b(size_t(kPanelsWide * kDepth * step));
    for (size_t i = 0; i < a.size(); ++i) a[i] = float(i % 17) / 7 - 1;
    for (size_t i = 0; i < start.size(); ++i) start[i] = float(i % 5) / 3;
    for (size_t i = 0; i < b.size(); ++i) b[i] = std::byte(i % 2 == 0 ? i % 251 : 0x3e + i % 3);
    for (int64_t rows = 1; rows <= kRowsMax; ++rows) {
      for (bool add : {false, true}) {
        std::vector<float> want = start, each = start, all = start;
        for (int64_t p = 0; p < kPanelsWide; ++p) {
          const std::byte* panel = b.data() + p * kDepth * step;
          narrow.rows[rows](a.data(), panel, kDepth, want.data() + p * kWidth, kLd, add, {panel, 0});
          wide.rows[rows](a.data(), panel, kDepth, each.data() + p * kWidth, kLd, add, {panel, 0});
        }
        std::vector<float> plain(a.size()), strided = start;  // the same rows, each whole
        for (int64_t d = 0; d < kDepth; ++d) {
          for (int64_t r = 0; r < rows; ++r) plain[size_t(r * kDepth + d)] = a[size_t(d * rows + r)];
        }
        const auto run = [&](Rows from, std::vector<float>& to) {
          wide.wide[rows](from, b.data(), kDepth * step, kDepth, to.data(), kLd, add, {b.data(), 0});
        };
        run({a.data(), 1, rows}, all);
        run({plain.data(), kDepth, 1}, strided);
        CHECK(std::memcmp(want.data(), each.data(), want.size() * 4) == 0);
        CHECK(std::memcmp(want.data(), all.data(), want.size() * 4) == 0);
        CHECK(std::memcmp(want.data(), strided.data(), want.size() * 4) == 0);
      }
    }
  }
}
#endif

TEST_CASE("gemm: what it refuses") {
  Case t{4, 4, 4};
  Made x = make(t);
  Gemm g = gemm_of(t, x, simd_best());
  g.a.dtype = Dtype::s32;
  CHECK(gemm(g).error().message == "cannot multiply matrices of s32 by f32 into f32");
  g = gemm_of(t, x, simd_best());
  g.c.dtype = Dtype::f64;
  CHECK(gemm(g).error().code == Code::unsupported);
  g = gemm_of(t, x, simd_best());
  g.c.data = nullptr;
  CHECK(gemm(g).error().message == "a multiply with neither a result nor an epilogue");
  auto b = pack_b(g.b, 4, 3);
  REQUIRE(b);
  g = gemm_of(t, x, simd_best());
  g.packed_b = &*b;
  CHECK(gemm(g).error().message == "B was packed as 1 x 4x3; expected 1 (or 1) x 4x4");
  g.m = -1;
  CHECK(gemm(g).error().code == Code::invalid);
  CHECK(!family_of(Dtype::f8e5m2_x4));
}
