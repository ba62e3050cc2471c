// Per head and tile of 128 queries, and block of keys: scores into PSUM, exp with its sum, weights turned, values
// summed; see attention.h. Weights are divided by their sum at the end, when they are one row of values.
#include "compile/device/attention.h"

#include <algorithm>
#include <map>

#include "compile/device/map.h"
#include "compile/index_map.h"

namespace trine::compile::device {

namespace {

constexpr double kMasked = -1e30;
constexpr int64_t kBlockKeys = 2048;   // whose scores are in PSUM at once
constexpr int64_t kKeysMax = 16384;    // that one head may have on chip
constexpr int64_t kQueriesLeast = 32;  // fewer are rows of a multiply over all heads

// An operand's memory and its strides by what varies.
struct Operand {
  Memory* memory = nullptr;
  int64_t offset = 0, batch = 0, kv = 0, shared = 0, place = 0, dim = 0;
};

class Attention {
 public:
  Attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy)
      : rec_(rec), store_(store), match_(match), step_(match.step) {
    q_ = operand(match.q, match.at.query);
    k_ = operand(match.k, match.at.key);
    v_ = operand(match.v, match.at.key);
    out_ = output();
    if (match.bias) {
      bias_ = operand(*match.bias, match.at.query);
      AttentionOperand by_key = *match.bias;
      bias_.dim = operand(by_key, match.at.key).place;
    }
    dtype_ = policy.cast.value_or(q_.memory->dtype);
  }

  void run() {
    make_output();
    const int64_t shared = step_.heads / step_.kv_heads, lanes = rec_.chip().partitions;
    for (int64_t b = 0; b < step_.batch; ++b)
      for (int64_t g = 0; g < step_.kv_heads; ++g) {
        keys_ = turned(k_, b * k_.batch + g * k_.kv, step_.keys);
        values_ = by_place(b * v_.batch + g * v_.kv);
        for (int64_t s = 0; s < shared; ++s) {
          const int64_t head = b * q_.batch + g * q_.kv + s * q_.shared;
          for (int64_t i = 0; i < step_.queries; i += lanes) {
            const int64_t rows = std::min(lanes, step_.queries - i);
            bias_at_ = b * bias_.batch + g * bias_.kv + s * bias_.shared;
            tile(head + i * q_.place, b * out_.batch + g * out_.kv + s * out_.shared, i, rows);
          }
        }
      }
  }

 private:
  Operand operand(const AttentionOperand& from, int place) {
    IndexMap map = identity_map(from.value.type().rank());
    ir::Value v = from.value;
    while (!store_.has(v) && view_kind(*v.node) != ViewKind::none) {
      map = through_view(*v.node, map);
      v = v.node->inputs[0];
    }
    return strided(store_.of(v), walk_of(map, v.type().dims, size_t(from.value.type().rank())), from, place);
  }
  Operand output() {
    const ir::Value v = match_.out.value;
    return strided(store_.of(v), {0, row_major_strides(v.type().dims)}, match_.out, match_.at.query);
  }
  Operand strided(Memory& memory, const Walk& walk, const AttentionOperand& from, int place) const {
    const auto stride = [&](int d) {
      if (d < 0 || from.dims[size_t(d)] < 0 || match_.space[size_t(d)] == 1) return int64_t{0};
      return walk.strides[size_t(from.dims[size_t(d)])];
    };
    return {&memory,
            walk.offset,
            stride(match_.at.batch),
            stride(match_.at.kv),
            stride(match_.at.shared),
            stride(place),
            from.last < 0 ? 0 : walk.strides[size_t(from.last)]};
  }

  // [dim, places] of one head: from a form that holds it so, else rows turned by the tensor engine.
  View turned(const Operand& o, int64_t head, int64_t places) {
    const Axis dim{o.dim, step_.dim}, along{o.place, places};
    if (auto v = found(o, o.offset + head, dim, along)) return *v;
    const int64_t lanes = rec_.chip().partitions;
    const View to = rec_.sbuf(dtype_, step_.dim, places, "turned");
    for (int64_t i = 0; i < places; i += lanes) {
      const int64_t rows = std::min(lanes, places - i);
      const View from = block(o, o.offset + head + i * o.place, {o.place, rows}, dim);
      const View acc = rec_.psum(step_.dim, rows, dtype_);
      rec_.emit("nc_transpose", {{"dst", acc}, {"data", from}}, {}, arch::kTensor);
      View part = to;
      part.offset = i;
      part.axes = {{1, rows}};
      emit_copy(rec_, part, Val::tile(acc));
    }
    return to;
  }
  // On chip in the multiply's format, the whole value brought into it where it has another.
  std::optional<View> found(const Operand& o, int64_t e0, const Axis& part, const Axis& free) {
    const Form* other = nullptr;
    for (const Form& f : o.memory->forms) {
      const auto v = access(f, e0, {part}, {free});
      if (!v || !starts_well(*v)) continue;
      if (f.dtype == dtype_) return v;
      other = &f;
    }
    if (!other) return std::nullopt;
    return access(store_.form(*o.memory, dtype_, other->turned, other->columns, other->tiling), e0, {part}, {free});
  }
  // Rows of places by columns of dim, in the multiply's format.
  View block(const Operand& o, int64_t e0, const Axis& part, const Axis& free) {
    if (auto v = found(o, e0, part, free)) return *v;
    const View t = rec_.sbuf(o.memory->dtype, part.count, free.count, "rows");
    store_.load(t, store_.hbm(*o.memory), o.memory->dtype, e0, {part}, {free});
    return in_format(t);
  }
  View in_format(const View& v) {
    if (v.dtype == dtype_) return v;
    const View t = rec_.sbuf(dtype_, v.partitions, v.columns(), "rows");
    emit_copy(rec_, t, Val::tile(v));
    return t;
  }
  // [places, value dim] of one head, 128 places at a time.
  std::vector<View> by_place(int64_t head) {
    std::vector<View> out;
    const int64_t lanes = rec_.chip().partitions;
    for (int64_t i = 0; i < step_.keys; i += lanes)
      out.push_back(block(v_, v_.offset + head + i * v_.place, {v_.place, std::min(lanes, step_.keys - i)},
                          {v_.dim, step_.value_dim}));
    return out;
  }

  // Keys that some query of the tile sees, and those that all of them do.
  int64_t seen(int64_t query, int64_t rows) const {
    return step_.causal ? std::clamp<int64_t>(query + rows + step_.causal_offset, 1, step_.keys) : step_.keys;
  }
  int64_t seen_by_all(int64_t query) const {
    return step_.causal ? std::clamp<int64_t>(query + 1 + step_.causal_offset, 0, step_.keys) : step_.keys;
  }

  // 0 where a query sees the key and very negative elsewhere: row i sees columns up to i + first.
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

  void tile(int64_t query, int64_t to, int64_t first, int64_t rows) {
    const View q = [&] {
      Operand o = q_;
      o.offset += query;
      return turned(o, 0, rows);
    }();
    const int64_t keys = seen(first, rows), open = std::min(seen_by_all(first), keys);
    Summed all;
    for (int64_t j = 0; j < keys; j += kBlockKeys) {
      const int64_t end = std::min(keys, j + kBlockKeys);
      add_block(all, scores(q, first, rows, j, end, open), rows, j, end);
    }
    const View inverse = rec_.sbuf(Dtype::f32, rows, 1, "inverse");
    rec_.emit("reciprocal", {{"dst", inverse}, {"data", all.sum.view}});
    Val result = Val::tile(all.values);
    result.set_scale(inverse);
    put(result, to, first, rows);
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
      if (match_.bias && bias_.place == 0) {
        add_row(acc, rows, columns, j);
        out.push_back(acc);
      } else if (match_.bias) {
        out.push_back(biased(acc, rows, columns, first, j));
      } else {
        const bool all = j + columns <= open;
        out.push_back(all ? acc : masked(acc, rows, columns, std::max<int64_t>(0, open - j), first, j));
      }
    }
    return out;
  }
  // The same for every query: one more multiply, of ones by the row, adds it where the scores are summed.
  void add_row(const View& acc, int64_t rows, int64_t columns, int64_t key) {
    if (!ones_.axes.size()) {
      ones_ = rec_.sbuf(dtype_, 1, rec_.chip().partitions, "ones");
      rec_.emit("memset", {{"dst", ones_}}, {{"value", 1.0}});
    }
    View still = ones_, moving = bias(1, step_.keys, 0, 0, dtype_);
    still.axes = {{1, rows}};
    moving.offset += key;
    moving.axes = {{1, columns}};
    rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", still}, {"moving", moving}},
              {{"accumulate", std::string_view("add")}});
  }
  // Scores are scaled later, so what is added to them is divided first.
  View biased(const View& acc, int64_t rows, int64_t columns, int64_t first, int64_t key) {
    const View t = rec_.sbuf(Dtype::f32, rows, columns, "scores");
    rec_.emit("tensor_tensor", {{"dst", t}, {"data1", acc}, {"data2", bias(rows, columns, first, key, Dtype::f32)}},
              {{"op", std::string_view("add")}}, arch::kVector);
    return t;
  }
  View bias(int64_t rows, int64_t columns, int64_t first, int64_t key, Dtype dtype) {
    const int64_t e0 = bias_.offset + bias_at_ + first * bias_.place + key * bias_.dim;
    auto [found, fresh] = biases_.try_emplace({e0, rows, columns});
    if (!fresh) return found->second;
    Memory& m = *bias_.memory;
    const View raw = rec_.sbuf(m.dtype, rows, columns, "bias");
    store_.load(raw, store_.hbm(m), m.dtype, e0, {{bias_.place, rows}}, {{bias_.dim, columns}});
    found->second = rec_.sbuf(dtype, rows, columns, "bias");
    Val x = Val::tile(raw);
    if (match_.bias->value.type().dtype == Dtype::boolean) {  // 1: seen, 0: not
      x.set_scale(-kMasked / step_.scale);
      x.set_bias(kMasked / step_.scale);
    } else {
      x.set_scale(1.0 / step_.scale);
    }
    emit_copy(rec_, found->second, x);
    return found->second;
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

  // Of the keys so far: the highest score, the sum of the weights by it, and the values by the weights.
  struct Summed {
    View top = {}, values = {};
    Source sum = 0.0;
    bool begun = false;
  };

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
    const View weights = rec_.sbuf(dtype_, rows, end - begin, "weights");
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
      const View across = rec_.psum(count, rows, dtype_), still = rec_.sbuf(dtype_, count, rows, "across");
      rec_.emit("nc_transpose", {{"dst", across}, {"data", data}}, {}, arch::kTensor);
      emit_copy(rec_, still, Val::tile(across));
      rec_.emit("nc_matmul", {{"dst", acc}, {"stationary", still}, {"moving", v}},
                {{"accumulate", std::string_view(j > begin ? "add" : "overwrite")}});
    }
    return acc;
  }

  void make_output() {
    Memory& m = *out_.memory;
    const int64_t lanes = rec_.chip().partitions, columns = out_.place;
    const bool fits = m.elements * bytes(m.dtype) / lanes <= store_.keep_bytes();
    if (fits && out_.dim == 1 && columns > 0 && m.elements % columns == 0 && step_.queries > 1) {
      const int64_t extent = m.elements / columns;
      Tiling tiling = Tiling::plain(extent, lanes);
      if (extent != step_.queries && step_.queries % lanes)
        tiling = {extent, step_.queries, std::min(step_.queries, lanes)};
      if (extent % tiling.period == 0) {
        form_ = &store_.new_form(m, m.dtype, false, columns, tiling);
        return;
      }
    }
    store_.keep_in_hbm(m, "", arch::TensorKind::scratch);
  }
  void put(const Val& value, int64_t to, int64_t first, int64_t rows) {
    const int64_t e0 = to + first * out_.place;
    const Axis part{out_.place, rows}, free{out_.dim, step_.value_dim};
    if (form_)
      if (const auto dst = access(*form_, e0, {part}, {free})) return emit_copy(rec_, *dst, value);
    Memory& m = *out_.memory;
    const View t = rec_.sbuf(m.dtype, rows, step_.value_dim, "attended");
    emit_copy(rec_, t, value);
    store_.store(uint32_t(m.hbm), m.dtype, e0, {part}, {free}, t);
  }

  Recorder& rec_;
  Store& store_;
  const AttentionMatch& match_;
  const arch::AttentionStep& step_;
  Operand q_, k_, v_, out_, bias_;
  int64_t bias_at_ = 0;
  View ones_ = {};
  std::map<std::array<int64_t, 3>, View> biases_;
  Dtype dtype_ = Dtype::bf16;
  View keys_ = {};
  std::vector<View> values_ = {};
  Form* form_ = nullptr;
  std::map<std::array<int64_t, 3>, View> masks_;
};

}  // namespace

bool takes_attention(const AttentionMatch& match) {
  const arch::AttentionStep& s = match.step;
  return !(match.bias && s.causal) && s.dim <= 128 && s.value_dim <= 512 && s.queries >= kQueriesLeast &&
         s.keys <= kKeysMax;
}

void lower_attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy) {
  Attention(rec, store, match, policy).run();
}

}  // namespace trine::compile::device
