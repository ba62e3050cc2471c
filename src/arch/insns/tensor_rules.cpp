// Costs and rules of the tensor engine's rows; see tensor.h. Every limit is a field or a feature of the chip.
#include "arch/insns/tensor.h"

#include <utility>

#include "arch/insns/lanes.h"
#include "base/text.h"

namespace trine::arch {

bool in_transpose_mode(const Chip& k, const Call& i) {
  return i.attr("is_transpose") && k.has(Feature::transpose_mode);
}

int64_t rows_per_partition(const Call& i) { return i.as<PerfMode>("perf_mode") == PerfMode::double_row ? 2 : 1; }

// --- cost ---

static int64_t whole(double cycles) { return static_cast<int64_t>(std::ceil(cycles)); }

// LS and MM of the array. f32 goes through in several passes and has no fast weight load: one column a cycle and pass,
// which is what the active time of the published naive-matmul profile (MM plus exposed LS) shows. Where f32 weights do
// not load in the background, the array waits for them.
static Cost array_cost(const Chip& k, double passes, double stationary, double interval) {
  if (passes == 1) return {.cycles = whole(interval), .load = whole(stationary / k.tensor.load_fast_factor)};
  const double load = passes * stationary;
  if (k.has(Feature::fp32_background_load)) return {.cycles = whole(passes * interval), .load = whole(load)};
  return {.cycles = whole(passes * interval + load)};
}

static double matmul_passes(const Chip& k, const Call& i) {
  const Dtype s = i.tile("stationary").dtype, m = i.tile("moving").dtype;
  if (s != Dtype::f32 && m != Dtype::f32) return 1;
  if (in_transpose_mode(k, i)) return k.tensor.fp32_transpose_passes;
  const bool hinted =
      (s == Dtype::f32 && i.attr("is_stationary_onezero")) || (m == Dtype::f32 && i.attr("is_moving_onezero"));
  return hinted ? k.tensor.fp32_passes / 2 : k.tensor.fp32_passes;
}

Cost matmul_cycles(const Chip& k, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  const int64_t deep = rows_per_partition(i), rows = s.row_elements / deep, columns = m.row_elements / deep;
  Cost cost = array_cost(k, matmul_passes(k, i), static_cast<double>(rows),
                         std::max(k.tensor.interval_min_cycles, static_cast<double>(columns)));
  if (!i.attr("is_transpose")) cost.flops = 2 * s.partitions * deep * rows * columns;
  return cost;
}

Cost matmul_mx_cycles(const Chip& k, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  Cost cost = array_cost(k, 1, static_cast<double>(s.row_elements),
                         std::max(k.tensor.interval_min_cycles, static_cast<double>(m.row_elements)));
  cost.flops = 2 * 4 * s.partitions * s.row_elements * m.row_elements;
  return cost;
}

Cost transpose_cycles(const Chip& k, const Call& i) {
  const Tile t = i.tile("data");
  const double p = t.partitions, f = static_cast<double>(t.row_elements);
  if (i.engine == Engine::vector) return interval(k, i, f);
  const bool wide = t.element_bytes() == 4;
  const double passes = !wide                            ? 1
                        : k.has(Feature::transpose_mode) ? k.tensor.fp32_transpose_passes
                                                         : k.tensor.fp32_passes;
  return array_cost(k, passes, f, std::max(p, std::min(k.tensor.interval_min_cycles, f)));
}

// --- rules ---

static bool is_fp8(Dtype d) {
  return d == Dtype::f8e4m3 || d == Dtype::f8e4m3fn || d == Dtype::f8e5m2 || d == Dtype::f8e3m4;
}
static bool is_wide(Dtype d) { return d == Dtype::f32 || d == Dtype::tf32; }
static bool multiplies(Dtype d) { return is_wide(d) || is_fp8(d) || d == Dtype::bf16 || d == Dtype::f16; }

static Result<void> matmul_dtypes(const Call& i, bool double_row) {
  const Dtype s = i.tile("stationary").dtype, m = i.tile("moving").dtype;
  for (auto [slot, d] : {std::pair{"stationary", s}, std::pair{"moving", m}}) {
    if (!multiplies(d))
      return fail(Code::invalid, cat(slot, " is ", row(d).name,
                                     "; the tensor engine multiplies f32, tf32, bf16, f16 and 8-bit floats"));
    if (double_row && (!is_fp8(d) || d == Dtype::f8e3m4))
      return fail(Code::invalid,
                  cat(slot, " is ", row(d).name, "; perf_mode=double_row takes f8e4m3, f8e4m3fn and f8e5m2"));
  }
  if (is_wide(s) != is_wide(m))
    return fail(Code::invalid, cat("stationary is ", row(s).name, " and moving is ", row(m).name,
                                   "; f32 and tf32 pair only with each other, so cast one of them"));
  if ((s == Dtype::f8e4m3 && m == Dtype::f8e4m3fn) || (s == Dtype::f8e4m3fn && m == Dtype::f8e4m3))
    return fail(Code::invalid, "stationary and moving mix f8e4m3 and f8e4m3fn; use one of the two for both");
  return {};
}

static Result<void> array_shapes(const Chip& k, const Call& i, int64_t rows, int64_t columns) {
  const Tile s = i.tile("stationary"), m = i.tile("moving"), d = i.tile("dst");
  if (s.partitions != m.partitions)
    return fail(Code::invalid, cat("stationary has ", s.partitions, " partitions and moving ", m.partitions,
                                   "; both hold the same K"));
  if (rows > k.tensor.stationary_max)
    return fail(Code::invalid, cat("stationary has ", rows, " columns; at most ", k.tensor.stationary_max, " fit"));
  const int64_t most = d.dtype == Dtype::bf16 ? k.tensor.moving_max_bf16 : k.tensor.moving_max;
  if (columns > most)
    return fail(Code::invalid, cat("moving has ", columns, " columns; at most ", most, " fit, so split it"));
  if (d.partitions != rows || d.row_elements != columns)
    return fail(Code::invalid, cat("dst is ", d.partitions, " by ", d.row_elements, "; stationaryᵀ · moving is ", rows,
                                   " by ", columns));
  return {};
}

// Where one result may not exceed a bank of f32, it may not straddle two either.
static Result<void> in_one_bank(const Chip& k, const Tile& d) {
  if (k.tensor.moving_max * 4 > k.psum.bank_bytes) return {};
  const int64_t first = (d.offset + d.low) / k.psum.bank_bytes, last = (d.offset + d.high - 1) / k.psum.bank_bytes;
  if (first != last)
    return fail(Code::invalid, cat("dst reaches from PSUM bank ", first, " into bank ", last, "; a result lies in one ",
                                   k.psum.bank_bytes, "-byte bank"));
  return {};
}

static Result<void> result_dtype(const Chip& k, const Tile& d) {
  if (d.dtype == Dtype::f32 || (d.dtype == Dtype::bf16 && k.has(Feature::psum_bf16))) return {};
  return fail(Code::invalid, cat("dst is ", row(d.dtype).name, "; ", k.name, " writes f32",
                                 k.has(Feature::psum_bf16) ? " or bf16" : "", " to PSUM"));
}

// tile_position and tile_size choose a part of the array; they change which matmuls run side by side, not the values.
static Result<void> array_tiling(const Chip& k, const Call& i, int64_t rows, bool columns_too) {
  const auto at = i.list("tile_position"), size = i.list("tile_size");
  if (at.empty() && size.empty()) return {};
  if (at.size() != 2 || size.size() != 2)
    return fail(Code::invalid, "tile_position and tile_size are given together, as [row, column]");
  const Tile s = i.tile("stationary");
  const int64_t smallest = k.has(Feature::tile_4x32) ? 32 : 64;
  const int64_t whole_array[] = {k.tensor.rows, k.tensor.columns}, used[] = {s.partitions, rows};
  for (size_t d = 0; d < 2; ++d) {
    const std::string_view what = d ? "column" : "row";
    if (size[d] != 128 && size[d] != 64 && !(size[d] == 32 && smallest == 32))
      return fail(Code::invalid, cat("tile_size has ", size[d], " for the ", what, "s; ", k.name, " tiles by 128, 64",
                                     smallest == 32 ? " or 32" : ""));
    if (d && !columns_too && size[d] != whole_array[d])
      return fail(Code::invalid,
                  cat("tile_size has ", size[d], " columns; this mode tiles rows only, so use ", whole_array[d]));
    if (at[d] < 0 || at[d] % size[d] || at[d] + size[d] > whole_array[d])
      return fail(Code::invalid, cat("tile_position starts at ", what, " ", at[d], "; a multiple of ", size[d],
                                     " inside the array's ", whole_array[d], " is needed"));
    if (used[d] > size[d])
      return fail(Code::invalid, cat("stationary takes ", used[d], " ", what, "s; its tile has ", size[d]));
  }
  return {};
}

static Result<void> transpose_dst(const Tile& from, const Tile& d) {
  const bool spread = d.pattern->rank > 0 && d.pattern->dims[static_cast<size_t>(d.pattern->rank - 1)].stride == 2;
  if (from.element_bytes() == 1) {
    if (d.element_bytes() == 2 || (d.dtype == from.dtype && spread)) return {};
    return fail(Code::invalid,
                cat("dst is ", row(d.dtype).name,
                    "; 8-bit transposes fill 16-bit elements, so use a 16-bit dtype or every other byte"));
  }
  if (d.dtype == from.dtype) return {};
  return fail(Code::invalid,
              cat("dst is ", row(d.dtype).name, "; a transpose keeps the source's dtype, ", row(from.dtype).name));
}

Result<void> matmul_check(const Chip& k, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving"), d = i.tile("dst");
  const bool double_row = i.as<PerfMode>("perf_mode") == PerfMode::double_row, moves_bits = in_transpose_mode(k, i);
  if (double_row && !k.has(Feature::double_row))
    return fail(Code::unsupported, cat("perf_mode=double_row is not on ", k.name));
  if (double_row && i.attr("is_transpose"))
    return fail(Code::invalid, "perf_mode=double_row and is_transpose exclude each other");
  TRY(matmul_dtypes(i, double_row));
  const int64_t deep = rows_per_partition(i);
  if (s.row_elements % deep || m.row_elements % deep)
    return fail(Code::invalid, cat("perf_mode=double_row needs [K, 2, columns] operands; stationary has ",
                                   s.row_elements, " and moving ", m.row_elements, " elements a partition"));
  TRY(array_shapes(k, i, s.row_elements / deep, m.row_elements / deep));
  TRY(array_tiling(k, i, s.row_elements / deep, !double_row));
  TRY(in_one_bank(k, d));
  if (!moves_bits) return result_dtype(k, d);
  if (i.as<Accumulate>("accumulate") == Accumulate::add)
    return fail(Code::invalid, "is_transpose moves bits, which cannot be added; use accumulate=overwrite");
  return transpose_dst(s, d);
}

static Result<void> mx_operand(const Call& i, std::string_view slot, std::string_view scale_slot) {
  const Tile t = i.tile(slot), scale = i.tile(scale_slot);
  if (!is_packed(t.dtype))
    return fail(Code::invalid,
                cat(slot, " is ", row(t.dtype).name, "; MX operands are f8e4m3fn_x4, f8e5m2_x4 or f4e2m1fn_x4"));
  if (scale.dtype != Dtype::f8e8m0 && scale.dtype != Dtype::u8)
    return fail(Code::invalid, cat(scale_slot, " is ", row(scale.dtype).name, "; scales are f8e8m0 or u8"));
  if (t.partitions % 32)
    return fail(Code::invalid, cat(slot, " has ", t.partitions, " partitions; MX needs a multiple of 32"));
  if (scale.row_elements != t.row_elements)
    return fail(Code::invalid, cat(scale_slot, " has ", scale.row_elements, " columns and ", slot, " ", t.row_elements,
                                   "; each column has its own scales"));
  const int last = t.partitions / 32 * 32 - 28;
  if (scale.partitions < last)
    return fail(Code::invalid, cat(scale_slot, " has ", scale.partitions, " partitions; the scales of ", t.partitions,
                                   " data partitions reach to ", last, ", four in each 32"));
  return {};
}

Result<void> matmul_mx_check(const Chip& k, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving"), d = i.tile("dst");
  TRY(mx_operand(i, "stationary", "stationary_scale"));
  TRY(mx_operand(i, "moving", "moving_scale"));
  if (s.row_elements % 2)
    return fail(Code::invalid, cat("stationary has ", s.row_elements, " columns; MX needs an even number"));
  TRY(array_shapes(k, i, s.row_elements, m.row_elements));
  TRY(array_tiling(k, i, s.row_elements, false));
  TRY(in_one_bank(k, d));
  return result_dtype(k, d);
}

Result<void> transpose_check(const Chip& k, const Call& i) {
  const Tile t = i.tile("data"), d = i.tile("dst");
  const bool array = i.engine == Engine::tensor, moves_bits = !array || k.has(Feature::transpose_mode);
  const int64_t side = array ? k.tensor.rows : 32;
  if (array && (t.space != Space::sbuf || d.space != Space::psum))
    return fail(Code::invalid, "on the tensor engine nc_transpose reads SBUF and writes PSUM");
  if (t.partitions > side || t.row_elements > side)
    return fail(Code::invalid, cat("data is ", t.partitions, " by ", t.row_elements, "; at most ", side, " by ", side,
                                   " is transposed at once"));
  if (d.partitions != t.row_elements || d.row_elements != t.partitions)
    return fail(Code::invalid, cat("dst is ", d.partitions, " by ", d.row_elements, "; data transposed is ",
                                   t.row_elements, " by ", t.partitions));
  if (t.element_bytes() > 4)
    return fail(Code::invalid, cat("data is ", row(t.dtype).name, "; at most 4-byte elements"));
  if (array) TRY(in_one_bank(k, d));
  if (array && moves_bits) return transpose_dst(t, d);
  if (!moves_bits && !multiplies(t.dtype))
    return fail(Code::unsupported, cat("data is ", row(t.dtype).name, "; ", k.name,
                                       " transposes by a multiplication, so use a float dtype the array takes"));
  if (d.dtype == t.dtype || (!moves_bits && d.dtype == Dtype::f32)) return {};
  return fail(Code::invalid,
              cat("dst is ", row(d.dtype).name, "; a transpose keeps the source's dtype, ", row(t.dtype).name));
}

}  // namespace trine::arch
