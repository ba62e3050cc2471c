// Per head, for a tile of 128 queries and a block of 512 keys: weights p = exp(scores - top), their gradient from the
// values, ds = p (dp - d) with d the row's Σ gradient · out; then dv += pᵀ g, dk += dsᵀ q, dq += ds k. Gradients of out
// are divided by the row's sum first, so that p never is. dk and dv of a block are summed in PSUM over all queries, dq
// in SBUF over all blocks. What causal masks hide is not computed.
#include "compile/device/attention/backward.h"

#include <algorithm>
#include <array>

#include "compile/device/attention/heads.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"
#include "ops/internal.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::attention;

class Backward {
 public:
  Backward(Recorder& rec, Store& store, const ir::Node& node, const DotPolicy& policy)
      : rec_(rec), store_(store), node_(node) {
    const ir::Ints& sizes = node.attrs.ints("sizes");
    batch_ = sizes[0], kv_heads_ = sizes[1], shared_ = sizes[2];
    queries_ = sizes[3], keys_ = sizes[4], dim_ = sizes[5], value_dim_ = sizes[6];
    scale_ = node.attrs.real("scale");
    for (size_t i = 0; i < 5; ++i) in_[i] = heads(node.inputs[i], ops::kGradientInputs[i], i == 1 || i == 2);
    dtype_ = policy.cast.value_or(in_[0].memory->dtype);
    tiles_.emplace(rec, store, dtype_);
    if (node.inputs.size() > ops::kBiasInput) {
      const ir::Value v = node.inputs[ops::kBiasInput];
      Heads bias = heads(v, ops::kGradientInputs[ops::kBiasInput], false);
      bias.dim = heads(v, ops::kGradientInputs[ops::kBiasInput], true).position;
      bias_.emplace(rec, store, bias, v.type().dtype == Dtype::boolean, scale_, keys_, dtype_);
    }
    for (uint32_t i = 0; i < 3; ++i) {
      out_[i] = heads(node.result(i), ops::kGradientResults[i], i > 0);
      results_[i].emplace(rec, store, out_[i], i > 0 ? keys_ : queries_);
    }
    top_ = &store.of(node.inputs[ops::kTopInput]).forms.front();
    sum_ = &store.of(node.inputs[ops::kSumInput]).forms.front();
  }

  void run() {
    for (int64_t b = 0; b < batch_; ++b)
      for (int64_t g = 0; g < kv_heads_; ++g) {
        enter_keys(b, g);
        for (int64_t s = 0; s < shared_; ++s)
          for (int64_t i = 0; i < queries_; i += tuned::kBackwardQueries)
            strip(b, g, s, i, std::min(queries_, i + tuned::kBackwardQueries));
        put_keys(b, g);
      }
  }

 private:
  enum Input : uint8_t { kQ, kK, kV, kOut, kGradient };

  // by_key: positions are the keys'.
  Heads heads(const ir::Value& v, std::string_view name, bool by_key) {
    const Dims strides = row_major_strides(v.type().dims);
    const ir::Ints& dims = node_.attrs.ints(name);
    const auto stride = [&](size_t i) { return dims[i] < 0 ? 0 : strides[size_t(dims[i])]; };
    return {&store_.of(v), 0, stride(0), stride(1), by_key ? 0 : stride(2), stride(by_key ? 4 : 3), stride(5)};
  }
  int64_t lanes() const { return rec_.chip().partitions; }
  int64_t wide() const { return rec_.columns_max(); }
  static View part(View v, int64_t begin, int64_t count) {
    const int64_t stride = v.axes.back().stride;
    v.offset += begin * stride;
    v.axes = {{stride, count}};
    return v;
  }
  View row(int64_t rows, std::string_view name) { return rec_.sbuf(Dtype::f32, rows, 1, name); }
  void multiply(const View& dst, const View& still, const View& moving, bool add = false) {
    rec_.emit("nc_matmul", {{"dst", dst}, {"stationary", still}, {"moving", moving}},
              {{"accumulate", std::string_view(add ? "add" : "overwrite")}});
  }
  void add(const View& dst, const View& a, const View& b) {
    rec_.emit("tensor_tensor", {{"dst", dst}, {"data1", a}, {"data2", b}}, {{"op", std::string_view("add")}},
              arch::kVector);
  }
  // [columns, rows] of a tile, on chip.
  View transposed(const View& rows) {
    const int64_t columns = rows.columns();
    const View to = rec_.sbuf(dtype_, columns, rows.partitions);
    emit_transpose(rec_, store_.choice.transpose_engine, to, {&rows, 1});
    return to;
  }

  // --- keys and values of a head, and their gradients ---

  struct Sum {  // over strips of queries, where there is more than one
    View view = {};
    bool begun = false;
  };
  void enter_keys(int64_t b, int64_t g) {
    const Heads &k = in_[kK], &v = in_[kV];
    k_transposed_ = tiles_->transposed(k, k.at(b, g, 0), keys_, dim_);
    v_transposed_ = tiles_->transposed(v, v.at(b, g, 0), keys_, value_dim_);
    k_rows_.clear();
    for (int64_t j = 0; j < keys_; j += lanes())
      k_rows_.push_back(tiles_->rows(k, k.at(b, g, 0) + j * k.position, std::min(lanes(), keys_ - j), dim_));
    for (auto& sums : key_sums_) sums.assign(k_rows_.size(), {});
  }
  // A tile's sum of one strip joins those of the strips before.
  void keep(Sum& sum, const View& acc) {
    const View to = rec_.sbuf(Dtype::f32, acc.partitions, acc.columns(), "sum");
    if (sum.begun)
      add(to, acc, sum.view);
    else
      emit_copy(rec_, to, Val::tile(acc));
    sum = {to, true};
  }
  void put_keys(int64_t b, int64_t g) {
    for (size_t i : {0, 1})
      for (size_t t = 0; t < k_rows_.size(); ++t)
        put_key(i, t, key_sums_[i][t].begun ? Val::tile(key_sums_[i][t].view) : Val::of(0), b, g);
  }
  void put_key(size_t i, size_t t, Val value, int64_t b, int64_t g) {
    const Heads& to = out_[1 + i];
    const double factor = node_.attrs.real(ops::kGradientFactors[1 + i]);
    if (value.is_tile() && factor != 1) value.set_scale(factor);
    const int64_t begin = int64_t(t) * lanes();
    results_[1 + i]->put(value, to.at(b, g, 0) + begin * to.position, std::min(lanes(), keys_ - begin),
                         i ? value_dim_ : dim_);
  }

  // --- queries ---

  struct Tile {
    int64_t first = 0, rows = 0;
    View q = {}, q_transposed = {}, g = {}, g_transposed = {}, shift = {}, mean = {}, dq = {};
    Source seen = 1.0;  // 0 in rows that a mask hides altogether
    bool begun = false;
  };
  Tile query_tile(int64_t b, int64_t g, int64_t s, int64_t first, int64_t rows) {
    const auto at = [&](const Heads& h) { return h.at(b, g, s) + first * h.position; };
    const auto number = [&](const Form& form) {
      return *access(form, ((b * kv_heads_ + g) * shared_ + s) * queries_ + first, {{1, rows}}, {{0, 1}});
    };
    Tile t{first, rows};
    t.q = tiles_->rows(in_[kQ], at(in_[kQ]), rows, dim_);
    t.q_transposed = tiles_->transposed(in_[kQ], at(in_[kQ]), rows, dim_);
    t.shift = row_math(rec_, number(*top_), -1.0, "multiply").view;
    const View inverse = row(rows, "inverse");
    rec_.emit("reciprocal", {{"dst", inverse}, {"data", number(*sum_)}});
    Val gradient = Val::tile(tiles_->rows(in_[kGradient], at(in_[kGradient]), rows, value_dim_));
    gradient.set_scale(inverse);
    t.g = rec_.sbuf(dtype_, rows, value_dim_, "gradient");
    emit_copy(rec_, t.g, gradient);
    t.g_transposed = transposed(t.g);
    const View both = rec_.sbuf(Dtype::f32, rows, value_dim_);
    t.mean = row(rows, "mean");
    rec_.emit("tensor_tensor",
              {{"dst", both}, {"data1", t.g}, {"data2", tiles_->rows(in_[kOut], at(in_[kOut]), rows, value_dim_)}},
              {{"op", std::string_view("multiply")}}, arch::kVector);
    rec_.emit("tensor_reduce", {{"dst", t.mean}, {"data", both}}, {{"op", std::string_view("add")}});
    if (bias_ && bias_->is_mask()) hide(t, number(*top_));
    return t;
  }
  // Rows without any key look at all of them alike, and no gradient goes back through their scores.
  void hide(Tile& t, const View& top) {
    const View seen = row(t.rows, "seen"), q = rec_.sbuf(dtype_, t.rows, dim_, "rows");
    rec_.emit("tensor_scalar", {{"dst", seen}, {"data", top}, {"operand0", kMasked / 2}},
              {{"op0", std::string_view("greater")}}, arch::kVector);
    t.seen = seen;
    Val value = Val::tile(t.q);
    value.set_scale(seen);
    emit_copy(rec_, q, value);
    t.q = q;
  }

  int64_t seen_by(const Tile& t, bool all) const {
    if (!node_.attrs.flag("causal")) return keys_;
    const int64_t last = t.first + (all ? 0 : t.rows - 1) + node_.attrs.integer("causal_offset");
    return std::clamp<int64_t>(last + 1, 0, keys_);
  }

  void strip(int64_t b, int64_t g, int64_t s, int64_t begin, int64_t end) {
    std::vector<Tile> tiles;
    for (int64_t i = begin; i < end; i += lanes()) tiles.push_back(query_tile(b, g, s, i, std::min(lanes(), end - i)));
    if (bias_) bias_->enter(b, g, s);
    const int64_t seen = seen_by(tiles.back(), false);
    for (int64_t j = 0; j < seen; j += wide()) key_block(tiles, j, std::min(wide(), seen - j));
    for (Tile& t : tiles) put_query(t, b, g, s);
  }
  void put_query(Tile& t, int64_t b, int64_t g, int64_t s) {
    Val value = t.begun ? Val::tile(t.dq) : Val::of(0);
    if (t.begun) value.set_scale(row_math(rec_, t.seen, node_.attrs.real(ops::kGradientFactors[0]), "multiply"));
    results_[0]->put(value, out_[0].at(b, g, s) + t.first * out_[0].position, t.rows, dim_);
  }

  // Keys [begin, begin + columns) of all queries of the strip.
  void key_block(std::vector<Tile>& tiles, int64_t begin, int64_t columns) {
    const int64_t parts = (columns + lanes() - 1) / lanes();
    const View dk = rec_.psum(lanes(), parts * dim_), dv = rec_.psum(lanes(), parts * value_dim_);
    std::vector<bool> begun(size_t(parts), false);
    for (Tile& t : tiles) {
      const int64_t seen = std::min(columns, seen_by(t, false) - begin);
      if (seen <= 0) continue;
      const View p = weights(t, begin, seen), dp = rec_.psum(t.rows, seen),
                 ds = rec_.sbuf(dtype_, t.rows, seen, "slope");
      multiply(dp, t.g_transposed, part(v_transposed_, begin, seen));
      rec_.emit("scalar_tensor_tensor", {{"dst", ds}, {"data", dp}, {"operand0", t.mean}, {"operand1", p}},
                {{"op0", std::string_view("subtract")}, {"op1", std::string_view("multiply")}});
      for (int64_t i = 0; i * lanes() < seen; ++i) {
        const int64_t count = std::min(lanes(), seen - i * lanes());
        View to_k = part(dk, i * dim_, dim_), to_v = part(dv, i * value_dim_, value_dim_);
        to_k.partitions = to_v.partitions = int(count);
        multiply(to_v, part(p, i * lanes(), count), t.g, begun[size_t(i)]);
        multiply(to_k, part(ds, i * lanes(), count), t.q, begun[size_t(i)]);
        begun[size_t(i)] = true;
      }
      add_queries(t, ds, begin);
    }
    for (int64_t i = 0; i < parts; ++i) {
      if (!begun[size_t(i)]) continue;
      View from_k = part(dk, i * dim_, dim_), from_v = part(dv, i * value_dim_, value_dim_);
      from_k.partitions = from_v.partitions = int(std::min(lanes(), columns - i * lanes()));
      const auto t = size_t(begin / lanes() + i);
      keep(key_sums_[0][t], from_k);
      keep(key_sums_[1][t], from_v);
    }
  }
  View weights(const Tile& t, int64_t begin, int64_t seen) {
    View scores = rec_.psum(t.rows, seen);
    multiply(scores, t.q_transposed, part(k_transposed_, begin, seen));
    if (bias_) scores = bias_->added(scores, t.first, begin);
    const View p = rec_.sbuf(dtype_, t.rows, seen, "weights");
    Val x = Val::tile(scores);
    x.set_scale(scale_);
    x.set_bias(t.shift);
    emit_activation(rec_, p, x, "exp");
    const int64_t open = std::clamp<int64_t>(seen_by(t, true) - begin, 0, seen);
    if (open == seen) return p;
    // Row i sees the keys up to i + offset.
    const std::vector<int64_t> pattern = {-1, seen - open};
    rec_.emit("affine_select", {{"dst", part(p, open, seen - open)}, {"on_true_tile", part(p, open, seen - open)}},
              {{"pattern", rec_.kernel().builder.list(pattern)},
               {"channel_multiplier", int64_t{1}},
               {"offset", t.first + node_.attrs.integer("causal_offset") - begin - open},
               {"on_false_value", 0.0},
               {"cmp_op", std::string_view("greater_equal")}});
    return p;
  }
  // dq += ds k: ds transposed, several tiles of keys in one bank.
  void add_queries(Tile& t, const View& ds, int64_t begin) {
    const int64_t seen = ds.columns(), full = seen / lanes();
    const int64_t parts = (seen + lanes() - 1) / lanes();
    const View across = rec_.sbuf(dtype_, lanes(), parts * t.rows);
    const auto transpose = [&](int64_t first, int64_t count, int64_t keys) {
      std::vector<View> tiles;
      for (int64_t i = first; i < first + count; ++i) tiles.push_back(part(ds, i * lanes(), keys));
      View to = part(across, first * t.rows, count * t.rows);
      to.partitions = int(keys);
      if (count) emit_transpose(rec_, store_.choice.transpose_engine, to, tiles);
    };
    transpose(0, full, lanes());
    transpose(full, parts - full, seen - full * lanes());
    const View dq = rec_.psum(t.rows, dim_);
    for (int64_t i = 0; i < parts; ++i) {
      View still = part(across, i * t.rows, t.rows), moving = k_rows_[size_t(begin / lanes() + i)];
      still.partitions = moving.partitions = int(std::min(lanes(), seen - i * lanes()));
      multiply(dq, still, moving, i > 0);
    }
    Sum sum{t.dq, t.begun};
    keep(sum, dq);
    t.dq = sum.view, t.begun = true;
  }

  Recorder& rec_;
  Store& store_;
  const ir::Node& node_;
  int64_t batch_ = 1, kv_heads_ = 1, shared_ = 1, queries_ = 1, keys_ = 1, dim_ = 1, value_dim_ = 1;
  double scale_ = 1;
  std::array<Heads, 5> in_ = {};
  std::array<Heads, 3> out_ = {};
  std::array<std::optional<HeadRows>, 3> results_ = {};
  Dtype dtype_ = Dtype::bf16;
  std::optional<HeadTiles> tiles_ = {};
  std::optional<HeadBias> bias_ = {};
  const Form *top_ = nullptr, *sum_ = nullptr;
  View k_transposed_ = {}, v_transposed_ = {};
  std::vector<View> k_rows_ = {};
  std::array<std::vector<Sum>, 2> key_sums_ = {};  // of keys, of values
};

}  // namespace

void lower_attention_gradient(Recorder& rec, Store& store, const ir::Node& node, const DotPolicy& policy) {
  Backward(rec, store, node, policy).run();
}

}  // namespace trine::compile::device
