// Joins the GpSimd engine's tables and holds what they share; the rows stand in gpsimd_*.cpp.
#include "arch/insns/gpsimd.h"

#include "base/text.h"

namespace trine::arch {

Cost gpsimd_cost(const Chip& k, const Call& i, double steps) {
  const double cycles = k.gpsimd.fixed_cycles + std::ceil(steps * stride_slowdown(k, i));
  return {.cycles = std::max(static_cast<int64_t>(cycles), interval(k, i, 0).cycles)};
}

std::vector<uint32_t> read_elements(Core& c, const Tile& t, std::string_view slot, int row,
                                    std::span<const int64_t> at) {
  std::vector<uint32_t> whole(static_cast<size_t>(t.row_elements)), out(at.size());
  const size_t before = c.faults.size();
  c.set_slot(slot);
  c.read_bits(t, row, whole.data());
  // A hole somewhere in the row; the elements wanted may still be fine. What an index tile picked was wanted.
  const bool holes = c.faults.size() > before && !t.dynamic;
  if (holes) c.faults.resize(before);
  for (size_t i = 0; i < at.size(); ++i) {
    const bool first = c.faults.size() == before;  // one fault per row tells enough
    if (at[i] < 0 || at[i] >= t.row_elements) {
      if (first)
        c.fault(FaultKind::out_of_bounds, slot,
                cat("row ", row, ": index ", at[i], " lies outside the ", t.row_elements, " elements of the row"));
      continue;
    }
    if (holes && first) {
      Pattern one;
      uint32_t bits = 0;
      c.read_bits(element_of(t, at[i], one), row, &bits);
    }
    out[i] = whole[static_cast<size_t>(at[i])];
  }
  return out;
}

Result<void> dtype_is(const Call& i, std::string_view slot, std::initializer_list<Dtype> allowed) {
  const Dtype found = i.tile(slot).dtype;
  std::string names;
  for (const Dtype d : allowed) {
    if (d == found) return {};
    names += cat(names.empty() ? "" : " or ", row(d).name);
  }
  return fail(Code::invalid, cat(slot, " is ", row(found).name, "; it has to be ", names));
}

Result<void> whole_processors(const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  if (t.partitions % kProcessorPartitions == 0 && t.partition % kProcessorPartitions == 0) return {};
  return fail(Code::invalid,
              cat(slot, " covers ", t.partitions, " partitions from ", t.partition, "; each GpSimd processor works on ",
                  kProcessorPartitions, ", so start at a multiple of that and take whole multiples"));
}

std::span<const Row> gpsimd_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (auto part : {gpsimd_pattern_rows(), gpsimd_gather_rows(), gpsimd_select_rows()})
      rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

}  // namespace trine::arch
