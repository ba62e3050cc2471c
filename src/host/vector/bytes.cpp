// Which nests are computed in lanes of eight bits.
#include "host/vector/bytes.h"

#include <algorithm>

#include "base/number/number.h"

namespace trine::host {

using arch::LoopInsn;
using arch::LoopOp;

namespace {

bool is_byte(Dtype d) { return d == Dtype::u8 || d == Dtype::s8 || d == Dtype::boolean; }

// Products, quotients and shifts of bytes are none of AVX2's instructions.
bool has_byte_op(LoopOp op) {
  switch (op) {
    case LoopOp::load:
    case LoopOp::store:
    case LoopOp::constant:
    case LoopOp::add:
    case LoopOp::sub:
    case LoopOp::max:
    case LoopOp::min:
    case LoopOp::bit_and:
    case LoopOp::bit_or:
    case LoopOp::bit_xor:
    case LoopOp::bit_not:
    case LoopOp::eq:
    case LoopOp::ne:
    case LoopOp::lt:
    case LoopOp::le:
    case LoopOp::gt:
    case LoopOp::ge:
    case LoopOp::select:
    case LoopOp::clamp:
    case LoopOp::neg:
    case LoopOp::abs:
    case LoopOp::sign:
    case LoopOp::convert:
    case LoopOp::bit_cast:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_of_bytes(const LoopNest& nest) {
  if (nest.vector.size < kByteLanes || !nest.inner.empty() || nest.stages.size() != 1) return false;
  if (nest.stages[0] != arch::LoopStage::each) return false;
  const bool memory = std::all_of(nest.operands.begin(), nest.operands.end(),
                                  [](const arch::LoopOperand& o) { return is_byte(o.dtype); });
  if (!memory) return false;
  for (size_t i = 0; i < nest.insns.size(); ++i) {
    const LoopInsn& n = nest.insns[i];
    if (!is_byte(n.type) || !has_byte_op(n.op) || nest.facts[i].buffered || nest.facts[i].of_row) return false;
    const bool is_memory = n.op == LoopOp::load || n.op == LoopOp::store;
    if (is_memory && nest.vector.steps[n.at] != 1 && (n.op == LoopOp::store || nest.vector.steps[n.at] != 0))
      return false;
  }
  return true;
}

}  // namespace trine::host
