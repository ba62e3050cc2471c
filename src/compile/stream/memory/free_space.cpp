// Free addresses, and live ranges; see free_space.h.
#include "compile/stream/memory/free_space.h"

#include <algorithm>

namespace trine::compile {

using arch::Space;

namespace {

constexpr int64_t kStep = 64;  // bytes

// Of each instruction: the outermost loop around it, or itself, as a range of instructions.
struct Spans {
  std::vector<uint32_t> from, to;
};

Spans spans_of(Kernel& kernel) {
  const size_t n = kernel.insns.size();
  Spans s{std::vector<uint32_t>(n), std::vector<uint32_t>(n)};
  std::vector<int> depth(kernel.program().cores);
  std::vector<std::vector<uint32_t>> inside(kernel.program().cores);
  for (uint32_t w = 0; w < n; ++w) {
    const KernelInsn& insn = kernel.insns[w];
    const size_t c = insn.core;
    s.from[w] = s.to[w] = w;
    if (begins_loop(insn)) ++depth[c];
    if (!depth[c]) continue;
    inside[c].push_back(w);
    s.from[w] = inside[c].front();
    if (!ends_loop(insn) || --depth[c]) continue;
    for (const uint32_t i : inside[c]) s.to[i] = w;
    inside[c].clear();
  }
  return s;
}

// Does the instruction leave nothing of what was in the tensor, where it writes it?
bool overwrites(const arch::Program& p, const KernelInsn& w, uint32_t tensor) {
  for (size_t s = 0; s < w.info->slots.size(); ++s) {
    const arch::Operand& o = p.operands[w.operand + s];
    if (o.kind != arch::OperandKind::tile || o.tensor != tensor) continue;
    const int i = w.info->attr("accumulate");
    const bool anew = i >= 0 && p.attrs[w.attr + size_t(i)] == int64_t(arch::Accumulate::overwrite);
    return w.info->slots[s].mode == arch::Mode::write || (w.info->slots[s].mode == arch::Mode::read_write && anew);
  }
  return false;
}

// Of a loop's body alone: what an iteration writes first and no other sees lives as long as its own instructions do.
// Engines wait for each other between iterations.
class Passing {
 public:
  explicit Passing(Kernel& kernel) : body_(kernel.program().tensors.size(), kNoInsn), passes_(body_.size(), false) {
    const arch::Program& p = kernel.program();
    std::vector<std::vector<uint32_t>> open(p.cores);
    for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
      const KernelInsn& insn = kernel.insns[w];
      auto& loops = open[insn.core];
      if (begins_loop(insn)) loops.push_back(w + 1);
      if (ends_loop(insn)) loops.pop_back();
      const uint32_t body = loops.empty() ? 0 : loops.back();
      over_tensors(p, insn, [&](uint32_t t) {
        if (body_[t] == kNoInsn) {
          passes_[t] = body && p.tensors[t].space != Space::hbm && overwrites(p, insn, t);
          body_[t] = body;
        }
        if (body_[t] != body) passes_[t] = false;
      });
    }
  }
  bool operator()(uint32_t tensor) const { return passes_[tensor]; }

 private:
  std::vector<uint32_t> body_;  // 1 + the instruction that begins the loop around the first use, 0 outside loops
  std::vector<bool> passes_;
};

}  // namespace

std::vector<LiveRange> live_ranges_of(Kernel& kernel) {
  const arch::Program& p = kernel.program();
  const Spans spans = spans_of(kernel);
  const Passing passes(kernel);
  std::vector<LiveRange> ranges(p.tensors.size());
  for (uint32_t w = 0; w < kernel.insns.size(); ++w)
    over_tensors(p, kernel.insns[w], [&](uint32_t t) {
      ranges[t].first = std::min(ranges[t].first, passes(t) ? w : spans.from[w]);
      ranges[t].last = std::max(ranges[t].last, passes(t) ? w : spans.to[w]);
    });
  for (uint32_t t = 0; t < ranges.size(); ++t) {
    ranges[t].tensor = t;
    ranges[t].bytes = p.tensors[t].space == Space::hbm ? 0 : arch::bytes_per_partition(p.tensors[t]);
  }
  return ranges;
}

FreeSpace FreeSpace::of(const arch::Chip& chip, Space space) {
  if (space == Space::sbuf)
    return FreeSpace(chip.sbuf.bytes_per_partition - chip.sbuf.reserved_bytes_per_partition, kStep);
  return FreeSpace(chip.psum.banks * chip.psum.bank_bytes, kStep, chip.psum.bank_bytes);
}

int64_t FreeSpace::align(int64_t at, int64_t bytes) const {
  at = (at + step_ - 1) / step_ * step_;
  if (bank_ && at % bank_ + bytes > bank_) at = (at + bank_ - 1) / bank_ * bank_;
  return at;
}

int64_t FreeSpace::past_fixed(const LiveRange& range, int64_t at) const {
  for (const Fixed& f : fixed_)
    if (f.address < at + range.bytes && at < f.address + f.range.bytes && f.range.meets(range))
      return f.address + f.range.bytes;
  return at;
}

int64_t FreeSpace::find(const LiveRange& range, int64_t from) const {
  int64_t at = align(from, range.bytes);
  auto next = taken_.upper_bound(at);
  if (next != taken_.begin() && std::prev(next)->second.high > at) --next;
  for (;;) {
    for (; next != taken_.end() && next->first < at + range.bytes; ++next)
      if (next->second.high > at) at = align(next->second.high, range.bytes);
    if (at + range.bytes > limit_) return -1;
    const int64_t past = past_fixed(range, at);
    if (past == at) return at;
    at = align(past, range.bytes);
  }
}

int64_t FreeSpace::find_last(const LiveRange& range) const {
  int64_t high = limit_;  // the end of the gap in hand
  for (auto next = taken_.rbegin();; ++next) {
    const int64_t low = next == taken_.rend() ? 0 : next->second.high;
    for (int64_t at = (high - range.bytes) / step_ * step_; at >= low; at -= step_) {
      if (bank_ && at % bank_ + range.bytes > bank_) continue;
      if (past_fixed(range, at) == at) return at;
    }
    if (next == taken_.rend()) return -1;
    high = std::min(high, next->first);
  }
}

int64_t FreeSpace::find_next(const LiveRange& range) const {
  const int64_t at = find(range, cursor_);
  return at >= 0 ? at : find(range, 0);
}

void FreeSpace::put(const LiveRange& range, int64_t address) {
  put_apart(range, address);
  cursor_ = address + range.bytes;
}

std::vector<LiveRange> FreeSpace::fixed_at(uint32_t insn) const {
  std::vector<LiveRange> out;
  for (const Fixed& f : fixed_)
    if (f.range.first <= insn && insn <= f.range.last) out.push_back(f.range);
  return out;
}

}  // namespace trine::compile
