// Joint walks of two ranges in HBM, and the ops made of them; see moves.h.
#include "compile/device/memory/moves.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::memory;

constexpr size_t kRank = 3;          // free dims of one transfer beside its rows
constexpr int64_t kRowsMax = 16384;  // of one transfer

// Without dims of one, neighbours that both sides walk on merged.
std::vector<Move> merged(const std::vector<Move>& dims) {
  std::vector<Move> out;
  for (const Move& d : dims) {
    if (d.count == 1) continue;
    if (!out.empty() && out.back().to == d.to * d.count && out.back().from == d.from * d.count)
      out.back() = {d.to, d.from, out.back().count * d.count};
    else
      out.push_back(d);
  }
  return out;
}

// One long run is cut into rows, so that the queues share the work.
void share_out(std::vector<Move>& all) {
  if (all.empty() || all.back().to != 1 || all.back().from != 1) return;
  for (int64_t n : {128, 64, 32, 16}) {
    const int64_t run = all.back().count / n;
    if (all.back().count % n || run < tuned::kRunLeast) continue;
    all.back() = {run, run, n};
    return all.push_back({1, 1, run});
  }
}

}  // namespace

void move(Recorder& rec, const View& to, const View& from, const std::vector<Move>& dims) {
  std::vector<Move> all = merged(dims);
  const size_t before = all.size();
  if (before <= 2 && (before < 2 || all[0].count < 16)) share_out(all);
  // Few rows of long runs go one after the other, each by all queues.
  const bool one_by_one = all.size() == 3 && before == 2;
  // The rows of a transfer: its outermost dim, where it has several.
  const bool has_rows = all.size() > 1;
  const size_t inner = one_by_one ? 2 : std::min(all.size(), kRank + (has_rows ? 1 : 0));
  const size_t outer = all.size() - inner;
  int64_t count = 1;
  for (size_t d = 0; d < outer; ++d) count *= all[d].count;
  View dst = to, src = from;
  dst.axes.clear(), src.axes.clear();
  for (size_t d = outer + has_rows; d < all.size(); ++d) {
    dst.axes.push_back({all[d].to, all[d].count});
    src.axes.push_back({all[d].from, all[d].count});
  }
  for (View* v : {&dst, &src})
    if (v->axes.empty()) v->axes.push_back({1, 1});
  const Move rows = has_rows ? all[outer] : Move{};
  dst.row_stride = rows.to, src.row_stride = rows.from;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, t = to.offset, f = from.offset;
    for (size_t d = outer; d-- > 0; rest /= all[d].count) {
      t += rest % all[d].count * all[d].to;
      f += rest % all[d].count * all[d].from;
    }
    for (int64_t row = 0; row < rows.count; row += kRowsMax) {
      dst.partitions = src.partitions = int(std::min(kRowsMax, rows.count - row));
      dst.offset = t + row * rows.to;
      src.offset = f + row * rows.from;
      rec.transfer(dst, src);
    }
  }
}

void copy_all(Recorder& rec, uint32_t to, Dtype to_dtype, uint32_t from, Dtype from_dtype, int64_t elements) {
  // Rows, so that the queues share the work.
  int64_t rows = 1;
  for (int64_t n : {128, 64, 32, 16, 8, 4, 2})
    if (elements % n == 0 && rows == 1) rows = n;
  const Axes row = {{1, elements / rows}};
  const View dst{.tensor = to, .dtype = to_dtype, .partitions = int(rows), .row_stride = elements / rows, .axes = row};
  View src = dst;
  src.tensor = from;
  src.dtype = from_dtype;
  if (elements) rec.transfer(dst, src);
}

// A tile of the value, rows of `width` elements.
static View fill_tile(Recorder& rec, Store& store, const Memory& m, const ir::Value& value, int64_t rows,
                      int64_t width) {
  const View tile = rec.sbuf(m.dtype, rows, width, "fill");
  Memory& given = store.of(value);
  const View one = rec.sbuf(given.dtype, rows, 1, "fill");
  store.load(one, store.hbm(given), given.dtype, 0, {{0, rows}}, {{0, 1}});
  emit_copy(rec, tile, Val::row(one));
  return tile;
}

void fill(Recorder& rec, Store& store, Memory& m, const ir::Value& value) {
  const int64_t lanes = rec.chip().partitions;
  const int64_t width = std::clamp<int64_t>(m.elements / lanes, 1, tuned::kFillBytes / bytes(m.dtype));
  const int64_t rows = std::min(lanes, m.elements / width);
  const View tile = fill_tile(rec, store, m, value, rows, width);
  for (int64_t at = 0; at < m.elements;) {
    const int64_t left = m.elements - at;
    View src = tile;
    src.partitions = int(std::clamp<int64_t>(left / width, 1, rows));
    const int64_t each = std::min(width, left);
    src.axes = {{1, each}};
    store.store(uint32_t(m.hbm), m.dtype, at, {{each, src.partitions}}, {{1, each}}, src);
    at += each * src.partitions;
  }
}

// The elements before and after the operand along each dim, where they are few; false: all are to be filled.
static bool fill_edges(Recorder& rec, Store& store, Memory& m, const ir::Value& value, const Dims& low,
                       const Dims& inner) {
  const int64_t lanes = rec.chip().partitions, width = tuned::kFillBytes / bytes(m.dtype);
  if ((m.elements - element_count(inner)) * tuned::kSharesOfEdge > m.elements) return false;
  const Dims strides = row_major_strides(m.dims);
  struct Slab {
    int64_t first = 0;
    Axes axes = {};  // collapsed: runs along the last
  };
  std::vector<Slab> slabs;
  int64_t transfers = 0;
  for (size_t d = 0; d < m.dims.size(); ++d)
    for (const auto& [from, to] : {std::pair(int64_t{0}, low[d]), std::pair(low[d] + inner[d], m.dims[d])}) {
      if (to == from) continue;
      Slab slab{.first = from * strides[d]};
      for (size_t e = 0; e < m.dims.size(); ++e) {
        if (e < d) slab.first += low[e] * strides[e];
        slab.axes.push_back({strides[e], e < d ? inner[e] : e == d ? to - from : m.dims[e]});
      }
      slab.axes = collapse(slab.axes);
      if (slab.axes.size() == 1) slab.axes.insert(slab.axes.begin(), {0, 1});
      int64_t count = (slab.axes.back().count + width - 1) / width;
      for (size_t a = 0; a + 1 < slab.axes.size(); ++a)
        count *= a + 2 < slab.axes.size() ? slab.axes[a].count : (slab.axes[a].count + lanes - 1) / lanes;
      transfers += count;
      slabs.push_back(std::move(slab));
    }
  if (transfers > tuned::kTransfersMax) return false;
  if (slabs.empty()) return true;
  const View tile = fill_tile(rec, store, m, value, lanes, width);
  for (const Slab& slab : slabs) {
    const Axes outer(slab.axes.begin(), slab.axes.end() - 2);
    const Axis rows = slab.axes[outer.size()], run = slab.axes.back();
    for (int64_t i = 0; i < count_of(outer); ++i) {
      int64_t at = slab.first, rest = i;
      for (size_t a = outer.size(); a-- > 0; rest /= outer[a].count) at += rest % outer[a].count * outer[a].stride;
      for (int64_t r = 0; r < rows.count; r += lanes)
        for (int64_t c = 0; c < run.count; c += width) {
          View src = tile;
          src.partitions = int(std::min(lanes, rows.count - r));
          src.axes = {{1, std::min(width, run.count - c)}};
          store.store(uint32_t(m.hbm), m.dtype, at + r * rows.stride + c * run.stride, {{rows.stride, src.partitions}},
                      {{run.stride, src.axes[0].count}}, src);
        }
    }
  }
  return true;
}

std::string move_obstacle(const ir::Node& node) {
  const auto foreign = [](const ir::Type& t) { return !t.is_token && !device_dtype(t.dtype); };
  for (const ir::Value& v : node.inputs)
    if (foreign(v.type())) return cat("the chip has no ", row(v.type().dtype).name);
  for (const ir::Type& t : node.types)
    if (foreign(t)) return cat("the chip has no ", row(t.dtype).name);
  return {};
}

// A part whose rows on chip are runs of the result goes there straight; else by way of its own memory.
static bool put_rows(Store& store, Memory& part, const Memory& out, int64_t offset, int64_t run, int64_t pitch) {
  for (const Form& f : part.forms) {
    if (f.transposed || (f.columns != run && run != part.elements)) continue;
    const int64_t step = f.columns == run ? pitch : f.columns;
    for (int64_t t = 0; t < f.tiling.tiles(); ++t)
      store.store(uint32_t(out.hbm), out.dtype, offset + f.tiling.begin(t) * step, {{step, f.tiling.size(t)}},
                  {{1, f.columns}}, f.tile(t));
    return true;
  }
  return false;
}

// Parts of a few elements each, as where two lists are made pairs: put together on chip, in rows of whole items.
static bool interleave_parts(Recorder& rec, Store& store, const ir::Node& node, const Memory& out, int64_t pitch) {
  const int64_t size = bytes(out.dtype), items = out.elements / pitch, lanes = rec.chip().partitions;
  if (out.elements < tuned::kInterleavedLeast || pitch * size > tuned::kInterleavedRow) return false;
  int64_t shortest = pitch;
  for (const ir::Value& v : node.inputs) {
    if (store.of(v).elsewhere) return false;
    if (v.type().elements()) shortest = std::min(shortest, v.type().elements() / items);
  }
  if (shortest * size > tuned::kInterleavedBytes) return false;
  const int64_t wide = std::clamp<int64_t>(items / lanes, 1, tuned::kInterleavedRow / size / pitch);
  for (int64_t first = 0, rows = 0, count = 0; first < items; first += rows * count) {
    count = std::min(wide, items - first), rows = std::min(lanes, (items - first) / count);
    const View whole = rec.sbuf(out.dtype, rows, count * pitch, "woven");
    int64_t at = 0;
    for (const ir::Value& v : node.inputs) {
      Memory& part = store.of(v);
      const int64_t run = part.elements / items;
      if (run == 0) continue;
      View from = rec.sbuf(part.dtype, rows, count * run, "part"), to = whole;
      store.load(from, store.hbm(part), part.dtype, first * run, {{count * run, rows}}, {{1, count * run}});
      from.axes = {{run, count}, {1, run}}, to.axes = {{pitch, count}, {1, run}};
      to.offset = std::exchange(at, at + run);
      emit_copy(rec, to, Val::tile(from));
    }
    store.store(uint32_t(out.hbm), out.dtype, first * pitch, {{count * pitch, rows}}, {{1, count * pitch}}, whole);
  }
  return true;
}

void lower_concatenate(Recorder& rec, Store& store, const ir::Node& node) {
  Memory& out = store.of(node.result());
  store.keep_in_hbm(out, "", arch::TensorKind::scratch);
  const auto dim = size_t(node.attrs.integer("dimension"));
  const Dims& dims = node.types[0].dims;
  int64_t pitch = 1, offset = 0;
  for (size_t d = dim; d < dims.size(); ++d) pitch *= dims[d];
  if (out.elements && interleave_parts(rec, store, node, out, pitch)) return;
  for (const ir::Value& v : node.inputs) {
    Memory& part = store.of(v);
    if (part.elements == 0) continue;
    const int64_t run = pitch / dims[dim] * v.type().dims[dim];
    if (part.hbm >= 0 || !put_rows(store, part, out, offset, run, pitch))
      move(rec, {.tensor = uint32_t(out.hbm), .dtype = out.dtype, .offset = offset},
           {.tensor = store.hbm(part), .dtype = part.dtype}, {{pitch, run, part.elements / run}, {1, 1, run}});
    offset += run;
  }
}

bool lower_slice(Recorder& rec, Store& store, const ir::Node& node) {
  if (node.op != op::slice || !store.has(node.inputs[0])) return false;
  Memory &out = store.of(node.result()), &in = store.of(node.inputs[0]);
  const ir::Ints &first = node.attrs.ints("start_indices"), &steps = node.attrs.ints("strides");
  const Dims &made = node.types[0].dims, to = row_major_strides(made),
             from = row_major_strides(node.inputs[0].type().dims);
  const bool runs = !made.empty() && steps.back() == 1 && made.back() * bytes(out.dtype) >= tuned::kSliceRunLeast;
  if (!runs || store.fits(out) || !in.forms.empty() || in.hbm < 0 || in.elsewhere || in.dtype != out.dtype)
    return false;
  store.keep_in_hbm(out, "", arch::TensorKind::scratch);
  std::vector<Move> dims;
  int64_t offset = 0;
  for (size_t d = 0; d < made.size(); ++d) {
    offset += first[d] * from[d];
    dims.push_back({to[d], steps[d] * from[d], made[d]});
  }
  move(rec, {.tensor = uint32_t(out.hbm), .dtype = out.dtype},
       {.tensor = uint32_t(in.hbm), .dtype = in.dtype, .offset = offset}, dims);
  return true;
}

void lower_pad(Recorder& rec, Store& store, const ir::Node& node) {
  Memory &out = store.of(node.result()), &in = store.of(node.inputs[0]);
  store.keep_in_hbm(out, "", arch::TensorKind::scratch);
  const ir::Ints &low = node.attrs.ints("edge_padding_low"), &inside = node.attrs.ints("interior_padding");
  const bool solid = std::all_of(inside.begin(), inside.end(), [](int64_t n) { return n == 0; });
  if (!solid || !fill_edges(rec, store, out, node.inputs[1], low, node.inputs[0].type().dims))
    fill(rec, store, out, node.inputs[1]);
  if (in.elements == 0) return;
  const Dims &from = node.inputs[0].type().dims, from_strides = row_major_strides(from),
             strides = row_major_strides(node.types[0].dims);
  std::vector<Move> dims;
  int64_t offset = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    offset += low[d] * strides[d];
    dims.push_back({strides[d] * (1 + (inside.empty() ? 0 : inside[d])), from_strides[d], from[d]});
  }
  move(rec, {.tensor = uint32_t(out.hbm), .dtype = out.dtype, .offset = offset},
       {.tensor = store.hbm(in), .dtype = in.dtype}, dims);
}

void lower_bits(Recorder& rec, Store& store, const ir::Node& node) {
  Memory &out = store.of(node.result()), &in = store.of(node.inputs[0]);
  store.keep_in_hbm(out, "", arch::TensorKind::scratch);
  const bool grows = bytes(out.dtype) > bytes(in.dtype);
  const Dtype dtype = grows ? out.dtype : in.dtype;
  copy_all(rec, uint32_t(out.hbm), dtype, store.hbm(in), dtype, grows ? out.elements : in.elements);
}

}  // namespace trine::compile::device
