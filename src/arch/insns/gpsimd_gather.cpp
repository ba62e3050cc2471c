// GpSimd's gathers inside SBUF. Elements keep their bits. local_gather: the 16 partitions of a processor share one list
// of indices; nc_n_gather: each partition has its own.
#include <numeric>

#include "arch/insns/gpsimd.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr int64_t kIndicesMax = 4096;        // per processor, local_gather
constexpr int64_t kGatherInstruction = 512;  // elements per partition of one nc_n_gather sub-instruction

int64_t valid_indices(const Call& i) {
  const int64_t given = i.attr("num_valid_indices");
  return given ? given : i.tile("index").row_elements * kProcessorPartitions;
}

// Index j of a processor lies in its partition j mod 16, element j div 16.
std::vector<int64_t> processor_indices(Core& c, const Tile& index, int first_row, int64_t count) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (int lane = 0; lane < kProcessorPartitions && lane < count; ++lane) {
    std::vector<int64_t> columns(static_cast<size_t>((count - lane + kProcessorPartitions - 1) / kProcessorPartitions));
    std::iota(columns.begin(), columns.end(), 0);
    const auto found = read_elements(c, index, "index", first_row + lane, columns);
    for (size_t x = 0; x < found.size(); ++x) out[x * kProcessorPartitions + static_cast<size_t>(lane)] = found[x];
  }
  return out;
}

void local_gather(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), source = i.tile("src_buffer"), index = i.tile("index");
  const int64_t run = i.attr("num_elem_per_idx"), count = valid_indices(i);
  std::vector<uint32_t> result(static_cast<size_t>(d.elements()));
  for (int first = 0; first < d.partitions; first += kProcessorPartitions) {
    std::vector<int64_t> at;
    for (const int64_t start : processor_indices(c, index, first, count))
      for (int64_t e = 0; e < run; ++e) at.push_back(start + e);
    for (int p = first; p < first + kProcessorPartitions; ++p) {
      const auto found = read_elements(c, source, "src_buffer", p, at);
      std::copy(found.begin(), found.end(), result.begin() + p * d.row_elements);
    }
  }
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) c.write_bits(d, p, result.data() + p * d.row_elements);
}

void nc_n_gather(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), data = i.tile("data");
  const std::vector<int64_t> indices = read_all_int(c, i, "indices");
  std::vector<uint32_t> result;
  for (int p = 0; p < d.partitions; ++p) {
    const std::span at(indices.data() + p * d.row_elements, static_cast<size_t>(d.row_elements));
    const auto found = read_elements(c, data, "data", p, at);
    result.insert(result.end(), found.begin(), found.end());
  }
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) c.write_bits(d, p, result.data() + p * d.row_elements);
}

// Cycles per gathered element by the printed formula. It is printed as a divisor, by which longer runs would cost more
// per element; read as a factor it falls from 8 to 1.2 cycles for f32, so that is what we take.
double cycles_per_element(double run, double element_bytes) {
  constexpr double kPerElement = 4, kPerIndex = 28;
  return (kPerIndex + kPerElement * run) / (kPerElement * run) / std::min(4 / element_bytes, run);
}

Cost local_gather_cycles(const Chip& k, const Call& i) {
  const double run = static_cast<double>(i.attr("num_elem_per_idx")), count = static_cast<double>(valid_indices(i));
  return gpsimd_cost(k, i, count * run * cycles_per_element(run, i.tile("src_buffer").element_bytes()));
}

Cost nc_n_gather_cycles(const Chip& k, const Call& i) {
  const int64_t n = i.tile("dst").row_elements, parts = (n + kGatherInstruction - 1) / kGatherInstruction;
  Cost cost = gpsimd_cost(k, i, static_cast<double>(n) * cycles_per_element(1, i.tile("data").element_bytes()));
  cost.cycles += (parts - 1) * static_cast<int64_t>(k.gpsimd.fixed_cycles);
  return cost;
}

// --- rules ---

Result<void> same_bits(const Call& i, std::string_view dst, std::string_view src) {
  const Dtype d = i.tile(dst).dtype, s = i.tile(src).dtype;
  if (bits(s) < 8 || bits(s) > 32)
    return fail(Code::invalid, cat(src, " is ", row(s).name, "; a gather moves elements of 8, 16 or 32 bits"));
  if (d == s) return {};
  return fail(Code::invalid, cat(dst, " is ", row(d).name, " and ", src, " is ", row(s).name,
                                 "; a gather does not cast, so give both the same format"));
}

Result<void> check_local_gather(const Chip&, const Call& i) {
  TRY(same_bits(i, "dst", "src_buffer"));
  TRY(dtype_is(i, "index", {Dtype::u16}));
  TRY(same_lanes(i, {"src_buffer", "index", "dst"}));
  for (const auto slot : {"src_buffer", "index", "dst"}) TRY(whole_processors(i, slot));
  const int64_t run = i.attr("num_elem_per_idx"), count = i.attr("num_valid_indices"),
                most = i.tile("index").row_elements * kProcessorPartitions;
  if (run < 1 || run > 32 || (run & (run - 1)))
    return fail(Code::invalid, cat("num_elem_per_idx is ", run, "; it is 1, 2, 4, 8, 16 or 32"));
  if (count < 0 || count > most)
    return fail(Code::invalid, cat("num_valid_indices is ", count, ", and the 16 partitions of a processor hold ", most,
                                   " indices; give 1 to that many, or 0 for all"));
  if (valid_indices(i) > kIndicesMax)
    return fail(Code::invalid, cat("each processor is given ", valid_indices(i), " indices and takes at most ",
                                   kIndicesMax, "; split the gather"));
  if (valid_indices(i) * run != i.tile("dst").row_elements)
    return fail(Code::invalid,
                cat("dst has ", i.tile("dst").row_elements, " elements per partition and the gather makes ",
                    valid_indices(i), "·", run, "; give dst as many"));
  return {};
}

Result<void> check_nc_n_gather(const Chip&, const Call& i) {
  TRY(same_bits(i, "dst", "data"));
  TRY(dtype_is(i, "indices", {Dtype::u32}));
  TRY(same_lanes(i, {"data", "indices", "dst"}));
  return same_shape(i, {"indices", "dst"});
}

constexpr Row kRows[] = {
    {.name = "local_gather",
     .opcode = 0x62,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf src_buffer:r:sbuf index:r:sbuf",
     .attrs = "num_elem_per_idx:int=1 num_valid_indices:int=0",
     .exec = local_gather,
     .cycles = local_gather_cycles,
     .check = check_local_gather,
     .summary = "each processor gathers runs of elements from its 16 partitions by their common list of indices",
     .source = "doc: nki.isa 2.26.1, 150 + n·e·C; printed with a division by C, our reading",
     .label = "LOCAL_GATHER"},
    {.name = "nc_n_gather",
     .opcode = 0x63,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf data:r:sbuf indices:r:sbuf",
     .exec = nc_n_gather,
     .cycles = nc_n_gather_cycles,
     .check = check_nc_n_gather,
     .nki = {.takes = "dst data indices"},
     .summary = "dst[p, e] = data[p, indices[p, e]] in every partition",
     .source = "estimate: never published; local_gather's cycles per single element, 150 per 512 elements",
     .label = "N_GATHER"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> gpsimd_gather_rows() { return kRows; }

}  // namespace trine::arch
