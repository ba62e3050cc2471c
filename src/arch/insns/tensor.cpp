// The tensor engine's rows. K lies on the partitions of both operands; results go to PSUM.
#include <vector>

#include "arch/insns/lanes.h"
#include "arch/insns/outer.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// All rows of a tile, one after the other, as f32.
std::vector<float> read_all(Core& c, const Call& i, std::string_view slot) {
  const Tile t = i.tile(slot);
  std::vector<float> out(static_cast<size_t>(t.elements()));
  c.working_on(slot);
  for (int p = 0; p < t.partitions; ++p) c.read(t, p, out.data() + p * t.row_elements);
  return out;
}

// Adds each product row to PSUM, or overwrites it, and opens the accumulation group there.
void accumulate_rows(Core& c, const Tile& d, Accumulate how, const float* product) {
  Core& owner = c.machine().cores[d.core];
  std::vector<float> sum(static_cast<size_t>(d.row_elements));
  c.working_on("dst");
  for (int p = 0; p < d.partitions; ++p, product += d.row_elements) {
    const size_t begin = static_cast<size_t>(d.partition + p) * c.psum.pitch + static_cast<size_t>(d.offset);
    const size_t size = static_cast<size_t>(d.element_bytes());
    const float* result = product;
    if (how != Accumulate::overwrite) {
      const bool all = d.contiguous() && owner.psum_matmul.all(begin, static_cast<size_t>(d.row_elements) * size);
      if (how == Accumulate::add && !all && d.contiguous())
        c.fault(FaultKind::accumulate_uninitialized, "dst",
                cat("partition ", d.partition + p,
                    " holds no matmul result to add to; start the group with accumulate=overwrite"));
      std::vector<char> open(static_cast<size_t>(d.row_elements), 1);
      if (how == Accumulate::first)
        for (size_t e = 0; e < open.size(); ++e) open[e] = owner.psum_open.all(begin + e * size, size);
      if (how == Accumulate::add || owner.psum_open.any(begin, open.size() * size)) {
        c.read(d, p, sum.data());
        for (size_t e = 0; e < open.size(); ++e) sum[e] = open[e] ? sum[e] + product[e] : product[e];
        result = sum.data();
      }
    }
    c.store(d, p, result);
    owner.psum_matmul.set(begin, static_cast<size_t>(d.row_elements) * size);
    owner.psum_open.set(begin, static_cast<size_t>(d.row_elements) * size);
  }
}

void matmul(Core& c, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving"), d = i.tile("dst");
  const std::vector<float> a = read_all(c, i, "stationary"), b = read_all(c, i, "moving");
  std::vector<float> product(static_cast<size_t>(s.row_elements * m.row_elements));
  outer_product_sum(a.data(), b.data(), product.data(), s.partitions, static_cast<int>(s.row_elements),
                    static_cast<int>(m.row_elements));
  accumulate_rows(c, d, i.as<Accumulate>("accumulate"), product.data());
}

Cost matmul_cycles(const Chip& k, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  const double passes = m.dtype == Dtype::f32 ? k.tensor.fp32_passes : 1;
  const double load = passes > 1 ? passes * static_cast<double>(s.row_elements)
                                 : static_cast<double>(s.row_elements) / k.tensor.load_fast_factor;
  return {.cycles = static_cast<int64_t>(passes *
                                         std::max(k.tensor.interval_min_cycles, static_cast<double>(m.row_elements))),
          .load = static_cast<int64_t>(std::ceil(load)),
          .flops = 2 * s.partitions * s.row_elements * m.row_elements};
}

constexpr Row kRows[] = {
    {.name = "nc_matmul",
     .opcode = 0x10,
     .engines = kTensor,
     .operands = "dst:rw:psum stationary:r:sbuf moving:r:sbuf",
     .attrs = "accumulate:accumulate=overwrite",
     .exec = matmul,
     .cycles = matmul_cycles,
     .says = "dst (+)= stationaryᵀ · moving, summed over partitions in f32",
     .source = "doc: architecture guide, MM max(64, N) cycles, fp32 in four passes",
     .label = "MATMUL"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> tensor_rows() { return kRows; }

}  // namespace trine::arch
