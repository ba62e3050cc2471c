// Speed of convolutions (ResNet-50's layers and their gradients) and of attention: per cent of this run's own fused
// multiply-add peak. Taken alternately with the peak, least time of each; NHWC and HWIO, f32, weights packed before.
#include "host/conv/conv.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/text.h"
#include "bench/measure.h"
#include "host/attention/attention.h"

using namespace trine;
using namespace trine::host;

namespace {

enum class Pass : uint8_t { forward, input, weights };

struct Layer {
  int64_t batch, features, outs, size, window, stride;
  Pass pass = Pass::forward;
  int64_t groups = 1;
};
const Layer kLayers[] = {
    {1, 3, 64, 224, 7, 2},
    {1, 64, 64, 56, 1, 1},
    {1, 64, 64, 56, 3, 1},
    {1, 64, 256, 56, 1, 1},
    {1, 128, 128, 28, 3, 1},
    {1, 256, 512, 56, 1, 2},
    {1, 256, 256, 14, 3, 1},
    {1, 512, 512, 7, 3, 1},
    {1, 512, 2048, 7, 1, 1},
    {8, 64, 64, 56, 3, 1},
    {8, 256, 256, 14, 3, 1},
    {8, 512, 512, 7, 3, 1},
    {8, 128, 128, 56, 3, 2},
    {8, 64, 64, 56, 3, 1, Pass::input},
    {8, 128, 128, 56, 3, 2, Pass::input},
    {8, 64, 64, 56, 3, 1, Pass::weights},
    {8, 256, 256, 14, 3, 1, Pass::weights},
    {8, 64, 256, 56, 1, 1, Pass::weights},
    {8, 144, 144, 56, 3, 1, Pass::forward, 144},
};

struct Made {
  Conv c;
  std::vector<float> in, w, out;
  double flop = 0;
};

// [batch, h, w, features], [h, w, features, outs].
Made make(const Layer& l) {
  const int64_t pad = l.window / 2, out = (l.size + 2 * pad - l.window) / l.stride + 1,
                per_group = l.features / l.groups;
  Made m;
  std::vector<float> x(size_t(l.batch * l.size * l.size * l.features), 0.5f);
  std::vector<float> w(size_t(l.window * l.window * per_group * l.outs), 0.25f);
  std::vector<float> y(size_t(l.batch * out * out * l.outs), 0.125f);
  m.flop = 2.0 * double(l.batch * out * out * l.outs * l.window * l.window * per_group);
  Conv& c = m.c;
  c.rank = 2;
  const int64_t x_step[] = {l.size * l.features, l.features}, y_step[] = {out * l.outs, l.outs};
  const int64_t w_step[] = {l.window * per_group * l.outs, per_group * l.outs};
  for (size_t s = 0; s < 2; ++s) {
    if (l.pass == Pass::forward) {
      c.space[s] = {l.size, l.window, out, l.stride, pad, 1, 1, false, x_step[s], w_step[s], y_step[s]};
    } else if (l.pass == Pass::input) {
      c.space[s] = {out, l.window, l.size, 1, l.window - 1 - pad, l.stride, 1, true, y_step[s], w_step[s], x_step[s]};
    } else {
      c.space[s] = {l.size, out, l.window, 1, pad, 1, l.stride, false, x_step[s], y_step[s], w_step[s]};
    }
  }
  c.groups = l.groups;
  const int64_t x_item = l.size * l.size * l.features, y_item = out * out * l.outs;
  if (l.pass == Pass::forward) {
    c.batch = l.batch, c.in_features = per_group, c.out_features = l.outs / l.groups;
    c.input = {nullptr, Dtype::f32, x_item, 1, per_group};
    c.weights = {nullptr, Dtype::f32, 1, l.outs, l.outs / l.groups};
    c.output = {nullptr, Dtype::f32, y_item, 1, l.outs / l.groups};
    m.in = x, m.w = w, m.out = y;
  } else if (l.pass == Pass::input) {
    c.batch = l.batch, c.in_features = l.outs, c.out_features = l.features;
    c.input = {nullptr, Dtype::f32, y_item, 1};
    c.weights = {nullptr, Dtype::f32, l.outs, 1};
    c.output = {nullptr, Dtype::f32, x_item, 1};
    m.in = y, m.w = w, m.out = x;
  } else {
    c.batch = l.features, c.in_features = l.batch, c.out_features = l.outs;
    c.input = {nullptr, Dtype::f32, 1, x_item};
    c.weights = {nullptr, Dtype::f32, 1, y_item};
    c.output = {nullptr, Dtype::f32, l.outs, 1};
    m.in = x, m.w = y, m.out = w;
  }
  c.input.data = m.in.data(), c.weights.data = m.w.data(), c.output.data = m.out.data();
  return m;
}

struct Heads {
  int64_t batch, heads, queries, keys, dim;
  bool causal = false;
};
const Heads kHeads[] = {{1, 12, 128, 128, 64}, {8, 12, 128, 128, 64}, {1, 12, 512, 512, 64, true},
                        {1, 12, 1, 512, 64},   {8, 12, 1, 512, 64},   {1, 32, 2048, 2048, 128, true}};

struct Best {
  double seconds = std::numeric_limits<double>::max(), peak = 0;
};

template <class F>
Best measure(int rounds, F&& call) {
  Best best;
  for (int round = 0; round < rounds; ++round) {
    best.peak = std::max(best.peak, fma_peak());
    best.seconds = std::min(best.seconds, time_of(0.02, call));
  }
  return best;
}

void bench_convolutions(int rounds, const char* only) {
  const char* kPasses[] = {"forward", "input gradient", "weights gradient"};
  std::vector<std::vector<std::string>> table = {
      {"batch", "features", "outs", "size", "window", "stride", "groups", "pass", "ms", "GF/s", "% peak"}};
  for (const Layer& l : kLayers) {
    if (!std::strstr("conv", only)) continue;
    Made m = make(l);
    auto packed = pack_weights(m.c);
    if (packed && l.groups == 1 && l.pass == Pass::forward) m.c.packed_weights = &*packed;
    const Best best = measure(rounds, [&] {
      if (!conv(m.c)) std::abort();
    });
    table.push_back({cat(l.batch), cat(l.features), cat(l.outs), cat(l.size), cat(l.window), cat(l.stride),
                     cat(l.groups), kPasses[size_t(l.pass)], fixed(best.seconds * 1e3, 3),
                     fixed(m.flop / best.seconds * 1e-9, 0), fixed(m.flop / best.seconds * 1e-7 / best.peak, 0)});
  }
  std::fputs(columns(table, "11111110111").c_str(), stdout);
}

void bench_attention(int rounds, const char* only) {
  std::vector<std::vector<std::string>> table = {
      {"batch", "heads", "queries", "keys", "dim", "causal", "ms", "GF/s", "% peak", "GB/s of keys, values"}};
  for (const Heads& h : kHeads) {
    if (!std::strstr("attention", only)) continue;
    Attention a{.batch = h.batch, .heads = h.heads, .kv_heads = h.heads, .queries = h.queries, .keys = h.keys};
    a.dim = a.value_dim = h.dim;
    a.scale = 1 / std::sqrt(float(h.dim));
    a.causal = h.causal;
    std::vector<float> q(size_t(h.batch * h.heads * h.queries * h.dim), 0.5f), out(q);
    std::vector<float> k(size_t(h.batch * h.heads * h.keys * h.dim), 0.25f), v(k);
    const int64_t qs = h.queries * h.dim, ks = h.keys * h.dim;
    a.q = {q.data(), Dtype::f32, h.heads * qs, qs, h.dim};
    a.k = {k.data(), Dtype::f32, h.heads * ks, ks, h.dim};
    a.v = {v.data(), Dtype::f32, h.heads * ks, ks, h.dim};
    a.out = {out.data(), Dtype::f32, h.heads * qs, qs, h.dim};
    const Best best = measure(rounds, [&] {
      if (!attention(a)) std::abort();
    });
    const double flop = 4.0 * double(h.batch * h.heads * h.queries * h.keys * h.dim) * (h.causal ? 0.5 : 1);
    table.push_back({cat(h.batch), cat(h.heads), cat(h.queries), cat(h.keys), cat(h.dim), h.causal ? "yes" : "no",
                     fixed(best.seconds * 1e3, 3), fixed(flop / best.seconds * 1e-9, 0),
                     fixed(flop / best.seconds * 1e-7 / best.peak, 0),
                     fixed(double(k.size() + v.size()) * 4e-9 / best.seconds, 1)});
  }
  std::fputs(columns(table, "1111101111").c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 8;
  const char* only = argc > 2 ? argv[2] : "";  // part of "conv" or "attention"
  std::printf("%d threads\n", pool_threads());
  bench_convolutions(rounds, only);
  bench_attention(rounds, only);
}
