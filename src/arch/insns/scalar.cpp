// The scalar engine's rows: a scale and a bias per lane, one activation function, and a running reduction over the free
// dimension in 128 f32 registers that outlive the instruction. All in f32, one rounding per step (estimate: whether the
// engine fuses scale and bias is not published). Reductions go in element order.
#include "arch/activation.h"
#include "arch/insns/alu.h"
#include "arch/insns/lanes.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// One tensor-scalar step ahead of the function.
struct Step {
  Alu op = Alu::bypass;
  bool reverse = false;
  Scalars with = {};
};

// Counts inputs outside the function's range over the whole tile, for one finding.
void note_outside(Core& c, Act act, const OutsideRange& outside, int64_t elements) {
  if (!outside.count) return;
  c.fault(FaultKind::out_of_range_input, "data",
          cat(outside.count, " of ", elements, " inputs of ", name(act), " lie outside ", activation(act).range,
              ", the first is ", shortest(static_cast<double>(outside.first)),
              "; the engine's result there is invalid, so bring the inputs into range first"));
}

// The register of a lane belongs to the partition that `data` is read from.
float& accumulator(Core& c, const Tile& data, int p) { return c.scalar_acc[static_cast<size_t>(data.partition + p)]; }

void prepare_accumulators(Core& c, const Call& i, const Tile& data, ReduceCmd cmd, Alu op) {
  if (cmd != ReduceCmd::reset && cmd != ReduceCmd::reset_reduce && cmd != ReduceCmd::load_reduce) return;
  const bool load = cmd == ReduceCmd::load_reduce;
  const Scalars initial = load ? read_scalars(c, i, "reduce_init") : Scalars{};
  for (int p = 0; p < data.partitions; ++p)
    accumulator(c, data, p) = load ? initial[static_cast<size_t>(p)] : alu_identity(op);
}

void read_out(Core& c, const Call& i, const Tile& data) {
  if (!i.has("reduce_res")) return;
  write_rows(c, i.tile("reduce_res"), [&](int p, float* out) { *out = accumulator(c, data, p); }, "reduce_res");
}

// dst = act(steps(data)), reduced into the registers; `reduce_res` is written last, so it may lie in dst.
void run(Core& c, const Call& i, const Step (&steps)[2], const Scalars& slope, ReduceCmd cmd, Alu reduce_op) {
  const Act act = i.as<Act>("op");
  const Tile d = i.tile("dst");
  Source data(c, i, "data", d);
  const int64_t n = data.tile.row_elements;
  prepare_accumulators(c, i, data.tile, cmd, reduce_op);
  const bool reduces = cmd == ReduceCmd::reduce || cmd == ReduceCmd::reset_reduce || cmd == ReduceCmd::load_reduce;
  OutsideRange outside;
  RowFolds folds(reduce_op, reduces ? n : 0);
  write_rows(c, d, [&](int p, float* out) {
    const float* in = data.row(p);
    for (const Step& s : steps) {
      if (s.op == Alu::bypass) continue;
      const AluRow<float>& alu = alu_f32(s.op);
      (s.reverse ? alu.reversed : alu.scalar)(in, s.with[static_cast<size_t>(p)], out, n);
      in = out;
    }
    const OutsideRange here = activate(act, in, out, static_cast<size_t>(n), slope[static_cast<size_t>(p)]);
    if (!outside.count) outside.first = here.first;
    outside.count += here.count;
    if (reduces) folds.add(&accumulator(c, data.tile, p), out);
  });
  folds.flush();
  read_out(c, i, data.tile);
  note_outside(c, act, outside, data.tile.elements());
}

void run_scale_bias(Core& c, const Call& i, ReduceCmd cmd) {
  const Step steps[2] = {{i.has("scale") ? Alu::multiply : Alu::bypass, false, read_scalars(c, i, "scale", 1)},
                         {i.has("bias") ? Alu::add : Alu::bypass, false, read_scalars(c, i, "bias")}};
  run(c, i, steps, {}, cmd, Alu::add);
}

void activation_exec(Core& c, const Call& i) { run_scale_bias(c, i, i.as<ReduceCmd>("reduce_cmd")); }
void activation_reduce_exec(Core& c, const Call& i) { run_scale_bias(c, i, ReduceCmd::reset_reduce); }

void activate2_exec(Core& c, const Call& i) {
  const Step steps[2] = {{i.as<Alu>("op0"), i.attr("reverse0") != 0, read_scalars(c, i, "imm0")},
                         {i.as<Alu>("op1"), i.attr("reverse1") != 0, read_scalars(c, i, "imm1")}};
  run(c, i, steps, read_scalars(c, i, "relu_param"), i.as<ReduceCmd>("reduce_cmd"), i.as<Alu>("reduce_op"));
}

// Reading the registers out is one more instruction at the floor.
Cost activation_cycles(const Chip& k, const Call& i) {
  Cost cost = interval(k, i, static_cast<double>(i.tile("data").row_elements));
  if (i.has("reduce_res")) cost.cycles += static_cast<int64_t>(std::ceil(k.scalar.interval_min_cycles));
  cost.table = activation(i.as<Act>("op")).table;
  return cost;
}

// --- rules ---

Result<void> one_per_lane_each(const Call& i, std::initializer_list<std::string_view> slots) {
  for (const auto slot : slots)
    if (i.has(slot)) TRY(one_per_lane(i, slot, "data"));
  return {};
}

// A value that has to be f32 because the engine reads it raw.
Result<void> is_f32(const Call& i, std::string_view slot) {
  if (!i.has(slot) || !i.is_tile(slot) || i.tile(slot).dtype == Dtype::f32) return {};
  return fail(Code::invalid, cat(slot, " is ", row(i.tile(slot).dtype).name, "; it has to be f32"));
}

Result<void> check_reduction(const Call& i) {
  if (i.as<ReduceCmd>("reduce_cmd") == ReduceCmd::load_reduce && !i.has("reduce_init"))
    return fail(Code::invalid,
                "reduce_cmd is load_reduce and there is no reduce_init to load; give one, or use reset_reduce");
  return one_per_lane_each(i, {"reduce_res", "reduce_init"});
}

Result<void> check_scale_bias(const Chip& k, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(one_per_lane_each(i, {"scale", "bias", "reduce_res"}));
  TRY(is_f32(i, "scale"));
  if (i.as<Act>("op") == Act::prelu)
    return fail(Code::invalid, "op is prelu, whose slope only activate2 can take (relu_param); use activate2 or relu");
  if (!i.has("bias")) return {};
  if (i.is_tile("bias") && i.tile("bias").dtype == Dtype::tf32)
    return fail(Code::invalid, "bias is tf32, which the engine does not take there; use f32, bf16 or f16");
  if (!k.has(Feature::scalar_bias_immediate) && !i.is_tile("bias"))
    return fail(Code::unsupported, cat("bias is a constant, and on ", k.name,
                                       " it has to be a tile of one value per partition; memset such a tile first"));
  if (!k.has(Feature::scalar_bias_immediate) && i.as<Act>("op") == Act::reciprocal)
    return fail(Code::unsupported,
                cat("bias is given with reciprocal, which ", k.name, " cannot do; add it with an instruction before"));
  return {};
}

Result<void> check_activation(const Chip& k, const Call& i) {
  TRY(check_scale_bias(k, i));
  if (i.as<Alu>("reduce_op") != Alu::add)
    return fail(Code::invalid, cat("reduce_op is ", name(i.as<Alu>("reduce_op")),
                                   "; activation reduces with add only, activate2 also with max and min"));
  return check_reduction(i);
}

Result<void> check_activation_reduce(const Chip& k, const Call& i) {
  TRY(check_scale_bias(k, i));
  if (i.as<Alu>("reduce_op") == Alu::add) return {};
  return fail(Code::invalid, cat("reduce_op is ", name(i.as<Alu>("reduce_op")), "; activation_reduce knows add only"));
}

Result<void> check_activate2(const Chip&, const Call& i) {
  TRY(computable(i));
  TRY(same_shape(i, {"data", "dst"}));
  TRY(one_per_lane_each(i, {"imm0", "imm1", "relu_param"}));
  const Alu op0 = i.as<Alu>("op0"), op1 = i.as<Alu>("op1"), reduce_op = i.as<Alu>("reduce_op");
  static constexpr std::pair<Alu, Alu> kPairs[] = {{Alu::multiply, Alu::add},    {Alu::multiply, Alu::subtract},
                                                   {Alu::multiply, Alu::bypass}, {Alu::add, Alu::bypass},
                                                   {Alu::subtract, Alu::bypass}, {Alu::bypass, Alu::bypass}};
  if (std::find(std::begin(kPairs), std::end(kPairs), std::pair{op0, op1}) == std::end(kPairs))
    return fail(Code::invalid, cat("op0 and op1 are ", name(op0), " and ", name(op1),
                                   "; the pairs are multiply with add, subtract or bypass, and add, subtract or bypass "
                                   "with bypass"));
  for (const auto& [op, imm, reverse] : {std::tuple{op0, "imm0", "reverse0"}, std::tuple{op1, "imm1", "reverse1"}}) {
    if (op != Alu::bypass && !i.has(imm))
      return fail(Code::invalid, cat(imm, " is missing, and ", name(op), " needs it"));
    if (op == Alu::bypass && i.attr(reverse))
      return fail(Code::invalid, cat(reverse, " is set and there is no operator to reverse; leave it out"));
  }
  if (i.is_tile("imm0") && i.is_tile("imm1") && i.tile("imm0").dtype != i.tile("imm1").dtype)
    return fail(Code::invalid, cat("imm0 is ", row(i.tile("imm0").dtype).name, " and imm1 is ",
                                   row(i.tile("imm1").dtype).name, "; give both the same format"));
  static constexpr Alu kReductions[] = {Alu::add, Alu::max, Alu::min, Alu::abs_max, Alu::abs_min};
  if (std::find(std::begin(kReductions), std::end(kReductions), reduce_op) == std::end(kReductions))
    return fail(Code::invalid, cat("reduce_op is ", name(reduce_op), "; it is add, max, min, abs_max or abs_min"));
  return check_reduction(i);
}

constexpr Row kRows[] = {
    {.name = "activation",
     .opcode = 0x50,
     .engines = kScalar,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum bias?:r:sbuf|psum|imm scale?:r:sbuf|psum|imm "
                 "reduce_res?:w:sbuf|psum reduce_init?:r:sbuf|psum|imm",
     .attrs = "op:act reduce_op:alu=add reduce_cmd:reduce_cmd=idle",
     .exec = activation_exec,
     .cycles = activation_cycles,
     .check = check_activation,
     .summary = "dst = op(data·scale + bias), optionally summed into the lane's register, which reduce_res reads out",
     .source = "doc: nki.isa, max(MIN_II, N), and about 64 cycles to read the registers out",
     .label = "ACTIVATE"},
    {.name = "activation_reduce",
     .opcode = 0x51,
     .engines = kScalar,
     .operands =
         "dst:w:sbuf|psum data:r:sbuf|psum bias?:r:sbuf|psum|imm scale?:r:sbuf|psum|imm reduce_res?:w:sbuf|psum",
     .attrs = "op:act reduce_op:alu=add",
     .exec = activation_reduce_exec,
     .cycles = activation_cycles,
     .check = check_activation_reduce,
     .summary = "activation with the registers reset first; reduce_res = the sum over each lane",
     .source = "doc: nki.isa, max(MIN_II, N) + MIN_II",
     .label = "ACTIVATE"},
    {.name = "activate2",
     .opcode = 0x52,
     .engines = kScalar,
     .needs = Feature::activate2,
     .operands = "dst:w:sbuf|psum data:r:sbuf|psum imm0?:r:sbuf|psum|imm imm1?:r:sbuf|psum|imm "
                 "relu_param?:r:sbuf|psum|imm reduce_res?:w:sbuf|psum reduce_init?:r:sbuf|psum|imm",
     .attrs = "op:act op0:alu=bypass op1:alu=bypass reverse0:bool=false reverse1:bool=false reduce_op:alu=add "
              "reduce_cmd:reduce_cmd=idle",
     .exec = activate2_exec,
     .cycles = activation_cycles,
     .check = check_activate2,
     .summary = "dst = op((data op0 imm0) op1 imm1), optionally reduced by add, max, min, abs_max or abs_min",
     .source = "estimate: never published, as activation",
     .label = "ACTIVATE"},
};
static_assert(well_formed(kRows));

}  // namespace

std::span<const Row> scalar_rows() { return kRows; }

}  // namespace trine::arch
