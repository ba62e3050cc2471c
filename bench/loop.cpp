// Speed of loop programs, one thread and all: fused chains, reductions, transposes, and the cost of a tiny program.
// Each row's executors alternate in the same run; least time of each. `bench_loop [rounds] [part of a row's name]`.
#include "host/loops/loop.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/number/random.h"
#include "base/pool.h"
#include "base/text.h"

using namespace trine;
using namespace trine::arch;

namespace {

struct Case {
  std::string name = {};
  LoopProgram program = {};
};

LoopValue k(LoopBuilder& t, double v) { return t.constant(Dtype::f32, v); }
LoopValue mul(LoopBuilder& t, LoopValue a, LoopValue b) { return t.binary(LoopOp::mul, a, b); }
LoopValue add(LoopBuilder& t, LoopValue a, LoopValue b) { return t.binary(LoopOp::add, a, b); }

LoopValue gelu_tanh(LoopBuilder& t, LoopValue u) {
  LoopValue cubic = add(t, u, mul(t, k(t, 0.044715), mul(t, u, mul(t, u, u))));
  return mul(t, mul(t, k(t, 0.5), u), add(t, k(t, 1), t.unary(LoopOp::tanh, mul(t, k(t, 0.7978845608), cubic))));
}

LoopProgram gelu_layer_norm(int64_t rows, int64_t columns, Dtype d) {
  LoopBuilder t;
  t.dim(rows);
  t.dim(columns, true);
  uint32_t x = t.input(d, rows * columns, {columns, 1}), w = t.input(d, columns, {0, 1}),
           b = t.input(d, columns, {0, 1}), out = t.output(d, rows * columns, {columns, 1});
  LoopValue h = gelu_tanh(t, add(t, mul(t, t.load(x), t.load(w)), t.load(b)));
  LoopValue sum = t.unary(LoopOp::reduce_sum, h);
  t.once();
  LoopValue mean = mul(t, sum, k(t, 1.0 / double(columns)));
  t.each();
  LoopValue off = t.binary(LoopOp::sub, h, mean), squares = t.unary(LoopOp::reduce_sum, mul(t, off, off));
  t.once();
  LoopValue scale = t.unary(LoopOp::rsqrt, add(t, mul(t, squares, k(t, 1.0 / double(columns))), k(t, 1e-5)));
  t.each();
  t.store(out, add(t, mul(t, mul(t, off, scale), t.load(w)), t.load(b)));
  return t.take();
}

LoopProgram layer_norm(int64_t rows, int64_t columns) {
  LoopBuilder t;
  t.dim(rows);
  t.dim(columns, true);
  uint32_t x = t.input(Dtype::f32, rows * columns, {columns, 1}), w = t.input(Dtype::f32, columns, {0, 1}),
           out = t.output(Dtype::f32, rows * columns, {columns, 1});
  LoopValue v = t.load(x), sum = t.unary(LoopOp::reduce_sum, v);
  t.once();
  LoopValue mean = mul(t, sum, k(t, 1.0 / double(columns)));
  t.each();
  LoopValue off = t.binary(LoopOp::sub, v, mean), squares = t.unary(LoopOp::reduce_sum, mul(t, off, off));
  t.once();
  LoopValue scale = t.unary(LoopOp::rsqrt, add(t, mul(t, squares, k(t, 1.0 / double(columns))), k(t, 1e-5)));
  t.each();
  t.store(out, mul(t, mul(t, off, scale), t.load(w)));
  return t.take();
}

LoopProgram softmax(int64_t rows, int64_t columns) {
  LoopBuilder t;
  t.dim(rows);
  t.dim(columns, true);
  uint32_t x = t.input(Dtype::f32, rows * columns, {columns, 1}),
           out = t.output(Dtype::f32, rows * columns, {columns, 1});
  LoopValue v = t.load(x), top = t.unary(LoopOp::reduce_max, v);
  t.each();
  LoopValue e = t.unary(LoopOp::exp, t.binary(LoopOp::sub, v, top)), sum = t.unary(LoopOp::reduce_sum, e);
  t.each();
  t.store(out, t.binary(LoopOp::div, e, sum));
  return t.take();
}

LoopProgram reduction(LoopOp op, int64_t outer, int64_t inner, bool rows) {
  LoopBuilder t;
  t.dim(outer, !rows);
  t.dim(inner, rows);
  uint32_t x = t.input(Dtype::f32, outer * inner, {inner, 1}),
           out = t.output(Dtype::f32, rows ? outer : inner, {rows ? 1 : 0, rows ? 0 : 1});
  LoopValue r = t.unary(op, t.load(x));
  t.once();
  t.store(out, r);
  return t.take();
}

LoopProgram map(int64_t n, Dtype d, LoopOp op) {
  LoopBuilder t;
  t.dim(n);
  LoopValue x = t.load(t.input(d, n, {1}));
  LoopValue y = row(op).inputs == 1 ? t.unary(op, x) : t.binary(op, x, t.load(t.input(d, n, {1})));
  t.store(t.output(d, n, {1}), y);
  return t.take();
}

LoopProgram gelu(int64_t n, Dtype d, bool erf) {
  LoopBuilder t;
  t.dim(n);
  LoopValue x = t.load(t.input(d, n, {1}));
  LoopValue y = erf ? mul(t, mul(t, k(t, 0.5), x), add(t, k(t, 1), t.unary(LoopOp::erf, mul(t, x, k(t, 0.70710678)))))
                    : gelu_tanh(t, x);
  t.store(t.output(d, n, {1}), y);
  return t.take();
}

LoopProgram transpose(int64_t rows, int64_t columns, Dtype d, bool adds) {
  LoopBuilder t;
  t.dim(columns);
  t.dim(rows);
  LoopValue x = t.load(t.input(d, rows * columns, {1, columns}));
  if (adds) x = add(t, x, t.load(t.input(d, rows * columns, {rows, 1})));
  t.store(t.output(d, rows * columns, {rows, 1}), x);
  return t.take();
}

// [batch, seq, heads, size] to [batch, heads, seq, size]
LoopProgram heads(int64_t seq, int64_t count, int64_t size) {
  LoopBuilder t;
  t.dim(count);
  t.dim(seq);
  t.dim(size);
  int64_t n = seq * count * size;
  t.store(t.output(Dtype::f32, n, {seq * size, size, 1}), t.load(t.input(Dtype::f32, n, {size, count * size, 1})));
  return t.take();
}

LoopProgram adam(int64_t n) {
  LoopBuilder t;
  t.dim(n);
  auto in = [&] { return t.load(t.input(Dtype::f32, n, {1})); };
  auto out = [&](LoopValue v) { t.store(t.output(Dtype::f32, n, {1}), v); };
  LoopValue p = in(), g = in(), m = in(), v = in();
  LoopValue m1 = add(t, mul(t, m, k(t, 0.9)), mul(t, g, k(t, 0.1)));
  LoopValue v1 = add(t, mul(t, v, k(t, 0.999)), mul(t, mul(t, g, g), k(t, 0.001)));
  LoopValue root = add(t, t.unary(LoopOp::sqrt, v1), k(t, 1e-8));
  out(t.binary(LoopOp::sub, p, mul(t, k(t, 1e-3), t.binary(LoopOp::div, m1, root))));
  out(m1);
  out(v1);
  return t.take();
}

std::vector<Case> cases() {
  return {
      {"gelu(x*w+b), layer norm 1024x768", gelu_layer_norm(1024, 768, Dtype::f32)},
      {"the same in bf16", gelu_layer_norm(1024, 768, Dtype::bf16)},
      {"layer norm 1024x768", layer_norm(1024, 768)},
      {"softmax 12x128x128", softmax(12 * 128, 128)},
      {"softmax 512x50257", softmax(64, 50257)},
      {"gelu tanh 128x3072", gelu(128 * 3072, Dtype::f32, false)},
      {"gelu erf 128x3072", gelu(128 * 3072, Dtype::f32, true)},
      {"gelu tanh bf16 128x3072", gelu(128 * 3072, Dtype::bf16, false)},
      {"exp 1M", map(1 << 20, Dtype::f32, LoopOp::exp)},
      {"log 1M", map(1 << 20, Dtype::f32, LoopOp::log)},
      {"sin 1M", map(1 << 20, Dtype::f32, LoopOp::sin)},
      {"pow 256k", map(1 << 18, Dtype::f32, LoopOp::pow)},
      {"add 16M", map(1 << 24, Dtype::f32, LoopOp::add)},
      {"add 64k", map(1 << 16, Dtype::f32, LoopOp::add)},
      {"add s32 64k", map(1 << 16, Dtype::s32, LoopOp::add)},
      {"adam 7M", adam(7 << 20)},
      {"sum all 4M", reduction(LoopOp::reduce_sum, 1, 1 << 22, true)},
      {"sum rows 4096x1024", reduction(LoopOp::reduce_sum, 4096, 1024, true)},
      {"sum columns 4096x1024", reduction(LoopOp::reduce_sum, 4096, 1024, false)},
      {"max rows 65536x64", reduction(LoopOp::reduce_max, 65536, 64, true)},
      {"sum columns 262144x16", reduction(LoopOp::reduce_sum, 1 << 18, 16, false)},
      {"transpose f32 1024x1024", transpose(1024, 1024, Dtype::f32, false)},
      {"transpose f32 4096x4096", transpose(4096, 4096, Dtype::f32, false)},
      {"transpose bf16 1024x1024", transpose(1024, 1024, Dtype::bf16, false)},
      {"x + y transposed 1024x1024", transpose(1024, 1024, Dtype::f32, true)},
      {"heads 512x12x64", heads(512, 12, 64)},
      {"add 10", map(10, Dtype::f32, LoopOp::add)},
      {"add 256", map(256, Dtype::f32, LoopOp::add)},
      {"layer norm 1x64", layer_norm(1, 64)},
  };
}

double seconds(auto&& body) {
  auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Variant {
  host::LoopOptions options = {};
  bool one_thread = true;
};

std::string measure(const Case& c, std::span<const Variant> variants, int rounds,
                    std::vector<std::vector<std::string>>& table) {
  std::vector<std::vector<std::byte>> data;
  std::vector<void*> pointers;
  int64_t moved = 0;
  for (const LoopOperand& o : c.program.operands) {
    data.emplace_back(size_t(o.elements) * size_t(bytes(o.dtype)));
    for (size_t i = 0; i < data.back().size(); i += 4) {
      float v = uniform(random_at(1, i));
      uint16_t half = uint16_t(std::bit_cast<uint32_t>(v) >> 16);
      if (o.dtype == Dtype::f32) std::memcpy(&data.back()[i], &v, 4);
      if (o.dtype == Dtype::bf16) std::memcpy(&data.back()[i], &half, 2), std::memcpy(&data.back()[i + 2], &half, 2);
    }
    moved += int64_t(data.back().size());
  }
  for (auto& d : data) pointers.push_back(d.data());
  std::vector<std::string> line = {c.name};
  std::vector<host::LoopKernel> kernels;
  std::vector<double> best(variants.size(), std::numeric_limits<double>::max());
  ThreadPool one(1);
  for (const Variant& w : variants) {
    auto kernel = host::prepare(c.program, w.options);
    if (!kernel) return kernel.error().message;
    kernels.push_back(*kernel);
  }
  for (int round = 0; round < rounds; ++round) {
    for (size_t w = 0; w < variants.size(); ++w) {
      ThreadPool::Use use(variants[w].one_thread ? one : ThreadPool::process());
      int repeat = 1;
      for (double s = 0; s < 1e-3; repeat *= 4) {
        s = seconds([&] {
          for (int i = 0; i < repeat; ++i) host::run(kernels[w], pointers);
        });
        best[w] = std::min(best[w], s / repeat);
      }
    }
  }
  for (double b : best) line.push_back(b < 1e-5 ? cat(fixed(b * 1e9, 0), " ns") : cat(fixed(b * 1e3, 3), " ms"));
  line.push_back(fixed(double(moved) / best[0] / 1e9, 1));
  table.push_back(line);
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 10;
  const Variant variants[] = {{{}, true}, {{}, false}, {{simd_best(), false}, true}, {{Simd::portable}, true}};
  std::vector<std::vector<std::string>> table = {{"program", "best", "all threads", "interpreted", "portable", "GB/s"}};
  for (const Case& c : cases()) {
    if (argc > 2 && c.name.find(argv[2]) == std::string::npos) continue;
    std::string error = measure(c, variants, rounds, table);
    if (!error.empty()) return std::fprintf(stderr, "%s\n", error.c_str()), 1;
  }
  std::fputs(columns(table, "011111").c_str(), stdout);
}
