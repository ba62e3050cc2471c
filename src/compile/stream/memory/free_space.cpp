// Finding room, and lifetimes; see shelf.h.
#include "compile/stream/memory/free_space.h"

#include <algorithm>

namespace trine::compile {

using arch::Space;

namespace {

constexpr int64_t kStep = 64;  // bytes

// Of each work: the outermost loop around it, or itself, as a range of works.
struct Spans {
  std::vector<uint32_t> from, to;
};

Spans spans_of(Kernel& kernel) {
  const size_t n = kernel.works.size();
  Spans s{std::vector<uint32_t>(n), std::vector<uint32_t>(n)};
  std::vector<int> depth(kernel.program().cores);
  std::vector<std::vector<uint32_t>> inside(kernel.program().cores);
  for (uint32_t w = 0; w < n; ++w) {
    const Work& work = kernel.works[w];
    const size_t c = work.core;
    s.from[w] = s.to[w] = w;
    if (begins_loop(work)) ++depth[c];
    if (!depth[c]) continue;
    inside[c].push_back(w);
    s.from[w] = inside[c].front();
    if (!ends_loop(work) || --depth[c]) continue;
    for (const uint32_t i : inside[c]) s.to[i] = w;
    inside[c].clear();
  }
  return s;
}

// Does the work leave nothing of what was in the tensor, where it writes it?
bool overwrites(const arch::Program& p, const Work& w, uint32_t tensor) {
  for (size_t s = 0; s < w.info->slots.size(); ++s) {
    const arch::Operand& o = p.operands[w.operand + s];
    if (o.kind != arch::OperandKind::tile || o.tensor != tensor) continue;
    const int i = w.info->attr("accumulate");
    const bool anew = i >= 0 && p.attrs[w.attr + size_t(i)] == int64_t(arch::Accumulate::overwrite);
    return w.info->slots[s].mode == arch::Mode::write || (w.info->slots[s].mode == arch::Mode::read_write && anew);
  }
  return false;
}

// Of a loop's body alone: what an iteration writes first and no other sees lives as long as its own works do. Engines
// wait for each other between iterations.
class Passing {
 public:
  explicit Passing(Kernel& kernel) : body_(kernel.program().tensors.size(), kNoWork), passes_(body_.size(), false) {
    const arch::Program& p = kernel.program();
    std::vector<std::vector<uint32_t>> open(p.cores);
    for (uint32_t w = 0; w < kernel.works.size(); ++w) {
      const Work& work = kernel.works[w];
      auto& loops = open[work.core];
      if (begins_loop(work)) loops.push_back(w + 1);
      if (ends_loop(work)) loops.pop_back();
      const uint32_t body = loops.empty() ? 0 : loops.back();
      over_tensors(p, work, [&](uint32_t t) {
        if (body_[t] == kNoWork) {
          passes_[t] = body && p.tensors[t].space != Space::hbm && overwrites(p, work, t);
          body_[t] = body;
        }
        if (body_[t] != body) passes_[t] = false;
      });
    }
  }
  bool operator()(uint32_t tensor) const { return passes_[tensor]; }

 private:
  std::vector<uint32_t> body_;  // 1 + the work that begins the loop around the first use, 0 outside loops
  std::vector<bool> passes_;
};

}  // namespace

std::vector<Life> lives_of(Kernel& kernel) {
  const arch::Program& p = kernel.program();
  const Spans spans = spans_of(kernel);
  const Passing passes(kernel);
  std::vector<Life> lives(p.tensors.size());
  for (uint32_t w = 0; w < kernel.works.size(); ++w)
    over_tensors(p, kernel.works[w], [&](uint32_t t) {
      lives[t].first = std::min(lives[t].first, passes(t) ? w : spans.from[w]);
      lives[t].last = std::max(lives[t].last, passes(t) ? w : spans.to[w]);
    });
  for (uint32_t t = 0; t < lives.size(); ++t) {
    lives[t].tensor = t;
    lives[t].bytes = p.tensors[t].space == Space::hbm ? 0 : arch::bytes_per_partition(p.tensors[t]);
  }
  return lives;
}

Shelf Shelf::of(const arch::Chip& chip, Space space) {
  if (space == Space::sbuf) return Shelf(chip.sbuf.bytes_per_partition - chip.sbuf.reserved_bytes_per_partition, kStep);
  return Shelf(chip.psum.banks * chip.psum.bank_bytes, kStep, chip.psum.bank_bytes);
}

int64_t Shelf::align(int64_t at, int64_t bytes) const {
  at = (at + step_ - 1) / step_ * step_;
  if (bank_ && at % bank_ + bytes > bank_) at = (at + bank_ - 1) / bank_ * bank_;
  return at;
}

int64_t Shelf::past_fixed(const Life& life, int64_t at) const {
  for (const Fixed& f : fixed_)
    if (f.address < at + life.bytes && at < f.address + f.life.bytes && f.life.meets(life))
      return f.address + f.life.bytes;
  return at;
}

int64_t Shelf::find(const Life& life, int64_t from) const {
  int64_t at = align(from, life.bytes);
  auto next = taken_.upper_bound(at);
  if (next != taken_.begin() && std::prev(next)->second.high > at) --next;
  for (;;) {
    for (; next != taken_.end() && next->first < at + life.bytes; ++next)
      if (next->second.high > at) at = align(next->second.high, life.bytes);
    if (at + life.bytes > limit_) return -1;
    const int64_t past = past_fixed(life, at);
    if (past == at) return at;
    at = align(past, life.bytes);
  }
}

int64_t Shelf::find_last(const Life& life) const {
  int64_t high = limit_;  // the end of the gap in hand
  for (auto next = taken_.rbegin();; ++next) {
    const int64_t low = next == taken_.rend() ? 0 : next->second.high;
    for (int64_t at = (high - life.bytes) / step_ * step_; at >= low; at -= step_) {
      if (bank_ && at % bank_ + life.bytes > bank_) continue;
      if (past_fixed(life, at) == at) return at;
    }
    if (next == taken_.rend()) return -1;
    high = std::min(high, next->first);
  }
}

int64_t Shelf::find_next(const Life& life) const {
  const int64_t at = find(life, cursor_);
  return at >= 0 ? at : find(life, 0);
}

void Shelf::put(const Life& life, int64_t address) {
  put_aside(life, address);
  cursor_ = address + life.bytes;
}

std::vector<Life> Shelf::fixed_at(uint32_t work) const {
  std::vector<Life> out;
  for (const Fixed& f : fixed_)
    if (f.life.first <= work && work <= f.life.last) out.push_back(f.life);
  return out;
}

}  // namespace trine::compile
