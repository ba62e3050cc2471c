// From a nest to steps: kernels looked up, storage given, loads and stores of plain memory made views.
#include "host/loops/interp.h"

#include <algorithm>

#include "base/number/number.h"
#include "base/result.h"
#include "host/thresholds.h"

namespace trine::host {

using arch::kNoValue;
using arch::LoopInsn;
using arch::LoopOp;
using arch::LoopOpClass;
using arch::LoopStage;
using arch::LoopValue;

namespace {

namespace tuned = thresholds::loops;

struct Maker {
  const LoopNest& nest;
  const LoopKernels& kernels;
  LoopInterp out = {};
  std::vector<uint32_t> last_use = {};  // per value: index of the last instruction in its stage that reads it
  std::vector<uint32_t> free_slots = {};
  std::vector<bool> views = {};  // per value: it is an operand's memory

  const ValueFacts& facts(LoopValue v) const { return nest.facts[v]; }
  Lane lane(LoopValue v) const { return lane_of(nest.insns[v].type); }

  void storage() {
    for (LoopValue i = 0; i < nest.insns.size(); ++i) {
      const LoopInsn& n = nest.insns[i];
      ValueStorage p{StorageKind::slot, facts(i).uniform, uint32_t(bytes(lane_of(n.type)))};
      if (n.op == LoopOp::constant) {
        p.kind = StorageKind::constant;
        p.at = int64_t(out.constants.size()) * 8;
        out.constants.push_back(constant_bits(n));
      } else if (facts(i).of_row) {
        p.kind = StorageKind::row;
      } else if (facts(i).buffered) {
        p.kind = StorageKind::buffered;
      }
      out.storage.push_back(p);
    }
  }

  static uint64_t constant_bits(const LoopInsn& n) {
    if (n.type == Dtype::boolean) return n.bits & 1 ? ~uint64_t{0} : 0;
    if (!is_integer(n.type)) return n.bits;
    int up = 64 - trine::bits(n.type);
    bool is_signed = trine::row(n.type).kind == DtypeKind::signed_int;
    return is_signed ? uint64_t(int64_t(n.bits << up) >> up) : n.bits << up >> up;
  }

  uint32_t take_slot() {
    if (free_slots.empty()) return uint32_t(out.slots++);
    uint32_t s = free_slots.back();
    free_slots.pop_back();
    return s;
  }

  uint32_t new_storage(StorageKind kind, bool uniform, Lane l) {
    out.storage.push_back({kind, uniform, uint32_t(bytes(l))});
    if (kind == StorageKind::slot) out.storage.back().at = take_slot();
    return uint32_t(out.storage.size() - 1);
  }

  LoopAux aux_of(const LoopInsn& n) const {
    LoopAux x;
    Dtype type = n.type;
    x.bits = uint32_t(trine::bits(type));
    if (n.op == LoopOp::load || n.op == LoopOp::store || n.op == LoopOp::pick) {
      x.dtype = nest.operands[n.at].dtype;
      x.bits = uint32_t(trine::bits(x.dtype));
      x.stride = nest.vector.steps[n.at] / trine::bytes(x.dtype);
    }
    if (n.op == LoopOp::pick) x.most = int64_t(n.bits);
    if (n.op == LoopOp::round_to) x.dtype = Dtype(n.at);
    x.exponent = uint32_t(n.bits >> 8 & 255);
    x.mantissa = uint32_t(n.bits & 255);
    return x;
  }

  bool is_plain(uint32_t operand) const {
    Dtype d = nest.operands[operand].dtype;
    return trine::bits(d) >= 32 && d != Dtype::boolean;
  }

  // Is a loaded value read when its memory may hold a result already? Reductions come after a stage's stores.
  bool is_read_late(LoopValue loaded) const {
    bool stored = false, reduced = false;
    for (const LoopInsn& n : nest.insns) {
      if (n.stage != nest.insns[loaded].stage) continue;
      if (std::find(n.in.begin(), n.in.end(), loaded) != n.in.end()) {
        if (stored) return true;
        reduced |= row(n.op).kind == LoopOpClass::reduce;
      }
      stored |= n.op == LoopOp::store;
    }
    return stored && reduced;
  }

  void make_load(StageSteps& s, LoopValue i, const LoopInsn& n) {
    InterpStep step{.d = i, .operand = n.at, .aux = aux_of(n)};
    step.uniform = facts(i).uniform;
    bool side_by_side = step.uniform || step.aux.stride == 1;
    if (is_plain(n.at) && side_by_side && out.storage[i].kind == StorageKind::slot && !is_read_late(i)) {
      step.kind = StepKind::load_view;
    } else {
      step.kind = StepKind::load;
      step.fn = kernels.load(step.aux.dtype, !side_by_side);
      give_slot(i);
    }
    s.steps.push_back(step);
  }

  void make_pick(StageSteps& s, LoopValue i, const LoopInsn& n) {
    InterpStep step{.kind = StepKind::pick, .uniform = facts(i).uniform, .d = i, .operand = n.at, .aux = aux_of(n)};
    step.fn = kernels.pick(step.aux.dtype);
    std::vector<uint32_t> borrowed;
    const bool alike = facts(n.in[0]).uniform && !step.uniform;
    step.a = alike ? spread(s, n.in[0], borrowed) : n.in[0];
    give_slot(i);
    s.steps.push_back(step);
    give_back(borrowed);
  }

  void give_slot(LoopValue i) {
    if (out.storage[i].kind == StorageKind::slot) out.storage[i].at = take_slot();
  }

  // A uniform value as a whole chunk, for kernels that take only those.
  uint32_t spread(StageSteps& s, LoopValue v, std::vector<uint32_t>& borrowed) {
    uint32_t index = new_storage(StorageKind::slot, false, lane(v));
    borrowed.push_back(index);
    s.steps.push_back({.kind = StepKind::compute, .fn = kernels.spread(lane(v)), .d = index, .a = v});
    return index;
  }

  void make_store(StageSteps& s, const LoopInsn& n) {
    InterpStep step{.kind = StepKind::store, .a = n.in[0], .operand = n.at, .aux = aux_of(n)};
    bool one_lane = nest.vector.size == 1 || (s.kind == LoopStage::once && !nest.vertical);
    step.uniform = one_lane;
    step.fn = kernels.store(step.aux.dtype, !one_lane && step.aux.stride != 1);
    std::vector<uint32_t> borrowed;
    if (!one_lane && facts(n.in[0]).uniform) step.a = spread(s, n.in[0], borrowed);
    s.steps.push_back(step);
    give_back(borrowed);
  }

  void give_back(const std::vector<uint32_t>& borrowed) {
    for (uint32_t index : borrowed) free_slots.push_back(uint32_t(out.storage[index].at));
  }

  void make_compute(StageSteps& s, LoopValue i, const LoopInsn& n) {
    InterpStep step{.kind = StepKind::compute, .uniform = facts(i).uniform, .d = i, .aux = aux_of(n)};
    if (n.op == LoopOp::bit_cast) {
      step.fn = kernels.load(bytes(lane_of(n.type)) == 8 ? Dtype::s64 : Dtype::s32, false);  // a copy
    }
    const int inputs = row(n.op).inputs;
    bool is_uniform[3] = {};
    LoopValue in[3] = {};
    for (int k = 0; k < inputs; ++k) {
      in[k] = n.in[size_t(k)];
      is_uniform[k] = facts(in[k]).uniform && !step.uniform;
    }
    Lane operand_lane = inputs == 0 ? lane_of(n.type) : lane(in[n.op == LoopOp::select ? 1 : 0]);
    LoopFnKey key{n.op, operand_lane, lane_of(n.type), is_uniform[0], is_uniform[1], is_uniform[2]};
    std::vector<uint32_t> borrowed;
    if (!step.fn) step.fn = kernels.find(key);
    if (!step.fn) {
      for (int k = 0; k < inputs; ++k) {
        if (is_uniform[k]) in[k] = spread(s, in[k], borrowed);
      }
      step.fn = kernels.find({n.op, operand_lane, lane_of(n.type)});
    }
    CHECK(step.fn, "an op without a kernel");
    step.a = in[0], step.b = in[1], step.c = in[2];
    if (may_leave_range(n.op)) step.wrap = kernels.wrap(n.type);
    if (n.op == LoopOp::convert && is_floating(nest.insns[n.in[0]].type)) step.wrap = nullptr;  // saturated
    give_slot(i);
    s.steps.push_back(step);
    give_back(borrowed);
  }

  static bool may_leave_range(LoopOp op) {
    switch (op) {
      case LoopOp::add:
      case LoopOp::sub:
      case LoopOp::mul:
      case LoopOp::div:
      case LoopOp::pow:
      case LoopOp::neg:
      case LoopOp::abs:
      case LoopOp::shl:
      case LoopOp::shr_arith:
      case LoopOp::shr_logical:
      case LoopOp::popcount:
      case LoopOp::clz:
      case LoopOp::bit_not:
      case LoopOp::bit_cast:
      case LoopOp::convert:
      case LoopOp::iota:
        return true;
      default:
        return false;
    }
  }

  void make_iota(StageSteps& s, LoopValue i, const LoopInsn& n) {
    InterpStep step{.uniform = facts(i).uniform, .d = i, .loop = nest.iota_loops[n.at], .aux = aux_of(n)};
    step.kind = step.loop.kind == LoopKind::vector ? StepKind::iota_vector : StepKind::iota_loop;
    step.fn = kernels.find({.op = LoopOp::iota, .lane = lane_of(n.type)});
    step.wrap = kernels.wrap(n.type);
    give_slot(i);
    s.steps.push_back(step);
  }

  void make_reduction(StageSteps& s, LoopValue i, const LoopInsn& n) {
    LoopReduction r{.value = i, .lane = lane_of(n.type), .aux = aux_of(n)};
    r.part = new_storage(StorageKind::row, false, r.lane);
    r.identity = kernels.identity(n.op, r.lane);
    r.accumulate = nest.vertical ? kernels.pair(n.op, r.lane) : kernels.accumulate(n.op, r.lane);
    r.fold = kernels.fold(n.op, r.lane);
    r.pair = kernels.pair(n.op, r.lane);
    r.wrap = kernels.wrap(n.type);
    r.input = n.in[0];
    if (facts(r.input).uniform && nest.vector.size != 1) {
      std::vector<uint32_t> borrowed;
      r.input = spread(s, n.in[0], borrowed);  // stays taken: it is read after the stage's steps
    } else {
      last_use[n.in[0]] = UINT32_MAX;
    }
    s.reductions.push_back(r);
  }

  // What a stage's instruction range reads last, where.
  void lifetimes() {
    last_use.assign(nest.insns.size(), 0);
    for (uint32_t i = 0; i < nest.insns.size(); ++i) {
      for (LoopValue v : nest.insns[i].in) {
        if (v == kNoValue) continue;
        bool reduces = row(nest.insns[i].op).kind == LoopOpClass::reduce;
        last_use[v] = reduces ? UINT32_MAX : std::max(last_use[v], i);
      }
    }
  }

  void release_inputs(uint32_t i) {
    const auto& in = nest.insns[i].in;
    for (int k = 0; k < 3; ++k) {
      LoopValue v = in[size_t(k)];
      bool repeated = std::find(in.begin(), in.begin() + k, v) != in.begin() + k;
      if (v == kNoValue || repeated || last_use[v] != i || out.storage[v].kind != StorageKind::slot || !owned(v))
        continue;
      free_slots.push_back(uint32_t(out.storage[v].at));
    }
  }
  bool owned(LoopValue v) const { return !views[v]; }

  void stages() {
    views.assign(nest.insns.size(), false);
    out.stages.resize(nest.stages.size());
    for (size_t k = 0; k < nest.stages.size(); ++k) out.stages[k].kind = nest.stages[k];
    uint16_t stage = 0;
    for (LoopValue i = 0; i < nest.insns.size(); ++i) {
      const LoopInsn& n = nest.insns[i];
      if (n.stage != stage) {  // slots do not live longer than a stage
        stage = n.stage;
        free_slots.clear();
        for (int64_t k = out.slots; k-- > 0;) free_slots.push_back(uint32_t(k));
      }
      StageSteps& s = out.stages[n.stage];
      if (n.op == LoopOp::constant) continue;
      if (n.op == LoopOp::load) {
        make_load(s, i, n);
        if (s.steps.back().kind == StepKind::load_view) views[i] = true;
      } else if (n.op == LoopOp::pick) {
        make_pick(s, i, n);
      } else if (n.op == LoopOp::store) {
        make_store(s, n);
      } else if (n.op == LoopOp::iota) {
        make_iota(s, i, n);
      } else if (row(n.op).kind == LoopOpClass::reduce) {
        make_reduction(s, i, n);
      } else {
        make_compute(s, i, n);
      }
      release_inputs(i);
      bool unused = n.op != LoopOp::store && last_use[i] == 0 && out.storage[i].kind == StorageKind::slot && owned(i);
      if (unused) free_slots.push_back(uint32_t(out.storage[i].at));
    }
  }

  // Computes straight into the output where nothing read later could be that memory.
  void store_views() {
    for (StageSteps& s : out.stages) {
      for (size_t k = 0; k < s.steps.size(); ++k) {
        const InterpStep store = s.steps[k];
        bool plain =
            store.kind == StepKind::store && is_plain(store.operand) && (store.uniform || store.aux.stride == 1);
        if (!plain || out.storage[store.a].kind != StorageKind::slot) continue;
        size_t def = k;
        for (size_t j = 0; j < k; ++j) {
          bool writes = s.steps[j].kind == StepKind::compute || s.steps[j].kind == StepKind::iota_vector;
          if (writes && s.steps[j].d == store.a) def = j;
        }
        bool twice = std::any_of(s.steps.begin(), s.steps.end(),
                                 [&](const InterpStep& t) { return t.kind == StepKind::store_view && t.d == store.a; });
        if (def == k || twice || reads_views(s, def + 1) || s.steps[def].uniform != store.uniform) continue;
        s.steps.erase(s.steps.begin() + long(k));
        InterpStep view{.kind = StepKind::store_view, .uniform = store.uniform, .d = store.a, .operand = store.operand};
        s.steps.insert(s.steps.begin() + long(def), view);
      }
    }
  }
  // Also true if another store follows: two outputs may not be told apart here.
  bool reads_views(const StageSteps& s, size_t from) const {
    auto is_view = [&](uint32_t index) { return index < nest.insns.size() && !owned(index); };
    for (size_t j = from; j < s.steps.size(); ++j) {
      const InterpStep& t = s.steps[j];
      if (t.kind == StepKind::load || t.kind == StepKind::load_view || t.kind == StepKind::pick) return true;
      if (is_view(t.a) || is_view(t.b) || is_view(t.c)) return true;
    }
    return std::any_of(s.reductions.begin(), s.reductions.end(), [&](const auto& r) { return is_view(r.input); });
  }

  static int64_t in_lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

  void sizes() {
    bool wide =
        std::any_of(out.storage.begin(), out.storage.end(), [](const ValueStorage& p) { return p.lane_bytes == 8; });
    int64_t lane = wide ? 8 : 4;
    int64_t block = tuned::kSlotsBytes / (lane * std::max<int64_t>(out.slots, 3)) / 64 * 64;
    block = std::clamp(block, tuned::kBlockMin, tuned::kBlockMax);
    int64_t buffered_per_lane = 0;
    for (uint32_t i = 0; i < out.storage.size(); ++i) {
      if (out.storage[i].kind != StorageKind::buffered) continue;
      out.buffered.push_back(i);
      buffered_per_lane += out.storage[i].lane_bytes * nest.inner_count;
    }
    if (nest.vertical && buffered_per_lane > 0) {
      block = std::clamp(tuned::kBufferedBytes / buffered_per_lane / 16 * 16, std::min<int64_t>(16, block), block);
    }
    out.block = std::min(block, std::max<int64_t>(nest.vector.size, 1));
    out.slot_bytes = in_lines(out.block * lane);
    const int64_t width = nest.vertical ? out.block : nest.vector.size;
    for (ValueStorage& p : out.storage) {
      if (p.kind == StorageKind::buffered) {
        p.at = out.buffered_bytes;
        out.buffered_bytes += in_lines(p.lane_bytes * nest.inner_count * width);
      } else if (p.kind == StorageKind::row) {
        p.at = out.row_bytes;
        out.row_bytes += in_lines(p.uniform ? 8 : nest.vertical ? out.block * p.lane_bytes : kAccumulatorBytes);
      }
    }
  }
};

}  // namespace

LoopInterp make_interp(const LoopNest& nest, const LoopKernels& kernels) {
  Maker m{nest, kernels};
  m.storage();
  m.lifetimes();
  m.stages();
  m.store_views();
  m.sizes();
  return std::move(m.out);
}

}  // namespace trine::host
