// Elementwise rows beyond the plain ones: two operators with a scalar and a tile, scans, masked copies, reciprocals,
// and batch-norm statistics. f32 arithmetic with casts on the way in and out.
#include <vector>

#include "arch/insns/alu.h"
#include "arch/insns/lanes.h"
#include "arch/insns/vector.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// --- scalar_tensor_tensor ---

void scalar_tensor_tensor(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const Scalars s = read_scalars(c, i, "operand0");
  Source a(c, i, "data", d), b(c, i, "operand1", d);
  const AluRow<float>&op0 = alu_f32(i.as<Alu>("op0")), &op1 = alu_f32(i.as<Alu>("op1"));
  const bool reverse0 = i.attr("reverse0"), reverse1 = i.attr("reverse1");
  std::vector<float> first(static_cast<size_t>(d.row_elements));
  write_rows(c, d, [&](int p, float* out) {
    const float* const tile = b.row(p);
    apply(op0, reverse0, a.row(p), s[static_cast<size_t>(p)], first.data(), d.row_elements);
    if (reverse1)
      op1.tiles(tile, first.data(), out, d.row_elements);
    else
      op1.tiles(first.data(), tile, out, d.row_elements);
  });
}

Cost scalar_tensor_tensor_cycles(const Chip& k, const Call& i) {
  const Tile a = i.tile("data"), b = i.tile("operand1");
  const bool half = a.dtype == Dtype::bf16 && b.dtype == Dtype::bf16 && i.as<Alu>("op0") == Alu::subtract &&
                    i.as<Alu>("op1") == Alu::multiply && a.row_elements % 2 == 0;
  return interval(k, i, static_cast<double>(a.row_elements) * (half ? 1 : k.vector.two_input_factor));
}

Result<void> scalar_tensor_tensor_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "operand1", "dst"}));
  TRY(not_both_psum(i, "data", "operand1"));
  TRY(arithmetic_check(k, i, "op0"));
  TRY(arithmetic_check(k, i, "op1"));
  return operand_check(i, "op0", "operand0");
}

// --- tensor_tensor_scan ---

void tensor_tensor_scan(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const Scalars initial = read_scalars(c, i, "initial");
  Source a(c, i, "data0", d), b(c, i, "data1", d);
  const auto op0 = alu_f32(i.as<Alu>("op0")).one, op1 = alu_f32(i.as<Alu>("op1")).one;
  const bool reverse0 = i.attr("reverse0"), reverse1 = i.attr("reverse1");
  write_rows(c, d, [&](int p, float* out) {
    const float *const x = a.row(p), *const y = b.row(p);
    float r = initial[static_cast<size_t>(p)];
    for (int64_t e = 0; e < d.row_elements; ++e) {
      const float t = reverse0 ? op0(r, x[e]) : op0(x[e], r);
      r = reverse1 ? op1(y[e], t) : op1(t, y[e]);
      out[e] = r;
    }
  });
}

Cost two_inputs_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("data0").row_elements) * k.vector.two_input_factor);
}

Result<void> tensor_tensor_scan_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data0", "data1", "dst"}));
  TRY(not_both_psum(i, "data0", "data1"));
  for (const std::string_view attr : {"op0", "op1"}) {
    TRY(arithmetic_check(k, i, attr));
    if (alu_is_unary(i.as<Alu>(attr)))
      return fail(Code::invalid, cat(attr, "=", name(i.as<Alu>(attr)), " takes one operand; a scan joins two"));
  }
  return one_per_lane(i, "initial", "data0");
}

// --- tensor_copy_predicated ---

// Elements whose predicate is false keep their bits, written or not; the true ones are written one by one unless the
// whole row was written before.
void write_where(Core& c, const Tile& d, int p, const uint32_t* values, const std::vector<char>& where) {
  std::vector<uint32_t> row(where.size());
  const size_t before = c.faults.size();
  c.read_bits(d, p, row.data());
  const bool all_written = c.faults.size() == before;
  c.faults.resize(before);
  for (size_t e = 0; e < where.size(); ++e)
    if (where[e]) row[e] = values[e];
  if (all_written) return c.write_bits(d, p, row.data());
  for (size_t e = 0; e < where.size(); ++e)
    if (where[e]) write_element(c, d, p, static_cast<int64_t>(e), row[e]);
}

void tensor_copy_predicated(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const bool reverse = i.attr("reverse_pred");
  const std::vector<uint32_t> predicate = read_all_bits(c, i, "predicate");
  std::vector<uint32_t> source;
  if (i.is_tile("src")) {
    source = read_all_bits(c, i, "src");
  } else {
    const float value = static_cast<float>(i.operand("src").immediate);
    source.assign(static_cast<size_t>(d.elements()), static_cast<uint32_t>(row(d.dtype).round(value, c.rounding)));
  }
  std::vector<char> where(static_cast<size_t>(d.row_elements));
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    const int64_t at = p * d.row_elements;
    for (size_t e = 0; e < where.size(); ++e) where[e] = (predicate[static_cast<size_t>(at) + e] != 0) != reverse;
    write_where(c, d, p, source.data() + at, where);
  }
}

Cost tensor_copy_predicated_cycles(const Chip& k, const Call& i) {
  const bool psum =
      i.tile("predicate").space == Space::psum || (i.is_tile("src") && i.tile("src").space == Space::psum);
  const double n = static_cast<double>(i.tile("predicate").row_elements);
  return interval(k, i, psum || !i.is_tile("src") ? n : n * k.vector.two_input_factor);
}

Result<void> tensor_copy_predicated_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"src", "predicate", "dst"}));
  TRY(not_both_psum(i, "src", "predicate"));
  const Dtype p = i.tile("predicate").dtype, d = i.tile("dst").dtype;
  if (p != Dtype::u8 && p != Dtype::u16 && p != Dtype::u32)
    return fail(Code::invalid, cat("predicate is ", row(p).name, "; it must be u8, u16 or u32"));
  if (i.is_tile("src") && i.tile("src").dtype != d)
    return fail(Code::invalid, cat("src is ", row(i.tile("src").dtype).name, " and dst is ", row(d).name,
                                   "; a predicated copy casts nothing, so give both the same format"));
  return {};
}

// --- reciprocal ---

void reciprocal(Core& c, const Call& i) {
  const AluRow<float>& alu = alu_f32(Alu::reciprocal);
  map_rows(c, i, "dst", "data", [&](const float* a, float* out, int64_t n) { alu.scalar(a, 0, out, n); });
}

Cost reciprocal_cycles(const Chip& k, const Call& i) {
  return interval(k, i, k.vector.reciprocal_factor * static_cast<double>(i.tile("data").row_elements));
}

Result<void> reciprocal_check(const Chip&, const Call& i) {
  TRY(computable(i));
  return same_shape(i, {"data", "dst"});
}

// --- bn_stats, bn_aggr ---

// estimate: the order of the hardware's sums is not published; ours are f64 and rounded once.
void bn_stats(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "data", d);
  const int64_t n = a.tile.row_elements;
  write_rows(c, d, [&](int p, float* out) {
    const float* const x = a.row(p);
    std::array<float, 6> stats{};
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t count = (n + 1 - half) / 2;
      double sum = 0, squares = 0;
      for (int64_t e = half; e < n; e += 2) sum += static_cast<double>(x[e]);
      const double mean = count ? sum / static_cast<double>(count) : 0;
      for (int64_t e = half; e < n; e += 2) {
        const double off = static_cast<double>(x[e]) - mean;
        squares += off * off;
      }
      float* const to = stats.data() + 3 * half;
      to[0] = static_cast<float>(count);
      to[1] = static_cast<float>(mean);
      to[2] = static_cast<float>(squares);
    }
    std::copy(stats.begin(), stats.end(), out);
  });
}

Result<void> bn_stats_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_lanes(i, {"data", "dst"}));
  const int64_t n = i.tile("data").row_elements, out = i.tile("dst").row_elements;
  if (n > 512)
    return fail(Code::invalid, cat("data has ", n,
                                   " elements per partition; bn_stats takes at most 512, so split it "
                                   "and join the parts with bn_aggr"));
  if (out != 6)
    return fail(Code::invalid, cat("dst has ", out,
                                   " elements per partition; bn_stats writes 6: count, mean and "
                                   "variance·count of the even and of the odd elements"));
  return {};
}

Cost data_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("data").row_elements));
}

void bn_aggr(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "data", d);
  const int64_t n = a.tile.row_elements;
  write_rows(c, d, [&](int p, float* out) {
    const float* const x = a.row(p);
    double count = 0, sum = 0, squares = 0;
    for (int64_t e = 0; e < n; e += 3) {
      count += static_cast<double>(x[e]);
      sum += static_cast<double>(x[e]) * static_cast<double>(x[e + 1]);
    }
    const double mean = sum / count;
    for (int64_t e = 0; e < n; e += 3) {
      const double off = static_cast<double>(x[e + 1]) - mean;
      squares += static_cast<double>(x[e + 2]) + static_cast<double>(x[e]) * off * off;
    }
    out[0] = static_cast<float>(mean);
    out[1] = static_cast<float>(squares / count);
  });
}

Cost bn_aggr_cycles(const Chip& k, const Call& i) {
  return interval(k, i, 13.0 / 3 * static_cast<double>(i.tile("data").row_elements));
}

Result<void> bn_aggr_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_lanes(i, {"data", "dst"}));
  const int64_t n = i.tile("data").row_elements, out = i.tile("dst").row_elements;
  if (n % 3)
    return fail(Code::invalid, cat("data has ", n,
                                   " elements per partition; bn_aggr takes triples of count, mean, "
                                   "variance·count, so give a multiple of 3"));
  if (out != 2)
    return fail(Code::invalid, cat("dst has ", out, " elements per partition; bn_aggr writes 2: mean and variance"));
  return {};
}

constexpr Row kRows[] = {
    {.name = "scalar_tensor_tensor",
     .opcode = 0x24,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum operand0?:r:sbuf|psum|imm operand1:r:sbuf|psum",
     .attrs = "op0:alu op1:alu reverse0:bool=false reverse1:bool=false",
     .exec = scalar_tensor_tensor,
     .cycles = scalar_tensor_tensor_cycles,
     .check = scalar_tensor_tensor_check,
     .summary = "dst = (data op0 operand0) op1 operand1; operand0 one value per partition, operand1 a tile",
     .source = "doc: nki.isa 2.26.1, N for bf16 subtract then multiply with N even, else 2N",
     .label = "SCALAR_TENSOR_TENSOR"},
    {.name = "tensor_tensor_scan",
     .opcode = 0x25,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data0:r:sbuf|psum data1:r:sbuf|psum initial:r:sbuf|psum|imm",
     .attrs = "op0:alu op1:alu reverse0:bool=false reverse1:bool=false",
     .exec = tensor_tensor_scan,
     .cycles = two_inputs_cycles,
     .check = tensor_tensor_scan_check,
     .summary = "dst[i] = (data0[i] op0 dst[i-1]) op1 data1[i], starting from initial",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, 2N)",
     .label = "TENSOR_TENSOR_SCAN"},
    {.name = "tensor_copy_predicated",
     .opcode = 0x26,
     .engines = kVector,
     .operands = "dst:m:sbuf|psum src:r:sbuf|psum|imm predicate:r:sbuf|psum",
     .attrs = "reverse_pred:bool=false",
     .exec = tensor_copy_predicated,
     .cycles = tensor_copy_predicated_cycles,
     .check = tensor_copy_predicated_check,
     .summary = "dst = src where predicate is not zero; elsewhere dst keeps its bits",
     .source = "doc: nki.isa 2.26.1, N with one input in PSUM, else 2N; estimate: N for a constant src",
     .label = "TENSOR_COPY_PREDICATED"},
    {.name = "reciprocal",
     .opcode = 0x27,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum",
     .exec = reciprocal,
     .cycles = reciprocal_cycles,
     .check = reciprocal_check,
     .nki = {.takes = "dst data", .old = "data", .returns = "data"},
     .summary = "dst = 1 / data, correctly rounded",
     .source = "measured: three profiles on Trainium1, 2.6 to 2.9 N (nki.isa 2.26.1 prints 8N)",
     .label = "RECIPROCAL"},
    {.name = "bn_stats",
     .opcode = 0x28,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum",
     .exec = bn_stats,
     .cycles = data_cycles,
     .check = bn_stats_check,
     .nki = {.takes = "dst data", .old = "data", .returns = "data 6 f32"},
     .summary = "dst = count, mean, variance·count of the even elements, then of the odd ones",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N)",
     .label = "BN_STATS"},
    {.name = "bn_aggr",
     .opcode = 0x29,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum",
     .exec = bn_aggr,
     .cycles = bn_aggr_cycles,
     .check = bn_aggr_check,
     .nki = {.takes = "dst data", .old = "data", .returns = "data 2 f32"},
     .summary = "dst = mean, variance of what the bn_stats triples in data describe",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, 13·N/3)",
     .label = "BN_AGGR"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> vector_arith_rows() { return kRows; }

}  // namespace trine::arch
