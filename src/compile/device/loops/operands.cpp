// See operands.h.
#include "compile/device/loops/operands.h"

#include <algorithm>
#include <utility>

#include "compile/device/memory/load_transposed.h"
#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

// The free axes that move, and a view of a tile that holds only those.
View expand(View dense, const Axes& free) {
  dense.axes.clear();
  int64_t stride = 1;
  for (size_t i = free.size(); i-- > 0;) {
    const bool moves = free[i].stride != 0 && free[i].count > 1;
    dense.axes.insert(dense.axes.begin(), {moves ? stride : 0, free[i].count});
    if (moves) stride *= free[i].count;
  }
  return dense;
}
Axes moving(const Axes& free) {
  Axes out;
  for (const Axis& a : free)
    if (a.stride != 0 && a.count > 1) out.push_back(a);
  if (out.empty()) out.push_back({1, 1});
  return out;
}

std::vector<int64_t> key_of(const Memory& m, int64_t e0, const Axes& axes) {
  std::vector<int64_t> key = {int64_t(reinterpret_cast<intptr_t>(&m)), e0};
  for (const Axis& a : axes) key.insert(key.end(), {a.stride, a.count});
  return key;
}

}  // namespace

View Operands::read(Memory& m, const Slice& at, const Walk& walk, const AtTile& here) {
  const bool on_parts =
      std::any_of(at.part.begin(), at.part.end(), [](const Axis& a) { return a.count > 1 && a.stride; });
  if (on_parts || here.partitions() == 1)
    for (const Form& f : m.forms)
      if (auto view = access(f, at.e0, at.part, at.free); view && starts_well(*view)) return *view;
  return on_parts ? loaded(m, at, walk, here) : broadcast(m, at, here);
}

int64_t Operands::widest(const std::vector<size_t>& frees, const Block& block) const {
  int64_t out = 0;
  reads.each([&](const Memory& m, const std::vector<int64_t>& strides, int64_t start) {
    Axes free;
    for (size_t i = 0; i < frees.size(); ++i) free.push_back({strides[frees[i]], block.count[i]});
    const auto [first, last] = reads.together(m, strides, start, free);
    out = std::max(out, cover_of(free, last - first, bytes(m.dtype)).columns() * bytes(m.dtype));
  });
  return out;
}

int64_t Operands::row_bytes(const std::vector<size_t>& frees, const Dims& counts) const {
  int64_t out = 0;
  reads.each([&](const Memory& m, const std::vector<int64_t>& strides, int64_t) {
    int64_t columns = 1;
    for (size_t i = 0; i < frees.size(); ++i)
      if (strides[frees[i]]) columns *= counts[i];
    out += columns * bytes(m.dtype);
  });
  return out;
}

View Operands::counted(int64_t columns, const AtTile& here) {
  auto [found, fresh] = broadcasts_.try_emplace({-1, columns});
  if (fresh) {
    const int64_t lanes = std::min<int64_t>(rec_.chip().partitions, element_count(here.rows));
    const View whole = rec_.sbuf(Dtype::s32, lanes, columns, "iota");
    rec_.emit_iota(whole, {1, columns}, 0, 0);
    found->second = rec_.sbuf(Dtype::f32, lanes, columns, "iota");
    rec_.emit("tensor_copy", {{"dst", found->second}, {"src", whole}}, {}, arch::kVector);
  }
  View view = found->second;
  view.partitions = here.partitions();
  return view;
}

View Operands::loaded(Memory& m, const Slice& at, const Walk& walk, const AtTile& here) {
  if (auto view = through_transpose(m, at, here.parts)) return *view;
  if (auto view = one_column_each(m, at, here)) return *view;
  if (auto view = by_blocks(rec_, store_, m, at.e0, at.part, moving(at.free))) return expand(*view, at.free);
  if (auto view = covered(m, at, walk, here.partitions())) return *view;
  const View t = plain(m, at, here.partitions());
  return expand(t, at.free);
}
View Operands::plain(Memory& m, const Slice& at, int partitions) {
  const Axes axes = moving(at.free);
  const auto load = [&] {
    const View t = rec_.sbuf(m.dtype, partitions, count_of(axes), "in");
    store_.load(t, store_.hbm(m), m.dtype, at.e0, at.part, axes);
    return t;
  };
  if (!keeps) return load();
  auto [found, fresh] = loaded_.try_emplace(key_of(m, at.e0, axes));
  if (fresh) found->second = load();
  return found->second;
}
// With what lies between its elements, and what other reads have of that.
std::optional<View> Operands::covered(Memory& m, const Slice& at, const Walk& walk, int partitions) {
  const auto [first, last] = reads.together(m, walk.strides, walk.offset, at.free);
  const Cover cover = cover_of(at.free, last - first, bytes(m.dtype));
  if (!pays(cover, at.free) || cover.columns() * bytes(m.dtype) > thresholds::cover::kCoverBytes) return std::nullopt;
  const int64_t begin = at.e0 - (walk.offset - first);
  auto [found, fresh] = covers_.try_emplace({&m, begin, walk.strides});
  if (fresh) {
    found->second = rec_.sbuf(m.dtype, partitions, cover.columns(), "in");
    store_.load(found->second, store_.hbm(m), m.dtype, begin - cover.back, at.part, cover.memory);
  }
  View view = found->second;
  view.offset += cover.first + walk.offset - first;
  view.axes = cover.tile;
  return view;
}
// One value per partition, the tiles' values one after the other in memory: all of them in one transfer, a column for
// each tile.
std::optional<View> Operands::one_column_each(Memory& m, const Slice& at, const AtTile& here) {
  const auto& tiles = here.tiles;
  const Axes part = collapse(at.part);
  const int64_t lanes = element_count(tiles[0].count);
  if (count_of(at.free) != 1 || tiles.size() < 2 || part.size() != 1 || part[0].stride != 1) return std::nullopt;
  if (m.elements != lanes * int64_t(tiles.size()) || at.e0 != int64_t(here.tile) * lanes) return std::nullopt;
  auto [found, fresh] = broadcasts_.try_emplace({int64_t(reinterpret_cast<intptr_t>(&m)), -1});
  if (fresh) {
    found->second = rec_.sbuf(m.dtype, lanes, int64_t(tiles.size()), "column");
    store_.load(found->second, store_.hbm(m), m.dtype, 0, {{1, lanes}}, {{lanes, int64_t(tiles.size())}});
  }
  View view = found->second;
  view.offset = int64_t(here.tile);
  view.axes = {{1, 1}};
  return view;
}
// Neighbouring elements on neighbouring partitions: cheaper by rows first and transposed on chip.
std::optional<View> Operands::through_transpose(Memory& m, const Slice& at, const Dims& parts) {
  const Axes part = collapse(at.part);
  // Those of a matrix, or of several one after the other.
  int64_t columns = element_count(parts), step = INT64_MAX;
  for (const Axis& a : at.free)
    if (a.count > 1 && a.stride > 1) step = std::min(step, a.stride);
  Tiling tiling = Tiling::of(parts, rec_.chip().partitions);
  if (step < columns) columns = step, tiling = Tiling::plain(step, rec_.chip().partitions);
  if (part.size() != 1 || part[0].stride != 1 || part[0].count < 2 || m.elements % columns) return std::nullopt;
  const int64_t rows = m.elements / columns, most = 2 * store_.keep_bytes();
  if (rows == 1 || rows * bytes(m.dtype) * tiling.tiles() > most || columns * bytes(m.dtype) > most)
    return std::nullopt;
  const Form probe{m.dtype, true, rows, columns, tiling, std::vector<uint32_t>(size_t(tiling.tiles()))};
  if (!access(probe, at.e0, at.part, at.free)) return std::nullopt;
  const TransposeEngine chosen = std::exchange(store_.choice.transpose_engine,
                                               exact_transpose_engine(rec_.chip(), store_.choice.transpose_engine));
  const Form& transposed = store_.form(m, m.dtype, true, columns, tiling);
  store_.choice.transpose_engine = chosen;
  return access(transposed, at.e0, at.part, at.free);
}
// The same for all partitions: loaded once for the unit, to every partition.
View Operands::broadcast(Memory& m, const Slice& at, const AtTile& here) {
  const Axes axes = moving(at.free);
  const Cover cover = cover_of(at.free, 0, bytes(m.dtype));
  const bool covers =
      pays(cover, at.free) && cover.columns() * bytes(m.dtype) <= thresholds::cover::kCoverBytes && !m.elsewhere;
  auto [found, fresh] = broadcasts_.try_emplace(key_of(m, at.e0, axes));
  if (fresh) {
    const int64_t lanes = std::min<int64_t>(rec_.chip().partitions, element_count(here.rows));
    found->second = rec_.sbuf(m.dtype, lanes, covers ? cover.columns() : count_of(axes), "all");
    store_.load(found->second, store_.hbm(m), m.dtype, at.e0 - (covers ? cover.back : 0), {{0, lanes}},
                covers ? cover.memory : axes);
  }
  View view = covers ? found->second : expand(found->second, at.free);
  if (covers) view.offset += cover.first, view.axes = cover.tile;
  view.partitions = here.partitions();
  return view;
}

}  // namespace trine::compile::device
