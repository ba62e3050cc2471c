// GpSimd instructions that look through many elements: topk, nonzero_with_count, sequence_bounds,
// tensor_partition_reduce.
#include <numeric>

#include "arch/insns/alu.h"
#include "arch/insns/gpsimd.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// --- topk: element j of a processor lies in its partition j mod 16, column j div 16, and so do the results ---

struct Candidate {
  float value = 0;
  uint32_t bits = 0, index = 0;
};

std::vector<Candidate> snake(Core& c, const Tile& source, int first_row, int64_t n) {
  std::vector<Candidate> out(static_cast<size_t>(n));
  for (int lane = 0; lane < kProcessorPartitions && lane < n; ++lane) {
    std::vector<int64_t> columns(static_cast<size_t>((n - lane + kProcessorPartitions - 1) / kProcessorPartitions));
    std::iota(columns.begin(), columns.end(), 0);
    const auto found = read_elements(c, source, "src", first_row + lane, columns);
    for (size_t x = 0; x < found.size(); ++x) {
      const size_t j = x * kProcessorPartitions + static_cast<size_t>(lane);
      out[j] = {row(source.dtype).widen(found[x]), found[x], static_cast<uint32_t>(j)};
    }
  }
  return out;
}

// estimate: of equal values the first wins, and NaN loses to everything; neither is published.
bool ahead(const Candidate& a, const Candidate& b) {
  const bool a_nan = std::isnan(a.value), b_nan = std::isnan(b.value);
  if (a_nan != b_nan) return b_nan;
  if (!a_nan && a.value != b.value) return a.value > b.value;
  return a.index < b.index;
}

void topk(Core& c, const Call& i) {
  const Tile values = i.tile("val_dst"), indices = i.tile("idx_dst"), source = i.tile("src");
  const int64_t k = values.row_elements;
  std::vector<std::vector<Candidate>> groups;
  for (int first = 0; first < source.partitions; first += kProcessorPartitions) {
    std::vector<Candidate> all = snake(c, source, first, i.attr("n"));
    std::partial_sort(all.begin(), all.begin() + k, all.end(), ahead);
    all.resize(static_cast<size_t>(k));
    std::reverse(all.begin(), all.end());  // ascending
    groups.push_back(std::move(all));
  }
  for (size_t g = 0; g < groups.size(); ++g)
    for (int64_t j = 0; j < k; ++j) {
      const int p = static_cast<int>(g) * kProcessorPartitions + static_cast<int>(j % kProcessorPartitions);
      const Candidate& chosen = groups[g][static_cast<size_t>(j)];
      c.set_slot("val_dst");
      write_element(c, values, p, j / kProcessorPartitions, chosen.bits);
      c.set_slot("idx_dst");
      write_element(c, indices, p, j / kProcessorPartitions, chosen.index);
    }
}

Cost topk_cycles(const Chip& k, const Call& i) {
  const int64_t cycles = 4 * i.attr("n") + i.tile("val_dst").row_elements;
  return {.cycles = std::max(cycles, interval(k, i, 0).cycles)};
}

Result<void> check_topk(const Chip&, const Call& i) {
  TRY(dtype_is(i, "src", {Dtype::bf16}));
  TRY(dtype_is(i, "val_dst", {Dtype::bf16}));
  TRY(dtype_is(i, "idx_dst", {Dtype::u32}));
  TRY(same_lanes(i, {"src", "val_dst"}));
  TRY(same_shape(i, {"val_dst", "idx_dst"}));
  for (const auto slot : {"src", "val_dst", "idx_dst"}) TRY(whole_processors(i, slot));
  const int64_t n = i.attr("n"), k = i.tile("val_dst").row_elements, held = i.tile("src").row_elements;
  if (n < 8 || n >= 65536) return fail(Code::out_of_range, cat("n is ", n, "; it is 8 to 65535"));
  if (k >= 32768 || k > n)
    return fail(Code::out_of_range, cat("val_dst asks for the ", k, " largest of n = ", n,
                                        "; K is its elements per partition, at most n and below 32768"));
  if (held * kProcessorPartitions < n)
    return fail(Code::invalid, cat("src holds ", held, "·16 elements per processor and n is ", n, "; give it ",
                                   (n + kProcessorPartitions - 1) / kProcessorPartitions, " per partition"));
  return {};
}

// --- nonzero_with_count: only the first partition of each processor takes part ---

void nonzero_with_count(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), source = i.tile("src");
  const uint32_t sign = is_floating(source.dtype) ? 0x80000000u : 0;  // −0 is zero
  std::vector<uint32_t> in(static_cast<size_t>(source.row_elements));
  for (int p = 0; p < source.partitions; p += kProcessorPartitions) {
    std::vector<int64_t> out(static_cast<size_t>(d.row_elements), i.attr("padding_val"));
    c.set_slot("src");
    c.read_bits(source, p, in.data());
    size_t count = 0;
    for (size_t e = 0; e < in.size(); ++e)
      if (in[e] & ~sign) out[count++] = static_cast<int64_t>(e) + i.attr("index_offset");
    out.back() = static_cast<int64_t>(count);
    c.set_slot("dst");
    c.write_int(d, p, out.data());
  }
}

Result<void> check_nonzero(const Chip&, const Call& i) {
  TRY(dtype_is(i, "src", {Dtype::f32, Dtype::s32}));
  TRY(dtype_is(i, "dst", {Dtype::s32}));
  TRY(same_lanes(i, {"src", "dst"}));
  for (const auto slot : {"src", "dst"})
    if (i.tile(slot).partition % kProcessorPartitions)
      return fail(Code::invalid, cat(slot, " starts at partition ", i.tile(slot).partition,
                                     "; only partitions 0, 16, …, 112 take part, so start at one of them"));
  const int64_t n = i.tile("src").row_elements, room = i.tile("dst").row_elements;
  if (room != n + 1)
    return fail(Code::invalid,
                cat("dst has ", room, " elements per partition; it holds those of src and the count, ", n + 1));
  for (const auto attr : {"index_offset", "padding_val"})
    if (i.attr(attr) < INT32_MIN || i.attr(attr) > INT32_MAX)
      return fail(Code::out_of_range, cat(attr, " is ", i.attr(attr), ", which is no 32-bit integer"));
  return {};
}

// --- sequence_bounds: [1, n] segment ids to [1, 2, n], first index and one past the last ---

void sequence_bounds(Core& c, const Call& i) {
  const Tile ids = i.tile("segment_ids"), d = i.tile("dst");
  const size_t n = static_cast<size_t>(ids.row_elements);
  std::vector<double> id(n);
  c.set_slot("segment_ids");
  if (is_floating(ids.dtype)) {
    std::vector<float> read(n);
    c.read(ids, 0, read.data());
    id.assign(read.begin(), read.end());
  } else {
    std::vector<int64_t> read(n);
    c.read_int(ids, 0, read.data());
    id.assign(read.begin(), read.end());
  }
  std::vector<int64_t> out(2 * n);
  for (size_t begin = 0, end = 0; begin < n; begin = end) {
    for (end = begin + 1; end < n && id[end] == id[begin];) ++end;
    const bool padding = id[begin] == 0;
    std::fill(out.begin() + static_cast<ptrdiff_t>(begin), out.begin() + static_cast<ptrdiff_t>(end),
              static_cast<int64_t>(padding ? n : begin));
    std::fill(out.begin() + static_cast<ptrdiff_t>(n + begin), out.begin() + static_cast<ptrdiff_t>(n + end),
              padding ? -1 : static_cast<int64_t>(end));
  }
  c.set_slot("dst");
  c.write_int(d, 0, out.data());
}

Result<void> check_sequence_bounds(const Chip&, const Call& i) {
  TRY(dtype_is(i, "segment_ids", {Dtype::f32, Dtype::s32}));
  TRY(dtype_is(i, "dst", {Dtype::f32, Dtype::s32}));
  for (const auto slot : {"segment_ids", "dst"})
    if (i.tile(slot).partitions != 1)
      return fail(Code::invalid, cat(slot, " covers ", i.tile(slot).partitions, " partitions; it is a single one"));
  const int64_t n = i.tile("segment_ids").row_elements, room = i.tile("dst").row_elements;
  if (room == 2 * n) return {};
  return fail(Code::invalid, cat("dst has ", room, " elements; it holds a start and an end for each of the ", n,
                                 " segment ids, ", 2 * n));
}

// --- tensor_partition_reduce: down the partitions, in their order ---

void reduce_bits(Core& c, const Call& i, Alu op) {
  const Tile data = i.tile("data"), d = i.tile("dst");
  const std::vector<uint32_t> all = read_all_bits(c, i, "data");
  std::vector<uint32_t> sum(all.begin(), all.begin() + data.row_elements);
  for (int p = 1; p < data.partitions; ++p)
    alu_bits(op).tiles(sum.data(), all.data() + p * data.row_elements, sum.data(), data.row_elements);
  c.set_slot("dst");
  c.write_bits(d, 0, sum.data());
}

// The processors compute with 32-bit integers natively, so they wrap instead of losing low bits.
void reduce_integers(Core& c, const Call& i, Alu op) {
  const Tile data = i.tile("data"), d = i.tile("dst");
  const std::vector<int64_t> all = read_all_int(c, i, "data");
  std::vector<int64_t> sum(all.begin(), all.begin() + data.row_elements);
  for (int p = 1; p < data.partitions; ++p)
    alu_int(op).tiles(sum.data(), all.data() + p * data.row_elements, sum.data(), data.row_elements);
  const bool is_signed = row(data.dtype).kind == DtypeKind::signed_int;
  for (int64_t& v : sum) v = is_signed ? int64_t{static_cast<int32_t>(v)} : int64_t{static_cast<uint32_t>(v)};
  c.set_slot("dst");
  c.write_int(d, 0, sum.data());
}

void reduce_floats(Core& c, const Call& i, Alu op) {
  const Tile d = i.tile("dst");
  Source data(c, i, "data", d);
  const int64_t n = data.tile.row_elements;
  const float* const first = data.row(0);
  std::vector<float> sum(first, first + n);
  const Alu step = op == Alu::average ? Alu::add : op;
  for (int p = 1; p < data.tile.partitions; ++p) alu_f32(step).tiles(sum.data(), data.row(p), sum.data(), n);
  if (op == Alu::average)
    for (float& v : sum) v /= static_cast<float>(data.tile.partitions);
  c.set_slot("dst");
  c.store(d, 0, sum.data());
}

void tensor_partition_reduce(Core& c, const Call& i) {
  const Alu op = i.as<Alu>("op");
  if (is_bitvec(op)) return reduce_bits(c, i, op);
  const bool integers = is_integer(i.tile("data").dtype) && is_integer(i.tile("dst").dtype);
  integers&& op != Alu::average ? reduce_integers(c, i, op) : reduce_floats(c, i, op);
}

Result<void> check_partition_reduce(const Chip&, const Call& i) {
  TRY(computable(i));
  const Alu op = i.as<Alu>("op");
  static constexpr Alu kReductions[] = {Alu::add, Alu::average, Alu::max, Alu::bitwise_or, Alu::bitwise_and};
  if (std::find(std::begin(kReductions), std::end(kReductions), op) == std::end(kReductions))
    return fail(Code::invalid, cat("op is ", name(op), "; it is add, average, max, bitwise_or or bitwise_and"));
  const Tile d = i.tile("dst"), data = i.tile("data");
  if (d.partitions != 1)
    return fail(Code::invalid, cat("dst covers ", d.partitions, " partitions; the result is a single one"));
  if (d.row_elements != data.row_elements)
    return fail(Code::invalid, cat("dst has ", d.row_elements, " elements per partition and data has ",
                                   data.row_elements, "; give both the same number"));
  if (is_bitvec(op) && d.dtype != data.dtype)
    return fail(Code::invalid, cat("dst is ", row(d.dtype).name, " and data is ", row(data.dtype).name, "; ", name(op),
                                   " works on raw bits, so give both the same format"));
  return {};
}

template <int kSteps>
Cost steps_per_element(const Chip& k, const Call& i) {
  return gpsimd_cost(k, i, kSteps * static_cast<double>(i.tile(1).row_elements));
}

Cost partition_reduce_cycles(const Chip& k, const Call& i) {
  const Tile data = i.tile("data");
  const double levels = std::ceil(std::log2(std::max(2, data.partitions)));
  return gpsimd_cost(k, i, levels * static_cast<double>(data.row_elements));
}

constexpr Row kRows[] = {
    {.name = "topk",
     .opcode = 0x64,
     .engines = kGpsimd,
     .operands = "val_dst:w:sbuf idx_dst:w:sbuf src:r:sbuf",
     .attrs = "n:int",
     .exec = topk,
     .cycles = topk_cycles,
     .check = check_topk,
     .nki = {.takes = "val_dst idx_dst src n"},
     .summary = "the K largest of the n elements in each 16-partition snake and their indices, ascending, in a snake",
     .source = "doc: nki.isa, 4n + K",
     .label = "TOPK"},
    {.name = "nonzero_with_count",
     .opcode = 0x65,
     .engines = kGpsimd,
     .needs = Feature::gpsimd_select,
     .operands = "dst:w:sbuf src:r:sbuf",
     .attrs = "index_offset:int=0 padding_val:int=-1",
     .exec = nonzero_with_count,
     .cycles = steps_per_element<1>,
     .check = check_nonzero,
     .nki = {.takes = "dst src index_offset padding_val"},
     .summary = "indices of the nonzero elements, then padding, then their count, in partitions 0, 16, …, 112",
     .source = "estimate: never published; 150 and one element a cycle",
     .label = "NONZERO_WITH_COUNT"},
    {.name = "sequence_bounds",
     .opcode = 0x66,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf segment_ids:r:sbuf",
     .exec = sequence_bounds,
     .cycles = steps_per_element<2>,
     .check = check_sequence_bounds,
     .nki = {.takes = "dst segment_ids"},
     .summary = "start and end of each element's segment; an element of segment 0 gets n and -1",
     .source = "estimate: never published; 150, one pass forward for the starts and one back for the ends",
     .label = "SEQUENCE_BOUNDS"},
    {.name = "tensor_partition_reduce",
     .opcode = 0x67,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf data:r:sbuf",
     .attrs = "op:alu",
     .exec = tensor_partition_reduce,
     .cycles = partition_reduce_cycles,
     .check = check_partition_reduce,
     .nki = {.takes = "dst op data"},
     .summary = "dst = data reduced over its partitions by add, average, max, bitwise_or or bitwise_and",
     .source = "estimate: never published; 150, and a tree over the partitions with one column a cycle and level",
     .label = "PARTITION_REDUCE"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> gpsimd_select_rows() { return kRows; }

}  // namespace trine::arch
