// GpSimd instructions that make affine integers on the fly: iota writes them, affine_select compares them with zero.
// `pattern` is pairs of step and count, outermost first, up to four. The arithmetic is that of 32-bit integers.
#include "arch/insns/gpsimd.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// The values of lane 0 in pattern order; other lanes add a multiple of channel_multiplier.
std::vector<uint32_t> first_lane(const Call& i) {
  const auto pattern = i.list("pattern");
  std::vector<uint32_t> out(1, static_cast<uint32_t>(i.attr("offset")));
  for (size_t d = 0; d + 1 < pattern.size(); d += 2) {
    const auto step = static_cast<uint32_t>(pattern[d]), count = static_cast<uint32_t>(pattern[d + 1]);
    std::vector<uint32_t> grown;
    grown.reserve(out.size() * count);
    for (const uint32_t base : out)
      for (uint32_t e = 0; e < count; ++e) grown.push_back(base + e * step);
    out = std::move(grown);
  }
  return out;
}

uint32_t lane_term(const Call& i, int lane) {
  return static_cast<uint32_t>(lane) * static_cast<uint32_t>(i.attr("channel_multiplier"));
}

void iota(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const std::vector<uint32_t> first = first_lane(i);
  std::vector<int64_t> values(first.size());
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    const uint32_t term = lane_term(i, p);
    for (size_t e = 0; e < first.size(); ++e) values[e] = static_cast<int32_t>(first[e] + term);
    c.write_int(d, p, values.data());
  }
}

bool holds(Alu cmp, int32_t value) {
  switch (cmp) {
    case Alu::equal:
      return value == 0;
    case Alu::not_equal:
      return value != 0;
    case Alu::greater_equal:
      return value >= 0;
    case Alu::greater:
      return value > 0;
    case Alu::less_equal:
      return value <= 0;
    default:
      return value < 0;
  }
}

// Where the formats agree the chosen elements keep their bits; else they go through f32.
void affine_select(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  const Alu cmp = i.as<Alu>("cmp_op");
  const float on_false = static_cast<float>(i.real("on_false_value"));
  const std::vector<uint32_t> first = first_lane(i);
  const auto chosen = [&](int p, size_t e) { return holds(cmp, static_cast<int32_t>(first[e] + lane_term(i, p))); };
  if (d.dtype == i.tile("on_true_tile").dtype) {
    std::vector<uint32_t> all = read_all_bits(c, i, "on_true_tile");
    const auto other = static_cast<uint32_t>(row(d.dtype).round(on_false, c.rounding));
    c.set_slot("dst");
    for (int p = 0; p < d.partitions; ++p) {
      uint32_t* const lane = all.data() + p * d.row_elements;
      for (size_t e = 0; e < first.size(); ++e)
        if (!chosen(p, e)) lane[e] = other;
      c.write_bits(d, p, lane);
    }
    return;
  }
  Source source(c, i, "on_true_tile", d);
  write_rows(c, d, [&](int p, float* out) {
    const float* const in = source.row(p);
    for (size_t e = 0; e < first.size(); ++e) out[e] = chosen(p, e) ? in[e] : on_false;
  });
}

// --- rules ---

Result<void> fits_int32(const Call& i, std::string_view attr) {
  const int64_t v = i.attr(attr);
  if (v >= INT32_MIN && v <= INT32_MAX) return {};
  return fail(Code::out_of_range, cat(attr, " is ", v, "; the engine computes it in 32-bit integers"));
}

Result<void> check_pattern(const Call& i) {
  const auto pattern = i.list("pattern");
  if (pattern.empty() || pattern.size() % 2 || pattern.size() > 2 * kFreeDimsMax)
    return fail(Code::invalid, cat("pattern has ", pattern.size(), " numbers; it is one to ", kFreeDimsMax,
                                   " pairs of step and count, outermost first"));
  const int64_t wanted = i.tile("dst").row_elements;
  int64_t elements = 1;
  for (size_t d = 0; d < pattern.size(); d += 2) {
    if (pattern[d] < INT32_MIN || pattern[d] > INT32_MAX)
      return fail(Code::out_of_range, cat("pattern has the step ", pattern[d], ", which is no 32-bit integer"));
    if (pattern[d + 1] < 1 || pattern[d + 1] > wanted)
      return fail(Code::invalid, cat("pattern has the count ", pattern[d + 1], "; counts are 1 to the ", wanted,
                                     " elements per partition of dst"));
    elements *= pattern[d + 1];
    if (elements > wanted) break;
  }
  if (elements != wanted)
    return fail(Code::invalid, cat("pattern makes ", elements > wanted ? "more than " : "", std::min(elements, wanted),
                                   " elements per partition and dst has ", wanted, "; they have to be as many"));
  TRY(fits_int32(i, "offset"));
  return fits_int32(i, "channel_multiplier");
}

Result<void> check_iota(const Chip&, const Call& i) {
  TRY(computable(i));
  return check_pattern(i);
}

Result<void> check_affine_select(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"dst", "on_true_tile"}));
  const Alu cmp = i.as<Alu>("cmp_op");
  if (cmp < Alu::equal || cmp > Alu::less)
    return fail(Code::invalid,
                cat("cmp_op is ", name(cmp), "; it is equal, not_equal, greater_equal, greater, less_equal or less"));
  return check_pattern(i);
}

Cost pattern_cycles(const Chip& k, const Call& i) {
  return gpsimd_cost(k, i, static_cast<double>(i.tile("dst").row_elements));
}

constexpr Row kRows[] = {
    {.name = "iota",
     .opcode = 0x60,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf",
     .attrs = "pattern:ints offset:int=0 channel_multiplier:int=0",
     .exec = iota,
     .cycles = pattern_cycles,
     .check = check_iota,
     .summary = "dst = offset + lane·channel_multiplier + Σ step·index over the pattern, in 32-bit integers",
     .source = "doc: nki.isa, 150 + N",
     .label = "IOTA"},
    {.name = "affine_select",
     .opcode = 0x61,
     .engines = kGpsimd,
     .operands = "dst:w:sbuf on_true_tile:r:sbuf",
     .attrs = "pattern:ints channel_multiplier:int=0 on_false_value:float=0 cmp_op:alu=equal offset:int=0",
     .exec = affine_select,
     .cycles = pattern_cycles,
     .check = check_affine_select,
     .summary = "dst = on_true_tile where the affine value compares with 0 as cmp_op says, else on_false_value",
     .source = "doc: nki.isa, 150 + N",
     .label = "AFFINE_SELECT"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> gpsimd_pattern_rows() { return kRows; }

}  // namespace trine::arch
