// What makes a loop program legal. Rules are numbered; messages name the instruction or operand that breaks one.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "arch/plan/loop.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr size_t kDimsMax = 64, kOperandsMax = 4096, kInsnsMax = 1 << 16, kStagesMax = 1024;
constexpr int64_t kElementsMax = int64_t{1} << 48;

struct Checker {
  const LoopProgram& p;

  static Error bad(std::string what) { return fail(Code::invalid, std::move(what), "tile program"); }
  static Error bad_operand(size_t i, std::string what) { return bad(cat("operand @", i, ": ", what)); }
  Error bad_insn(size_t i, std::string what) const { return bad(cat("%", i, " ", name(i), ": ", what)); }
  std::string_view name(size_t i) const { return row(p.insns[i].op).name; }

  // C1: up to 16 dims whose sizes are not negative and whose product is at most 2^48.
  Result<void> dims() const {
    if (p.dims.size() > kDimsMax) return bad(cat(p.dims.size(), " dims; at most ", kDimsMax));
    int64_t total = 1;
    for (const LoopDim& d : p.dims) {
      if (d.size < 0) return bad(cat("a dim of size ", d.size, "; sizes are not negative"));
      if (d.size > 0 && total > kElementsMax / d.size) return bad("more than 2^48 elements");
      if (d.size > 0) total *= d.size;
    }
    return {};
  }

  // C2: every index an operand can reach lies in its buffer. C3: outputs write no element twice.
  Result<void> operand(size_t i) const {
    const LoopOperand& o = p.operands[i];
    if (o.dtype >= Dtype::count || !is_loop_dtype(o.dtype))
      return bad_operand(i, "a dtype no tile program computes in");
    if (o.strides.size() != p.dims.size()) {
      return bad_operand(i, cat(o.strides.size(), " strides for ", p.dims.size(), " dims"));
    }
    if (o.beside >= 0 && !is_beside(i)) return bad_operand(i, cat("not beside @", o.beside));
    if (o.elements < 0 || o.elements > kElementsMax) return bad_operand(i, cat(o.elements, " elements"));
    __int128 low = o.offset, high = o.offset;
    for (size_t d = 0; d < p.dims.size(); ++d) {
      __int128 reach = __int128(o.strides[d]) * std::max<int64_t>(p.dims[d].size - 1, 0);
      (reach < 0 ? low : high) += reach;
    }
    high += picked(i);
    if (touched(i) && (low < 0 || high >= o.elements)) {
      return bad_operand(i, cat("reaches from element ", clipped(low), " to ", clipped(high), " of ", o.elements));
    }
    return {};
  }

  // How far an operand's picks reach beyond its walk.
  int64_t picked(size_t operand) const {
    uint64_t most = 0;
    for (const LoopInsn& n : p.insns)
      if (n.op == LoopOp::pick && n.at == operand) most = std::max(most, n.bits);
    return int64_t(std::min<uint64_t>(most, INT64_MAX));
  }

  // C8: what is beside an earlier output is that output, one element on.
  bool is_beside(size_t i) const {
    const LoopOperand& o = p.operands[i];
    if (size_t(o.beside) >= i) return false;
    LoopOperand next = p.operands[size_t(o.beside)];
    if (!next.output || next.beside >= 0) return false;
    ++next.offset;
    next.beside = o.beside;
    return next == o;
  }

  // Is any element accessed? Where only inner dims are empty, the once stages still run.
  bool touched(size_t operand) const {
    bool rows = true, inner = true;
    for (const LoopDim& d : p.dims) (d.inner ? inner : rows) &= d.size > 0;
    return rows && std::any_of(p.insns.begin(), p.insns.end(), [&](const LoopInsn& n) {
             bool memory = n.op == LoopOp::load || n.op == LoopOp::store || n.op == LoopOp::pick;
             bool runs = inner || (n.stage < p.stages.size() && p.stages[n.stage] == LoopStage::once);
             return memory && n.at == operand && runs;
           });
  }

  static int64_t clipped(__int128 v) { return v > INT64_MAX ? INT64_MAX : v < INT64_MIN ? INT64_MIN : int64_t(v); }

  Result<void> written(size_t i, const LoopInsn& n) const {
    const LoopOperand& o = p.operands[n.at];
    bool each = p.stages[n.stage] == LoopStage::each;
    std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
    for (size_t d = 0; d < p.dims.size(); ++d) {
      if (p.dims[d].size > 1 && (each || !p.dims[d].inner)) steps.emplace_back(std::abs(o.strides[d]), p.dims[d].size);
    }
    std::sort(steps.begin(), steps.end());
    __int128 reach = 0;
    for (auto [stride, size] : steps) {
      if (touched(n.at) && stride <= reach)
        return bad_insn(i, cat("operand @", n.at, " would be written twice at one element"));
      reach += __int128(stride) * (size - 1);
    }
    return {};
  }

  // C4: `once` stages touch operands that do not move along inner dims.
  Result<void> moves(size_t i, const LoopInsn& n) const {
    if (p.stages[n.stage] == LoopStage::each) return {};
    for (size_t d = 0; d < p.dims.size(); ++d) {
      if (p.dims[d].inner && p.dims[d].size > 1 && p.operands[n.at].strides[d] != 0) {
        return bad_insn(i, cat("operand @", n.at, " moves along inner dim ", d, " in a once stage"));
      }
    }
    return {};
  }

  // C5: inputs come before, exist, and are row values where used in a once stage; reductions only in later stages.
  Result<void> inputs(size_t i, const LoopInsn& n) const {
    for (int k = 0; k < 3; ++k) {
      LoopValue v = n.in[size_t(k)];
      if (k >= row(n.op).inputs) {
        if (v != kNoValue) return bad_insn(i, cat("has more than ", row(n.op).inputs, " inputs"));
        continue;
      }
      if (v >= i) return bad_insn(i, cat("input ", k, " is not defined before it"));
      const LoopInsn& from = p.insns[v];
      if (from.op == LoopOp::store) return bad_insn(i, cat("input ", k, " is a store, which gives no value"));
      bool reduction = row(from.op).kind == LoopOpClass::reduce;
      if (reduction && from.stage == n.stage) return bad_insn(i, cat("uses %", v, " before its reduction is done"));
      bool of_row = reduction || from.op == LoopOp::constant || p.stages[from.stage] == LoopStage::once;
      if (!of_row && p.stages[n.stage] == LoopStage::once) {
        return bad_insn(i, cat("uses %", v, ", a value per element, in a once stage"));
      }
    }
    return {};
  }

  static bool has(LoopOpTypes set, Dtype type) {
    LoopOpTypes one = is_floating(type)  ? LoopOpTypes::floating
                      : is_integer(type) ? LoopOpTypes::integer
                                         : LoopOpTypes::boolean;
    return (uint8_t(set) & uint8_t(one)) != 0;
  }
  Dtype type_of(LoopValue v) const { return p.insns[v].type; }

  // C6: types follow the op's class, and are value types.
  Result<void> types(size_t i, const LoopInsn& n) const {
    const LoopOpRow& r = row(n.op);
    Dtype operates_on = r.kind == LoopOpClass::compare || r.kind == LoopOpClass::test || r.kind == LoopOpClass::cast
                            ? type_of(n.in[0])
                            : n.type;
    if (!has(r.types, operates_on)) return bad_insn(i, cat("does not work on ", trine::row(operates_on).name));
    if ((r.kind == LoopOpClass::compare || r.kind == LoopOpClass::test) && n.type != Dtype::boolean) {
      return bad_insn(i, cat("gives bool, not ", trine::row(n.type).name));
    }
    if (r.kind == LoopOpClass::cast) return cast(i, n);
    for (int k = 0; k < r.inputs; ++k) {
      Dtype want = r.kind == LoopOpClass::select && k == 0 ? Dtype::boolean
                   : r.kind == LoopOpClass::pick           ? Dtype::s32
                                                           : operates_on;
      Dtype found = type_of(n.in[size_t(k)]);
      if (found != want) {
        return bad_insn(i, cat("input ", k, " is ", trine::row(found).name, ", not ", trine::row(want).name));
      }
    }
    return {};
  }

  Result<void> cast(size_t i, const LoopInsn& n) const {
    Dtype from = type_of(n.in[0]);
    bool bits_differ = trine::bits(from) != trine::bits(n.type) || n.type == Dtype::boolean;
    if (n.op == LoopOp::bit_cast && bits_differ) {
      return bad_insn(i, cat(trine::row(from).name, " and ", trine::row(n.type).name, " differ in width"));
    }
    return {};
  }

  // C7: what `at` and `bits` name exists.
  Result<void> attributes(size_t i, const LoopInsn& n) const {
    if (n.op == LoopOp::load || n.op == LoopOp::store || n.op == LoopOp::pick) {
      if (n.at >= p.operands.size()) return bad_insn(i, cat("operand @", n.at, " of ", p.operands.size()));
      const LoopOperand& o = p.operands[n.at];
      if (o.output != (n.op == LoopOp::store)) return bad_insn(i, "inputs are loaded, outputs stored");
      if (loop_value_type(o.dtype) != n.type) {
        return bad_insn(i, cat("is ", trine::row(n.type).name, ", its operand ", trine::row(o.dtype).name));
      }
      TRY(moves(i, n));
      if (n.op == LoopOp::store) return written(i, n);
      if (n.op == LoopOp::pick && o.elements > INT32_MAX)
        return bad_insn(i, cat("of ", o.elements, " elements; its indices have 32 bits"));
    }
    if (n.op == LoopOp::iota) {
      if (n.at >= p.dims.size()) return bad_insn(i, cat("dim ", n.at, " of ", p.dims.size()));
      bool once = p.stages[n.stage] == LoopStage::once;
      if (once && p.dims[n.at].inner) return bad_insn(i, cat("of inner dim ", n.at, " in a once stage"));
    }
    if (n.op == LoopOp::round_to) {
      bool narrow = n.at < uint32_t(Dtype::count) && is_floating(Dtype(n.at)) && trine::bits(Dtype(n.at)) <= 32;
      if (!narrow) return bad_insn(i, "wants a float format of at most 32 bits");
    }
    if (n.op == LoopOp::reduce_precision) {
      uint64_t e = n.bits >> 8, m = n.bits & 255;
      if (e < 1 || e > 11 || m > 52) return bad_insn(i, cat(e, " exponent and ", m, " mantissa bits"));
    }
    return {};
  }

  Result<void> insn(size_t i) const {
    const LoopInsn& n = p.insns[i];
    if (n.op >= LoopOp::count) return bad(cat("%", i, ": op ", int(n.op), " does not exist"));
    if (n.stage >= p.stages.size()) return bad_insn(i, cat("stage ", n.stage, " of ", p.stages.size()));
    if (i > 0 && n.stage < p.insns[i - 1].stage) return bad_insn(i, "goes back to an earlier stage");
    bool value_type = n.type < Dtype::count && is_loop_dtype(n.type) && loop_value_type(n.type) == n.type;
    if (!value_type) return bad_insn(i, "its type is no value type");
    if (row(n.op).kind == LoopOpClass::reduce && p.stages[n.stage] == LoopStage::once) {
      return bad_insn(i, "a reduction belongs in an each stage");
    }
    TRY(inputs(i, n));
    TRY(types(i, n));
    return attributes(i, n);
  }
};

}  // namespace

bool is_loop_dtype(Dtype dtype) {
  const DtypeRow& r = trine::row(dtype);
  return r.kind != DtypeKind::packed && r.kind != DtypeKind::complex && dtype != Dtype::tf32;
}

Dtype loop_value_type(Dtype dtype) { return is_floating(dtype) && dtype != Dtype::f64 ? Dtype::f32 : dtype; }

Result<void> verify(const LoopProgram& p) {
  Checker c{p};
  TRY(c.dims());
  if (p.operands.size() > kOperandsMax) return c.bad(cat(p.operands.size(), " operands; at most ", kOperandsMax));
  if (p.insns.size() > kInsnsMax) return c.bad(cat(p.insns.size(), " instructions; at most ", kInsnsMax));
  if (p.stages.size() > kStagesMax) return c.bad(cat(p.stages.size(), " stages; at most ", kStagesMax));
  for (size_t i = 0; i < p.operands.size(); ++i) TRY(c.operand(i));
  for (size_t i = 0; i < p.insns.size(); ++i) TRY(c.insn(i));
  return {};
}

}  // namespace trine::arch
