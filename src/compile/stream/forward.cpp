// Pairs of neighbours, and the tiles between them that nobody else names; see forward.h.
#include "compile/stream/forward.h"

#include "compile/stream/memory/free_space.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

class Forwarder {
 public:
  explicit Forwarder(Kernel& kernel) : kernel_(kernel), program_(kernel.program()), uses_(program_.tensors.size()) {
    for (const KernelInsn& w : kernel.insns) over_tensors(program_, w, [&](uint32_t t) { ++uses_[t]; });
  }

  bool run() {
    bool changed = false;
    for (size_t w = 0; w + 1 < kernel_.insns.size(); ++w) {
      const KernelInsn &maker = kernel_.insns[w], &reader = kernel_.insns[w + 1];
      if (maker.core != reader.core || !is_open_scalar(maker) || !is_product(reader)) continue;
      const uint32_t t = operand(maker, "dst").tensor;
      if (!may_move(t) || !read_once(reader, t)) continue;
      program_.tensors[t].space = Space::psum;
      changed = true;
    }
    return changed;
  }

 private:
  const Operand& operand(const KernelInsn& w, std::string_view slot) const {
    return program_.operands[w.operand + static_cast<size_t>(w.info->slot(slot))];
  }

  // By an engine that nobody named.
  static bool is_open_scalar(const KernelInsn& w) {
    return w.info->row->name == "tensor_scalar" && (w.engines & arch::kVector) && (w.engines & arch::kScalar) &&
           !w.fixed_order;
  }
  static bool is_product(const KernelInsn& w) {
    return w.info->row->name == "tensor_tensor" && w.engines == arch::kVector && !w.fixed_order;
  }

  bool may_move(uint32_t t) const {
    const arch::Tensor& tensor = program_.tensors[t];
    return uses_[t] == 2 && tensor.space == Space::sbuf && tensor.alias < 0 && tensor.dtype == Dtype::f32 &&
           !kernel_.origins[t].fixed_address && arch::bytes_per_partition(tensor) <= kernel_.chip->psum.bank_bytes;
  }

  // As one of two inputs, the other being in SBUF.
  bool read_once(const KernelInsn& w, uint32_t t) const {
    const Operand &a = operand(w, "data1"), &b = operand(w, "data2");
    if (a.kind != OperandKind::tile || b.kind != OperandKind::tile || (a.tensor == t) == (b.tensor == t)) return false;
    return program_.tensors[a.tensor == t ? b.tensor : a.tensor].space == Space::sbuf;
  }

  Kernel& kernel_;
  arch::Program& program_;
  std::vector<uint32_t> uses_;  // of each tensor: operands that name it
};

}  // namespace

bool forward_through_psum(Kernel& kernel) { return Forwarder(kernel).run(); }

}  // namespace trine::compile
