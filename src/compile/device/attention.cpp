// Per head and tile of 128 queries, and block of keys: scores into PSUM, exp with its sum, weights turned, values
// summed; see attention.h. Weights are divided by their sum at the end, when they are one row of values.
#include "compile/device/attention.h"

#include <algorithm>
#include <map>

#include "compile/device/attention_few.h"
#include "compile/device/heads.h"
#include "compile/device/map.h"

namespace trine::compile::device {

namespace {

constexpr int64_t kBlockKeys = 2048;   // whose scores are in PSUM at once
constexpr int64_t kKeysMax = 16384;    // that one head may have on chip
constexpr int64_t kQueriesLeast = 32;  // fewer are rows of a multiply over all heads

class Attention {
 public:
  Attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy)
      : rec_(rec), store_(store), match_(match), step_(match.step) {
    q_ = heads_of(store, match, match.q, match.at.query);
    k_ = heads_of(store, match, match.k, match.at.key);
    v_ = heads_of(store, match, match.v, match.at.key);
    out_ = result_heads(store, match);
    tiles_.emplace(rec, store, policy.cast.value_or(q_.memory->dtype));
    if (match.bias) {
      Heads bias = heads_of(store, match, *match.bias, match.at.query);
      bias.dim = heads_of(store, match, *match.bias, match.at.key).place;
      const bool is_mask = match.bias->value.type().dtype == Dtype::boolean;
      bias_.emplace(rec, store, bias, is_mask, step_.scale, step_.keys, tiles_->dtype());
    }
    result_.emplace(rec, store, out_, step_.queries);
    if (match.keeps_rows)
      for (const auto& [part, form] : {std::pair{&match.top, &top_}, {&match.sum, &sum_}})
        *form = &row_form(store, part->value, step_.queries);
  }

  void run() {
    const int64_t shared = step_.heads / step_.kv_heads, lanes = rec_.chip().partitions;
    for (int64_t b = 0; b < step_.batch; ++b)
      for (int64_t g = 0; g < step_.kv_heads; ++g) {
        keys_ = tiles_->turned(k_, k_.offset + k_.at(b, g, 0), step_.keys, step_.dim);
        values_ = by_place(v_.at(b, g, 0));
        for (int64_t s = 0; s < shared; ++s) {
          for (int64_t i = 0; i < step_.queries; i += lanes) {
            const int64_t rows = std::min(lanes, step_.queries - i);
            if (bias_) bias_->enter(b, g, s);
            head_ = (b * step_.kv_heads + g) * shared + s;
            tile(q_.at(b, g, s) + i * q_.place, out_.at(b, g, s), i, rows);
          }
        }
      }
  }

 private:
  // [places, value dim] of one head, 128 places at a time.
  std::vector<View> by_place(int64_t head) {
    std::vector<View> out;
    const int64_t lanes = rec_.chip().partitions;
    for (int64_t i = 0; i < step_.keys; i += lanes)
      out.push_back(
          tiles_->rows(v_, v_.offset + head + i * v_.place, std::min(lanes, step_.keys - i), step_.value_dim));
    return out;
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

  // Of the keys so far: the highest score, the sum of the weights by it, and the values by the weights.
  struct Summed {
    View top = {}, values = {};
    Source sum = 0.0;
    bool begun = false;
  };

  void tile(int64_t query, int64_t to, int64_t first, int64_t rows) {
    const View q = tiles_->turned(q_, q_.offset + query, rows, step_.dim);
    const int64_t keys = seen(first, rows), open = std::min(seen_by_all(first), keys);
    Summed all;
    const int64_t lanes = rec_.chip().partitions;
    for (int64_t j = seen_from(first) / lanes * lanes; j < keys; j += kBlockKeys) {
      const int64_t end = std::min(keys, j + kBlockKeys);
      add_block(all, scores(q, first, rows, j, end, open), rows, j, end);
    }
    const View inverse = rec_.sbuf(Dtype::f32, rows, 1, "inverse");
    rec_.emit("reciprocal", {{"dst", inverse}, {"data", all.sum.view}});
    Val result = Val::tile(all.values);
    result.set_scale(inverse);
    result_->put(result, to + first * out_.place, rows, step_.value_dim);
    if (top_) keep_rows(all, first, rows);
  }
  // For the gradient: the highest score and the sum of the weights by it.
  void keep_rows(const Summed& all, int64_t first, int64_t rows) {
    const auto column = [&](const Form& form) {
      return *access(form, head_ * step_.queries + first, {{1, rows}}, {{0, 1}});
    };
    Val top = Val::tile(all.top);
    top.set_scale(double(step_.scale));
    emit_copy(rec_, column(*top_), top);
    emit_copy(rec_, column(*sum_), Val::tile(all.sum.view));
  }
  // Scores of keys [begin, end), a bank at a time; the part that only some queries see is masked on its way to SBUF.
  std::vector<View> scores(const View& q, int64_t first, int64_t rows, int64_t begin, int64_t end, int64_t open) {
    std::vector<View> out;
    const int64_t wide = rec_.columns_max();
    for (int64_t j = begin; j < end; j += wide) {
      const int64_t columns = std::min(wide, end - j);
      const View acc = rec_.psum(rows, columns);
      View moving = keys_;
      moving.offset += j * keys_.axes.back().stride;
      moving.axes = {{keys_.axes.back().stride, columns}};
      rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", q}, {"moving", moving}});
      const View scores = bias_ ? bias_->added(acc, first, j) : acc;
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
    } else if (end < step_.keys) {  // more may follow, and PSUM is short
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
      View data = weights, v = values_[size_t(j / lanes)];
      data.offset = j - begin;
      data.axes = {{1, count}};
      v.partitions = int(count);
      const View across = rec_.psum(count, rows, tiles_->dtype()),
                 still = rec_.sbuf(tiles_->dtype(), count, rows, "across");
      rec_.emit("nc_transpose", {{"dst", across}, {"data", data}}, {}, arch::kTensor);
      emit_copy(rec_, still, Val::tile(across));
      rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", still}, {"moving", v}},
                {{"accumulate", std::string_view(j > begin ? "add" : "overwrite")}});
    }
    return acc;
  }

  Recorder& rec_;
  Store& store_;
  const AttentionMatch& match_;
  const arch::AttentionStep& step_;
  Heads q_, k_, v_, out_;
  View keys_ = {};
  std::vector<View> values_ = {};
  std::optional<HeadTiles> tiles_;
  std::optional<HeadRows> result_;
  std::optional<HeadBias> bias_;
  const Form *top_ = nullptr, *sum_ = nullptr;
  int64_t head_ = 0;
  std::map<std::array<int64_t, 3>, View> masks_;
  std::map<std::array<int64_t, 4>, View> windows_;
};

}  // namespace

bool takes_tiles(const AttentionMatch& match) {
  const arch::AttentionStep& s = match.step;
  return !match.k.patch.node && !match.v.patch.node && s.dim <= 128 && s.value_dim <= 512 &&
         s.queries >= kQueriesLeast && s.keys <= kKeysMax;
}

bool takes_attention(AttentionMatch& match) {
  if (match.back) match.bias.reset();
  return takes_few(match) || takes_tiles(match);
}

void lower_attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy) {
  if (takes_few(match)) return lower_few(rec, store, match, policy);
  Attention(rec, store, match, policy).run();
}

}  // namespace trine::compile::device
