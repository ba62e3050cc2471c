// The blocked multiply under gemm and conv: packs both sides, cuts the result into tiles, runs microkernels over them
// and finishes each tile (epilogue, rounding, store) while it is in cache.
// Not a public face: gemm.h and conv/conv.h are. Invariant: no result bit depends on the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "host/gemm/pack.h"

namespace trine::host {

// Called once for each finished tile, from any thread, while the tile is in cache. `tile` holds the family's sums (f32
// for floats) with `ld` elements between rows; rows count through the batch: row0 = item * m + row.
struct Epilogue {
  void (*run)(void* ctx, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld) = nullptr;
  void* ctx = nullptr;
};

// Where rows lie that are not evenly apart: a row counts through the extents, the last fastest.
struct RowMap {
  std::array<int64_t, 7> extents = {1, 1, 1, 1, 1, 1, 1}, strides = {};
  int64_t offset(int64_t row) const;
  std::optional<int64_t> step() const;  // if they are evenly apart after all
};

// The result. With null data the tile is scratch, and the epilogue is what stores it.
struct TileOut {
  void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int64_t row_stride = 0, col_stride = 1;
  Epilogue epilogue = {};
  int64_t row_base = 0, col_base = 0;  // added to what the epilogue is given
  const RowMap* rows = nullptr;        // instead of row_stride
};

// C[m, n] = A[m, depth] * B[depth, n], with depth in steps of the family.
struct Blocked {
  int64_t m = 0, n = 0;
  int64_t begin = 0, depth = 0;  // first step, and how many
  Family family = Family::floats;
  PanelSource a = {}, b = {};
  const PackedMatrix* packed_b = nullptr;  // instead of b
  int64_t packed_item = 0;
  TileOut out = {};
  Simd simd = simd_best();
};
void run_blocked(const Blocked& w);

// Rows are cut into groups of nearly equal height, at most kRowsMax.
struct Groups {
  int64_t m = 0, count = 0;
  explicit Groups(int64_t rows) : m(rows), count((rows + kRowsMax - 1) / kRowsMax) {}
  int64_t row(int64_t group) const { return group * m / count; }
};

bool can_store(Family family, Dtype dtype);
// Whether kernels may write sums straight into the result.
bool is_direct(const TileOut& out, Family family);
// Epilogue, rounding and store of a finished tile whose first element is result (row0, col0); `ld` in elements.
void finish_tile(const TileOut& out, Family family, std::byte* tile, int64_t ld, int64_t row0, int64_t rows,
                 int64_t col0, int64_t cols);
// One group of `rows` rows times one panel, of which `cols` columns are wanted.
void multiply(const MicroKernels& kernels, Family family, const void* a, const void* b, int64_t depth, int64_t rows,
              int64_t cols, std::byte* c, int64_t ld, bool add, Ahead ahead);

}  // namespace trine::host
