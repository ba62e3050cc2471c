// Speed of the packed multiply: per cent of this run's own fused multiply-add peak, or GB/s of weights for few rows.
// Everything is taken alternately in the same run, least time of each. OpenBLAS, where it is installed, stands beside.
#include "host/gemm/gemm.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "bench/measure.h"

using namespace trine;
using namespace trine::host;

namespace {

struct Case {
  int64_t m, n, k;
  Dtype dtype = Dtype::f32;
  int weights = 1;  // matrices in turn, so that they come from memory
};
const Case kCases[] = {
    {512, 512, 512},
    {1024, 1024, 1024},
    {2048, 2048, 2048},
    {128, 3072, 768},
    {128, 768, 3072},
    {128, 768, 768},
    {1024, 3072, 768},
    {512, 2304, 768},
    {1024, 1024, 1024, Dtype::bf16},
    {128, 3072, 768, Dtype::bf16},
    {1024, 3072, 768, Dtype::bf16},
    {128, 3072, 768, Dtype::f16},
    {1024, 3072, 768, Dtype::f8e4m3fn},
    {1024, 1024, 1024, Dtype::s8},
    {128, 3072, 768, Dtype::s8},
    {512, 512, 512, Dtype::f64},
    {512, 512, 512, Dtype::c64},
    {512, 512, 512, Dtype::s32},
    {1, 3072, 768, Dtype::f32, 48},
    {1, 768, 3072, Dtype::f32, 48},
    {2, 3072, 768, Dtype::f32, 48},
    {4, 3072, 768, Dtype::f32, 48},
    {8, 3072, 768, Dtype::f32, 48},
    {16, 3072, 768, Dtype::f32, 48},
    {1, 3072, 768, Dtype::bf16, 48},
    {8, 3072, 768, Dtype::bf16, 48},
    {1, 3072, 768, Dtype::f16, 48},
    {1, 3072, 768, Dtype::f8e4m3fn, 48},
    {1, 3072, 768, Dtype::s8, 48},
};

struct Timed {
  double packed = std::numeric_limits<double>::max(), plain = packed, blas = packed;  // s a call
  double peak = 0;                                                                    // GFLOP/s
};

struct Bench {
  explicit Bench(const Case& c)
      : t(c),
        a(size_t(c.m * c.k * bytes(c.dtype))),
        b(size_t(c.weights * c.k * c.n * bytes(c.dtype))),
        out(size_t(c.m * c.n * 16)) {
    for (auto* v : {&a, &b}) {
      for (size_t i = 0; i < v->size(); ++i) (*v)[i] = std::byte(is_floating(c.dtype) ? (i * 7) % 61 : i % 251);
    }
    for (int i = 0; i < t.weights; ++i) packed.push_back(*pack_b(weight(i), t.k, t.n));
  }
  Matrix weight(int i) const { return {b.data() + i * t.k * t.n * bytes(t.dtype), t.dtype, t.n, 1}; }
  void run(int i, bool with_packed) {
    Gemm g{.m = t.m, .n = t.n, .k = t.k, .a = {a.data(), t.dtype, t.k, 1}, .b = weight(i)};
    if (with_packed) g.packed_b = &packed[size_t(i)];
    g.c = {out.data(), is_floating(t.dtype) && t.dtype != Dtype::f64 ? Dtype::f32 : row(*family_of(t.dtype)).sum, t.n};
    if (!gemm(g)) std::abort();
  }

  Case t;
  std::vector<std::byte> a, b, out;
  std::vector<PackedMatrix> packed;
};

// All weights in turn.
template <class F>
double per_call(const Case& t, F&& call) {
  return time_of(0.03,
                 [&] {
                   for (int i = 0; i < t.weights; ++i) call(i);
                 }) /
         t.weights;
}

Timed measure(const Case& t, int rounds, Sgemm sgemm) {
  Bench bench(t);
  Timed best;
  for (int round = 0; round < rounds; ++round) {
    best.peak = std::max(best.peak, fma_peak());
    best.packed = std::min(best.packed, per_call(t, [&](int i) { bench.run(i, true); }));
    best.plain = std::min(best.plain, per_call(t, [&](int i) { bench.run(i, false); }));
    if (!sgemm || t.dtype != Dtype::f32) continue;
    best.blas =
        std::min(best.blas, per_call(t, [&](int i) {
                   auto* b = static_cast<const float*>(bench.weight(i).data);
                   sgemm(101, 111, 111, int(t.m), int(t.n), int(t.k), 1, reinterpret_cast<float*>(bench.a.data()),
                         int(t.k), b, int(t.n), 0, reinterpret_cast<float*>(bench.out.data()), int(t.n));
                 }));
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 8;
  const char* only = argc > 2 ? argv[2] : "";  // part of "128x3072x768 f32"
  const Sgemm sgemm = find_sgemm();
  std::vector<std::vector<std::string>> table = {
      {"m", "n", "k", "dtype", "packed GF/s", "% peak", "GB/s", "not packed", "% peak", "OpenBLAS", "% peak"}};
  for (const Case& t : kCases) {
    if (!std::strstr(cat(t.m, "x", t.n, "x", t.k, " ", row(t.dtype).name).c_str(), only)) continue;
    Timed best = measure(t, rounds, sgemm);
    double flop = 2.0 * double(t.m * t.n * t.k) / 1e9, gb = double(t.n * t.k * bytes(t.dtype)) / 1e9;
    std::vector<std::string> line = {cat(t.m), cat(t.n), cat(t.k), std::string(row(t.dtype).name)};
    auto speed = [&](double seconds) {
      line.push_back(fixed(flop / seconds, 0));
      line.push_back(fixed(100 * flop / seconds / best.peak, 0));
    };
    speed(best.packed);
    line.push_back(fixed(gb / best.packed, 1));
    speed(best.plain);
    if (sgemm && t.dtype == Dtype::f32) speed(best.blas);
    line.resize(table[0].size());
    table.push_back(line);
  }
  std::printf("%d threads\n%s", pool_threads(), columns(table, "11101111111").c_str());
}
