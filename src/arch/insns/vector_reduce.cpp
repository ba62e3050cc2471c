// Rows that fold a lane's row: tensor_reduce, and those that work through the engine's 128 accumulators (one f32 per
// lane, kept between instructions and shared by all of them).
// estimate: folds go from the left, one f32 rounding a step; accumulators see results before they are cast to dst.
#include <array>
#include <limits>
#include <vector>

#include "arch/activation.h"
#include "arch/insns/alu.h"
#include "arch/insns/lanes.h"
#include "arch/insns/vector.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// --- tensor_reduce ---

void tensor_reduce_bits(Core& c, const Call& i) {
  const Tile d = i.tile("dst"), a = i.tile("data");
  const std::vector<uint32_t> x = read_all_bits(c, i, "data");
  const AluRow<uint32_t>& alu = alu_bits(i.as<Alu>("op"));
  const int64_t group = a.row_elements / d.row_elements;
  std::vector<uint32_t> out(static_cast<size_t>(d.row_elements));
  c.set_slot("dst");
  for (int p = 0; p < d.partitions; ++p) {
    const uint32_t* from = x.data() + p * a.row_elements;
    for (uint32_t& v : out) {
      v = alu.fold(from[0], from + 1, group - 1);
      from += group;
    }
    c.write_bits(d, p, out.data());
  }
}

// One sum per lane.
void tensor_sum(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "data", d);
  std::array<float, 128> sums{};
  RowFolds folds(Alu::add, a.tile.row_elements - 1);
  for (int p = 0; p < d.partitions; ++p) {
    const float* const from = a.row(p);
    sums[static_cast<size_t>(p)] = from[0];
    folds.add(&sums[static_cast<size_t>(p)], from + 1);
  }
  folds.flush();
  const bool negate = i.attr("negate");
  write_rows(c, d, [&](int p, float* out) {
    const float sum = sums[static_cast<size_t>(p)];
    out[0] = negate ? -sum : sum;
  });
}

void tensor_reduce(Core& c, const Call& i) {
  const Alu op = i.as<Alu>("op");
  if (is_bitvec(op)) return tensor_reduce_bits(c, i);
  const Tile d = i.tile("dst");
  if (op == Alu::add && d.row_elements == 1) return tensor_sum(c, i);
  Source a(c, i, "data", d);
  const AluRow<float>& alu = alu_f32(op);
  const bool negate = i.attr("negate");
  const int64_t group = a.tile.row_elements / d.row_elements;
  write_rows(c, d, [&](int p, float* out) {
    const float* from = a.row(p);
    for (int64_t g = 0; g < d.row_elements; ++g, from += group) {
      const float v = alu.fold(alu_fold_first(op, from[0]), from + 1, group - 1);
      out[g] = negate ? -v : v;
    }
  });
}

Cost tensor_reduce_cycles(const Chip& k, const Call& i) {
  const Tile d = i.tile("dst"), a = i.tile("data");
  const Alu op = i.as<Alu>("op");
  const bool half = d.dtype == Dtype::bf16 && a.dtype == Dtype::bf16 && (op == Alu::add || op == Alu::max);
  return interval(k, i, static_cast<double>(a.row_elements) / (half ? 2 : 1));
}

Result<void> tensor_reduce_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_lanes(i, {"data", "dst"}));
  const Alu op = i.as<Alu>("op");
  if (!alu_can_reduce(op))
    return fail(Code::invalid, cat("op=", name(op),
                                   " does not reduce; use add, subtract, multiply, max, min, a "
                                   "logical_ operator, bitwise_and, bitwise_or or bitwise_xor"));
  const int64_t n = i.tile("data").row_elements, m = i.tile("dst").row_elements;
  if (n % m)
    return fail(Code::invalid, cat("data has ", n, " elements per partition and dst ", m,
                                   "; the innermost dims are "
                                   "folded, so dst must divide data"));
  if (!is_bitvec(op)) return {};
  if (i.attr("negate")) return fail(Code::invalid, cat("negate goes with arithmetic, not with op=", name(op)));
  return bits_check(i, {"data", "dst"});
}

// --- the accumulators ---

// Folds a lane's new results into its accumulator as `cmd` says. `lane` is the partition that computes.
void accumulate(Core& c, int lane, ReduceCmd cmd, Alu op, float initial, const float* values, int64_t n) {
  float& acc = c.vector_acc[static_cast<size_t>(lane)];
  if (cmd == ReduceCmd::idle) return;  // estimate: idle leaves the accumulator; the hardware promises nothing
  if (cmd == ReduceCmd::reset || cmd == ReduceCmd::reset_reduce) acc = alu_identity(op);
  if (cmd == ReduceCmd::load_reduce) acc = initial;
  if (cmd != ReduceCmd::reset) acc = alu_f32(op).fold(acc, values, n);
}

void read_out(Core& c, const Call& i, int first_lane) {
  if (!i.has("reduce_res")) return;
  const Tile r = i.tile("reduce_res");
  write_rows(
      c, r, [&](int p, float* out) { out[0] = c.vector_acc[static_cast<size_t>(first_lane + p)]; }, "reduce_res");
}

// Computes each lane's row, gives it to the accumulator and then to dst.
template <class F>
void reduce_rows(Core& c, const Call& i, const Tile& data, Alu op, F compute) {
  const Tile d = i.tile("dst");
  const ReduceCmd cmd = i.as<ReduceCmd>("reduce_cmd");
  Scalars initial{};
  if (i.info.slot("reduce_init") >= 0) initial = read_scalars(c, i, "reduce_init");
  write_rows(c, d, [&](int p, float* out) {
    compute(p, out);
    accumulate(c, data.partition + p, cmd, op, initial[static_cast<size_t>(p)], out, d.row_elements);
  });
  read_out(c, i, data.partition);
}

Result<void> reduce_check(const Call& i, std::string_view like, std::initializer_list<ReduceCmd> allowed) {
  const ReduceCmd cmd = i.as<ReduceCmd>("reduce_cmd");
  if (std::find(allowed.begin(), allowed.end(), cmd) == allowed.end()) {
    const EnumRow& names = *enum_by_name("reduce_cmd");
    std::string list;
    for (const ReduceCmd a : allowed) list += cat(list.empty() ? "" : ", ", names.members[static_cast<size_t>(a)]);
    return fail(Code::invalid, cat("reduce_cmd=", names.members[static_cast<size_t>(cmd)], " is none that ",
                                   i.info.row->name, " has; use one of ", list));
  }
  if (i.info.slot("reduce_init") >= 0) {
    TRY(one_per_lane(i, "reduce_init", like));
    if (i.has("reduce_init") != (cmd == ReduceCmd::load_reduce))
      return fail(Code::invalid, "reduce_init goes with reduce_cmd=load_reduce: give both or neither");
  }
  if (i.info.slot("reduce_res") < 0 || !i.has("reduce_res")) return {};
  return one_per_lane(i, "reduce_res", like);
}

// The extra instruction that reads the accumulators out.
Cost with_read_out(const Chip& k, const Call& i, Cost cost) {
  if (i.has("reduce_res")) cost.cycles += static_cast<int64_t>(k.vector.interval_min_cycles);
  return cost;
}

// --- tensor_scalar_reduce ---

void tensor_scalar_reduce(Core& c, const Call& i) {
  Source a(c, i, "data", i.tile("dst"));
  const Scalars s = read_scalars(c, i, "operand0");
  const AluRow<float>& op0 = alu_f32(i.as<Alu>("op0"));
  reduce_rows(c, i, a.tile, i.as<Alu>("reduce_op"),
              [&](int p, float* out) { op0.scalar(a.row(p), s[static_cast<size_t>(p)], out, a.tile.row_elements); });
}

Cost tensor_scalar_reduce_cycles(const Chip& k, const Call& i) {
  return with_read_out(k, i, interval(k, i, static_cast<double>(i.tile("data").row_elements)));
}

Result<void> tensor_scalar_reduce_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(arithmetic_check(k, i, "op0"));
  TRY(operand_check(i, "op0", "operand0"));
  TRY(one_of(i, "reduce_op", {Alu::add, Alu::subtract, Alu::multiply, Alu::max, Alu::min}));
  return reduce_check(i, "data", {ReduceCmd::reset_reduce, ReduceCmd::reduce, ReduceCmd::load_reduce});
}

// --- tensor_scalar_cumulative ---

void tensor_scalar_cumulative(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "src", d);
  const Scalars s = read_scalars(c, i, "imm0"), initial = read_scalars(c, i, "imm1");
  const AluRow<float>& op0 = alu_f32(i.as<Alu>("op0"));
  const Alu op = i.as<Alu>("op1");
  const auto op1 = alu_f32(op).one;
  const ReduceCmd cmd = i.as<ReduceCmd>("reduce_cmd");
  write_rows(c, d, [&](int p, float* out) {
    const size_t lane = static_cast<size_t>(p);
    float& acc = c.vector_acc[static_cast<size_t>(a.tile.partition + p)];
    if (cmd == ReduceCmd::reset_reduce) acc = alu_identity(op);
    if (cmd == ReduceCmd::load_reduce) acc = initial[lane];
    op0.scalar(a.row(p), s[lane], out, d.row_elements);
    for (int64_t e = 0; e < d.row_elements; ++e) out[e] = acc = op1(out[e], acc);
  });
}

Cost src_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("src").row_elements));
}

Result<void> tensor_scalar_cumulative_check(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"src", "dst"}));
  for (const std::string_view slot : {"src", "dst"})
    if (const Dtype d = i.tile(slot).dtype; is_integer(d) && bits(d) == 32)
      return fail(Code::invalid, cat(slot, " is ", row(d).name, "; tensor_scalar_cumulative has no 32-bit integers"));
  TRY(arithmetic_check(k, i, "op0"));
  TRY(operand_check(i, "op0", "imm0", "src"));
  TRY(one_of(i, "op1", {Alu::add, Alu::subtract, Alu::multiply, Alu::max, Alu::min}));
  TRY(one_per_lane(i, "imm1", "src"));
  TRY(reduce_check(i, "src", {ReduceCmd::reset_reduce, ReduceCmd::reduce, ReduceCmd::load_reduce}));
  if (i.has("imm1") != (i.as<ReduceCmd>("reduce_cmd") == ReduceCmd::load_reduce))
    return fail(Code::invalid, "imm1 is the start of reduce_cmd=load_reduce: give both or neither");
  return {};
}

// --- exponential ---

void exponential(Core& c, const Call& i) {
  Source a(c, i, "src", i.tile("dst"));
  const Scalars top = read_scalars(c, i, "max_value");
  reduce_rows(c, i, a.tile, Alu::add, [&](int p, float* out) {
    alu_f32(Alu::subtract).scalar(a.row(p), top[static_cast<size_t>(p)], out, a.tile.row_elements);
    activate(Act::exp, out, out, static_cast<size_t>(a.tile.row_elements));
  });
}

Cost exponential_cycles(const Chip& k, const Call& i) {
  return with_read_out(k, i, interval(k, i, static_cast<double>(i.tile("src").row_elements) / k.vector.fast_factor));
}

Result<void> exponential_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"src", "dst"}));
  TRY(one_per_lane(i, "max_value", "src"));
  return reduce_check(i, "src", {ReduceCmd::idle, ReduceCmd::reset_reduce, ReduceCmd::reduce, ReduceCmd::load_reduce});
}

// --- range_select ---

void range_select(Core& c, const Call& i) {
  Source a(c, i, "on_true_tile", i.tile("dst"));
  const Scalars bound0 = read_scalars(c, i, "bound0"), bound1 = read_scalars(c, i, "bound1");
  const int64_t n = a.tile.row_elements;
  std::vector<float> index(static_cast<size_t>(n)), in0(index.size()), in1(index.size());
  for (int64_t e = 0; e < n; ++e) index[static_cast<size_t>(e)] = static_cast<float>(i.attr("range_start") + e);
  const AluRow<float>&op0 = alu_f32(i.as<Alu>("comp_op0")), &op1 = alu_f32(i.as<Alu>("comp_op1"));
  constexpr float kFalse = std::numeric_limits<float>::lowest();
  reduce_rows(c, i, a.tile, Alu::max, [&](int p, float* out) {
    const float* const x = a.row(p);
    op0.scalar(index.data(), bound0[static_cast<size_t>(p)], in0.data(), n);
    op1.scalar(index.data(), bound1[static_cast<size_t>(p)], in1.data(), n);
    for (int64_t e = 0; e < n; ++e)
      out[e] = in0[static_cast<size_t>(e)] * in1[static_cast<size_t>(e)] != 0 ? x[e] : kFalse;
  });
}

Cost range_select_cycles(const Chip& k, const Call& i) {
  return interval(k, i, static_cast<double>(i.tile("on_true_tile").row_elements));
}

Result<void> range_select_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"on_true_tile", "dst"}));
  const Tile a = i.tile("on_true_tile");
  if (!is_floating(a.dtype))
    return fail(Code::invalid, cat("on_true_tile is ", row(a.dtype).name, "; range_select selects floats"));
  for (const std::string_view attr : {"comp_op0", "comp_op1"})
    TRY(one_of(i, attr, {Alu::equal, Alu::less, Alu::less_equal, Alu::greater, Alu::greater_equal}));
  for (const std::string_view slot : {"bound0", "bound1"}) {
    TRY(one_per_lane(i, slot, "on_true_tile"));
    if (i.tile(slot).dtype != Dtype::f32)
      return fail(Code::invalid, cat(slot, " is ", row(i.tile(slot).dtype).name, "; bounds are f32"));
  }
  constexpr int64_t kExact = 1 << 24;
  const int64_t first = i.attr("range_start");
  if (first < -kExact || first > kExact - a.row_elements)
    return fail(Code::out_of_range, cat("range_start ", first, " and ", a.row_elements,
                                        " elements leave ±2^24, where f32 compares indices exactly; lower it"));
  return reduce_check(i, "on_true_tile",
                      {ReduceCmd::idle, ReduceCmd::reset, ReduceCmd::reduce, ReduceCmd::reset_reduce});
}

// --- select_reduce ---

void select_reduce(Core& c, const Call& i) {
  const Tile d = i.tile("dst");
  Source a(c, i, "on_true", d), predicate(c, i, "predicate", d);
  const Scalars other = read_scalars(c, i, "on_false");
  const bool reverse = i.attr("reverse_pred");
  reduce_rows(c, i, a.tile, Alu::max, [&](int p, float* out) {
    const float *const x = a.row(p), *const q = predicate.row(p);
    const float no = other[static_cast<size_t>(p)];
    for (int64_t e = 0; e < d.row_elements; ++e) out[e] = (q[e] != 0) != reverse ? x[e] : no;
  });
}

Cost select_reduce_cycles(const Chip& k, const Call& i) {
  const double n = static_cast<double>(i.tile("on_true").row_elements);
  const bool psum = i.tile("on_true").space == Space::psum || i.tile("predicate").space == Space::psum;
  return with_read_out(k, i, interval(k, i, psum ? n : n * k.vector.two_input_factor));
}

Result<void> select_reduce_check(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"on_true", "predicate", "dst"}));
  TRY(not_both_psum(i, "on_true", "predicate"));
  TRY(one_per_lane(i, "on_false", "on_true"));
  const Dtype a = i.tile("on_true").dtype, p = i.tile("predicate").dtype;
  if (a == Dtype::tf32 || a == Dtype::s32 || a == Dtype::u32)
    return fail(Code::invalid, cat("on_true is ", row(a).name, ", which select_reduce does not take"));
  if (!is_integer(p) || bits(p) > 16)
    return fail(Code::invalid, cat("predicate is ", row(p).name, "; it must be s8, u8, s16 or u16"));
  return reduce_check(i, "on_true", {ReduceCmd::idle, ReduceCmd::reset, ReduceCmd::reduce, ReduceCmd::reset_reduce});
}

constexpr Row kRows[] = {
    {.name = "tensor_reduce",
     .opcode = 0x2a,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum",
     .attrs = "op:alu negate:bool=false",
     .exec = tensor_reduce,
     .cycles = tensor_reduce_cycles,
     .check = tensor_reduce_check,
     .summary = "each run of N/M innermost elements of data folds into one of dst's M",
     .source = "doc: nki.isa 2.26.1, N/2 for bf16 add or max, else N; MIN_II as everywhere",
     .label = "REDUCE"},
    {.name = "tensor_scalar_reduce",
     .opcode = 0x2b,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum operand0?:r:sbuf|psum|imm reduce_init?:r:sbuf|psum|imm "
                 "reduce_res?:w:sbuf|psum",
     .attrs = "op0:alu reduce_op:alu reduce_cmd:reduce_cmd=reset_reduce",
     .exec = tensor_scalar_reduce,
     .cycles = tensor_scalar_reduce_cycles,
     .check = tensor_scalar_reduce_check,
     .summary = "dst = data op0 operand0, folded by reduce_op into the lane's accumulator",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N) + MIN_II for the read-out",
     .label = "TENSOR_SCALAR_REDUCE"},
    {.name = "tensor_scalar_cumulative",
     .opcode = 0x2c,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum src:r:sbuf|psum imm0?:r:sbuf|psum|imm imm1?:r:sbuf|psum|imm",
     .attrs = "op0:alu op1:alu reduce_cmd:reduce_cmd=reset_reduce",
     .exec = tensor_scalar_cumulative,
     .cycles = src_cycles,
     .check = tensor_scalar_cumulative_check,
     .summary = "dst[i] = acc = (src[i] op0 imm0) op1 acc",
     .source = "estimate: max(MIN_II, N), one tile read",
     .label = "TENSOR_SCALAR_CUMULATIVE"},
    {.name = "exponential",
     .opcode = 0x2d,
     .engines = kVector,
     .needs = Feature::exponential,
     .operands = "dst:w:sbuf|psum src:r:sbuf|psum max_value?:r:sbuf|psum|imm reduce_init?:r:sbuf|psum|imm "
                 "reduce_res?:w:sbuf|psum",
     .attrs = "reduce_cmd:reduce_cmd=idle",
     .exec = exponential,
     .cycles = exponential_cycles,
     .check = exponential_check,
     .summary = "dst = exp(src - max_value), summed into the lane's accumulator",
     .source = "doc: guide v4, four times Scalar's exp at the same clock; estimate: + MIN_II for the read-out",
     .label = "EXPONENTIAL"},
    {.name = "range_select",
     .opcode = 0x2e,
     .engines = kVector,
     .needs = Feature::range_select,
     .operands = "dst:w:sbuf|psum on_true_tile:r:sbuf|psum bound0:r:sbuf|psum bound1:r:sbuf|psum "
                 "reduce_res?:w:sbuf|psum",
     .attrs = "comp_op0:alu comp_op1:alu range_start:int=0 reduce_cmd:reduce_cmd=reset_reduce",
     .exec = range_select,
     .cycles = range_select_cycles,
     .check = range_select_check,
     .summary = "dst[i] = on_true_tile[i] where range_start+i passes both bounds, else the lowest f32; max accumulated",
     .source = "doc: nki.isa 2.26.1, max(MIN_II, N)",
     .label = "RANGE_SELECT"},
    {.name = "select_reduce",
     .opcode = 0x2f,
     .engines = kVector,
     .operands = "dst:w:sbuf|psum predicate:r:sbuf|psum on_true:r:sbuf|psum on_false:r:sbuf|psum|imm "
                 "reduce_res?:w:sbuf|psum",
     .attrs = "reverse_pred:bool=false reduce_cmd:reduce_cmd=idle",
     .exec = select_reduce,
     .cycles = select_reduce_cycles,
     .check = select_reduce_check,
     .summary = "dst = on_true where predicate is not zero, else on_false; max accumulated",
     .source = "estimate: 2N for two tiles in SBUF, N with one in PSUM, + MIN_II for the read-out",
     .label = "SELECT_REDUCE"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> vector_reduce_rows() { return kRows; }

}  // namespace trine::arch
