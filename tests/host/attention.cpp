// Attention against softmax in f64: heads that share keys, causal and masked, every float, strides; few rows and many.
#include "host/attention/attention.h"

#include <string>

#include "base/pool.h"
#include "base/text.h"
#include "tests/host/matrices.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::host;

namespace {

struct Case {
  int64_t batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 8, value_dim = 8;
  Dtype dtype = Dtype::f32;
  bool causal = false;
  bool seq_first = false;  // [batch, seq, head, dim] rather than [batch, head, seq, dim]
  Dtype bias = Dtype::count;
  bool apart = false;  // dim_stride 2
};

// batch x heads x seq x dim, one row of Held a vector.
struct Tensor4 {
  Held held;
  int64_t batch_stride, head_stride, seq_stride, dim_stride;

  Tensor4(Dtype dtype, int64_t batch, int64_t heads, int64_t seq, int64_t dim, bool seq_first, bool apart)
      : held(host::held(dtype, 1, batch * heads * seq, dim, apart ? Layout::spread : Layout::rows)) {
    const int64_t row = held.row_stride;
    batch_stride = heads * seq * row;
    head_stride = seq_first ? row : seq * row;
    seq_stride = seq_first ? heads * row : row;
    dim_stride = held.col_stride;
  }
  double at(int64_t b, int64_t h, int64_t s, int64_t d) {
    return held.value(0, (b * batch_stride + h * head_stride + s * seq_stride) / held.row_stride, d).real();
  }
  template <class T>
  T view() {
    return {held.bytes.data(), held.dtype, batch_stride, head_stride, seq_stride, dim_stride};
  }
};

struct Made {
  Tensor4 q, k, v, out;
  Held bias;
  Attention a = {};
};

Made make(const Case& t) {
  Made m{{t.dtype, t.batch, t.heads, t.queries, t.dim, t.seq_first, t.apart},
         {t.dtype, t.batch, t.kv_heads, t.keys, t.dim, t.seq_first, t.apart},
         {t.dtype, t.batch, t.kv_heads, t.keys, t.value_dim, t.seq_first, t.apart},
         {t.dtype, t.batch, t.heads, t.queries, t.value_dim, t.seq_first, t.apart},
         held(t.bias == Dtype::count ? Dtype::f32 : t.bias, t.batch, t.queries, t.keys, Layout::padded_rows)};
  fill(m.q.held, 3);
  fill(m.k.held, 5);
  fill(m.v.held, 7);
  fill(m.bias, 9);
  Attention& a = m.a;
  a.batch = t.batch;
  a.heads = t.heads;
  a.kv_heads = t.kv_heads;
  a.queries = t.queries;
  a.keys = t.keys;
  a.dim = t.dim;
  a.value_dim = t.value_dim;
  a.scale = 3 / std::sqrt(float(t.dim));
  a.causal = t.causal;
  a.causal_offset = t.keys - t.queries;
  a.q = m.q.view<Attention::Tensor>();
  a.k = m.k.view<Attention::Tensor>();
  a.v = m.v.view<Attention::Tensor>();
  a.out = m.out.view<Attention::Out>();
  if (t.bias != Dtype::count) {
    a.bias = {m.bias.bytes.data(), t.bias, m.bias.batch_stride, 0, m.bias.row_stride, m.bias.col_stride};
  }
  return m;
}

double score(const Case& t, Made& m, int64_t b, int64_t h, int64_t i, int64_t j) {
  double s = 0;
  for (int64_t d = 0; d < t.dim; ++d) s += m.q.at(b, h, i, d) * m.k.at(b, h / (t.heads / t.kv_heads), j, d);
  s *= double(m.a.scale);
  if (t.bias == Dtype::boolean) return m.bias.integer(b, i, j) ? s : double(m.a.masked);
  return t.bias == Dtype::count ? s : s + m.bias.value(b, i, j).real();
}

std::string wrong(const Case& t, Made& m) {
  const double slack = t.dtype == Dtype::f32 ? 2e-6 : std::ldexp(1.0, -row(t.dtype).format.mantissa_bits);
  for (int64_t b = 0; b < t.batch; ++b) {
    for (int64_t h = 0; h < t.heads; ++h) {
      for (int64_t i = 0; i < t.queries; ++i) {
        const int64_t seen = t.causal ? std::min(t.keys, i + m.a.causal_offset + 1) : t.keys;
        std::vector<double> p;
        double most = -INFINITY, total = 0;
        for (int64_t j = 0; j < seen; ++j) most = std::max(most, p.emplace_back(score(t, m, b, h, i, j)));
        for (double& x : p) total += x = std::exp(x - most);
        for (int64_t d = 0; d < t.value_dim; ++d) {
          double sum = 0;
          for (int64_t j = 0; j < seen; ++j) sum += p[size_t(j)] / total * m.v.at(b, h / (t.heads / t.kv_heads), j, d);
          if (!(std::abs(m.out.at(b, h, i, d) - sum) <= slack * (1 + std::abs(sum)))) {
            return cat("at ", b, ",", h, ",", i, ",", d, ": ", m.out.at(b, h, i, d), " for ", sum);
          }
        }
      }
    }
  }
  return "";
}

void run(const Case& t) {
  CAPTURE(t.heads);
  CAPTURE(t.kv_heads);
  CAPTURE(t.queries);
  CAPTURE(t.keys);
  CAPTURE(t.dim);
  CAPTURE(t.value_dim);
  CAPTURE(row(t.dtype).name);
  CAPTURE(t.causal);
  for (Simd simd : {Simd::portable, simd_best()}) {
    std::vector<std::byte> first;
    for (int threads : {1, 4}) {
      ThreadPool pool(threads);
      ThreadPool::Use use(pool);
      Made m = make(t);
      m.a.simd = simd;
      REQUIRE(attention(m.a));
      if (first.empty()) CHECK(wrong(t, m) == "");
      if (first.empty()) first = m.out.held.bytes;
      CHECK(bool(first == m.out.held.bytes));
    }
  }
}

}  // namespace

TEST_CASE("attention: sizes around every edge") {
  for (int64_t queries : {1, 2, 4, 5, 7, 48, 49, 100}) {
    for (int64_t keys : {1, 15, 16, 17, 128, 129, 300}) {
      run({.queries = queries, .keys = keys});
      if (keys >= queries) run({.queries = queries, .keys = keys, .causal = true});
    }
  }
  for (int64_t dim : {1, 7, 8, 16, 64, 80})
    run({.heads = 2, .kv_heads = 2, .queries = 20, .keys = 40, .dim = dim, .value_dim = 81 - dim});
}

TEST_CASE("attention: heads that share keys") {
  for (int64_t kv : {1, 2, 4, 8}) {
    for (bool seq_first : {false, true}) {
      Case t{.batch = 2, .heads = 8, .kv_heads = kv, .queries = 1, .keys = 50, .dim = 32, .value_dim = 32};
      t.seq_first = seq_first;
      run(t);
    }
    run({.batch = 2, .heads = 8, .kv_heads = kv, .queries = 9, .keys = 50, .dim = 32, .value_dim = 32, .causal = true});
  }
}

TEST_CASE("attention: dtypes, layouts and masks") {
  for (Dtype d : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f8e5m2}) {
    for (Dtype bias : {Dtype::count, Dtype::f32, Dtype::bf16, Dtype::boolean}) {
      for (bool seq_first : {false, true}) {
        for (int64_t queries : {1, 60}) {
          Case t{.batch = 2, .heads = 3, .kv_heads = 3, .queries = queries, .keys = 150, .dim = 16, .value_dim = 24};
          t.dtype = d;
          t.bias = bias;
          t.seq_first = seq_first;
          t.apart = queries == 60 && seq_first;
          run(t);
        }
      }
    }
  }
}

TEST_CASE("attention: rows that see nothing are NaN, as their softmax is") {
  Case t{.queries = 6, .keys = 3};
  Made m = make(t);
  m.a.causal = true;
  m.a.causal_offset = -2;
  REQUIRE(attention(m.a));
  CHECK(std::isnan(m.out.at(0, 0, 1, 0)));
  CHECK(!std::isnan(m.out.at(0, 0, 2, 0)));
}

TEST_CASE("attention: keys and values as if updated") {
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (int64_t first : {0, 63, 70}) {
      Case t{
          .batch = 2, .heads = 3, .kv_heads = 3, .queries = 2, .keys = 80, .dim = 24, .value_dim = 9, .dtype = dtype};
      Made m = make(t), patch = make(Case{.batch = 2,
                                          .heads = 3,
                                          .kv_heads = 3,
                                          .queries = 2,
                                          .keys = 3,
                                          .dim = 24,
                                          .value_dim = 9,
                                          .dtype = dtype});
      auto give = [&](Tensor4& to, Tensor4& from, Attention::Tensor& tensor) {
        tensor.patch = {from.held.bytes.data(), first,          3, from.batch_stride, from.head_stride,
                        from.seq_stride,        from.dim_stride};
        const int64_t row = to.seq_stride * bytes(dtype);
        for (int64_t i = 0; i < 6; ++i)  // what it would be after the update
          std::copy_n(from.held.bytes.begin() + i * 3 * row, 3 * row, to.held.bytes.begin() + (i * 80 + first) * row);
      };
      const std::vector<std::byte> k = m.k.held.bytes, v = m.v.held.bytes;
      give(m.k, patch.k, m.a.k);
      give(m.v, patch.v, m.a.v);
      const Attention whole = m.a;
      for (Simd simd : {Simd::portable, simd_best()}) {
        m.a = whole;
        m.a.simd = simd;
        m.a.k.patch = m.a.v.patch = {};
        REQUIRE(attention(m.a));
        CHECK(wrong(t, m) == "");
        const std::vector<std::byte> want = m.out.held.bytes;
        m.a = whole;
        m.a.simd = simd;
        m.a.k.data = k.data();
        m.a.v.data = v.data();
        REQUIRE(attention(m.a));
        CHECK(bool(m.out.held.bytes == want));
      }
    }
  }
}

TEST_CASE("attention: what it refuses") {
  Case t{.heads = 6, .kv_heads = 4};
  Made m = make(t);
  CHECK(attention(m.a).error().message == "attention of batch 1, 6 heads on 4, 1 queries by 1 keys of 8 and 8");
  m.a.kv_heads = 6;
  m.a.q.dtype = Dtype::s32;
  CHECK(attention(m.a).error().message == "attention in s32; expected a float of up to 32 bits");
}
