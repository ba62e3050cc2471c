// Rows that look for values in a lane's row (top eight, their indices, replacing them), the shuffle of 32 partitions,
// and quantisation to MX blocks.
#include <array>
#include <limits>
#include <vector>

#include "arch/insns/lanes.h"
#include "arch/insns/vector.h"
#include "base/number/mx.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr int64_t kEight = 8, kSearchMax = 16384;

Result<void> search_check(const Call& i, std::string_view data) {
  TRY(computable(i));
  const int64_t n = i.tile(data).row_elements;
  if (n >= kEight && n <= kSearchMax) return {};
  return fail(Code::out_of_range, cat(data, " has ", n, " elements per partition; ", i.info.row->name, " takes ",
                                      kEight, " to ", kSearchMax));
}

Result<void> eight(const Call& i, std::string_view slot) {
  const int64_t n = i.tile(slot).row_elements;
  if (n == kEight) return {};
  return fail(Code::invalid, cat(slot, " has ", n, " elements per partition; it holds exactly 8"));
}

Result<void> index_dtype(const Call& i, std::string_view slot) {
  const Dtype d = i.tile(slot).dtype;
  if (d == Dtype::u16 || d == Dtype::u32) return {};
  return fail(Code::invalid, cat(slot, " is ", row(d).name, "; indices are u16 or u32"));
}

// --- max8 ---

// estimate: a NaN is greater than nothing, so it is never among the eight; too few numbers leave -inf.
void max8(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "src", d);
  write_rows(c, d, [&](int p, float* out) {
    const float* const x = a.row(p);
    std::array<float, kEight> top;
    top.fill(-std::numeric_limits<float>::infinity());
    for (int64_t e = 0; e < a.tile.row_elements; ++e) {
      if (!(x[e] > top.back())) continue;
      size_t at = top.size() - 1;
      for (; at > 0 && x[e] > top[at - 1]; --at) top[at] = top[at - 1];
      top[at] = x[e];
    }
    std::copy(top.begin(), top.end(), out);
  });
}

Cost src_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("src").row_elements));
}
Cost data_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("data").row_elements));
}

Result<void> max8_check(const Chip&, const Call& i) {
  TRY(search_check(i, "src"));
  TRY(same_lanes(i, {"src", "dst"}));
  return eight(i, "dst");
}

// --- nc_find_index8, nc_match_replace8 ---

// Walks a row once; each element goes to the first open value it equals, in the order given. -1: found nowhere.
std::array<int64_t, kEight> match(const float* x, int64_t n, const float* values, bool descending) {
  std::array<int64_t, kEight> at;
  at.fill(-1);
  int64_t open = kEight;
  for (int64_t e = 0; e < n && open; ++e)
    for (int64_t j = 0; j < kEight; ++j) {
      const size_t v = static_cast<size_t>(descending ? kEight - 1 - j : j);
      if (at[v] >= 0 || x[e] != values[v]) continue;
      at[v] = e;
      --open;
      break;
    }
  return at;
}

// A value that is nowhere has an index of all ones.
void write_indices(Core& c, const Tile& d, int p, const std::array<int64_t, kEight>& at, std::string_view slot) {
  std::array<uint32_t, kEight> bits;
  for (size_t j = 0; j < at.size(); ++j) bits[j] = static_cast<uint32_t>(at[j]);
  c.set_slot(slot);
  c.write_bits(d, p, bits.data());
}

void nc_find_index8(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source data(c, i, "data", d), values(c, i, "vals", d);
  for (int p = 0; p < d.partitions; ++p)
    write_indices(c, d, p, match(data.row(p), data.tile.row_elements, values.row(p), false), "dst");
}

Result<void> nc_find_index8_check(const Chip&, const Call& i) {
  TRY(search_check(i, "data"));
  TRY(same_lanes(i, {"data", "vals", "dst"}));
  TRY(eight(i, "vals"));
  TRY(eight(i, "dst"));
  return index_dtype(i, "dst");
}

// estimate: an element is matched against what data held before any replacement, and replaced once.
void nc_match_replace8(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source data(c, i, "data", d), values(c, i, "vals", d);
  const int64_t n = data.tile.row_elements;
  const float replacement = static_cast<float>(i.real("imm"));
  std::vector<std::array<int64_t, kEight>> found(static_cast<size_t>(d.partitions));
  write_rows(c, d, [&](int p, float* out) {
    const float* const x = data.row(p);
    auto& at = found[static_cast<size_t>(p)] = match(x, n, values.row(p), true);
    if (out != x) std::copy(x, x + n, out);
    for (const int64_t e : at)
      if (e >= 0) out[e] = replacement;
  });
  if (!i.has("dst_idx")) return;
  const Tile index = i.tile("dst_idx");
  for (int p = 0; p < index.partitions; ++p) write_indices(c, index, p, found[static_cast<size_t>(p)], "dst_idx");
}

Result<void> nc_match_replace8_check(const Chip&, const Call& i) {
  TRY(search_check(i, "data"));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(same_lanes(i, {"data", "vals", "dst_idx"}));
  TRY(eight(i, "vals"));
  if (!i.has("dst_idx")) return {};
  TRY(eight(i, "dst_idx"));
  return index_dtype(i, "dst_idx");
}

// --- nc_stream_shuffle ---

constexpr int kQuadrant = 32, kKeep = 255;

void nc_stream_shuffle(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  const auto mask = i.list("shuffle_mask");
  const int64_t row_bytes = s.row_elements * s.element_bytes();
  std::vector<std::byte> bytes(static_cast<size_t>(row_bytes * s.partitions));
  c.set_slot("src");
  for (int p = 0; p < s.partitions; ++p) c.read_bytes(s, p, bytes.data() + p * row_bytes);
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    const int64_t from = mask[static_cast<size_t>(p % kQuadrant)];
    if (from != kKeep) c.write_bytes(d, p, bytes.data() + (p / kQuadrant * kQuadrant + from) * row_bytes);
  }
}

Result<void> nc_stream_shuffle_check(const Chip&, const Call& i) {
  const Tile d = i.tile("dst"), s = i.tile("src");
  if (d.dtype != s.dtype)
    return fail(Code::invalid, cat("src is ", row(s.dtype).name, " and dst is ", row(d.dtype).name,
                                   "; a shuffle casts nothing, so give both the same format"));
  if (d.row_elements != s.row_elements)
    return fail(Code::invalid, cat("src has ", s.row_elements, " elements per partition and dst ", d.row_elements,
                                   "; give both the same number"));
  const auto mask = i.list("shuffle_mask");
  if (mask.size() != kQuadrant)
    return fail(Code::invalid, cat("shuffle_mask has ", mask.size(), " entries; it has one for each of 32 partitions"));
  for (const int64_t m : mask)
    if (m != kKeep && (m < 0 || m >= kQuadrant))
      return fail(Code::out_of_range, cat("shuffle_mask has ", m, "; entries are 0 to 31, or 255 to keep dst"));
  for (int p = 0; p < d.partitions; ++p) {
    const int64_t m = mask[static_cast<size_t>(p % kQuadrant)];
    const int64_t from = p / kQuadrant * kQuadrant + m;
    if (m != kKeep && from >= s.partitions)
      return fail(Code::out_of_range, cat("shuffle_mask takes partition ", p, " of dst from partition ", from,
                                          " of src, which has ", s.partitions));
  }
  return {};
}

// --- quantize_mx ---

constexpr int kBlockPartitions = 8, kCarrier = 4;  // a block is 8 partitions by the 4 elements of one carrier

// The scales of each quadrant's four groups of 8 partitions lie in its first four rows of dst_scale, as nc_matmul_mx
// reads them.
void quantize_mx(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), scale = i.tile("dst_scale");
  const Dtype element = mx_element(d.dtype);
  Source src(c, i, "src", d);
  std::vector<std::array<float, kMxBlock>> blocks(static_cast<size_t>(d.row_elements));
  std::vector<uint32_t> carriers(static_cast<size_t>(kBlockPartitions * d.row_elements)), scales(blocks.size());
  for (int group = 0; group < d.partitions; group += kBlockPartitions) {
    for (int p = 0; p < kBlockPartitions; ++p) {
      const float* x = src.row(group + p);
      for (auto& block : blocks)
        for (int e = 0; e < kCarrier; ++e) block[static_cast<size_t>(p * kCarrier + e)] = *x++;
    }
    for (size_t b = 0; b < blocks.size(); ++b) {
      const MxBlock out = mx_quantize_block(blocks[b].data(), element, MxRule::chip, c.rounding);
      scales[b] = out.scale;
      for (size_t p = 0; p < kBlockPartitions; ++p)
        carriers[p * blocks.size() + b] = mx_pack(out.codes.data() + p * kCarrier, element);
    }
    c.set_slot("dst");
    for (int p = 0; p < kBlockPartitions; ++p) c.write_bits(d, group + p, carriers.data() + p * d.row_elements);
    c.set_slot("dst_scale");
    c.write_bits(scale, group / kQuadrant * kQuadrant + group % kQuadrant / kBlockPartitions, scales.data());
  }
}

Cost quantize_mx_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("src").row_elements) / k.vector.fast_factor);
}

Result<void> quantize_mx_check(const Chip&, const Call& i) {
  const Tile s = i.tile("src"), d = i.tile("dst"), scale = i.tile("dst_scale");
  if (s.dtype != Dtype::bf16 && s.dtype != Dtype::f16)
    return fail(Code::invalid, cat("src is ", row(s.dtype).name, "; quantize_mx takes bf16 or f16"));
  if (d.dtype != Dtype::f8e4m3fn_x4 && d.dtype != Dtype::f8e5m2_x4)
    return fail(Code::invalid, cat("dst is ", row(d.dtype).name, "; quantize_mx writes f8e4m3fn_x4 or f8e5m2_x4"));
  if (scale.dtype != Dtype::u8 && scale.dtype != Dtype::f8e8m0)
    return fail(Code::invalid, cat("dst_scale is ", row(scale.dtype).name, "; scales are u8 or f8e8m0"));
  if (s.partitions % kQuadrant)
    return fail(Code::invalid, cat("src has ", s.partitions, " partitions; give a multiple of 32"));
  TRY(same_lanes(i, {"src", "dst"}));
  if (s.row_elements != d.row_elements * kCarrier || scale.row_elements != d.row_elements)
    return fail(Code::invalid, cat("src has ", s.row_elements, " elements per partition, dst ", d.row_elements,
                                   " and dst_scale ", scale.row_elements, "; both results have a quarter of src's"));
  const int last = s.partitions - kQuadrant + kQuadrant / kBlockPartitions;
  if (scale.partitions >= last) return {};
  return fail(Code::invalid, cat("dst_scale has ", scale.partitions, " partitions; the scales of ", s.partitions,
                                 " lie in the first four of each 32, so give at least ", last));
}

constexpr Row kRows[] = {
    {.name = "max8",
     .opcode = 0x30,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum src:r:sbuf|psum",
     .exec = max8,
     .cycles = src_cycles,
     .check = max8_check,
     .nki = {.takes = "dst src", .old = "* src", .returns = "src 8"},
     .summary = "dst = the eight largest of src's row, descending",
     .source = "doc: nki.isa 2.26.1, N",
     .label = "MAX8"},
    {.name = "nc_find_index8",
     .opcode = 0x31,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum vals:r:sbuf|psum",
     .exec = nc_find_index8,
     .cycles = data_cycles,
     .check = nc_find_index8_check,
     .nki = {.takes = "dst data vals", .old = "* data vals", .returns = "data 8 u32"},
     .summary = "dst[j] = where data equals vals[j] first; equal vals take successive places; all ones when nowhere",
     .source = "doc: nki.isa 2.26.1, N",
     .label = "FIND_INDEX8"},
    {.name = "nc_match_replace8",
     .opcode = 0x32,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum vals:r:sbuf|psum dst_idx?:w:sbuf|psum",
     .attrs = "imm:float",
     .exec = nc_match_replace8,
     .cycles = data_cycles,
     .check = nc_match_replace8_check,
     .nki = {.takes = "dst data vals imm dst_idx", .old = "* data vals imm dst_idx", .returns = "data"},
     .summary = "dst = data with the first match of each val (7 to 0) replaced by imm; dst_idx the places",
     .source = "doc: nki.isa 2.26.1, N (the printed min(MIN_II, N) read as max)",
     .label = "MATCH_REPLACE8"},
    {.name = "nc_stream_shuffle",
     .opcode = 0x33,
     .engines = kVector,
     .operands = "dst:m:sbuf|psum src:r:sbuf|psum",
     .attrs = "shuffle_mask:ints",
     .exec = nc_stream_shuffle,
     .cycles = src_cycles,
     .check = nc_stream_shuffle_check,
     .nki = {.takes = "dst src shuffle_mask"},
     .summary = "in each quadrant dst[p] = src[shuffle_mask[p]]; 255 keeps dst[p]",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N)",
     .label = "STREAM_SHUFFLE"},
    {.name = "quantize_mx",
     .opcode = 0x34,
     .engines = kVector,
     .needs = Feature::mx,
     .operands = "dst:w:sbuf src:r:sbuf dst_scale:m:sbuf",
     .exec = quantize_mx,
     .cycles = quantize_mx_cycles,
     .check = quantize_mx_check,
     .nki = {.takes = "dst src dst_scale"},
     .summary = "dst, dst_scale = src in MX blocks of 8 partitions by 4 elements, one power-of-two scale each",
     .source = "doc: guide v4, four elements a lane and cycle",
     .label = "QUANTIZE_MX"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> vector_search_rows() { return kRows; }

}  // namespace trine::arch
