// From a verified loop program to its nest: which loops there are, which one is the vector, what is buffered.
#include "host/loops/nest.h"

#include <algorithm>
#include <cstdlib>

#include "base/number/number.h"
#include "host/thresholds.h"

namespace trine::host {

using arch::kNoValue;
using arch::LoopInsn;
using arch::LoopOp;
using arch::LoopProgram;
using arch::LoopStage;
using arch::LoopValue;

namespace {

namespace tuned = thresholds::loops;

struct Dim {
  int64_t size = 1;
  bool inner = false, has_iota = false;
  std::vector<int64_t> strides = {};  // elements, per operand
  std::vector<uint32_t> sources = {};
};

std::vector<Dim> gather_dims(const LoopProgram& p, bool fixed) {
  std::vector<Dim> out;
  for (uint32_t d = 0; d < p.dims.size(); ++d) {
    if (p.dims[d].size == 1 && !fixed) continue;
    Dim dim{p.dims[d].size, p.dims[d].inner, false, {}, {d}};
    for (const auto& o : p.operands) dim.strides.push_back(o.strides[d]);
    for (const LoopInsn& n : p.insns) dim.has_iota |= n.op == LoopOp::iota && n.at == d;
    out.push_back(std::move(dim));
  }
  return out;
}

bool continues(const Dim& outer, const Dim& inner) {
  if (outer.inner != inner.inner || outer.has_iota || inner.has_iota) return false;
  for (size_t o = 0; o < outer.strides.size(); ++o) {
    if (outer.strides[o] != inner.strides[o] * inner.size) return false;
  }
  return true;
}

void merge(std::vector<Dim>& dims) {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < dims.size() && !again; ++i) {
      for (size_t j = 0; j < dims.size() && !again; ++j) {
        if (i == j || dims[i].size == 0 || dims[j].size == 0 || !continues(dims[i], dims[j])) continue;
        dims[j].size *= dims[i].size;
        dims.erase(dims.begin() + long(i));
        again = true;
      }
    }
  }
}

// Cost of a vector along this dim: strided operands are slow, short vectors waste lanes, beginning and folding cost
// too.
double vector_cost(const LoopProgram& p, const Dim& d) {
  double per = 2;
  for (const LoopInsn& n : p.insns) {
    if (p.stages[n.stage] == LoopStage::once) continue;
    if (n.op == LoopOp::pick) per += tuned::kPick;
    if (n.op != LoopOp::load && n.op != LoopOp::store) continue;
    int64_t s = d.strides[n.at];
    per += s == 0 ? 0.1 : s == 1 ? 1 : is_doubled(p, n.at, s) ? 2 : n.op == LoopOp::store ? 10 : 8;
  }
  double lanes = double((d.size + 7) / 8 * 8) / double(std::max<int64_t>(d.size, 1));
  return per * lanes + (d.inner ? 30.0 : 24.0) / double(std::max<int64_t>(d.size, 1));
}

size_t choose_vector(const LoopProgram& p, const std::vector<Dim>& dims) {
  size_t best = dims.size() - 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (vector_cost(p, dims[d]) < vector_cost(p, dims[best]) * 0.999) best = d;
  }
  return best;
}

// Larger strides outside: neighbours in time are neighbours in memory.
void order(std::vector<Dim>& dims) {
  auto reach = [](const Dim& d) {
    int64_t sum = 0;
    for (int64_t s : d.strides) sum += std::min<int64_t>(std::abs(s), int64_t{1} << 40);
    return sum;
  };
  std::stable_sort(dims.begin(), dims.end(), [&](const Dim& a, const Dim& b) { return reach(a) > reach(b); });
}

// Read or written where the loops are: what is picked lies elsewhere.
bool is_used(const LoopProgram& p, size_t operand) {
  bool used = false;
  for (const LoopInsn& n : p.insns) {
    if (n.op == LoopOp::pick && n.at == operand) return false;
    used |= (n.op == LoopOp::load || n.op == LoopOp::store) && n.at == operand;
  }
  return used;
}

// Operands with steps other than 0 and 1 along the vector, where all dims are rows. The row dim in which they are
// densest goes innermost.
std::vector<size_t> choose_staged(const LoopProgram& p, std::vector<Dim>& rest, const Dim& vector) {
  std::vector<size_t> out;
  for (const auto& d : p.dims) {
    if (d.inner) return out;
  }
  for (size_t o = 0; o < p.operands.size(); ++o) {
    bool apart = vector.strides[o] != 0 && vector.strides[o] != 1 && !is_doubled(p, o, vector.strides[o]);
    if (apart && is_used(p, o)) out.push_back(o);
  }
  if (out.empty() || rest.empty()) return out;
  auto reach = [&](const Dim& d) {
    double sum = 0;
    for (size_t o : out) sum += d.strides[o] == 0 ? 1e9 : std::abs(double(d.strides[o]));
    return sum;
  };
  auto densest =
      std::min_element(rest.begin(), rest.end(), [&](const Dim& a, const Dim& b) { return reach(a) < reach(b); });
  std::rotate(densest, densest + 1, rest.end());
  return out;
}

// How an operand lies along a short dim and the one around it.
enum class Lie : uint8_t { dense, uniform, repeated, otherwise };
Lie lie_of(const LoopProgram& p, const std::vector<Dim>& dims, size_t shorts, size_t around, size_t operand) {
  const int64_t within = dims[shorts].strides[operand], beyond = dims[around].strides[operand];
  if (within == 1 && beyond == dims[shorts].size) return Lie::dense;
  if (within == 0 && beyond == 0) return p.operands[operand].output ? Lie::otherwise : Lie::uniform;
  const bool alone = std::all_of(dims.begin(), dims.end(),
                                 [&](const Dim& d) { return &d == &dims[shorts] || d.strides[operand] == 0; });
  return alone && !p.operands[operand].output ? Lie::repeated : Lie::otherwise;
}

// Iterations of `around` that make a row long enough for vectors, and no longer than is cheap to write out.
int64_t repeats_of(int64_t around, int64_t count) {
  for (int64_t repeats = std::min(tuned::kRepeatedMax / count, around / 8); repeats * count >= tuned::kRepeatedMin;
       --repeats)
    if (around % repeats == 0) return repeats;
  return 0;
}

// A dim too short for vectors and iterations of the one around it become one.
bool lengthen(const LoopProgram& p, std::vector<Dim>& dims, size_t shorts, size_t around, LoopNest& nest) {
  if (shorts == around || dims[around].has_iota) return false;
  const int64_t count = dims[shorts].size, repeats = repeats_of(dims[around].size, count);
  if (repeats == 0) return false;
  std::vector<RepeatedOperand> repeated;
  for (size_t o = 0; o < p.operands.size(); ++o) {
    if (!is_used(p, o)) continue;
    const Lie lie = lie_of(p, dims, shorts, around, o);
    if (lie == Lie::otherwise) return false;
    if (lie == Lie::repeated)
      repeated.push_back({uint32_t(o), count, dims[shorts].strides[o] * bytes(p.operands[o].dtype), repeats});
  }
  if (repeated.empty()) return false;
  for (int64_t& s : dims[around].strides) s *= repeats;
  dims[around].size /= repeats;
  dims[shorts].size *= repeats;
  for (const RepeatedOperand& r : repeated) dims[shorts].strides[r.operand] = 1;
  nest.repeated = std::move(repeated);
  return true;
}

void lengthen_short(const LoopProgram& p, std::vector<Dim>& dims, LoopNest& nest) {
  for (const Dim& d : dims)
    if (d.inner || d.size == 0) return;
  for (const LoopInsn& n : p.insns)
    if (n.op == LoopOp::pick) return;  // indices are counted in the operand as it is
  for (size_t s = 0; s < dims.size(); ++s) {
    if (dims[s].size > tuned::kShortMax || dims[s].has_iota) continue;
    for (size_t around = 0; around < dims.size(); ++around)
      if (lengthen(p, dims, s, around, nest)) return;
  }
}

NestLoop to_loop(const LoopProgram& p, const Dim& d) {
  NestLoop loop{d.size, {}};
  for (size_t o = 0; o < d.strides.size(); ++o) loop.steps.push_back(d.strides[o] * bytes(p.operands[o].dtype));
  return loop;
}

void order_loops(const LoopProgram& p, LoopNest& nest, bool fixed) {
  std::vector<Dim> dims = gather_dims(p, fixed);
  if (!fixed) merge(dims);
  if (!fixed) lengthen_short(p, dims, nest);
  nest.iota_loops.assign(p.dims.size(), {});
  auto put_loop = [&](const Dim& d, LoopKind kind, size_t index) {
    for (uint32_t s : d.sources) nest.iota_loops[s] = {kind, uint32_t(index)};
  };
  nest.vector = {1, std::vector<int64_t>(p.operands.size(), 0)};
  nest.vertical = true;
  std::vector<size_t> staged;
  if (!dims.empty()) {
    size_t v = fixed ? dims.size() - 1 : choose_vector(p, dims);
    const Dim vector = dims[v];
    nest.vector = to_loop(p, vector);
    nest.vertical = !vector.inner;
    put_loop(vector, LoopKind::vector, 0);
    dims.erase(dims.begin() + long(v));
    if (!fixed) order(dims);
    if (!fixed) staged = choose_staged(p, dims, vector);
  }
  for (const Dim& d : dims) {
    auto& loops = d.inner ? nest.inner : nest.rows;
    put_loop(d, d.inner ? LoopKind::inner : LoopKind::row, loops.size());
    loops.push_back(to_loop(p, d));
    (d.inner ? nest.inner_count : nest.row_count) *= d.size;
  }
  for (size_t o : staged) {
    int64_t row_step = nest.rows.empty() ? 0 : nest.rows.back().steps[o];
    nest.staged.push_back({uint32_t(o), row_step, nest.vector.steps[o]});
    nest.vector.steps[o] = bytes(p.operands[o].dtype);
  }
  int64_t outermost = nest.inner.empty() ? 1 : nest.inner[0].size;
  int64_t rest = outermost == 0 ? 1 : nest.inner_count / outermost;
  if (!nest.vertical && !nest.inner.empty()) rest *= nest.vector.size;
  nest.inner_cut =
      std::max<int64_t>(1, (nest.vertical ? tuned::kCutVertical : tuned::kCutHorizontal) / std::max<int64_t>(rest, 1));
}

bool is_row_value(const std::vector<LoopStage>& stages, const LoopInsn& n) {
  return stages[n.stage] == LoopStage::once || row(n.op).kind == arch::LoopOpClass::reduce;
}

// Writes out the program's instructions so that each stage holds what it computes, or marks values to keep.
struct Stager {
  const LoopProgram& p;
  LoopNest& nest;
  bool keep_any;                      // else everything is computed again
  std::vector<LoopValue> moved = {};  // old value -> new, where it was defined
  std::vector<LoopValue> here = {};   // old value -> its copy in the current stage
  std::vector<int> price = {};        // of computing an old value again
  uint16_t stage = 0;
  bool stored = false;  // in an earlier stage: memory may have changed

  void run() {
    moved.assign(p.insns.size(), kNoValue);
    here.assign(p.insns.size(), kNoValue);
    uint16_t last_store = UINT16_MAX;
    for (LoopValue i = 0; i < p.insns.size(); ++i) {
      const LoopInsn& n = p.insns[i];
      price.push_back(price_of(n));
      if (n.stage != stage) {
        stage = n.stage;
        std::fill(here.begin(), here.end(), kNoValue);
      }
      stored = last_store < stage;
      if (n.op == LoopOp::store && last_store == UINT16_MAX) last_store = stage;
      moved[i] = here[i] = push(n);
    }
  }

  int price_of(const LoopInsn& n) const {
    int sum = cost(n.op);
    for (LoopValue v : n.in) {
      if (v != kNoValue && !is_row_value(p.stages, p.insns[v])) sum += price[v];
    }
    return std::min(sum, 1 << 20);
  }

  LoopValue push(LoopInsn n) {
    n.stage = stage;
    for (LoopValue& v : n.in) {
      if (v != kNoValue) v = use(v);
    }
    if (n.op == LoopOp::iota && nest.iota_loops[n.at].kind == LoopKind::none)
      n = {.op = LoopOp::constant, .type = n.type, .stage = stage};
    nest.insns.push_back(n);
    nest.facts.push_back({.of_row = is_row_value(p.stages, n)});
    return LoopValue(nest.insns.size() - 1);
  }

  LoopValue use(LoopValue v) {
    const LoopInsn& n = p.insns[v];
    if (n.stage == stage || is_row_value(p.stages, n)) return moved[v];
    if (n.op == LoopOp::constant) {
      if (here[v] == kNoValue) here[v] = push(n);
      return here[v];
    }
    if (stored || (keep_any && price[v] > tuned::kCheap)) {
      nest.facts[moved[v]].buffered = true;
      return moved[v];
    }
    if (here[v] == kNoValue) here[v] = push(n);
    return here[v];
  }
};

int64_t buffered_bytes(const LoopNest& nest) {
  int64_t sum = 0, elements = nest.inner_count * (nest.vertical ? 16 : nest.vector.size);
  for (size_t i = 0; i < nest.insns.size(); ++i) {
    if (nest.facts[i].buffered) sum += elements * (bits(nest.insns[i].type) == 64 ? 8 : 4);
  }
  return sum;
}

void mark_uniform(LoopNest& nest) {
  for (size_t i = 0; i < nest.insns.size(); ++i) {
    const LoopInsn& n = nest.insns[i];
    bool uniform = true;
    switch (row(n.op).kind) {
      case arch::LoopOpClass::source:
        if (n.op == LoopOp::load) uniform = nest.vector.steps[n.at] == 0;
        if (n.op == LoopOp::iota) uniform = nest.iota_loops[n.at].kind != LoopKind::vector;
        break;
      case arch::LoopOpClass::pick:
        uniform = nest.facts[n.in[0]].uniform && nest.vector.steps[n.at] == 0;
        break;
      case arch::LoopOpClass::reduce:
        uniform = !nest.vertical;
        break;
      default:
        for (LoopValue v : n.in) uniform &= v == kNoValue || nest.facts[v].uniform;
    }
    nest.facts[i].uniform = uniform || nest.vector.size == 1;
  }
}

}  // namespace

uint32_t partner_of(const std::vector<arch::LoopOperand>& operands, uint32_t operand) {
  if (operands[operand].beside >= 0) return uint32_t(operands[operand].beside);
  for (uint32_t o = 0; o < operands.size(); ++o)
    if (operands[o].beside == int64_t(operand)) return o;
  return kNoPartner;
}

bool is_doubled(const LoopProgram& p, size_t operand, int64_t stride) {
  const arch::LoopOperand& o = p.operands[operand];
  if (stride != 2 || bits(o.dtype) < 32) return false;
  return !o.output || partner_of(p.operands, uint32_t(operand)) != kNoPartner;
}

int cost(LoopOp op) {
  switch (op) {
    case LoopOp::load:
    case LoopOp::constant:
    case LoopOp::iota:
    case LoopOp::store:
      return 0;
    case LoopOp::div:
    case LoopOp::sqrt:
    case LoopOp::rsqrt:
    case LoopOp::pick:
      return 5;
    default:
      break;
  }
  if (op == LoopOp::pow || op == LoopOp::atan2 || op == LoopOp::rem || op == LoopOp::next_after) return 100;
  if (op >= LoopOp::cbrt && op <= LoopOp::tan) return 16;
  if (op >= LoopOp::asin && op <= LoopOp::digamma) return op == LoopOp::erf || op == LoopOp::erf_inv ? 20 : 100;
  return 1;
}

LoopNest make_nest(const LoopProgram& p, bool fixed) {
  LoopNest nest;
  nest.operands = p.operands;
  nest.stages = p.stages;
  for (const auto& o : p.operands) nest.offsets.push_back(o.offset * bytes(o.dtype));
  order_loops(p, nest, fixed);
  Stager{p, nest, true}.run();
  if (buffered_bytes(nest) > tuned::kBufferedBytesMax) {
    nest.insns.clear();
    nest.facts.clear();
    Stager{p, nest, false}.run();
  }
  mark_uniform(nest);
  return nest;
}

}  // namespace trine::host
