// Several indices of the inner loop in one list.
#include "host/vector/unroll.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

namespace trine::host {

namespace {

bool by_call(const LoopNest& nest, const VInsn& n) {
  if (n.op == VOp::call || n.op == VOp::patch) return true;
  return (n.op == VOp::load || n.op == VOp::store) && memory_of(nest.operands[n.at].dtype) == VMemory::call;
}

// Its operands are where the list's own are, and a fixed way further on.
bool is_movable(const LoopNest& nest, const VInsn& n) {
  if (n.op == VOp::accumulate || by_call(nest, n)) return false;
  if (n.op == VOp::index) return LoopKind(n.at >> 8) != LoopKind::inner || (n.at & 255) + 1 < nest.inner.size();
  if (n.op != VOp::load && n.op != VOp::store && n.op != VOp::pick) return true;
  return std::abs(nest.inner.back().steps[n.at]) <= INT32_MAX / (2 * kRowsAtOnce);
}

bool is_part(const VStage& stage, uint32_t array) {
  return std::any_of(stage.reductions.begin(), stage.reductions.end(),
                     [&](const VReduction& r) { return r.part == array; });
}

}  // namespace

std::optional<VList> unroll(const LoopNest& nest, const VStage& stage) {
  const VList& one = stage.each;
  if (!nest.vertical || nest.inner.empty() || stage.reductions.empty() || !stage.before.insns.empty()) return {};
  if (!std::all_of(one.insns.begin(), one.insns.end(), [&](const VInsn& n) { return is_movable(nest, n); })) return {};
  VList out{.regs = one.regs * kRowsAtOnce};
  std::vector<Ref> as(out.regs);  // what a register is called
  for (uint32_t r = 0; r < out.regs; ++r) as[r] = {Ref::reg, r};
  std::vector<std::pair<uint32_t, Ref>> parts;  // arrays of partial results, and what they would hold
  for (uint32_t row = 0; row < kRowsAtOnce; ++row) {
    for (VInsn n : one.insns) {
      n.row = row;
      n.d += row * one.regs;
      for (Ref& r : n.in)
        if (r.kind == Ref::reg) r = as[r.id + row * one.regs];
      const bool of_part = (n.op == VOp::array_load || n.op == VOp::array_store) && is_part(stage, n.at);
      auto held = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == n.at; });
      if (of_part && n.op == VOp::array_load && held != parts.end()) {
        as[n.d] = held->second;
        continue;
      }
      if (of_part && n.op == VOp::array_store) {
        if (held == parts.end()) held = parts.insert(parts.end(), {n.at, {}});
        held->second = n.in[0];
        if (row + 1 < kRowsAtOnce) continue;
      }
      out.insns.push_back(n);
    }
  }
  return out;
}

}  // namespace trine::host
