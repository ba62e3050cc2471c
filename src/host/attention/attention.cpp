// Many rows: 16 queries side by side are the B panel of two multiplies whose A sides, keys and values, are packed once
// a head. Scores come out as the panel that the second multiply reads, and softmax runs down its columns. Few rows
// (decode): keys and values are read once where they lie.
#include "host/attention/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/pool.h"
#include "base/text.h"
#include "host/attention/kernels.h"
#include "host/attention/rows.h"
#include "host/gemm/blocked.h"
#include "host/thresholds.h"
#include "host/values.h"

namespace trine::host {

namespace {

namespace tuned = thresholds::attention;

constexpr int64_t kWide = 16;                                // queries side by side
constexpr int64_t kFewRows = arch::AttentionStep::kFewRows;  // packing does not pay up to here
constexpr float kLeast = -std::numeric_limits<float>::infinity();

struct AttentionPortable {
  static constexpr bool kFma = false;
  using V = std::array<float, 8>;
  static V splat(float x) { return {x, x, x, x, x, x, x, x}; }
  static V load(const float* p) {
    V v;
    std::copy_n(p, v.size(), v.begin());
    return v;
  }
  static void store(const V& v, float* p) { std::copy(v.begin(), v.end(), p); }
  static V fma(const V& a, const V& b, V c) {
    for (size_t i = 0; i < c.size(); ++i) c[i] += a[i] * b[i];
    return c;
  }
  static float sum(const V& v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }
};

const AttentionKernels& kernels_of(Simd simd) {
#if defined(__x86_64__)
  if (simd == Simd::avx2) return attention_kernels_avx2();
#else
  (void)simd;
#endif
  return AttentionRows<AttentionPortable>::kTable;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

const std::byte* address_of(const Attention::Tensor& t, int64_t batch, int64_t head, int64_t seq) {
  return static_cast<const std::byte*>(t.data) +
         (batch * t.batch_stride + head * t.head_stride + seq * t.seq_stride) * bytes(t.dtype);
}

// lanes x depth values as f32 to to[depth][width], padded with zeros.
void gather_wide(const void* from, Dtype dtype, int64_t lane_stride, int64_t depth_stride, int64_t lanes, int64_t width,
                 int64_t depth, float* to, Simd simd) {
  const StridedPanels p{from, dtype, Family::floats, lane_stride, depth_stride, depth, simd};
  const PanelSource source = p.source();
  source.fill(source.ctx, 0, lanes, width, 0, depth, to);
}

// A head of keys and values, and the query rows that attend to it: row r is query r % queries of its head r / queries.
struct Head {
  Head(const Attention& attention, int64_t item)
      : a(attention),
        kernels(kernels_of(a.simd)),
        batch(item / a.kv_heads),
        kv(item % a.kv_heads),
        shared(a.heads / a.kv_heads) {}

  int64_t row_count() const { return shared * a.queries; }
  int64_t head_of(int64_t row) const { return kv * shared + row / a.queries; }
  int64_t query_of(int64_t row) const { return row % a.queries; }
  // Keys [0, visible) count for the row.
  int64_t visible(int64_t row) const {
    return a.causal ? std::clamp<int64_t>(query_of(row) + a.causal_offset + 1, 0, a.keys) : a.keys;
  }
  const std::byte* query(int64_t row) const { return address_of(a.q, batch, head_of(row), query_of(row)); }
  const std::byte* bias(int64_t row, int64_t key) const {
    const Attention::Bias& b = a.bias;
    const int64_t offset = batch * b.batch_stride + head_of(row) * b.head_stride + query_of(row) * b.query_stride;
    return static_cast<const std::byte*>(b.data) + (offset + key * b.key_stride) * bytes(b.dtype);
  }
  void store(int64_t row, float* sums) const {
    const Attention::Out& o = a.out;
    const int64_t offset = batch * o.batch_stride + head_of(row) * o.head_stride + query_of(row) * o.seq_stride;
    const TileOut out{static_cast<std::byte*>(o.data) + offset * bytes(o.dtype), o.dtype, 0, o.dim_stride};
    finish_tile(out, Family::floats, reinterpret_cast<std::byte*>(sums), a.value_dim, 0, 1, 0, a.value_dim);
  }

  const Attention& a;
  const AttentionKernels& kernels;
  const int64_t batch, kv, shared;
};

// Keys and values of a head as A sides, block of keys by block: groups of keys over dim, groups of value_dim over keys.
struct PackedHead {
  explicit PackedHead(const Head& head)
      : a(head.a), dims(a.value_dim), memory(size_t(a.keys * (a.dim + a.value_dim) * 4)) {
    const StridedPanels k{address_of(a.k, head.batch, head.kv, 0),
                          a.k.dtype,
                          Family::floats,
                          a.k.seq_stride,
                          a.k.dim_stride,
                          a.dim,
                          a.simd};
    const StridedPanels v{address_of(a.v, head.batch, head.kv, 0),
                          a.v.dtype,
                          Family::floats,
                          a.v.dim_stride,
                          a.v.seq_stride,
                          a.keys,
                          a.simd};
    const PanelSource from_k = k.source(), from_v = v.source();
    parallel_for(ceil_div(a.keys, tuned::kBlockKeys), 1, [&](int64_t begin, int64_t end) {
      for (int64_t block = begin; block < end; ++block) {
        const int64_t first = block * tuned::kBlockKeys;
        const Groups in = groups(first);
        for (int64_t g = 0; g < in.count; ++g) {
          const int64_t key = first + in.row(g), height = in.row(g + 1) - in.row(g);
          from_k.fill(from_k.ctx, key, height, height, 0, a.dim, keys(key));
        }
        for (int64_t g = 0; g < dims.count; ++g) {
          const int64_t dim = dims.row(g), height = dims.row(g + 1) - dim;
          from_v.fill(from_v.ctx, dim, height, height, first, in.m, values(first, dim));
        }
      }
    });
  }
  // Of the block of keys.
  Groups groups(int64_t first) const { return Groups(std::min(tuned::kBlockKeys, a.keys - first)); }
  float* keys(int64_t key) const { return memory.as<float>() + key * a.dim; }
  float* values(int64_t first, int64_t dim) const {
    const int64_t count = std::min(tuned::kBlockKeys, a.keys - first);
    return memory.as<float>() + a.keys * a.dim + first * a.value_dim + dim * count;
  }

  const Attention& a;
  const Groups dims;
  const Scratch memory;
};

// Up to 16 rows of a head, all of one query head or of one query each.
struct Column {
  Column(const Head& h, const PackedHead& p, int64_t first_row, int64_t rows)
      : head(h),
        a(h.a),
        packed(p),
        row0(first_row),
        count(rows),
        memory(size_t(((a.dim + 2 * tuned::kBlockKeys + a.value_dim) * kWide + a.value_dim) * 4)),
        q(memory.as<float>()),
        scores(q + a.dim * kWide),
        bias(scores + tuned::kBlockKeys * kWide),
        sums(bias + tuned::kBlockKeys * kWide),
        row_out(sums + a.value_dim * kWide),
        micro(micro_kernels(PanelFormat::floats, a.simd)) {
    std::fill_n(top, kWide, kLeast);
  }

  void execute() {
    const int64_t lane_stride = a.queries == 1 ? a.q.head_stride : a.q.seq_stride;  // rows are heads, or queries
    gather_wide(head.query(row0), a.q.dtype, lane_stride, a.q.dim_stride, count, kWide, a.dim, q, a.simd);
    std::array<float, kWide> scale;
    scale.fill(a.scale);
    head.kernels.scale(q, a.dim, scale.data());
    std::fill_n(sums, a.value_dim * kWide, 0.0f);
    const int64_t end = head.visible(row0 + count - 1);
    for (int64_t first = 0; first < end; first += tuned::kBlockKeys) {
      const int64_t n = packed.groups(first).m;
      score(first);
      mask(first, n);
      soften(n);
      add_values(first, n);
    }
    for (int64_t l = 0; l < kWide; ++l) shrink[l] = 1 / total[l];
    head.kernels.scale(sums, a.value_dim, shrink);
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t d = 0; d < a.value_dim; ++d) row_out[d] = sums[d * kWide + l];
      head.store(row0 + l, row_out);
    }
  }

 private:
  void score(int64_t first) {
    const Groups in = packed.groups(first);
    for (int64_t g = 0; g < in.count; ++g) {
      const int64_t key = in.row(g), height = in.row(g + 1) - key;
      micro.rows[height](packed.keys(first + key), q, a.dim, scores + key * kWide, kWide, false, {q, 0});
    }
  }

  // What softmax sees of n keys from `first`.
  void mask(int64_t first, int64_t n) {
    const Attention::Bias& b = a.bias;
    const int64_t lane_stride = a.queries == 1 ? b.head_stride : b.query_stride;
    if (b.data && b.dtype == Dtype::boolean) {
      for (int64_t l = 0; l < count; ++l) {
        const std::byte* from = head.bias(row0 + l, first);
        for (int64_t i = 0; i < n; ++i) {
          if (from[i * b.key_stride] == std::byte{0}) scores[i * kWide + l] = a.masked;
        }
      }
    } else if (b.data) {
      gather_wide(head.bias(row0, first), b.dtype, lane_stride, b.key_stride, count, kWide, n, bias, a.simd);
      head.kernels.add_scaled(scores, bias, 1, n * kWide);
    }
    if (!a.causal || head.visible(row0) >= first + n) return;
    for (int64_t l = 0; l < count; ++l) {
      for (int64_t i = std::max<int64_t>(head.visible(row0 + l) - first, 0); i < n; ++i) scores[i * kWide + l] = kLeast;
    }
  }

  // Scores to weights relative to the maximum so far; what was summed before is corrected.
  void soften(int64_t n) {
    float before[kWide], from[kWide];
    std::copy_n(top, kWide, before);
    head.kernels.most(scores, n, top);
    bool moved = false;
    for (int64_t l = 0; l < kWide; ++l) {
      from[l] = top[l] == kLeast ? 0 : top[l];  // nothing seen yet: every weight is exp(-inf)
      moved |= top[l] != before[l] && before[l] != kLeast;
      shrink[l] = before[l] == top[l] ? 1 : std::exp(before[l] - from[l]);
      total[l] *= shrink[l];
    }
    if (moved) head.kernels.scale(sums, a.value_dim, shrink);
    head.kernels.exps(scores, n, from, total);
  }

  void add_values(int64_t first, int64_t n) {
    for (int64_t g = 0; g < packed.dims.count; ++g) {
      const int64_t dim = packed.dims.row(g), height = packed.dims.row(g + 1) - dim;
      micro.rows[height](packed.values(first, dim), scores, n, sums + dim * kWide, kWide, true, {scores, 0});
    }
  }

  const Head& head;
  const Attention& a;
  const PackedHead& packed;
  const int64_t row0, count;
  const Scratch memory;
  float *const q, *const scores, *const bias, *const sums, *const row_out;
  const MicroKernels& micro;
  float top[kWide] = {}, total[kWide] = {}, shrink[kWide] = {};
};

void run_packed(const Head& head) {
  const PackedHead packed(head);
  // A column stays in one query head, unless each has one query.
  const int64_t span = head.a.queries == 1 ? head.shared : head.a.queries, spans = head.row_count() / span;
  const int64_t columns = ceil_div(span, kWide);
  parallel_for(spans * columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % columns * kWide;
      Column(head, packed, i / columns * span + first, std::min(kWide, span - first)).execute();
    }
  });
}

// Rows of a tensor as f32: where they lie, or copied, some at a time.
struct WideRows {
  WideRows(const Attention::Tensor& tensor, const Attention& attention, int64_t dim)
      : t(tensor), n(dim), a(attention), memory(size_t(tuned::kFewKeys * dim) * 4) {}

  struct Rows {
    const float* data = nullptr;
    int64_t stride = 0;
  };
  Rows rows(const Head& item, int64_t first, int64_t count) const {
    const Attention::Patch& p = t.patch;
    const bool patched = p.data && first < p.first + p.count && p.first < first + count;
    if (t.dtype == Dtype::f32 && t.dim_stride == 1 && !patched) {
      return {reinterpret_cast<const float*>(address_of(t, item.batch, item.kv, first)), t.seq_stride};
    }
    for (int64_t r = 0; r < count; ++r) {
      const std::byte* ahead = address_of(t, item.batch, item.kv, first + r + tuned::kRowsAhead);
      for (int64_t i = 0; i < n * t.dim_stride * bytes(t.dtype); i += 64) __builtin_prefetch(ahead + i);
      widen(item, first + r, memory.as<float>() + r * n);
    }
    return {memory.as<float>(), n};
  }

 private:
  void widen(const Head& item, int64_t seq, float* to) const {
    const Attention::Patch& p = t.patch;
    const std::byte* from = address_of(t, item.batch, item.kv, seq);
    int64_t stride = t.dim_stride;
    if (p.data && seq >= p.first && seq < p.first + p.count) {
      from = static_cast<const std::byte*>(p.data) +
             (item.batch * p.batch_stride + item.kv * p.head_stride + (seq - p.first) * p.seq_stride) * bytes(t.dtype);
      stride = p.dim_stride;
    }
    if (stride == 1) return widen_values(t.dtype, from, to, size_t(n), a.simd);
    gather_wide(from, t.dtype, 0, stride, 1, 1, n, to, a.simd);
  }

  const Attention::Tensor& t;
  const int64_t n;
  const Attention& a;
  const Scratch memory;
};

// One row's scores to weights; their sum. `room`: a row for the bias.
float soften_row(const Head& head, int64_t row, float* s, float* room) {
  const Attention::Bias& b = head.a.bias;
  const int64_t seen = head.visible(row), blocks = seen / kWide;
  if (b.data && b.dtype == Dtype::boolean) {
    const std::byte* from = head.bias(row, 0);
    for (int64_t j = 0; j < seen; ++j) s[j] = from[j * b.key_stride] == std::byte{0} ? head.a.masked : s[j];
  } else if (b.data) {
    gather_wide(head.bias(row, 0), b.dtype, 0, b.key_stride, 1, 1, seen, room, head.a.simd);
    head.kernels.add_scaled(s, room, 1, seen);
  }
  // In blocks of 16 as the other path, the last one padded.
  float tops[kWide], totals[kWide] = {}, edge[kWide];
  std::fill_n(edge, kWide, kLeast);
  std::copy(s + blocks * kWide, s + seen, edge);
  std::fill_n(tops, kWide, kLeast);
  head.kernels.most(s, blocks, tops);
  head.kernels.most(edge, 1, tops);
  const float top = *std::max_element(tops, tops + kWide);
  std::fill_n(tops, kWide, top == kLeast ? 0 : top);
  head.kernels.exps(s, blocks, tops, totals);
  head.kernels.exps(edge, 1, tops, totals);
  std::copy_n(edge, seen % kWide, s + blocks * kWide);
  float total = 0;
  for (float t : totals) total += t;
  return total;
}

// The rows of a head of keys and values on their way from queries to results.
struct FewRows {
  static int64_t floats(const Attention& a) {
    return a.heads / a.kv_heads * a.queries * (a.keys + a.dim + a.value_dim);
  }

  FewRows(const Head& h, float* memory)
      : head(h), a(h.a), rows(h.row_count()), scores(memory), q(scores + rows * a.keys), sums(q + rows * a.dim) {
    for (int64_t r = 0; r < rows; ++r) {
      gather_wide(head.query(r), a.q.dtype, 0, a.q.dim_stride, 1, 1, a.dim, q + r * a.dim, a.simd);
    }
    for (int64_t i = 0; i < rows * a.dim; ++i) q[i] *= a.scale;
    std::fill_n(sums, rows * a.value_dim, 0.0f);
  }
  void add_keys(const WideRows& keys, int64_t first, int64_t n) {
    const auto [data, stride] = keys.rows(head, first, n);
    for (int64_t r = 0; r < rows; ++r) {
      head.kernels.dots(q + r * a.dim, data, stride, n, a.dim, scores + r * a.keys + first);
    }
  }
  void soften(float* room) {
    for (int64_t r = 0; r < rows; ++r) total[r] = soften_row(head, r, scores + r * a.keys, room);
  }
  void take(const WideRows& values, int64_t first, int64_t n) {
    const auto [data, stride] = values.rows(head, first, n);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t seen = std::clamp<int64_t>(head.visible(r) - first, 0, n);
      head.kernels.weigh(scores + r * a.keys + first, data, stride, seen, a.value_dim, sums + r * a.value_dim);
    }
  }
  void store() {
    for (int64_t r = 0; r < rows; ++r) {
      float* row = sums + r * a.value_dim;
      for (int64_t d = 0; d < a.value_dim; ++d) row[d] /= total[r];
      head.store(r, row);
    }
  }

  const Head head;
  const Attention& a;
  const int64_t rows;
  float *const scores, *const q, *const sums;
  float total[kFewRows] = {};
};

// Heads whose keys lie side by side go through them together: what is read is one stream.
void run_few(const Attention& a, int64_t first, int64_t count) {
  const Scratch memory(size_t(count * FewRows::floats(a) + a.keys) * 4);
  float* const room = memory.as<float>() + count * FewRows::floats(a);
  std::vector<FewRows> heads;
  heads.reserve(size_t(count));
  for (int64_t i = 0; i < count; ++i)
    heads.emplace_back(Head(a, first + i), memory.as<float>() + i * FewRows::floats(a));
  const WideRows keys(a.k, a, a.dim), values(a.v, a, a.value_dim);
  const int64_t step = count > 1 ? tuned::kTogetherKeys : tuned::kFewKeys;
  for (int64_t j = 0; j < a.keys; j += step) {
    for (FewRows& h : heads) h.add_keys(keys, j, std::min(step, a.keys - j));
  }
  for (FewRows& h : heads) h.soften(room);
  for (int64_t j = 0; j < a.keys; j += step) {
    for (FewRows& h : heads) h.take(values, j, std::min(step, a.keys - j));
  }
  for (FewRows& h : heads) h.store();
}

// How many heads run_few is given at once: a divisor of all.
int64_t heads_together(const Attention& a) {
  const auto are_mixed = [](const Attention::Tensor& t) { return t.head_stride < t.seq_stride; };
  if (!are_mixed(a.k) || !are_mixed(a.v)) return 1;
  int64_t count = std::min(tuned::kTogether, std::max<int64_t>(a.batch * a.kv_heads / (2 * pool_threads()), 1));
  while (a.kv_heads % count != 0) --count;
  return count;
}

Result<void> check(const Attention& a) {
  if (a.batch < 0 || a.heads < 0 || a.queries < 0 || a.keys < 0 || a.dim < 0 || a.value_dim < 0 || a.kv_heads < 1 ||
      a.heads % a.kv_heads != 0) {
    return fail(Code::invalid, cat("attention of batch ", a.batch, ", ", a.heads, " heads on ", a.kv_heads, ", ",
                                   a.queries, " queries by ", a.keys, " keys of ", a.dim, " and ", a.value_dim));
  }
  for (Dtype d : {a.q.dtype, a.k.dtype, a.v.dtype, a.out.dtype}) {
    if (!is_floating(d) || bits(d) > 32) {
      return fail(Code::unsupported, cat("attention in ", row(d).name, "; expected a float of up to 32 bits"));
    }
  }
  if ((a.k.patch.data || a.v.patch.data) && a.heads / a.kv_heads * a.queries > kFewRows) {
    return fail(Code::unsupported, cat("patched keys for more than ", kFewRows, " rows"));
  }
  const Dtype bias = a.bias.dtype;
  if (a.bias.data && bias != Dtype::boolean && (!is_floating(bias) || bits(bias) > 32)) {
    return fail(Code::unsupported,
                cat("an attention bias of ", row(bias).name, "; expected bool or a float of up to 32 bits"));
  }
  return {};
}

}  // namespace

Result<void> attention(const Attention& a) {
  TRY(check(a));
  const int64_t items = a.batch * a.kv_heads, rows = a.heads / a.kv_heads * a.queries;
  if (items == 0 || rows == 0 || a.value_dim == 0) return {};
  const int64_t together = rows <= kFewRows ? heads_together(a) : 1;
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      rows <= kFewRows ? run_few(a, i * together, together) : run_packed(Head(a, i));
  };
  if (items >= pool_threads()) {
    parallel_for(items / together, 1, run);
  } else {
    run(0, items / together);
  }
  return {};
}

}  // namespace trine::host
