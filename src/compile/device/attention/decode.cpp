// Per sequence and head of keys: its keys transposed and multiplied by the queries that attend to it, scores as [keys,
// queries]; several of them together are brought to weights; values by weights give [value dim, queries]. See decode.h.
#include "compile/device/attention/decode.h"

#include <algorithm>
#include <map>

#include "base/number/number.h"
#include "compile/device/attention/heads.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::decode;

// Keys on partitions: chunk c of C has keys p·C + c, so that a partition reads one run of memory, or, where they do not
// come out even, c·lanes + p.
struct KeyLayout {
  int64_t lanes = 1, chunks = 1, last = 1;  // partitions of the last chunk
  bool in_runs = true;

  static KeyLayout of(int64_t keys, int64_t partitions) {
    if (keys <= partitions) return {keys, 1, keys, true};
    const int64_t chunks = (keys + partitions - 1) / partitions;
    return {partitions, chunks, keys - (chunks - 1) * partitions, keys % partitions == 0};
  }
  int64_t lanes_of(int64_t chunk) const { return chunk + 1 < chunks ? lanes : last; }
  bool is_whole() const { return last == lanes; }
};

class FewQueries {
 public:
  FewQueries(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy)
      : rec_(rec), store_(store), match_(match), step_(match.step) {
    q_ = heads_of(store, match, match.q, match.at.query);
    k_ = heads_of(store, match, match.k, match.at.key);
    v_ = heads_of(store, match, match.v, match.at.key);
    out_ = result_heads(store, match);
    if (match.bias) bias_ = heads_of(store, match, *match.bias, match.at.key);
    dtype_ = policy.cast.value_or(q_.memory->dtype);
    batch_ = step_.batch, heads_ = step_.kv_heads;
    rows_ = step_.heads / step_.kv_heads * step_.queries;
    if (batch_ == 1 && k_.kv > k_.position) {  // these are sequences: no two of them lie between one key and the next
      std::swap(batch_, heads_);
      for (Heads* o : {&q_, &k_, &v_, &out_, &bias_}) std::swap(o->batch, o->kv);
    }
    at_ = KeyLayout::of(step_.keys, rec_.chip().partitions);
  }

  void run() {
    make_output();
    gather_queries();
    const int64_t bank = rec_.columns_max(), items = batch_ * heads_;
    const int64_t together = std::clamp<int64_t>(bank / (at_.chunks * rows_), 1, rec_.chip().partitions / rows_);
    for (int64_t i = 0; i < items; i += together) group(i, std::min(together, items - i));
  }

 private:
  // Items are sequences and heads of keys, the heads minor, as they lie in memory.
  int64_t batch_of(int64_t item) const { return item / heads_; }
  int64_t head_of(int64_t item) const { return item % heads_; }

  static View part(View v, int64_t offset, Axes axes) {
    v.offset += offset;
    v.axes = std::move(axes);
    return v;
  }

  // Parts of a head's dims, at most as many as there are partitions: (begin, count) of each.
  std::vector<Axis> cut(int64_t dim) const {
    std::vector<Axis> out;
    for (int64_t d = 0; d < dim; d += rec_.chip().partitions)
      out.push_back({d, std::min(rec_.chip().partitions, dim - d)});
    return out;
  }

  // --- queries: [dim, item, row] for each part of the dims ---

  void gather_queries() {
    const int64_t items = batch_ * heads_, lanes = rec_.chip().partitions;
    for (const Axis& d : cut(step_.dim)) {
      queries_.push_back(rec_.sbuf(dtype_, d.count, items * rows_, "queries"));
      for (int64_t g = 0; g < heads_; ++g)
        for (int64_t r = 0; r < rows_; ++r)
          for (int64_t b = 0; b < batch_; b += lanes) {
            const int64_t count = std::min(lanes, batch_ - b);
            const int64_t e0 =
                q_.offset + q_.at(b, g, 0) + r / step_.queries * q_.shared + r % step_.queries * q_.position;
            emit_copy(rec_, part(queries_.back(), (b * heads_ + g) * rows_ + r, {{heads_ * rows_, count}}),
                      Val::tile(transposed_query(e0 + d.stride * q_.dim, count, d.count)));
          }
    }
  }
  View transposed_query(int64_t e0, int64_t count, int64_t dims) {
    const Axis dim{q_.dim, dims}, batch{q_.batch, count};
    Memory& m = *q_.memory;
    for (const Form& f : m.forms)
      if (const auto v = access(f, e0, {dim}, {batch}); v && starts_well(*v)) return *v;
    View rows = {};
    for (const Form& f : m.forms)
      if (const auto v = access(f, e0, {batch}, {dim}); v && starts_well(*v) && !rows.axes.size()) rows = *v;
    if (rows.axes.empty()) {
      rows = rec_.sbuf(m.dtype, count, dims, "rows");
      store_.load(rows, store_.hbm(m), m.dtype, e0, {batch}, {dim});
    }
    return transposed_tile(rec_, store_.choice.transpose_engine, rows);
  }

  // --- keys and values of an item: a view for each chunk, keys on partitions ---

  std::vector<View> by_chunk(const Heads& o, int64_t b, int64_t g, int64_t width) {
    const bool dense = o.dim == 1 && o.kv == width && o.position == heads_ * width;
    const int64_t held = at_.chunks * heads_ * width * bytes(o.memory->dtype);
    if (!dense || held > rec_.chip().sbuf.bytes_per_partition / 16) {
      const View tile = loaded(o, o.offset + o.at(b, g, 0), {{o.dim, width}}, width);
      return chunks_of(tile, 0, width, width);
    }
    auto& resident = tiles_[o.memory];  // all heads of a sequence lie together
    if (resident.batch != b) resident = {b, loaded(o, o.offset + o.at(b, 0, 0), {{1, heads_ * width}}, heads_ * width)};
    return chunks_of(resident.tile, g * width, heads_ * width, width);
  }
  std::vector<View> chunks_of(const View& tile, int64_t offset, int64_t pitch, int64_t width) const {
    std::vector<View> out;
    for (int64_t c = 0; c < at_.chunks; ++c) {
      out.push_back(part(tile, offset + c * pitch, {{1, width}}));
      out.back().partitions = int(at_.lanes_of(c));
    }
    return out;
  }
  // [lanes, chunk, inner] in the multiply's format.
  View loaded(const Heads& o, int64_t e0, const Axes& inner, int64_t width) {
    const View raw = rec_.sbuf(o.memory->dtype, at_.lanes, at_.chunks * width, "places");
    load_positions(raw, *o.memory, e0, o.position, inner, width);
    if (raw.dtype == dtype_) return raw;
    const View cast = rec_.sbuf(dtype_, at_.lanes, at_.chunks * width, "places");
    const int64_t whole = at_.is_whole() ? at_.chunks : at_.chunks - 1;
    if (whole) emit_copy(rec_, part(cast, 0, {{1, whole * width}}), Val::tile(part(raw, 0, {{1, whole * width}})));
    if (!at_.is_whole()) emit_copy(rec_, of_last(cast, width), Val::tile(of_last(raw, width)));
    return cast;
  }
  View of_last(const View& tile, int64_t width) const {
    View v = part(tile, (at_.chunks - 1) * width, {{1, width}});
    v.partitions = int(at_.last);
    return v;
  }
  void load_positions(const View& raw, Memory& m, int64_t e0, int64_t stride, const Axes& inner, int64_t width) {
    const uint32_t hbm = store_.hbm(m);
    const int64_t pitch = at_.in_runs ? stride : at_.lanes * stride;
    const auto walked = [&](int64_t chunks) {
      Axes axes = {{pitch, chunks}};
      axes.insert(axes.end(), inner.begin(), inner.end());
      return axes;
    };
    const Axis lanes{at_.in_runs ? at_.chunks * stride : stride, at_.lanes};
    const int64_t whole = at_.is_whole() ? at_.chunks : at_.chunks - 1;
    if (whole) store_.load(part(raw, 0, {{1, whole * width}}), hbm, m.dtype, e0, {lanes}, walked(whole));
    if (!at_.is_whole())
      store_.load(of_last(raw, width), hbm, m.dtype, e0 + whole * pitch, {{stride, at_.last}}, walked(1));
  }

  // --- a group of items ---

  // [lanes, item, chunk, row]
  Axes over(int64_t items, int64_t chunks) const { return {{at_.chunks * rows_, items}, {rows_, chunks}, {1, rows_}}; }

  void group(int64_t first, int64_t items) {
    const int64_t each = at_.chunks * rows_;
    const View scores = rec_.sbuf(Dtype::f32, at_.lanes, items * each, "scores");
    if (!at_.is_whole()) rec_.emit("memset", {{"dst", scores}}, {{"value", kMasked / step_.scale}});
    const int64_t span = std::min(at_.chunks, rec_.columns_max() / rows_);  // chunks whose scores fill a bank
    for (int64_t c = 0; c < at_.chunks; c += span) {
      const int64_t count = std::min(span, at_.chunks - c);
      const View acc = rec_.psum(at_.lanes, items * count * rows_);
      for (int64_t i = 0; i < items; ++i)
        score(first + i, c, count, part(acc, i * count * rows_, {{1, count * rows_}}));
      store_scores(scores, acc, first, items, c, count);
    }
    weigh(scores, first, items);
  }
  // Keys of an item are transposed, some chunks in one bank.
  void score(int64_t item, int64_t first, int64_t count, const View& acc) {
    const std::vector<View> keys = by_chunk(k_, batch_of(item), head_of(item), step_.dim);
    const int64_t together = std::max<int64_t>(1, rec_.columns_max() / at_.lanes);
    for (int64_t c = first; c < first + count; c += together) {
      const int64_t n = std::min(together, first + count - c);
      std::vector<View> transposed;
      for (const Axis& d : cut(step_.dim))
        transposed.push_back(transpose({keys.begin() + c, keys.begin() + c + n}, d, c));
      for (int64_t j = 0; j < n; ++j) {
        View to = part(acc, (c - first + j) * rows_, {{1, rows_}});
        to.partitions = int(at_.lanes_of(c + j));
        for (size_t d = 0; d < transposed.size(); ++d)
          rec_.emit("nc_matmul",
                    {{"dst", to},
                     {"stationary", part(transposed[d], j * at_.lanes, {{1, at_.lanes_of(c + j)}})},
                     {"moving", part(queries_[d], item * rows_, {{1, rows_}})}},
                    {{"accumulate", std::string_view(d ? "add" : "overwrite")}});
      }
    }
  }
  // [dims, keys] of chunks from `first` on.
  View transpose(const std::vector<View>& keys, const Axis& dims, int64_t first) {
    const auto n = int64_t(keys.size());
    const View transposed = rec_.sbuf(dtype_, dims.count, n * at_.lanes, "turned");
    std::vector<View> tiles;
    for (const View& k : keys) tiles.push_back(part(k, dims.stride, {{1, dims.count}}));
    const int64_t filled = (n - 1) * at_.lanes + at_.lanes_of(first + n - 1);
    emit_transpose(rec_, store_.choice.transpose_engine, part(transposed, 0, {{1, filled}}), tiles);
    return transposed;
  }
  // From PSUM with what is added to them.
  void store_scores(const View& scores, const View& acc, int64_t first, int64_t items, int64_t chunk, int64_t count) {
    const bool ragged = !at_.is_whole() && chunk + count == at_.chunks;
    const auto move = [&](int64_t from, int64_t chunks, int64_t lanes) {
      if (!chunks) return;
      View dst = part(scores, (chunk + from) * rows_, over(items, chunks));
      View src = part(acc, from * rows_, {{count * rows_, items}, {rows_, chunks}, {1, rows_}});
      dst.partitions = src.partitions = int(lanes);
      add_bias(dst, src, first, items, chunk + from, chunks);
    };
    move(0, ragged ? count - 1 : count, at_.lanes);
    if (ragged) move(count - 1, 1, at_.last);
  }
  void add_bias(const View& dst, const View& src, int64_t first, int64_t items, int64_t chunk, int64_t chunks) {
    if (!match_.bias) return emit_copy(rec_, dst, Val::tile(src));
    const auto add = [&](int64_t item, int64_t n) {
      const auto some = [&](const View& v) {
        Axes axes = v.axes;
        axes[0].count = n;
        return part(v, item * v.axes[0].stride, axes);
      };
      View bias = part(bias_of(first + item), chunk, {{0, n}, {1, chunks}, {0, rows_}});
      bias.partitions = dst.partitions;
      rec_.emit("tensor_tensor", {{"dst", some(dst)}, {"data1", some(src)}, {"data2", bias}},
                {{"op", std::string_view("add")}}, arch::kVector);
    };
    if (bias_.batch == 0 && bias_.kv == 0) return add(0, items);
    for (int64_t i = 0; i < items; ++i) add(i, 1);
  }
  // [lanes, chunk]. Scores are scaled later, so what is added to them is divided first.
  View bias_of(int64_t item) {
    const int64_t e0 = bias_.offset + bias_.at(batch_of(item), head_of(item), 0);
    auto [found, fresh] = biases_.try_emplace(e0);
    if (!fresh) return found->second;
    Memory& m = *bias_.memory;
    const View raw = rec_.sbuf(m.dtype, at_.lanes, at_.chunks, "bias");
    if (!at_.is_whole()) rec_.emit("memset", {{"dst", raw}}, {{"value", 0.0}});
    load_positions(raw, m, e0, bias_.position, {{1, 1}}, 1);
    Val x = Val::tile(raw);
    if (match_.bias->value.type().dtype == Dtype::boolean) {  // 1: seen, 0: not
      x.set_scale(-kMasked / step_.scale);
      x.set_bias(kMasked / step_.scale);
    } else {
      x.set_scale(1.0 / step_.scale);
    }
    found->second = rec_.sbuf(Dtype::f32, at_.lanes, at_.chunks, "bias");
    emit_copy(rec_, found->second, x);
    return found->second;
  }

  // The highest score of each column over chunks and partitions, on every partition: [lanes, item × row].
  View highest(const View& scores, int64_t items) {
    const int64_t columns = items * rows_;
    const View each = rec_.sbuf(Dtype::f32, at_.lanes, columns, "top"), top = rec_.sbuf(Dtype::f32, columns, 1, "top");
    rec_.emit("tensor_reduce", {{"dst", each}, {"data", by_column(scores, items)}}, {{"op", std::string_view("max")}});
    const View across = transposed_tile(rec_, store_.choice.transpose_engine, each);
    rec_.emit("tensor_reduce", {{"dst", top}, {"data", across}}, {{"op", std::string_view("max")}});
    return transposed_tile(rec_, store_.choice.transpose_engine, part(top, 0, {{0, at_.lanes}}));
  }
  View by_column(const View& tile, int64_t items) const {
    return part(tile, 0, {{at_.chunks * rows_, items}, {1, rows_}, {rows_, at_.chunks}});
  }

  void weigh(const View& scores, int64_t first, int64_t items) {
    const int64_t columns = items * rows_, lanes = at_.lanes;
    const View top = highest(scores, items), less = rec_.sbuf(Dtype::f32, lanes, scores.columns(), "scores");
    rec_.emit("tensor_tensor",
              {{"dst", part(less, 0, over(items, at_.chunks))},
               {"data1", part(scores, 0, over(items, at_.chunks))},
               {"data2", part(top, 0, {{rows_, items}, {0, at_.chunks}, {1, rows_}})}},
              {{"op", std::string_view("subtract")}}, arch::kVector);
    const View weights = rec_.sbuf(dtype_, lanes, scores.columns(), "weights");
    Val x = Val::tile(less);
    x.set_scale(double(step_.scale));
    emit_activation(rec_, weights, x, "exp");
    const int64_t wide = std::min(step_.value_dim, rec_.chip().partitions);
    const View sums = rec_.sbuf(Dtype::f32, lanes, columns, "sums"), total = rec_.psum(wide, columns);
    rec_.emit("tensor_reduce", {{"dst", sums}, {"data", by_column(weights, items)}}, {{"op", std::string_view("add")}});
    rec_.emit("nc_matmul", {{"dst", total}, {"stationary", ones(wide)}, {"moving", sums}});
    const View inverse = rec_.sbuf(Dtype::f32, wide, columns, "inverse");
    rec_.emit("reciprocal", {{"dst", inverse}, {"data", total}});
    const std::vector<Axis> dims = cut(step_.value_dim);
    std::vector<View> acc;
    for (const Axis& d : dims) acc.push_back(rec_.psum(d.count, columns));
    for (int64_t i = 0; i < items; ++i) {
      const std::vector<View> values = by_chunk(v_, batch_of(first + i), head_of(first + i), step_.value_dim);
      for (size_t d = 0; d < dims.size(); ++d)
        add_values(part(acc[d], i * rows_, {{1, rows_}}), values, part(weights, i * at_.chunks * rows_, {}), dims[d]);
    }
    for (size_t d = 0; d < dims.size(); ++d) put(acc[d], inverse, first, items, dims[d]);
  }
  // Values by the weights of one item.
  void add_values(const View& acc, const std::vector<View>& values, const View& weights, const Axis& dims) {
    for (int64_t c = 0; c < at_.chunks; ++c) {
      View moving = part(weights, c * rows_, {{1, rows_}});
      moving.partitions = int(at_.lanes_of(c));
      rec_.emit(
          "nc_matmul",
          {{"dst", acc}, {"stationary", part(values[size_t(c)], dims.stride, {{1, dims.count}})}, {"moving", moving}},
          {{"accumulate", std::string_view(c ? "add" : "overwrite")}});
    }
  }
  View ones(int64_t wide) {
    if (ones_.axes.empty()) {
      ones_ = rec_.sbuf(Dtype::f32, at_.lanes, wide, "ones");
      rec_.emit("memset", {{"dst", ones_}}, {{"value", 1.0}});
    }
    return ones_;
  }

  // --- the result: value dim on partitions ---

  // Rows of one head each where a head fills the partitions, else of all heads.
  void make_output() {
    Memory& m = *out_.memory;
    const int64_t lanes = rec_.chip().partitions, dim = step_.value_dim;
    const int64_t all = std::max({out_.batch, out_.position, dim});
    for (int64_t columns : {dim == lanes ? dim : all, dim}) {
      if (out_.dim != 1 || m.elements % columns || columns % dim) continue;
      Tiling tiling{columns, dim, std::min(dim, lanes)};
      if (lanes % dim == 0 && dim % 32 == 0) tiling = Tiling::plain(columns, lanes);
      const Form probe{m.dtype, true,   m.elements / columns,
                       columns, tiling, std::vector<uint32_t>(size_t(tiling.tiles()))};
      if (!holds_all(probe)) continue;
      form_ = &store_.new_form(m, m.dtype, true, columns, tiling);
      return;
    }
    store_.keep_in_hbm(m, "", arch::TensorKind::scratch);
  }
  int64_t row_at(int64_t r) const { return r / step_.queries * out_.shared + r % step_.queries * out_.position; }
  bool holds_all(const Form& form) const {
    for (int64_t g = 0; g < heads_; ++g)
      for (int64_t r = 0; r < rows_; ++r) {
        for (const Axis& d : cut(step_.value_dim)) {
          const int64_t e0 = out_.offset + out_.at(0, g, 0) + row_at(r) + d.stride * out_.dim;
          const auto v = access(form, e0, {{out_.dim, d.count}}, {{out_.batch, batch_}});
          if (!v || !starts_well(*v)) return false;
        }
      }
    return true;
  }
  // Of each row all items of the group in one go, or those of one head. dims: those of the value in acc.
  void put(const View& acc, const View& inverse, int64_t first, int64_t items, const Axis& dims) {
    const bool even = heads_ == 1 || batch_ == 1 || out_.batch == heads_ * out_.kv;
    for (int64_t r = 0; r < rows_; ++r) {
      const Axis along{heads_ == 1 ? out_.batch : out_.kv, items};
      if (even && put(acc, inverse, {first, 0, r, 1}, along, dims)) continue;
      for (int64_t i = 0; i < std::min(items, heads_); ++i)
        put(acc, inverse, {first, i, r, heads_}, {out_.batch, (items - i + heads_ - 1) / heads_}, dims);
    }
  }
  // Row `row` of items from first + i on, `apart` items from one to the next.
  struct Which {
    int64_t first = 0, i = 0, row = 0, apart = 1;
  };
  // False where no form holds them so.
  bool put(const View& acc, const View& inverse, const Which& w, const Axis& along, const Axis& dims) {
    const int64_t item = w.first + w.i,
                  e0 = out_.offset + out_.at(batch_of(item), head_of(item), 0) + row_at(w.row) + dims.stride * out_.dim;
    const Axis dim{out_.dim, dims.count};
    const auto to = form_ ? access(*form_, e0, {dim}, {along}) : std::nullopt;
    if (form_ && !(to && starts_well(*to))) return false;
    const View dst = to ? *to : rec_.sbuf(out_.memory->dtype, dim.count, along.count, "attended");
    const Axes free = {{w.apart * rows_, along.count}};
    View by = part(inverse, w.i * rows_ + w.row, free);
    by.partitions = int(dims.count);
    rec_.emit("tensor_tensor", {{"dst", dst}, {"data1", part(acc, w.i * rows_ + w.row, free)}, {"data2", by}},
              {{"op", std::string_view("multiply")}}, arch::kVector);
    if (!form_) store_.store(uint32_t(out_.memory->hbm), out_.memory->dtype, e0, {dim}, {along}, dst);
    return true;
  }

  struct LoadedTile {
    int64_t batch = -1;
    View tile = {};
  };

  Recorder& rec_;
  Store& store_;
  const AttentionMatch& match_;
  const arch::AttentionStep& step_;
  Heads q_, k_, v_, out_, bias_;
  Dtype dtype_ = Dtype::bf16;
  int64_t batch_ = 1, heads_ = 1;  // sequences, and heads of keys of each
  int64_t rows_ = 1;               // queries that attend to one of them
  KeyLayout at_;
  std::vector<View> queries_ = {};
  View ones_ = {};
  std::map<int64_t, View> biases_;
  std::map<const Memory*, LoadedTile> tiles_;
  Form* form_ = nullptr;
};

// Does the bias differ along this dim of the weights, or is it repeated?
bool varies(const AttentionMatch& match, int d) {
  if (d < 0 || match.space[size_t(d)] == 1 || match.bias->dims[size_t(d)] < 0) return false;
  ir::Value v = match.bias->value;
  IndexMap map = identity_map(v.type().rank());
  for (; view_kind(*v.node) != ViewKind::none; v = v.node->inputs[0]) map = through_view(*v.node, map);
  for (size_t i = 0; i < map.size(); ++i)
    if (map[i].dim == match.bias->dims[size_t(d)] && v.type().dims[i] != 1) return true;
  return false;
}

}  // namespace

bool takes_few(const AttentionMatch& match) {
  const arch::AttentionStep& s = match.step;
  return match.is_plain() && !match.keeps_rows && !s.causal &&
         !(match.bias && (varies(match, match.at.query) || varies(match, match.at.shared))) &&
         s.queries <= tuned::kQueriesMost && s.heads / s.kv_heads * s.queries <= tuned::kRowsMost && s.dim <= 512 &&
         s.value_dim <= 512 && s.keys <= tuned::kKeysMost && !match.k.patch.node && !match.v.patch.node;
}

void lower_few(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy) {
  FewQueries(rec, store, match, policy).run();
}

}  // namespace trine::compile::device
