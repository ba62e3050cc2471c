// Many rows: keys and values are packed into panels once a head, and blocks of rows run through the multiply's
// microkernels. Few rows (decode): keys and values are read once where they lie.
#include "host/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/pool.h"
#include "base/text.h"
#include "host/attention_kernels.h"
#include "host/attention_rows.h"
#include "host/blocked.h"
#include "host/values.h"

namespace trine::host {

namespace {

constexpr int64_t kBlockRows = 48;   // 8 groups
constexpr int64_t kBlockKeys = 128;  // 8 panels: scores of a block are 24 KiB
constexpr int64_t kFewRows = 4;      // packing does not pay up to here
constexpr int64_t kPanel = 16;
constexpr float kLeast = -std::numeric_limits<float>::infinity();

struct AttentionPortable {
  static constexpr bool kFma = false;
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

const std::byte* place(const Attention::Tensor& t, int64_t batch, int64_t head, int64_t seq) {
  return static_cast<const std::byte*>(t.data) +
         (batch * t.batch_stride + head * t.head_stride + seq * t.seq_stride) * bytes(t.dtype);
}

// n values `stride` apart as f32.
void widen_strided(const std::byte* from, Dtype dtype, int64_t stride, float* to, int64_t n, Simd simd) {
  const StridedPanels p{from, dtype, Family::floats, 0, stride, n, simd};
  if (stride == 1) return widen_values(dtype, from, to, size_t(n), simd);
  const PanelSource source = p.source();
  source.fill(source.ctx, 0, 1, 1, 0, n, to);
}

// A head of keys and values, and the query rows that meet it: row r is query r % queries of its head r / queries.
struct Head {
  Head(const Attention& attention, int64_t item)
      : a(attention),
        rows_of(kernels_of(a.simd)),
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
  // Scores of keys [first, first + n) become what softmax sees.
  void mask(int64_t row, int64_t first, int64_t n, float* s) const;
  void store(int64_t row, float* sums, float total) const;

  const Attention& a;
  const AttentionKernels& rows_of;
  const int64_t batch, kv, shared;
};

void Head::mask(int64_t row, int64_t first, int64_t n, float* s) const {
  const Attention::Bias& b = a.bias;
  if (!b.data) return;
  const int64_t offset = batch * b.batch_stride + head_of(row) * b.head_stride + query_of(row) * b.query_stride;
  const auto* from = static_cast<const std::byte*>(b.data) + (offset + first * b.key_stride) * bytes(b.dtype);
  if (b.dtype == Dtype::boolean) {
    for (int64_t i = 0; i < n; ++i) s[i] = from[i * b.key_stride] != std::byte{0} ? s[i] : a.masked;
    return;
  }
  float wide[kBlockKeys];
  for (int64_t i = 0; i < n; i += kBlockKeys) {
    const int64_t count = std::min(kBlockKeys, n - i);
    widen_strided(from + i * b.key_stride * bytes(b.dtype), b.dtype, b.key_stride, wide, count, a.simd);
    rows_of.add_scaled(s + i, wide, 1, count);
  }
}

void Head::store(int64_t row, float* sums, float total) const {
  const Attention::Out& o = a.out;
  rows_of.multiply(sums, 1 / total, a.value_dim);
  const int64_t offset = batch * o.batch_stride + head_of(row) * o.head_stride + query_of(row) * o.seq_stride;
  const TileOut out{static_cast<std::byte*>(o.data) + offset * bytes(o.dtype), o.dtype, 0, o.dim_stride};
  finish_tile(out, Family::floats, reinterpret_cast<std::byte*>(sums), a.value_dim, 0, 1, 0, a.value_dim);
}

// Keys and values of one head in panels.
struct Panels {
  explicit Panels(const Head& head)
      : a(head.a),
        key_panels(ceil_div(a.keys, kPanel)),
        value_panels(ceil_div(a.value_dim, kPanel)),
        memory(size_t((key_panels * a.dim + value_panels * a.keys) * kStepBytes)) {
    const StridedPanels k{
        place(a.k, head.batch, head.kv, 0), a.k.dtype, Family::floats, a.k.seq_stride, a.k.dim_stride, a.dim, a.simd};
    const StridedPanels v{
        place(a.v, head.batch, head.kv, 0), a.v.dtype, Family::floats, a.v.dim_stride, a.v.seq_stride, a.keys, a.simd};
    const PanelSource from_k = k.source(), from_v = v.source();
    parallel_for(key_panels, 8, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        from_k.fill(from_k.ctx, p * kPanel, std::min(kPanel, a.keys - p * kPanel), kPanel, 0, a.dim, key_panel(p));
      }
    });
    parallel_for(a.keys, kBlockKeys, [&](int64_t begin, int64_t end) {
      std::byte* to = value_panel(0, begin);
      if (from_v.fill_rows) {
        return from_v.fill_rows(from_v.ctx, 0, a.value_dim, begin, end - begin, to, a.keys * kStepBytes);
      }
      for (int64_t p = 0; p < value_panels; ++p) {
        const int64_t lanes = std::min(kPanel, a.value_dim - p * kPanel);
        from_v.fill(from_v.ctx, p * kPanel, lanes, kPanel, begin, end - begin, value_panel(p, begin));
      }
    });
  }
  std::byte* key_panel(int64_t p) const { return memory.as() + p * a.dim * kStepBytes; }
  std::byte* value_panel(int64_t p, int64_t key) const {
    return memory.as() + (key_panels * a.dim + p * a.keys + key) * kStepBytes;
  }

  const Attention& a;
  const int64_t key_panels, value_panels;
  const Scratch memory;
};

// Rows [row0, row0 + count) of a head, all of one query head or of one query each.
struct RowBlock {
  RowBlock(const Head& h, const Panels& p, int64_t first, int64_t rows)
      : head(h),
        a(h.a),
        panels(p),
        row0(first),
        count(rows),
        groups(rows),
        width(p.value_panels * kPanel),
        memory(size_t(rows * (a.dim + 2 * kBlockKeys + width) * 4)),
        q(memory.as<float>()),
        scores(q + rows * a.dim),
        weights(scores + rows * kBlockKeys),
        sums(weights + rows * kBlockKeys),
        micro(micro_kernels(PanelFormat::floats, a.simd)) {}

  void execute() {
    pack_queries();
    std::fill_n(sums, count * width, 0.0f);
    for (int64_t r = 0; r < count; ++r) most[r] = kLeast;
    int64_t end = 0;
    for (int64_t r = 0; r < count; ++r) end = std::max(end, head.visible(row0 + r));
    for (int64_t first = 0; first < end; first += kBlockKeys) {
      const int64_t n = std::min(kBlockKeys, end - first);
      score(first, n);
      for (int64_t r = 0; r < count; ++r) soften(r, first, n);
      add_values(first, n);
    }
    for (int64_t r = 0; r < count; ++r) head.store(row0 + r, sums + r * width, total[r]);
  }

 private:
  int64_t height(int64_t g) const { return groups.row(g + 1) - groups.row(g); }

  void pack_queries() {
    const bool across = a.queries == 1;  // rows are heads
    const std::byte* data = place(a.q, head.batch, head.head_of(row0), head.query_of(row0));
    const StridedPanels p{data,           a.q.dtype, Family::floats, across ? a.q.head_stride : a.q.seq_stride,
                          a.q.dim_stride, a.dim,     a.simd};
    const PanelSource source = p.source();
    for (int64_t g = 0; g < groups.count; ++g) {
      source.fill(source.ctx, groups.row(g), height(g), height(g), 0, a.dim, q + groups.row(g) * a.dim);
    }
    head.rows_of.multiply(q, a.scale, count * a.dim);
  }

  void score(int64_t first, int64_t n) {
    for (int64_t p = 0; p < ceil_div(n, kPanel); ++p) {
      const std::byte* panel = panels.key_panel(first / kPanel + p);
      for (int64_t g = 0; g < groups.count; ++g) {
        const int64_t row = groups.row(g);
        micro.rows[height(g)](q + row * a.dim, panel, a.dim, scores + row * kBlockKeys + p * kPanel, kBlockKeys, false,
                              {panel, 0});
      }
    }
  }

  // Scores to weights relative to the row's maximum so far; what was summed before is corrected.
  void soften(int64_t r, int64_t first, int64_t n) {
    float* s = scores + r * kBlockKeys;
    const int64_t seen = std::clamp<int64_t>(head.visible(row0 + r) - first, 0, n);
    head.mask(row0 + r, first, seen, s);
    const float peak = std::max(most[r], head.rows_of.most(s, seen));
    std::fill(s + seen, s + n, 0.0f);
    if (peak == kLeast) return std::fill(s, s + seen, 0.0f);
    if (peak != most[r] && first > 0) {
      const float shrink = std::exp(most[r] - peak);
      total[r] *= shrink;
      head.rows_of.multiply(sums + r * width, shrink, width);
    }
    most[r] = peak;
    total[r] += head.rows_of.exps(s, seen, peak);
  }

  void add_values(int64_t first, int64_t n) {
    const UnitPack pack = unit_pack(4, a.simd);
    for (int64_t g = 0; g < groups.count; ++g) {
      const int64_t row = groups.row(g);
      float* packed = weights + row * kBlockKeys;
      pack(scores + row * kBlockKeys, kBlockKeys, 1, height(g), height(g), n, packed);
    }
    for (int64_t p = 0; p < panels.value_panels; ++p) {
      const std::byte* panel = panels.value_panel(p, first);
      for (int64_t g = 0; g < groups.count; ++g) {
        const int64_t row = groups.row(g);
        micro.rows[height(g)](weights + row * kBlockKeys, panel, n, sums + row * width + p * kPanel, width, true,
                              {panel, 0});
      }
    }
  }

  const Head& head;
  const Attention& a;
  const Panels& panels;
  const int64_t row0, count;
  const Groups groups;
  const int64_t width;  // of sums: value_dim in whole panels
  const Scratch memory;
  float *const q, *const scores, *const weights, *const sums;
  const MicroKernels& micro;
  float most[kBlockRows] = {}, total[kBlockRows] = {};
};

void run_packed(const Head& head) {
  const Attention& a = head.a;
  const Panels panels(head);
  // A block stays in one query head, unless each has one query.
  const int64_t span = a.queries == 1 ? head.shared : a.queries, spans = head.row_count() / span;
  const int64_t blocks = ceil_div(span, kBlockRows);
  parallel_for(spans * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kBlockRows;
      RowBlock(head, panels, i / blocks * span + first, std::min(kBlockRows, span - first)).execute();
    }
  });
}

// Values as f32 side by side: where they lie, or in `to`.
const float* wide_row(const Attention::Tensor& t, const std::byte* from, int64_t n, float* to, Simd simd) {
  if (t.dtype == Dtype::f32 && t.dim_stride == 1) return reinterpret_cast<const float*>(from);
  widen_strided(from, t.dtype, t.dim_stride, to, n, simd);
  return to;
}

void run_few(const Head& head) {
  const Attention& a = head.a;
  const int64_t rows = head.row_count();
  Scratch memory(size_t(rows * (a.keys + a.dim + a.value_dim) + std::max(a.dim, a.value_dim)) * 4);
  float* scores = memory.as<float>();
  float* q = scores + rows * a.keys;
  float* sums = q + rows * a.dim;
  float* wide = sums + rows * a.value_dim;
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* from = place(a.q, head.batch, head.head_of(r), head.query_of(r));
    widen_strided(from, a.q.dtype, a.q.dim_stride, q + r * a.dim, a.dim, a.simd);
  }
  head.rows_of.multiply(q, a.scale, rows * a.dim);
  for (int64_t j = 0; j < a.keys; ++j) {
    const float* key = wide_row(a.k, place(a.k, head.batch, head.kv, j), a.dim, wide, a.simd);
    for (int64_t r = 0; r < rows; ++r) scores[r * a.keys + j] = head.rows_of.dot(q + r * a.dim, key, a.dim);
  }
  float total[kFewRows] = {};
  for (int64_t r = 0; r < rows; ++r) {
    float* s = scores + r * a.keys;
    const int64_t seen = head.visible(r);
    head.mask(r, 0, seen, s);
    const float peak = head.rows_of.most(s, seen);
    std::fill(s + seen, s + a.keys, 0.0f);
    if (peak == kLeast) {
      std::fill_n(s, seen, 0.0f);
    } else {
      total[r] = head.rows_of.exps(s, seen, peak);
    }
  }
  std::fill_n(sums, rows * a.value_dim, 0.0f);
  for (int64_t j = 0; j < a.keys; ++j) {
    const float* value = wide_row(a.v, place(a.v, head.batch, head.kv, j), a.value_dim, wide, a.simd);
    for (int64_t r = 0; r < rows; ++r) {
      head.rows_of.add_scaled(sums + r * a.value_dim, value, scores[r * a.keys + j], a.value_dim);
    }
  }
  for (int64_t r = 0; r < rows; ++r) head.store(r, sums + r * a.value_dim, total[r]);
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
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Head head(a, i);
      rows <= kFewRows ? run_few(head) : run_packed(head);
    }
  };
  if (items >= pool_threads()) {
    parallel_for(items, 1, run);
  } else {
    run(0, items);
  }
  return {};
}

}  // namespace trine::host
