// Which engine transposes, and how; see transpose.h.
#include "compile/device/memory/transpose.h"

#include "compile/device/loops/map.h"

namespace trine::compile::device {

namespace {

constexpr int64_t kVectorSide = 32;  // of a block, as the row nc_transpose has it
constexpr int64_t kRowsMax = 16384;  // of one transfer

View part(View v, int64_t begin, int64_t count) {
  const int64_t stride = v.axes.empty() ? 1 : v.axes.back().stride;
  v.offset += begin * stride;
  v.axes = {{stride, count}};
  return v;
}

void by_vector(Recorder& rec, const View& dst, const View& tile) {
  const int64_t rows = tile.partitions, columns = tile.columns();
  for (int64_t i = 0; i < rows; i += kVectorSide)
    for (int64_t j = 0; j < columns; j += kVectorSide) {
      View from = part(tile, j, std::min(kVectorSide, columns - j)), to = part(dst, i, std::min(kVectorSide, rows - i));
      from.partition += int(i), from.partitions = int(to.columns());
      to.partition += int(j), to.partitions = int(from.columns());
      rec.emit("nc_transpose", {{"dst", to}, {"data", from}}, {}, arch::kVector);
    }
}

bool is_dense(const View& v) { return v.axes.size() <= 1; }

}  // namespace

TransposeEngine transpose_engine_of(const arch::Chip& chip, TransposeEngine wanted, Dtype dtype) {
  const int size = bytes(dtype);
  if (wanted == TransposeEngine::dma && (size == 2 || size == 4)) return wanted;
  const bool array = size > 1 && (!is_integer(dtype) || chip.has(arch::Feature::transpose_mode));
  return wanted == TransposeEngine::vector || !array ? TransposeEngine::vector : TransposeEngine::tensor;
}

TransposeEngine exact_transpose_engine(const arch::Chip& chip, TransposeEngine wanted) {
  return wanted == TransposeEngine::tensor && !chip.has(arch::Feature::transpose_mode) ? TransposeEngine::dma : wanted;
}

void emit_transpose(Recorder& rec, TransposeEngine by, const View& dst, std::span<const View> tiles, int64_t room) {
  const Dtype dtype = tiles[0].dtype;
  by = transpose_engine_of(rec.chip(), by, dtype);
  const int64_t columns = tiles[0].columns();
  int64_t rows = 0;
  for (const View& t : tiles) rows += t.partitions;
  const bool direct = by != TransposeEngine::tensor && dst.dtype == dtype && is_dense(dst);
  const View to = direct                          ? dst
                  : by == TransposeEngine::tensor ? rec.psum(columns, std::max(room, rows), dtype)
                                                  : rec.sbuf(dtype, columns, rows, "turned");
  int64_t at = 0;
  for (const View& tile : tiles) {
    const View here = part(to, at, tile.partitions);
    if (by == TransposeEngine::vector)
      by_vector(rec, here, tile);
    else if (by == TransposeEngine::dma)
      rec.emit("dma_transpose", {{"dst", here}, {"src", tile}});
    else
      rec.emit("nc_transpose", {{"dst", here}, {"data", tile}}, {}, arch::kTensor);
    at += tile.partitions;
  }
  if (direct) return;
  View from = to;
  from.axes = dst.axes;
  int64_t stride = 1;  // the same dims, densely
  for (size_t d = from.axes.size(); d-- > 0; stride *= from.axes[d].count) from.axes[d].stride = stride;
  emit_copy(rec, dst, Val::tile(from));
}

View transposed_tile(Recorder& rec, TransposeEngine by, const View& tile) {
  if (transpose_engine_of(rec.chip(), by, tile.dtype) == TransposeEngine::tensor) {
    const View acc = rec.psum(tile.columns(), tile.partitions, tile.dtype);
    rec.emit("nc_transpose", {{"dst", acc}, {"data", tile}}, {}, arch::kTensor);
    return acc;
  }
  const View to = rec.sbuf(tile.dtype, tile.columns(), tile.partitions, "turned");
  emit_transpose(rec, by, to, {&tile, 1});
  return to;
}

bool load_transposed(Recorder& rec, TransposeEngine by, const View& dst, const HbmRows& from) {
  if (by != TransposeEngine::dma || transpose_engine_of(rec.chip(), by, from.dtype) != TransposeEngine::dma)
    return false;
  if (dst.dtype != from.dtype || from.rows.count > kRowsMax || from.rows.stride <= 0) return false;
  View src{.tensor = from.tensor,
           .dtype = from.dtype,
           .partitions = int(from.rows.count),
           .row_stride = from.rows.stride,
           .offset = from.e0};
  src.axes = {from.runs, {1, dst.partitions}};
  rec.emit("dma_transpose", {{"dst", dst}, {"src", src}});
  return true;
}

}  // namespace trine::compile::device
