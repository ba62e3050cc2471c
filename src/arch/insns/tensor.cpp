// The tensor engine's rows. K lies on the partitions of both operands, results go to PSUM. Sums run over K in order,
// fused, in f32; how the array really orders and rounds them is not published (estimate). Costs and rules: tensor.h.
#include <cstring>
#include <vector>

#include "arch/insns/lanes.h"
#include "arch/insns/outer.h"
#include "arch/insns/tensor.h"
#include "arch/runs.h"
#include "base/number/convert.h"
#include "base/number/mx.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// Room that calls of one host thread reuse.
struct Scratch {
  std::vector<float> a, b, product, sum;
  std::vector<uint32_t> bits, moved;
};
Scratch& scratch() {
  thread_local Scratch s;
  return s;
}

// All rows of a tile, one after the other, as f32.
const float* read_all(Core& c, const Call& i, std::string_view slot, std::vector<float>& room) {
  const Tile t = i.tile(slot);
  room.resize(static_cast<size_t>(t.elements()));
  c.set_slot(slot);
  c.read_all(t, room.data());
  return room.data();
}

// --- PSUM: what a product does to it, element by element ---

class Accumulator {
 public:
  Accumulator(Core& c, const Call& i)
      : core_(c),
        owner_(c.machine().cores[i.tile("dst").core]),
        dst_(i.tile("dst")),
        how_(i.as<Accumulate>("accumulate")),
        any_start_(i.chip.has(Feature::accumulate_any)) {}

  void run(const float* product) {
    core_.set_slot("dst");
    if (dst_.dynamic || dst_.offset + dst_.low < dst_.begin || dst_.offset + dst_.high > dst_.end) {
      for (int p = 0; p < dst_.partitions; ++p) core_.store(dst_, p, product + p * dst_.row_elements);  // reports it
      return;
    }
    if (how_ == Accumulate::first) {
      for (int p = 0; p < dst_.partitions; ++p, product += dst_.row_elements)
        over_row(product, [&](size_t begin, size_t n, const float* from) { add_or_start(p, begin, n, from); });
      return;
    }
    if (core_.tracked && how_ == Accumulate::add) check_started();
    sum(product);
    if (core_.tracked) over_stretches([&](size_t begin, size_t n) { note_written(0, dst_.partitions, begin, n); });
  }

 private:
  // f(byte in the partition, elements, their products) for each stretch of neighbouring elements of a row.
  template <class F>
  void over_row(const float* product, F f) const {
    over_pieces(*dst_.pattern, dst_.element_bytes(), [&](int64_t o, int64_t bytes) {
      const int64_t n = bytes / dst_.element_bytes();
      f(static_cast<size_t>(dst_.offset + o), static_cast<size_t>(n), product);
      product += n;
    });
  }

  template <class F>
  void over_stretches(F f) const {
    over_pieces(*dst_.pattern, dst_.element_bytes(),
                [&](int64_t o, int64_t bytes) { f(static_cast<size_t>(dst_.offset + o), static_cast<size_t>(bytes)); });
  }

  void check_started() {
    const PartitionBits& started = any_start_ ? owner_.psum.written_in : owner_.psum.summed_in;
    const auto all = [&](int first, int count) {
      bool yes = true;
      over_stretches([&](size_t begin, size_t n) { yes &= started.all(dst_.partition + first, count, begin, n); });
      return yes;
    };
    if (all(0, dst_.partitions)) return;
    int p = 0;
    while (all(p, 1)) ++p;
    core_.fault(FaultKind::accumulate_uninitialized, "dst",
                cat("partition ", dst_.partition + p,
                    " holds no matmul result to add to; start the group with accumulate=overwrite"));
  }

  // By a matmul, so that the next may add to it.
  void note_written(int first, int count, size_t begin, size_t bytes) {
    for (PartitionBits* bits : {&owner_.psum.written_in, &owner_.psum.summed_in, &owner_.psum.open_in})
      bits->set(dst_.partition + first, count, begin, bytes);
  }

  void sum(const float* product) {
    const bool adds = how_ == Accumulate::add;
    const Rows to{owner_.psum.bytes + static_cast<size_t>(dst_.partition) * owner_.psum.pitch + dst_.offset,
                  static_cast<ptrdiff_t>(owner_.psum.pitch)};
    if (!core_.trap_nan && lies_as_f32(dst_, to)) return sum_in_place(to, product);
    for (int p = 0; p < dst_.partitions; ++p, product += dst_.row_elements)
      over_row(product, [&](size_t begin, size_t n, const float* from) { put(p, begin, n, from, adds); });
  }

  void sum_in_place(const Rows& to, const float* product) {
    const int64_t n = dst_.row_elements;
    for (int p = 0; p < dst_.partitions; ++p, product += n) {
      float* const sum = reinterpret_cast<float*>(to.at(p));
      if (how_ == Accumulate::add)
        for (int64_t e = 0; e < n; ++e) sum[e] += product[e];
      else
        std::copy_n(product, n, sum);
    }
    core_.rounding.index += static_cast<uint64_t>(n) * static_cast<uint64_t>(dst_.partitions);
  }

  // n neighbouring elements, added to where a group is open.
  void add_or_start(int p, size_t begin, size_t n, const float* product) {
    const size_t size = static_cast<size_t>(dst_.element_bytes()), bytes = n * size;
    const int lane = dst_.partition + p;
    core_.machine().settled = false;
    const bool adds = owner_.psum.open_in.all(lane, 1, begin, bytes);
    if (!adds && n > 1 && owner_.psum.open_in.any(lane, 1, begin, bytes)) {
      for (size_t e = 0; e < n; ++e) add_or_start(p, begin + e * size, 1, product + e);
      return;
    }
    put(p, begin, n, product, adds);
    note_written(p, 1, begin, bytes);
  }

  // bf16 sums are widened, added in f32 and rounded again.
  void put(int p, size_t begin, size_t n, const float* product, bool adds) {
    std::byte* const at = owner_.psum.bytes + static_cast<size_t>(dst_.partition + p) * owner_.psum.pitch + begin;
    const float* result = product;
    if (adds) {
      std::vector<float>& sum = scratch().sum;
      sum.resize(n);
      widen_row(at, dst_.dtype, sum.data(), n);
      for (size_t e = 0; e < n; ++e) sum[e] += product[e];
      result = sum.data();
    }
    if (core_.trap_nan && std::any_of(result, result + n, [](float v) { return std::isnan(v); }))
      core_.fault(FaultKind::nan, "dst", "the result holds NaN");
    round_row(result, at, dst_.dtype, n, core_.rounding);
  }

  Core& core_;
  Core& owner_;
  const Tile dst_;
  const Accumulate how_;
  const bool any_start_;
};

// --- values ---

// Writes bits[p][f] of [rows, columns] as dst[f][p]. 8-bit elements become 16-bit ones with a zero upper byte, which
// an 8-bit dst shows as every other byte.
void write_transposed(Core& c, const Tile& d, const std::vector<uint32_t>& bits, int64_t rows, int64_t columns,
                      bool to_16_bits) {
  std::vector<uint32_t>& transposed = scratch().moved;
  transposed.resize(static_cast<size_t>(rows * columns));
  for (int64_t f = 0; f < columns; ++f)
    for (int64_t p = 0; p < rows; ++p)
      transposed[static_cast<size_t>(f * rows + p)] = bits[static_cast<size_t>(p * columns + f)];
  c.set_slot("dst");
  c.write_all_bits(d, transposed.data());
  if (!to_16_bits || d.element_bytes() != 1) return;
  Tile upper = d;
  upper.offset += 1;
  std::fill(transposed.begin(), transposed.end(), 0u);
  c.write_all_bits(upper, transposed.data());
}

std::vector<uint32_t>& read_bits_of(Core& c, const Tile& t, std::string_view slot) {
  std::vector<uint32_t>& bits = scratch().bits;
  bits.resize(static_cast<size_t>(t.elements()));
  c.set_slot(slot);
  c.read_all_bits(t, bits.data());
  return bits;
}

// Transpose mode moves bits: each column of `moving` picks one row of `stationary`, so it is a permutation.
void matmul_moving_bits(Core& c, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  const float* const pick = read_all(c, i, "moving", scratch().b);
  const std::vector<uint32_t>& from = read_bits_of(c, s, "stationary");
  std::vector<uint32_t> picked(static_cast<size_t>(m.row_elements * s.row_elements));
  for (int64_t n = 0; n < m.row_elements; ++n) {
    int64_t source = -1;
    for (int64_t k = 0; k < m.partitions; ++k) {
      const float v = pick[k * m.row_elements + n];
      if (v == 0) continue;
      if (v != 1 || source >= 0)
        return c.fault(FaultKind::out_of_range_input, "moving",
                       cat("column ", n, " holds more than a single 1; transpose mode needs an identity matrix"));
      source = k;
    }
    if (source < 0) continue;  // nothing picked: zeros
    std::copy_n(from.begin() + source * s.row_elements, s.row_elements, picked.begin() + n * s.row_elements);
  }
  write_transposed(c, i.tile("dst"), picked, m.row_elements, s.row_elements, s.element_bytes() == 1);
}

void matmul(Core& c, const Call& i) {
  if (in_transpose_mode(i.chip, i)) return matmul_moving_bits(c, i);
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  Scratch& room = scratch();
  const float* const a = read_all(c, i, "stationary", room.a);
  const float* const b = read_all(c, i, "moving", room.b);
  const int64_t deep = rows_per_partition(i), rows = s.row_elements / deep, columns = m.row_elements / deep;
  room.product.resize(static_cast<size_t>(rows * columns));
  outer_product_sum(a, b, room.product.data(), static_cast<int>(s.partitions * deep), static_cast<int>(rows),
                    static_cast<int>(columns));
  Accumulator(c, i).run(room.product.data());
}

// An MX operand as f32 [4·partitions, columns]: four codes a carrier, one scale for 8 partitions × 4 codes. The scales
// of each 32 data partitions lie in 4 neighbouring partitions of the scale tile, 32 apart.
const float* read_mx(Core& c, const Call& i, std::string_view slot, std::string_view scale_slot,
                     std::vector<float>& room) {
  const Tile t = i.tile(slot), scale = i.tile(scale_slot);
  const Dtype element = mx_element(t.dtype);
  const int64_t columns = t.row_elements;
  room.resize(static_cast<size_t>(4 * t.elements()));
  std::vector<uint32_t> carriers(static_cast<size_t>(columns)), exponents(static_cast<size_t>(scale.row_elements));
  for (int p = 0; p < t.partitions; ++p) {
    if (p % 8 == 0) {
      c.set_slot(scale_slot);
      c.read_bits(scale, p / 32 * 32 + p % 32 / 8, exponents.data());
    }
    c.set_slot(slot);
    c.read_bits(t, p, carriers.data());
    for (int64_t f = 0; f < columns; ++f) {
      const auto codes = mx_unpack(carriers[static_cast<size_t>(f)], element);
      const float by = row(Dtype::f8e8m0).widen(exponents[static_cast<size_t>(f)]);
      for (size_t l = 0; l < 4; ++l)
        room[(static_cast<size_t>(p) * 4 + l) * static_cast<size_t>(columns) + static_cast<size_t>(f)] =
            row(element).widen(codes[l]) * by;
    }
  }
  return room.data();
}

void matmul_mx(Core& c, const Call& i) {
  const Tile s = i.tile("stationary"), m = i.tile("moving");
  Scratch& room = scratch();
  const float* const a = read_mx(c, i, "stationary", "stationary_scale", room.a);
  const float* const b = read_mx(c, i, "moving", "moving_scale", room.b);
  room.product.resize(static_cast<size_t>(s.row_elements * m.row_elements));
  outer_product_sum(a, b, room.product.data(), 4 * s.partitions, static_cast<int>(s.row_elements),
                    static_cast<int>(m.row_elements));
  Accumulator(c, i).run(room.product.data());
}

// Without a transpose mode the tensor engine multiplies by an identity: a NaN or infinity reaches every element that
// is summed with it, 0·Inf being NaN.
void transpose_by_matmul(Core& c, const Call& i, const Tile& t, const Tile& d) {
  Scratch& room = scratch();
  const float* const a = read_all(c, i, "data", room.a);
  room.b.assign(static_cast<size_t>(t.partitions * t.partitions), 0.0f);
  for (int p = 0; p < t.partitions; ++p) room.b[static_cast<size_t>(p * t.partitions + p)] = 1;
  room.product.resize(static_cast<size_t>(t.elements()));
  outer_product_sum(a, room.b.data(), room.product.data(), t.partitions, static_cast<int>(t.row_elements),
                    t.partitions);
  write_rows(c, d, [&](int p, float* out) { std::copy_n(room.product.data() + p * t.partitions, t.partitions, out); });
}

void transpose(Core& c, const Call& i) {
  const Tile t = i.tile("data"), d = i.tile("dst");
  const bool array = i.engine == Engine::tensor;
  if (array && !i.chip.has(Feature::transpose_mode)) return transpose_by_matmul(c, i, t, d);
  write_transposed(c, d, read_bits_of(c, t, "data"), t.partitions, t.row_elements, array && t.element_bytes() == 1);
}

constexpr Row kRows[] = {
    {.name = "nc_matmul",
     .opcode = 0x10,
     .engines = kTensor,
     .operands = "dst:rw:psum stationary:r:sbuf moving:r:sbuf",
     .attrs = "accumulate:accumulate=overwrite is_stationary_onezero:bool=false is_moving_onezero:bool=false "
              "is_transpose:bool=false tile_position:ints= tile_size:ints= perf_mode:perf_mode=none",
     .exec = matmul,
     .cycles = matmul_cycles,
     .check = matmul_check,
     .summary = "dst (+)= stationaryᵀ · moving, summed over partitions in f32",
     .source = "doc: architecture guide, MM max(64, N) cycles, fp32 in four passes",
     .label = "MATMUL"},
    {.name = "nc_matmul_mx",
     .opcode = 0x11,
     .engines = kTensor,
     .needs = Feature::mx,
     .operands = "dst:rw:psum stationary:r:sbuf moving:r:sbuf stationary_scale:r:sbuf moving_scale:r:sbuf",
     .attrs = "accumulate:accumulate=overwrite tile_position:ints= tile_size:ints=",
     .exec = matmul_mx,
     .cycles = matmul_mx_cycles,
     .check = matmul_mx_check,
     .summary = "dst (+)= stationaryᵀ · moving of MX blocks, four rows of K a partition, scales applied",
     .source = "doc: architecture guide, as a bf16 matmul with four times the K",
     .label = "MATMUL"},
    {.name = "nc_transpose",
     .opcode = 0x12,
     .engines = kTensor | kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum",
     .exec = transpose,
     .cycles = transpose_cycles,
     .check = transpose_check,
     .summary = "dst = dataᵀ, partitions and free elements exchanged",
     .source = "doc: nki.isa 2.26.1, Tensor max(P, min(64, F)), Vector max(64, F); fp32 passes by the matmul rule",
     .label = "TRANSPOSE"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> tensor_rows() { return kRows; }

}  // namespace trine::arch
