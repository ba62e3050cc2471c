// Edges from touched bytes; see dependences.h. One Touched per memory: SBUF and PSUM of each core, and each HBM tensor
// that is written. Accumulators, random states and registers are one more, with a byte for each.
#include "compile/stream/dependences.h"

#include <algorithm>
#include <map>
#include <memory>

#include "arch/runs.h"
#include "compile/stream/footprint.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

constexpr int kChipCells = 512, kHbmCells = 16384;
constexpr int64_t kRunsMax = 512;  // of an HBM tile; more are taken as one hull
// Bytes of the hidden memory: registers of each engine, then accumulators and random states of each.
constexpr int64_t kAccumulators = kEngines * arch::kRegisterCount, kRandom = kAccumulators + kEngines,
                  kHidden = kRandom + kEngines;

class Finder {
 public:
  Finder(Kernel& kernel, int64_t sbuf_bytes, int64_t psum_bytes) : kernel_(kernel), program_(kernel.program()) {
    const auto& chip = *kernel.chip;
    if (!sbuf_bytes) sbuf_bytes = chip.sbuf.bytes_per_partition;
    if (!psum_bytes) psum_bytes = chip.psum.banks * chip.psum.bank_bytes;
    const size_t cores = program_.cores;
    loops_.resize(cores);
    fence_.assign(cores, -1);
    last_seen_.assign(kernel.insns.size(), UINT32_MAX);
    for (size_t c = 0; c < cores; ++c) {
      sbuf_.emplace_back(sbuf_bytes, kChipCells);
      psum_.emplace_back(psum_bytes, kChipCells);
      hidden_.emplace_back(kHidden, kChipCells);
    }
    note_writes();
  }

  Edges run() {
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      insn_ = w;
      one(kernel_.insns[w]);
      edges_.close();
    }
    return std::move(edges_);
  }

 private:
  void note_writes() {
    written_.assign(program_.tensors.size(), 0);
    for (const KernelInsn& w : kernel_.insns)
      for (size_t s = 0; s < w.info->slots.size(); ++s) {
        const Operand& o = program_.operands[w.operand + s];
        if (o.kind == OperandKind::tile && w.info->slots[s].writes()) written_[storage(o.tensor)] = 1;
      }
  }
  uint32_t storage(uint32_t tensor) const {
    const int32_t alias = program_.tensors[tensor].alias;
    return alias < 0 ? tensor : static_cast<uint32_t>(alias);
  }

  void after(uint32_t earlier, EdgeKind kind = EdgeKind::data) {
    if (earlier == insn_ || last_seen_[earlier] == insn_) return;
    if (kernel_.insns[earlier].core != kernel_.insns[insn_].core) return;  // cores wait for each other at barriers
    last_seen_[earlier] = insn_;
    edges_.add(earlier, kind);
  }

  void one(const KernelInsn& w) {
    arch::LoopNest& nest = loops_[w.core];
    if (ends_loop(w)) --nest.depth;
    if (fence_[w.core] >= 0) after(static_cast<uint32_t>(fence_[w.core]));
    for (uint32_t i = 0; i < w.afters; ++i) after(kernel_.afters[w.after + i]);
    // Reads first: an instruction that reads what it writes must not find itself.
    for (const bool write : {false, true})
      for (size_t s = 0; s < w.info->slots.size(); ++s) operand(w, s, write);
    hidden(w);
    if (w.unit() == arch::Unit::rendezvous) rendezvous(w);
    if (begins_loop(w)) {
      const Operand& iterations = program_.operands[w.operand];
      nest.iterations[static_cast<size_t>(nest.depth++)] = w.repeats ? 1
                                                           : iterations.kind == OperandKind::immediate
                                                               ? static_cast<int64_t>(iterations.immediate)
                                                               : -1;
    }
    if (is_fence(w)) fence_[w.core] = insn_;
  }

  void operand(const KernelInsn& w, size_t slot, bool write) {
    const Operand& o = program_.operands[w.operand + slot];
    const arch::OperandSlot& s = w.info->slots[slot];
    if (o.kind == OperandKind::reg && s.writes() == write) touch_hidden(w, register_byte(w, o.reg), write);
    if (o.kind != OperandKind::tile) return;
    if (s.writes() == write) touch(w, o, write);
    if (!write && o.dynamic) {
      const arch::Dynamic& d = program_.dynamics[o.dynamic - 1];
      if (d.kind == arch::DynamicKind::reg)
        touch_hidden(w, register_byte(w, d.reg), false);
      else
        touch(w, program_.operands[d.index], false);
    }
  }

  static int64_t row_bytes(const arch::Tensor& t) { return t.shape.empty() ? 0 : t.shape.back() * bits(t.dtype) / 8; }

  Touched* memory(const arch::Tensor& t, uint32_t tensor) {
    if (t.space == Space::sbuf) return &sbuf_[t.core];
    if (t.space == Space::psum) return &psum_[t.core];
    const uint32_t owner = storage(tensor);
    if (!written_[owner]) return nullptr;
    auto& made = hbm_[owner];
    if (!made) made = std::make_unique<Touched>(arch::tensor_bytes(t), kHbmCells, row_bytes(t));
    return made.get();
  }

  void touch(const KernelInsn& w, const Operand& o, bool write) {
    const arch::Tensor& t = program_.tensors[o.tensor];
    Touched* const m = memory(t, o.tensor);
    if (!m) return;
    const Region r = region_of(program_, o, loops_[w.core]);
    cells_.clear();
    if (t.space == Space::hbm && !r.dense() && !o.dynamic)
      hbm_cells(*m, o, r);
    else
      m->cells_between(r.low, r.high, cells_);
    m->touch(r, cells_, write, insn_,
             [&](uint32_t who, bool read) { after(who, read ? EdgeKind::anti : EdgeKind::data); });
  }

  // Only the cells that the rows of a strided tile lie in.
  void hbm_cells(const Touched& m, const Operand& o, const Region& r) {
    const arch::Pattern& a = program_.patterns[o.pattern];
    const int size = bits(a.dtype) / 8;
    const auto [low, high] = arch::row_extent(a, size);
    const bool looped = a.step != decltype(a.step){};
    const bool gaps = a.partition_stride * size > (high - low) + m.cell_bytes();
    if (looped || !gaps || a.partitions > kRunsMax) return m.cells_between(r.low, r.high, cells_);
    for (int64_t p = 0; p < a.partitions; ++p) {
      const int64_t at = (o.offset + p * a.partition_stride) * size;
      m.cells_between(at + low, at + high, cells_);
    }
  }

  static int64_t register_byte(const KernelInsn& w, int number) {
    return static_cast<int64_t>(only_engine(w.engines)) * arch::kRegisterCount + number;
  }

  void touch_hidden(const KernelInsn& w, int64_t byte, bool write) {
    cells_.clear();
    hidden_[w.core].cells_between(byte, byte + 1, cells_);
    Region r;
    r.low = byte;
    r.high = byte + 1;
    hidden_[w.core].touch(r, cells_, write, insn_,
                          [&](uint32_t who, bool read) { after(who, read ? EdgeKind::anti : EdgeKind::data); });
  }

  void hidden(const KernelInsn& w) {
    const auto engine = static_cast<int64_t>(only_engine(w.engines));
    if (keeps_sum(program_, w)) touch_hidden(w, kAccumulators + engine, true);
    if (keeps_random(w)) touch_hidden(w, kRandom + engine, true);
  }

  // Cores come to their meetings in one order.
  void rendezvous(const KernelInsn& w) {
    const auto [it, fresh] = last_rendezvous_.try_emplace(w.core, insn_);
    if (!fresh) after(it->second);
    it->second = insn_;
  }

  Kernel& kernel_;
  const arch::Program& program_;
  Edges edges_;
  std::vector<arch::LoopNest> loops_;
  std::vector<int64_t> fence_;
  std::vector<uint32_t> last_seen_;
  std::vector<Touched> sbuf_, psum_, hidden_;
  std::map<uint32_t, std::unique_ptr<Touched>> hbm_;
  std::vector<char> written_;
  std::map<uint8_t, uint32_t> last_rendezvous_;
  Touched::Ranges cells_;
  uint32_t insn_ = 0;
};

}  // namespace

bool keeps_sum(const arch::Program& program, const KernelInsn& insn) {
  const int i = insn.info->attr("reduce_cmd");
  const bool commands = i >= 0 && static_cast<arch::ReduceCmd>(program.attrs[insn.attr + static_cast<size_t>(i)]) !=
                                      arch::ReduceCmd::idle;
  return commands || insn.info->row->name == "activation_reduce";
}

bool keeps_random(const KernelInsn& insn) {
  const std::string_view name = insn.info->row->name;
  return name.find("rng") != std::string_view::npos || name.starts_with("rand") || name == "dropout";
}

Edges find_edges(Kernel& kernel, int64_t sbuf_bytes, int64_t psum_bytes) {
  return Finder(kernel, sbuf_bytes, psum_bytes).run();
}

}  // namespace trine::compile
