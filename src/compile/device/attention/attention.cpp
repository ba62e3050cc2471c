// Per head and tile of 128 queries, and block of keys: scores into PSUM, exp with its sum, weights transposed, values
// summed; see attention.h. Weights are divided by their sum at the end, when they are one row of values.
#include "compile/device/attention/attention.h"

#include <algorithm>
#include <map>

#include "compile/device/attention/decode.h"
#include "compile/device/attention/heads.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::attention;

class Attention {
 public:
  Attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy)
      : rec_(rec),
        store_(store),
        match_(match),
        step_(match.step),
        block_(rec.chip().has(arch::Feature::shared_ports) ? tuned::kBlockKeys : tuned::kBlockKeys / 2) {
    q_ = heads_of(store, match, match.q, match.at.query);
    k_ = heads_of(store, match, match.k, match.at.key);
    v_ = heads_of(store, match, match.v, match.at.key);
    out_ = result_heads(store, match);
    tiles_.emplace(rec, store, policy.cast.value_or(q_.memory->dtype));
    if (match.bias) {
      Heads bias = heads_of(store, match, *match.bias, match.at.query);
      bias.dim = heads_of(store, match, *match.bias, match.at.key).position;
      const bool is_mask = match.bias->value.type().dtype == Dtype::boolean;
      bias_.emplace(rec, store, bias, is_mask, match.minus ? -step_.scale : step_.scale, step_.keys, tiles_->dtype());
    }
    result_.emplace(rec, store, out_, step_.queries);
    if (match.keeps_rows)
      for (const auto& [part, form] : {std::pair{&match.top, &top_}, {&match.sum, &sum_}})
        *form = &row_form(store, part->value, step_.queries);
  }

  void run() {
    const int64_t shared = step_.heads / step_.kv_heads, lanes = rec_.chip().partitions;
    const bool whole = step_.keys <= tuned::kKeysOnChip;
    const int64_t together = whole ? step_.queries : lanes * std::max<int64_t>(1, tuned::kTilesTogether / shared);
    for (int64_t b = 0; b < step_.batch; ++b)
      for (int64_t g = 0; g < step_.kv_heads; ++g) {
        if (whole) enter_keys(b, g, 0, step_.keys);
        for (int64_t i = 0; i < step_.queries; i += together) {
          const int64_t end = std::min(step_.queries, i + together);
          std::vector<Tile> tiles;
          for (int64_t s = 0; s < shared; ++s)
            for (int64_t first = i; first < end; first += lanes)
              tiles.push_back({.b = b, .g = g, .s = s, .first = first, .rows = std::min(lanes, end - first)});
          if (whole)
            for (Tile& tile : tiles) in_one_go(tile);
          else
            in_passing(tiles);
        }
      }
  }

 private:
  // Of the keys so far: the highest score, the sum of the weights by it, and the values by the weights.
  struct Summed {
    View top = {}, values = {};
    Source sum = 0.0;
    bool begun = false;
  };
  // Queries of one head, and what has been summed of them.
  struct Tile {
    int64_t b = 0, g = 0, s = 0, first = 0, rows = 0;
    std::vector<View> q = {};
    Summed all = {};
  };

  // Keys [begin, end) of a head on chip, transposed, and their values.
  void enter_keys(int64_t b, int64_t g, int64_t begin, int64_t end) {
    first_key_ = begin;
    keys_ = transposed(k_, k_.offset + k_.at(b, g, 0) + begin * k_.position, end - begin);
    values_.clear();
    const int64_t lanes = rec_.chip().partitions, at = v_.offset + v_.at(b, g, 0);
    for (int64_t i = begin; i < end; i += lanes)
      values_.push_back(tiles_->rows(v_, at + i * v_.position, std::min(lanes, end - i), step_.value_dim));
  }
  // [dim, positions], at most 128 of the dim in each.
  std::vector<View> transposed(const Heads& o, int64_t e0, int64_t positions) {
    const int64_t lanes = rec_.chip().partitions;
    std::vector<View> out;
    for (int64_t d = 0; d < step_.dim; d += lanes)
      out.push_back(tiles_->transposed(o, e0 + d * o.dim, positions, std::min(lanes, step_.dim - d)));
    return out;
  }
  void enter(Tile& tile) {
    if (tile.q.empty())
      tile.q = transposed(q_, q_.offset + q_.at(tile.b, tile.g, tile.s) + tile.first * q_.position, tile.rows);
    if (bias_) bias_->enter(tile.b, tile.g, tile.s);
  }

  void in_one_go(Tile& tile) {
    enter(tile);
    const int64_t keys = seen(tile.first, tile.rows), lanes = rec_.chip().partitions;
    for (int64_t j = seen_from(tile.first) / lanes * lanes; j < keys; j += block_)
      add_keys(tile, j, std::min(keys, j + block_));
    finish(tile);
  }
  void in_passing(std::vector<Tile>& tiles) {
    for (int64_t j = 0; j < step_.keys; j += block_) {
      const auto has_keys = [&](const Tile& t) { return j < seen(t.first, t.rows) && j + block_ > seen_from(t.first); };
      if (std::none_of(tiles.begin(), tiles.end(), has_keys)) continue;
      enter_keys(tiles[0].b, tiles[0].g, j, std::min(step_.keys, j + block_));
      for (Tile& tile : tiles) {
        if (!has_keys(tile)) continue;
        enter(tile);
        add_keys(tile, j, std::min(seen(tile.first, tile.rows), j + block_));
      }
    }
    for (Tile& tile : tiles) finish(tile);
  }
  void add_keys(Tile& tile, int64_t begin, int64_t end) {
    const int64_t open = std::min(seen_by_all(tile.first), seen(tile.first, tile.rows));
    add_block(tile.all, scores(tile.q, tile.first, tile.rows, begin, end, open), tile.rows, begin, end);
  }

  // Keys that some query of the tile sees, and those that all of them do.
  int64_t seen(int64_t query, int64_t rows) const {
    return step_.causal ? std::clamp<int64_t>(query + rows + step_.causal_offset, 1, step_.keys) : step_.keys;
  }
  int64_t seen_by_all(int64_t query) const {
    return step_.causal ? std::clamp<int64_t>(query + 1 + step_.causal_offset, 0, step_.keys) : step_.keys;
  }

  // The first key that some query of the tile sees, and that all of them do.
  int64_t seen_from(int64_t query) const { return match_.back ? std::max<int64_t>(0, query - *match_.back) : 0; }

  // 0 where a query sees the key and very negative elsewhere: row i sees columns from i + low to i + high.
  View window(int64_t rows, int64_t columns, int64_t low, int64_t high) {
    auto [found, fresh] = windows_.try_emplace({rows, columns, low, high});
    if (fresh) {
      found->second = rec_.sbuf(Dtype::f32, rows, columns, "mask");
      const std::vector<int64_t> pattern = {1, columns};
      rec_.emit("affine_select", {{"dst", found->second}, {"on_true_tile", mask(rows, columns, high)}},
                {{"pattern", rec_.kernel().builder.list(pattern)},
                 {"channel_multiplier", int64_t{-1}},
                 {"offset", -low},
                 {"on_false_value", kMasked / step_.scale},
                 {"cmp_op", std::string_view("greater_equal")}});
    }
    return found->second;
  }
  // The same with no lower end.
  View mask(int64_t rows, int64_t columns, int64_t first) {
    auto [found, fresh] = masks_.try_emplace({rows, columns, first});
    if (fresh) {
      const View zero = rec_.sbuf(Dtype::f32, rows, columns, "zero");
      found->second = rec_.sbuf(Dtype::f32, rows, columns, "mask");
      rec_.emit("memset", {{"dst", zero}}, {{"value", 0.0}});
      const std::vector<int64_t> pattern = {-1, columns};
      rec_.emit("affine_select", {{"dst", found->second}, {"on_true_tile", zero}},
                {{"pattern", rec_.kernel().builder.list(pattern)},
                 {"channel_multiplier", int64_t{1}},
                 {"offset", first},
                 {"on_false_value", kMasked / step_.scale},
                 {"cmp_op", std::string_view("greater_equal")}});
    }
    return found->second;
  }

  void finish(const Tile& tile) {
    const View inverse = rec_.sbuf(Dtype::f32, tile.rows, 1, "inverse");
    rec_.emit("reciprocal", {{"dst", inverse}, {"data", tile.all.sum.view}});
    Val result = Val::tile(tile.all.values);
    result.set_scale(inverse);
    result_->put(result, out_.at(tile.b, tile.g, tile.s) + tile.first * out_.position, tile.rows, step_.value_dim);
    if (top_) keep_rows(tile);
  }
  // For the gradient: the highest score and the sum of the weights by it.
  void keep_rows(const Tile& tile) {
    const int64_t head = (tile.b * step_.kv_heads + tile.g) * (step_.heads / step_.kv_heads) + tile.s;
    const auto column = [&](const Form& form) {
      return *access(form, head * step_.queries + tile.first, {{1, tile.rows}}, {{0, 1}});
    };
    Val top = Val::tile(tile.all.top);
    top.set_scale(double(step_.scale));
    emit_copy(rec_, column(*top_), top);
    emit_copy(rec_, column(*sum_), Val::tile(tile.all.sum.view));
  }
  // Scores of keys [begin, end), a bank at a time; the part that only some queries see is masked on its way to SBUF.
  std::vector<View> scores(const std::vector<View>& q, int64_t first, int64_t rows, int64_t begin, int64_t end,
                           int64_t open) {
    std::vector<View> out;
    const int64_t wide = rec_.columns_max();
    for (int64_t j = begin; j < end; j += wide) {
      const int64_t columns = std::min(wide, end - j);
      const View acc = rec_.psum(rows, columns);
      for (size_t d = 0; d < q.size(); ++d) {
        View moving = keys_[d];
        const int64_t stride = moving.axes.back().stride;
        moving.offset += (j - first_key_) * stride;
        moving.axes = {{stride, columns}};
        rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", q[d]}, {"moving", moving}},
                  {{"accumulate", std::string_view(d ? "add" : "overwrite")}});
      }
      const View capped = match_.cap == 0 ? acc : cap(acc, rows, columns);
      const View scores = bias_ ? bias_->added(capped, first, j) : capped;
      if (j < seen_from(first + rows - 1)) {
        const View t = rec_.sbuf(Dtype::f32, rows, columns, "scores");
        const View m = window(rows, columns, first - *match_.back - j, first + step_.causal_offset - j);
        rec_.emit("tensor_tensor", {{"dst", t}, {"data1", scores}, {"data2", m}}, {{"op", std::string_view("add")}},
                  arch::kVector);
        out.push_back(t);
      } else {
        const bool all = j + columns <= open;
        out.push_back(all ? scores : masked(scores, rows, columns, std::max<int64_t>(0, open - j), first, j));
      }
    }
    return out;
  }
  View cap(const View& acc, int64_t rows, int64_t columns) {
    const View t = rec_.sbuf(Dtype::f32, rows, columns, "capped");
    Val x = Val::tile(acc);
    x.set_scale(double(match_.cap));
    emit_activation(rec_, t, x, "tanh");
    return t;
  }
  View masked(const View& acc, int64_t rows, int64_t columns, int64_t open, int64_t first, int64_t key) {
    const View t = rec_.sbuf(Dtype::f32, rows, columns, "scores");
    const auto part = [&](View v, int64_t begin, int64_t count) {
      v.offset += begin;
      v.axes = {{1, count}};
      return v;
    };
    if (open) emit_copy(rec_, part(t, 0, open), Val::tile(part(acc, 0, open)));
    const View m = mask(rows, columns - open, first + step_.causal_offset - key - open);
    rec_.emit("tensor_tensor",
              {{"dst", part(t, open, columns - open)}, {"data1", part(acc, open, columns - open)}, {"data2", m}},
              {{"op", std::string_view("add")}}, arch::kVector);
    return t;
  }

  View row_of(int64_t rows, std::string_view name) { return rec_.sbuf(Dtype::f32, rows, 1, name); }
  View higher(const View& a, const View& b, int64_t rows) {
    const View both = row_of(rows, "top");
    rec_.emit("tensor_tensor", {{"dst", both}, {"data1", a}, {"data2", b}}, {{"op", std::string_view("max")}},
              arch::kVector);
    return both;
  }

  // One more block of keys. What was summed by a lower score is brought down to the new one.
  void add_block(Summed& all, const std::vector<View>& scores, int64_t rows, int64_t begin, int64_t end) {
    View top = all.top;
    for (size_t i = 0; i < scores.size(); ++i) {
      const View part = row_of(rows, "top");
      rec_.emit("tensor_reduce", {{"dst", part}, {"data", scores[i]}}, {{"op", std::string_view("max")}});
      top = i || all.begun ? higher(top, part, rows) : part;
    }
    const Source shift = row_math(rec_, top, -double(step_.scale), "multiply");
    const View weights = rec_.sbuf(tiles_->dtype(), rows, end - begin, "weights");
    Source sum = 0.0;
    int64_t at = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      View dst = weights;
      dst.offset = at;
      dst.axes = {{1, scores[i].columns()}};
      const View part = row_of(rows, "sum");
      emit_activation(rec_, dst, shifted(scores[i], shift), "exp", &part);
      sum = i ? row_math(rec_, sum, part, "add") : Source(part);
      at += scores[i].columns();
    }
    const View acc = weighted(weights, rows, begin, end);
    if (all.begun) {
      const View less = row_of(rows, "less"), values = rec_.sbuf(Dtype::f32, rows, step_.value_dim, "values");
      emit_activation(rec_, less, shifted(all.top, shift), "exp");
      sum = row_math(rec_, row_math(rec_, all.sum, less, "multiply"), sum, "add");
      rec_.emit("scalar_tensor_tensor", {{"dst", values}, {"data", all.values}, {"operand0", less}, {"operand1", acc}},
                {{"op0", std::string_view("multiply")}, {"op1", std::string_view("add")}});
      all.values = values;
    } else if (end < step_.keys || step_.keys > tuned::kKeysOnChip) {  // more may follow, and PSUM is short
      all.values = rec_.sbuf(Dtype::f32, rows, step_.value_dim, "values");
      emit_copy(rec_, all.values, Val::tile(acc));
    } else {
      all.values = acc;
    }
    all.top = top, all.sum = sum, all.begun = true;
  }
  Val shifted(const View& v, const Source& shift) const {
    Val x = Val::tile(v);
    x.set_scale(double(step_.scale));
    x.set_bias(shift);
    return x;
  }
  // Σ weight · value over keys [begin, end), in PSUM.
  View weighted(const View& weights, int64_t rows, int64_t begin, int64_t end) {
    const View acc = rec_.psum(rows, step_.value_dim);
    const int64_t lanes = rec_.chip().partitions;
    for (int64_t j = begin; j < end; j += lanes) {
      const int64_t count = std::min(lanes, end - j);
      View data = weights, v = values_[size_t((j - first_key_) / lanes)];
      data.offset = j - begin;
      data.axes = {{1, count}};
      v.partitions = int(count);
      const View still = rec_.sbuf(tiles_->dtype(), count, rows, "across");
      emit_transpose(rec_, store_.choice.transpose_engine, still, {&data, 1});
      rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", still}, {"moving", v}},
                {{"accumulate", std::string_view(j > begin ? "add" : "overwrite")}});
    }
    return acc;
  }

  Recorder& rec_;
  Store& store_;
  const AttentionMatch& match_;
  const arch::AttentionStep& step_;
  const int64_t block_;  // keys
  Heads q_, k_, v_, out_;
  int64_t first_key_ = 0;          // of those on chip
  std::vector<View> keys_ = {};    // [dim, keys], at most 128 of the dim in each
  std::vector<View> values_ = {};  // [keys, value dim], 128 keys in each
  std::optional<HeadTiles> tiles_;
  std::optional<HeadRows> result_;
  std::optional<HeadBias> bias_;
  const Form *top_ = nullptr, *sum_ = nullptr;
  std::map<std::array<int64_t, 3>, View> masks_;
  std::map<std::array<int64_t, 4>, View> windows_;
};

}  // namespace

static bool takes_tiles(const AttentionMatch& match) {
  const arch::AttentionStep& s = match.step;
  return !match.k.patch.node && !match.v.patch.node && s.dim <= 512 && s.value_dim <= 512 &&
         s.queries >= tuned::kQueriesLeast && s.keys <= tuned::kKeysMax;
}

bool takes_gradient(const AttentionMatch& match) {
  const arch::AttentionStep& s = match.step;
  return takes_tiles(match) && match.is_plain() && s.dim <= 128 && s.value_dim <= 128 && s.keys <= tuned::kKeysOnChip;
}

// A bias that was widened to be added is read as it was before.
static void take_narrow(AttentionOperand& bias) {
  IndexMap map = identity_map(bias.value.type().rank());
  ir::Value v = bias.value;
  while (view_kind(*v.node) == ViewKind::whole) {
    map = through_view(*v.node, map);
    v = v.node->inputs[0];
  }
  const Dtype wide = v.type().dtype;
  if (v.node->op != op::convert || wide != Dtype::f32) return;
  const ir::Value narrow = v.node->inputs[0];
  if (narrow.type().dtype != Dtype::bf16 && narrow.type().dtype != Dtype::f16) return;
  std::vector<int> dims(bias.dims.size(), -1);
  for (size_t d = 0; d < map.size(); ++d) {
    if (narrow.type().dims[d] == 1) continue;
    const auto own = std::find(bias.dims.begin(), bias.dims.end(), map[d].dim);
    if (map[d].dim < 0 || map[d].scale != 1 || map[d].offset != 0 || own == bias.dims.end()) return;
    dims[size_t(own - bias.dims.begin())] = int(d);
  }
  bias.value = narrow;
  bias.dims = std::move(dims);
}

bool takes_attention(AttentionMatch& match) {
  if (match.back) match.bias.reset();
  if (match.bias) take_narrow(*match.bias);
  return takes_few(match) || takes_tiles(match);
}

void lower_attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy) {
  if (takes_few(match)) return lower_few(rec, store, match, policy);
  Attention(rec, store, match, policy).run();
}

}  // namespace trine::compile::device
