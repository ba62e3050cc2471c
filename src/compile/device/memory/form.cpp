// Tilings and access; see form.h.
#include "compile/device/memory/form.h"

namespace trine::compile::device {

Tiling Tiling::of(const std::vector<int64_t>& dims, int64_t partitions) {
  int64_t extent = 1;
  for (int64_t n : dims) extent *= n;
  if (extent == 0) return {0, 1, 1};
  int64_t inner = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (inner * dims[d] <= partitions) {
      inner *= dims[d];
      continue;
    }
    return {extent, inner * dims[d], partitions / inner * inner};
  }
  return {extent, inner, inner};
}

bool Tiling::same(const Tiling& o) const {
  if (extent != o.extent) return false;
  if (per == o.per && (period == o.period || (period % per == 0 && o.period % per == 0))) return true;
  return tiles() == 1 && o.tiles() == 1;
}

View Form::tile(int64_t t) const {
  return {.tensor = tensors[size_t(t)], .dtype = dtype, .partitions = int(tiling.size(t)), .axes = {{1, free()}}};
}

namespace {

struct Move {
  int64_t row = 0, column = 0;
};

std::optional<Move> move_of(int64_t stride, int64_t columns) {
  if (stride % columns == 0) return Move{stride / columns, 0};
  if (stride > -columns && stride < columns) return Move{0, stride};
  return std::nullopt;
}

}  // namespace

bool starts_well(const View& v) {
  if (v.partition == 0) return true;
  if (v.partitions <= 32) return v.partition % 32 == 0;
  return v.partitions <= 64 && v.partition % 64 == 0;
}

std::optional<View> access(const Form& form, int64_t e0, const Axes& part, const Axes& free) {
  int64_t low = e0 % form.columns, high = low;  // columns met
  const auto reach = [&](const Move& m, int64_t count) { (m.column < 0 ? low : high) += m.column * (count - 1); };
  const auto along_partitions = [&](const Move& m) { return form.transposed ? m.row == 0 : m.column == 0; };
  const auto along_free = [&](const Move& m) { return form.transposed ? m.column == 0 : m.row == 0; };

  int64_t partitions = 1;
  for (const Axis& a : collapse(part)) {
    if (a.count == 1) continue;
    const auto m = move_of(a.stride, form.columns);
    if (!m || !along_partitions(*m) || (m->row + m->column) != 1 || partitions != 1) return std::nullopt;
    reach(*m, a.count);
    partitions = a.count;
  }
  View view{.dtype = form.dtype, .partitions = int(partitions)};
  for (const Axis& a : free) {
    if (a.count == 1) continue;
    const auto m = move_of(a.stride, form.columns);
    if (!m || !along_free(*m)) return std::nullopt;
    reach(*m, a.count);
    view.axes.push_back({m->row + m->column, a.count});
  }
  if (low < 0 || high >= form.columns) return std::nullopt;
  const int64_t row = e0 / form.columns, column = e0 % form.columns;
  const int64_t p = form.transposed ? column : row;
  const int64_t tile = form.tiling.tile_of(p);
  if (form.tiling.partition_of(p) + partitions > form.tiling.size(tile)) return std::nullopt;
  view.tensor = form.tensors[size_t(tile)];
  view.partition = int(form.tiling.partition_of(p));
  view.offset = form.transposed ? row : column;
  if (view.axes.empty()) view.axes.push_back({1, 1});
  return view;
}

}  // namespace trine::compile::device
