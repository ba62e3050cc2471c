// Repeats of loop bodies; see unroll.h. Only innermost loops of a known number of iterations, which the repeats divide.
#include "compile/stream/unroll.h"

#include <algorithm>

#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

constexpr int64_t kRepeatsMax = 8;
constexpr size_t kInsnsMax = 1024;  // of a body with its repeats

class Unroller {
 public:
  explicit Unroller(Kernel& kernel)
      : kernel_(kernel), program_(kernel.program()), depth_(program_.cores), open_(program_.cores) {
    first_.assign(program_.tensors.size(), kNoInsn);
    last_.assign(program_.tensors.size(), 0);
    for (uint32_t w = 0; w < kernel.insns.size(); ++w)
      over_tensors(program_, kernel.insns[w], [&](uint32_t t) {
        first_[t] = std::min(first_[t], w);
        last_[t] = w;
      });
  }

  bool run() {
    insns_ = std::move(kernel_.insns);
    kernel_.insns.clear();
    moved_.resize(insns_.size());
    for (uint32_t w = 0; w < insns_.size(); ++w) one(w);
    for (uint32_t& id : kernel_.afters)
      if (id < kSettled) id = moved_[id];
    for (uint32_t& id : kernel_.afters)
      if (id >= kSettled) id -= kSettled;
    return changed_;
  }

 private:
  static constexpr uint32_t kSettled = 1u << 31;  // added to ids that are those of the new list already
  struct Open {
    int64_t repeats = 1;
    std::vector<uint32_t> body;  // instructions as recorded, held back until the loop's end
  };

  void one(uint32_t w) {
    KernelInsn insn = insns_[w];
    Open& open = open_[insn.core];
    if (begins_loop(insn)) {
      open = {repeats_of(w), {}};
      if (open.repeats > 1) shorten(insn, open.repeats);
      ++depth_[insn.core];
    } else if (ends_loop(insn)) {
      --depth_[insn.core];
      for (int64_t r = 0; open.repeats > 1 && r < open.repeats; ++r) repeat(open, r, depth_[insn.core]);
      open = {};
    } else if (open.repeats > 1) {
      open.body.push_back(w);
      return;
    }
    moved_[w] = static_cast<uint32_t>(kernel_.insns.size());
    kernel_.insns.push_back(insn);
  }

  void shorten(KernelInsn& loop, int64_t repeats) {
    const double iterations = program_.operands[loop.operand].immediate;
    loop.operand = static_cast<uint32_t>(program_.operands.size());
    program_.operands.push_back(arch::immediate_operand(iterations / static_cast<double>(repeats)));
    changed_ = true;
  }

  // The most repeats that divide the iterations, leave two, and have room for their tiles; 1 where there is nothing to
  // gain.
  int64_t repeats_of(uint32_t begin) const {
    const KernelInsn& loop = insns_[begin];
    const Operand& iterations = program_.operands[loop.operand];
    if (loop.repeats || iterations.kind != OperandKind::immediate) return 1;
    uint32_t end = begin + 1;
    size_t count = 0;
    for (; insns_[end].core != loop.core || !ends_loop(insns_[end]); ++end) {
      if (insns_[end].core != loop.core) continue;
      if (is_fence(insns_[end]) || insns_[end].unit() == arch::Unit::rendezvous) return 1;
      ++count;
    }
    int64_t sbuf = 0, psum = 0;
    for (size_t t = 0; t < first_.size(); ++t) {
      const arch::Tensor& tensor = program_.tensors[t];
      const bool inside = first_[t] > begin && last_[t] < end && first_[t] <= last_[t];
      if (!inside || tensor.space == Space::hbm || kernel_.origins[t].fixed_address) continue;
      (tensor.space == Space::sbuf ? sbuf : psum) += arch::bytes_per_partition(tensor);
    }
    if (!sbuf && !psum) return 1;
    const auto fits = [&](int64_t n) {
      return 2 * n * sbuf <= kernel_.chip->sbuf.bytes_per_partition &&
             n * psum <= kernel_.chip->psum.banks * kernel_.chip->psum.bank_bytes &&
             static_cast<size_t>(n) * count <= kInsnsMax;
    };
    const auto n = static_cast<int64_t>(iterations.immediate);
    for (int64_t repeats = kRepeatsMax; repeats > 1; --repeats)
      if (n % repeats == 0 && n / repeats >= 2 && fits(repeats)) return repeats;
    return 1;
  }

  // One more body: what moves with the loop moves `repeats` times as far, from `r` iterations on.
  void repeat(const Open& open, int64_t r, int depth) {
    for (const uint32_t w : open.body) {
      KernelInsn insn = insns_[w];
      const uint32_t from = insn.operand;
      std::vector<Operand> operands;
      for (size_t s = 0; s < insn.info->slots.size(); ++s)
        operands.push_back(stepped(program_.operands[from + s], r, open.repeats, static_cast<size_t>(depth)));
      insn.operand = static_cast<uint32_t>(program_.operands.size());
      program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
      follow(insn);
      moved_[w] = static_cast<uint32_t>(kernel_.insns.size());
      kernel_.insns.push_back(insn);
    }
  }

  Operand stepped(const Operand& o, int64_t r, int64_t repeats, size_t depth) {
    if (o.kind != OperandKind::tile) return o;
    arch::Pattern pattern = program_.patterns[o.pattern];
    const int64_t step = pattern.step[depth];
    pattern.step[depth] = step * repeats;
    uint32_t dynamic = o.dynamic;
    if (dynamic && program_.dynamics[dynamic - 1].kind != arch::DynamicKind::reg) {
      const arch::Dynamic d = program_.dynamics[dynamic - 1];
      dynamic = kernel_.builder.dynamic(d.kind, stepped(program_.operands[d.index], r, repeats, depth), d.scale);
    }
    return kernel_.builder.tile(o.tensor, pattern, o.offset + r * step, o.partition, dynamic);
  }

  // Its own list of instructions to come after, those of its own repeat where they are in the body.
  void follow(KernelInsn& insn) {
    const auto begin = static_cast<uint32_t>(kernel_.afters.size());
    for (uint32_t i = 0; i < insn.afters; ++i) {
      const uint32_t id = kernel_.afters[insn.after + i];
      kernel_.afters.push_back((id < kSettled ? moved_[id] : id - kSettled) + kSettled);
    }
    insn.after = begin;
  }

  Kernel& kernel_;
  arch::Program& program_;
  std::vector<int> depth_;  // of each core
  std::vector<Open> open_;
  std::vector<uint32_t> first_, last_;  // of each tensor: instructions that use it
  std::vector<KernelInsn> insns_;       // as recorded
  std::vector<uint32_t> moved_;         // where each went, the last repeat
  bool changed_ = false;
};

}  // namespace

bool unroll_loops(Kernel& kernel) { return Unroller(kernel).run(); }

}  // namespace trine::compile
