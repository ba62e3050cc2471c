// Rows of HBM that are transposed block by block; see load_transposed.h.
#include "compile/device/memory/load_transposed.h"

#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::memory;

// Rows of HBM, one after the other, as columns of dst: 128 by 128, as many at once as a bank of PSUM holds.
void transpose_rows(Recorder& rec, Store& store, const View& dst, uint32_t hbm, Dtype dtype, int64_t e0,
                    const Axis& rows) {
  View to = dst;
  to.axes = {{1, rows.count}};
  const TransposeEngine by = exact_transpose_engine(rec.chip(), store.choice.transpose_engine);
  if (load_transposed(rec, by, to, {hbm, dtype, e0, rows})) return;
  const int64_t lanes = rec.chip().partitions, wide = dst.partitions;
  const int64_t together = std::max<int64_t>(1, rec.chip().psum.bank_bytes / bytes(dtype) / lanes);
  const int64_t most = std::min(rows.count, lanes), groups = rows.count / most;
  const auto transpose = [&](int64_t first, int64_t count, int64_t tall) {
    const View raw = rec.sbuf(dtype, tall, count * wide, "rows");
    store.load(raw, hbm, dtype, e0 + first * most * rows.stride, {{rows.stride, tall}},
               {{most * rows.stride, count}, {1, wide}});
    for (int64_t i = 0; i < count; i += together) {
      std::vector<View> tiles;
      for (int64_t k = i; k < std::min(count, i + together); ++k) {
        tiles.push_back(raw);
        tiles.back().offset = k * wide;
        tiles.back().axes = {{1, wide}};
      }
      View part = dst;
      part.offset += (first + i) * most;
      part.axes = {{1, tall * int64_t(tiles.size())}};
      emit_transpose(rec, by, part, tiles);
    }
  };
  transpose(0, groups, most);
  if (const int64_t rest = rows.count % most) transpose(groups, 1, rest);
}

}  // namespace

std::optional<View> by_blocks(Recorder& rec, Store& store, Memory& m, int64_t e0, const Axes& part, const Axes& free) {
  const Axes p = collapse(part), f = collapse(free);
  const int64_t wide = p[0].count, all = count_of(f);
  if (p.size() != 1 || p[0].stride != 1 || wide * all < tuned::kTransposeLeast || m.elsewhere) return std::nullopt;
  if (f.back().stride <= 1 || f.back().count < 32 || wide < 8) return std::nullopt;
  const View tile = rec.sbuf(m.dtype, wide, all, "in");
  const int64_t rows = f.back().count;
  for (int64_t i = 0; i < all / rows; ++i) {
    int64_t rest = i, at = e0;
    for (size_t d = f.size() - 1; d-- > 0; rest /= f[d].count) at += rest % f[d].count * f[d].stride;
    View dst = tile;
    dst.offset = i * rows;
    transpose_rows(rec, store, dst, store.hbm(m), m.dtype, at, f.back());
  }
  return tile;
}

bool store_by_rows(Recorder& rec, Store& store, const Memory& m, int64_t e0, const Axes& part, const Axes& free,
                   View tile) {
  const Axes across = collapse(part), along = collapse(free);
  if (across.size() != 1 || across[0].stride != 1 || along.size() != 1 || along[0].stride == 1) return false;
  const int64_t lanes = rec.chip().partitions, wide = across[0].count;
  const TransposeEngine by = exact_transpose_engine(rec.chip(), store.choice.transpose_engine);
  for (int64_t i = 0; i < along[0].count; i += lanes) {
    const int64_t rows = std::min(lanes, along[0].count - i), stride = along[0].stride;
    tile.offset = i, tile.axes = {{1, rows}};
    const View by_row = rec.sbuf(m.dtype, rows, wide, "rows");
    emit_transpose(rec, by, by_row, {&tile, 1});
    store.store(uint32_t(m.hbm), m.dtype, e0 + i * stride, {{stride, rows}}, {{1, wide}}, by_row);
  }
  return true;
}

}  // namespace trine::compile::device
