// Where a head's tiles come from and go to; see heads.h.
#include "compile/device/attention/heads.h"

#include <algorithm>

#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"

namespace trine::compile::device {

namespace {

Heads strided(const AttentionMatch& match, Memory& memory, const Walk& walk, const AttentionOperand& from,
              int position) {
  const auto stride = [&](int d) {
    if (d < 0 || from.dims[size_t(d)] < 0 || match.space[size_t(d)] == 1) return int64_t{0};
    return walk.strides[size_t(from.dims[size_t(d)])];
  };
  return {&memory,
          walk.offset,
          stride(match.at.batch),
          stride(match.at.kv),
          stride(match.at.shared),
          stride(position),
          from.last < 0 ? 0 : walk.strides[size_t(from.last)]};
}

}  // namespace

Heads heads_of(Store& store, const AttentionMatch& match, const AttentionOperand& from, int position) {
  IndexMap map = identity_map(from.value.type().rank());
  ir::Value v = from.value;
  while (!store.has(v) && view_kind(*v.node) != ViewKind::none) {
    map = through_view(*v.node, map);
    v = v.node->inputs[0];
  }
  const Walk walk = walk_of(map, v.type().dims, size_t(from.value.type().rank()));
  return strided(match, store.of(v), walk, from, position);
}

Heads result_heads(Store& store, const AttentionMatch& match) {
  const ir::Value v = match.out.value;
  return strided(match, store.of(v), {0, row_major_strides(v.type().dims)}, match.out, match.at.query);
}

View HeadTiles::transposed(const Heads& o, int64_t e0, int64_t positions, int64_t dim) {
  if (auto v = found(o, e0, {o.dim, dim}, {o.position, positions})) return *v;
  const int64_t lanes = rec_.chip().partitions, together = rec_.columns_max() / lanes * lanes;
  const View to = rec_.sbuf(dtype_, dim, positions, "turned");
  const auto part = [](View v, int64_t begin, int64_t count) {
    v.offset = begin;
    v.axes = {{1, count}};
    return v;
  };
  if (load(o, e0, positions, to)) return to;
  for (int64_t i = 0; i < positions; i += together) {  // as many rows as fill a bank
    const int64_t count = std::min(together, positions - i);
    std::vector<View> tiles;
    for (int64_t j = 0; j < count; j += lanes)
      tiles.push_back(rows(o, e0 + (i + j) * o.position, std::min(lanes, count - j), dim));
    emit_transpose(rec_, store_.choice.transpose_engine, part(to, i, count), tiles);
  }
  return to;
}

// Straight from HBM, where no form has the rows and the choice is to transpose them in the load.
bool HeadTiles::load(const Heads& o, int64_t e0, int64_t positions, const View& to) {
  Memory& m = *o.memory;
  if (!m.forms.empty() || m.elsewhere || o.dim != 1 || store_.choice.transpose_engine != TransposeEngine::dma)
    return false;
  const View raw = m.dtype == dtype_ ? to : rec_.sbuf(m.dtype, to.partitions, positions, "raw");
  if (!load_transposed(rec_, TransposeEngine::dma, raw, {store_.hbm(m), m.dtype, e0, {o.position, positions}}))
    return false;
  if (raw.tensor != to.tensor) emit_copy(rec_, to, Val::tile(raw));
  return true;
}

std::optional<View> HeadTiles::found(const Heads& o, int64_t e0, const Axis& part, const Axis& free) {
  const Form* other = nullptr;
  for (const Form& f : o.memory->forms) {
    const auto v = access(f, e0, {part}, {free});
    if (!v || !starts_well(*v)) continue;
    if (f.dtype == dtype_) return v;
    other = &f;
  }
  if (!other) return std::nullopt;
  return access(store_.form(*o.memory, dtype_, other->transposed, other->columns, other->tiling), e0, {part}, {free});
}

View HeadTiles::rows(const Heads& o, int64_t e0, int64_t positions, int64_t dim) {
  if (auto v = found(o, e0, {o.position, positions}, {o.dim, dim})) return *v;
  const View t = rec_.sbuf(o.memory->dtype, positions, dim, "rows");
  store_.load(t, store_.hbm(*o.memory), o.memory->dtype, e0, {{o.position, positions}}, {{o.dim, dim}});
  if (t.dtype == dtype_) return t;
  const View cast = rec_.sbuf(dtype_, positions, dim, "rows");
  emit_copy(rec_, cast, Val::tile(t));
  return cast;
}

HeadRows::HeadRows(Recorder& rec, Store& store, const Heads& to, int64_t positions)
    : rec_(rec), store_(store), to_(to) {
  Memory& m = *to.memory;
  const int64_t lanes = rec.chip().partitions, columns = to.position;
  if (store.fits(m) && to.dim == 1 && columns > 0 && m.elements % columns == 0 && positions > 1) {
    const int64_t extent = m.elements / columns;
    Tiling tiling = Tiling::plain(extent, lanes);
    if (extent != positions && positions % lanes) tiling = {extent, positions, std::min(positions, lanes)};
    if (extent % tiling.period == 0) {
      form_ = &store.new_form(m, m.dtype, false, columns, tiling);
      return;
    }
  }
  store.keep_in_hbm(m, "", arch::TensorKind::scratch);
}

void HeadRows::put(const Val& value, int64_t e0, int64_t rows, int64_t dim) {
  const Axis part{to_.position, rows}, free{to_.dim, dim};
  if (form_)
    if (const auto dst = access(*form_, e0, {part}, {free})) return emit_copy(rec_, *dst, value);
  Memory& m = *to_.memory;
  const View t = rec_.sbuf(m.dtype, rows, dim, "attended");
  emit_copy(rec_, t, value);
  store_.store(uint32_t(m.hbm), m.dtype, e0, {part}, {free}, t);
}

View HeadBias::added(const View& scores, int64_t first, int64_t key) {
  const int64_t rows = scores.partitions, columns = scores.columns();
  if (bias_.position || !rec_.in_psum(scores)) {
    const View t = rec_.sbuf(Dtype::f32, rows, columns, "scores");
    rec_.emit("tensor_tensor", {{"dst", t}, {"data1", scores}, {"data2", part(rows, columns, first, key, Dtype::f32)}},
              {{"op", std::string_view("add")}}, arch::kVector);
    return t;
  }
  // The same for every query: one more multiply, of ones by the row, adds it where the scores are summed.
  if (ones_.axes.empty()) {
    ones_ = rec_.sbuf(dtype_, 1, rec_.chip().partitions, "ones");
    rec_.emit("memset", {{"dst", ones_}}, {{"value", 1.0}});
  }
  View still = ones_, moving = part(1, keys_, 0, 0, dtype_);
  still.axes = {{1, rows}};
  moving.offset += key;
  moving.axes = {{1, columns}};
  rec_.emit("nc_matmul", {{"dst", scores}, {"stationary", still}, {"moving", moving}},
            {{"accumulate", std::string_view("add")}});
  return scores;
}

View HeadBias::part(int64_t rows, int64_t columns, int64_t first, int64_t key, Dtype dtype) {
  const int64_t e0 = bias_.offset + at_ + first * bias_.position + key * bias_.dim;
  auto [found, fresh] = parts_.try_emplace({e0, rows, columns});
  if (!fresh) return found->second;
  Memory& m = *bias_.memory;
  const View raw = rec_.sbuf(m.dtype, rows, columns, "bias");
  store_.load(raw, store_.hbm(m), m.dtype, e0, {{bias_.position, rows}}, {{bias_.dim, columns}});
  // Adding widens by itself.
  if (!is_mask_ && scale_ == 1 && (m.dtype == dtype || dtype == Dtype::f32)) return found->second = raw;
  found->second = rec_.sbuf(dtype, rows, columns, "bias");
  Val x = Val::tile(raw);
  x.set_scale((is_mask_ ? -kMasked : 1.0) / scale_);  // of a mask 1 is seen, 0 is not
  if (is_mask_) x.set_bias(kMasked / scale_);
  emit_copy(rec_, found->second, x);
  return found->second;
}

Form& row_form(Store& store, const ir::Value& value, int64_t positions) {
  return store.new_form(store.of(value), Dtype::f32, true, positions, Tiling::plain(positions, store.lanes()));
}

}  // namespace trine::compile::device
