// What happens to one tile: the ragged edge of panels, and the way from sums to the stored result.
#include <algorithm>
#include <cstring>

#include "host/gemm/blocked.h"
#include "host/values.h"

namespace trine::host {

namespace {

std::byte* element(const TileOut& out, int64_t row, int64_t col) {
  const int64_t before = out.rows ? out.rows->offset(row) : row * out.row_stride;
  return static_cast<std::byte*>(out.data) + (before + col * out.col_stride) * bytes(out.dtype);
}

// The value a sub-byte integer takes in its byte.
uint64_t low_bits(uint64_t sum, Dtype dtype) {
  const int unused = 64 - bits(dtype);
  if (row(dtype).kind == DtypeKind::signed_int) return uint64_t(int64_t(sum << unused) >> unused);
  return sum << unused >> unused;
}

// Integers keep their low bits, as their arithmetic wraps; a boolean is whether the sum is not zero.
void store_ints(const std::byte* sums, int64_t unit, std::byte* to, Dtype dtype, int64_t n) {
  const int64_t size = bytes(dtype);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t sum = 0;
    std::memcpy(&sum, sums + i * unit, size_t(unit));
    if (dtype == Dtype::boolean) sum = sum != 0;
    if (is_integer(dtype) && bits(dtype) < 8) sum = low_bits(sum, dtype);
    std::memcpy(to + i * size, &sum, size_t(size));
  }
}

// n sums to stored values, side by side.
void store_dense(Dtype dtype, Family family, const std::byte* sums, std::byte* to, int64_t n) {
  if (family == Family::floats) {
    round_values(dtype, reinterpret_cast<const float*>(sums), to, size_t(n), simd_best());
  } else if (is_floating(dtype) || is_complex(dtype)) {
    std::memcpy(to, sums, size_t(n * bytes(dtype)));
  } else {
    store_ints(sums, row(family).unit, to, dtype, n);
  }
}

template <class U>
void scatter(const U* dense, int64_t rows, int64_t cols, std::byte* const* to, int64_t col_stride) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(to[r] + c * col_stride * int64_t(sizeof(U)), dense + r * cols + c, sizeof(U));
  }
}

// A result whose columns lie apart: rounded first, then column by column, along which rows often lie side by side.
void store_apart(const TileOut& out, Family family, const std::byte* tile, int64_t ld, int64_t row0, int64_t rows,
                 int64_t col0, int64_t cols) {
  const int64_t size = bytes(out.dtype);
  Scratch memory(size_t(rows * (cols * size + int64_t(sizeof(std::byte*)))));
  auto** to = memory.as<std::byte*>();
  auto* dense = reinterpret_cast<std::byte*>(to + rows);
  for (int64_t r = 0; r < rows; ++r) {
    to[r] = element(out, row0 + r, col0);
    store_dense(out.dtype, family, tile + r * ld * row(family).unit, dense + r * cols * size, cols);
  }
  struct Units16 {
    uint64_t low, high;
  };
  auto go = [&](auto unit) { scatter(reinterpret_cast<const decltype(unit)*>(dense), rows, cols, to, out.col_stride); };
  switch (size) {
    case 1:
      return go(uint8_t{});
    case 2:
      return go(uint16_t{});
    case 4:
      return go(uint32_t{});
    case 8:
      return go(uint64_t{});
    default:
      return go(Units16{});
  }
}

}  // namespace

bool can_store(Family family, Dtype dtype) {
  switch (family) {
    case Family::floats:
      return is_floating(dtype) && bits(dtype) <= 32;
    case Family::pairs:
    case Family::int32:
      return dtype == Dtype::boolean || (is_integer(dtype) && bits(dtype) <= 32);
    case Family::int64:
      return dtype == Dtype::boolean || is_integer(dtype);
    default:
      return dtype == row(family).sum;
  }
}

int64_t RowMap::offset(int64_t row) const {
  int64_t out = 0;
  for (size_t i = extents.size(); i-- > 0 && row > 0;) {
    if (extents[i] == 1) continue;
    const int64_t rest = row / extents[i];
    out += (row - rest * extents[i]) * strides[i];
    row = rest;
  }
  return out;
}

std::optional<int64_t> RowMap::step() const {
  int64_t step = 0, next = 0;  // next: the stride that would go on evenly
  for (size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == 1) continue;
    if (next != 0 && strides[i] != next) return std::nullopt;
    if (step == 0) step = strides[i];
    next = strides[i] * extents[i];
  }
  return step;
}

bool is_direct(const TileOut& out, Family family) {
  const bool same = out.dtype == row(family).sum || (is_integer(row(family).sum) && is_integer(out.dtype));
  return out.data && !out.rows && out.col_stride == 1 && same && bytes(out.dtype) == row(family).unit;
}

void finish_tile(const TileOut& out, Family family, std::byte* tile, int64_t ld, int64_t row0, int64_t rows,
                 int64_t col0, int64_t cols) {
  if (out.epilogue.run) {
    out.epilogue.run(out.epilogue.ctx, reinterpret_cast<float*>(tile), out.row_base + row0, rows, out.col_base + col0,
                     cols, ld);
  }
  if (!out.data || tile == element(out, row0, col0)) return;
  if (out.col_stride != 1 && cols > 1) return store_apart(out, family, tile, ld, row0, rows, col0, cols);
  for (int64_t r = 0; r < rows; ++r) {
    store_dense(out.dtype, family, tile + r * ld * row(family).unit, element(out, row0 + r, col0), cols);
  }
}

void multiply(const MicroKernels& kernels, Family family, const void* a, const void* b, int64_t depth, int64_t rows,
              int64_t cols, std::byte* c, int64_t ld, bool add, Ahead ahead) {
  const int64_t width = panel_width(family), unit = row(family).unit;
  if (cols == width) return kernels.rows[rows](a, b, depth, c, ld, add, ahead);
  alignas(64) std::byte edge[kRowsMax * kStepBytes] = {};
  for (int64_t r = 0; add && r < rows; ++r) std::memcpy(edge + r * kStepBytes, c + r * ld * unit, size_t(cols * unit));
  kernels.rows[rows](a, b, depth, edge, width, add, ahead);
  for (int64_t r = 0; r < rows; ++r) std::memcpy(c + r * ld * unit, edge + r * kStepBytes, size_t(cols * unit));
}

}  // namespace trine::host
