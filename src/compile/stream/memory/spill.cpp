// The walk that moves tensors out and back in; see spill.h. Only what was written is moved: reading the rest would be
// reading what nobody wrote.
#include "compile/stream/memory/spill.h"

#include <algorithm>

#include "base/text.h"
#include "compile/stream/cost.h"
#include "compile/stream/footprint.h"
#include "compile/stream/memory/allocate.h"
#include "compile/stream/memory/leavers.h"
#include "compile/stream/memory/reload.h"

namespace trine::compile {

using arch::Operand;
using arch::OperandKind;
using arch::Space;

namespace {

constexpr int64_t kRowStep = 64;  // bytes between rows of a tensor in HBM are a multiple of this

struct Written {
  Operand tile;
  Region region;  // counted from the tensor's beginning
};

struct State {                    // of one tensor as it was recorded
  std::vector<uint32_t> uses;     // instructions, in order; of a loop its beginning and its end
  size_t next = 0;                // the first use not yet passed
  uint32_t instance = 0;          // the tensor that stands for it now
  int64_t address = -1;           // -1: not in SBUF
  int64_t home = -1;              // its tensor in HBM
  double used_ns = 0;             // when it was last used, see Costs::elapsed
  uint32_t used = 0;              // the instruction
  bool begun = false;             // it has been in SBUF
  bool changed = false;           // what it holds is nowhere else
  bool loaded = true;             // nothing but `loads` has written it
  std::vector<Written> writes;    // so far, none within another
  std::vector<KernelInsn> loads;  // that may be repeated
  int moves = 0;
};

struct Candidate {
  int64_t at = -1;
  bool idle = false;
  uint32_t use = 0;           // of what lies there, the next one, or how long ago the last was
  std::vector<uint32_t> out;  // who must leave
  bool operator>(const Candidate& o) const { return idle != o.idle ? idle : use > o.use; }
};

class Spiller {
 public:
  Spiller(Kernel& kernel, FreeSpace free_space, int core, Leaver leaver)
      : kernel_(kernel),
        program_(kernel.program()),
        free_space_(std::move(free_space)),
        core_(core),
        leaver_(leaver),
        copy_(*arch::row_by_name("dma_copy")) {
    states_.resize(program_.tensors.size());
    for (uint32_t t = 0; t < states_.size(); ++t) states_[t].instance = t;
    ranges_ = live_ranges_of(kernel);
    repeatable_ = repeatable_loads(kernel, core, ranges_);
    elapsed_ = Costs(kernel).elapsed(core);
    arch::Draft defaults(copy_);
    copy_attr_ = kernel.attr_block(defaults.attrs);
    find_uses();
    leaves_.assign(states_.size(), 0);
    if (leaver == Leaver::used_first) find_leaving();
  }

  std::optional<Diagnostic> run() {
    const std::vector<KernelInsn> insns = std::move(kernel_.insns);
    kernel_.insns.clear();
    std::vector<uint32_t> moved(insns.size());
    int depth = 0;
    for (uint32_t w = 0; w < insns.size(); ++w) {
      const KernelInsn& insn = insns[w];
      now_ = w;
      if (put_off(insn)) continue;
      if (insn.core == core_ && begins_loop(insn) && depth++ == 0) {
        pin_loop(insns, w);
        if (!bring_all()) clear_for_loop();
      }
      if (insn.core == core_ && (depth == 0 || tight_)) pin_insn(insn);
      if (!bring_all())
        if (auto problem = repack()) return problem;
      moved[w] = static_cast<uint32_t>(kernel_.insns.size());
      kernel_.insns.push_back(insn);
      if (insn.core != core_) continue;
      rewrite(insn);
      if (ends_loop(insn)) --depth;
      if (depth == 0) tight_ = false, held_ = 0;
      if (depth == 0 || tight_) unpin();
    }
    for (uint32_t& id : kernel_.afters) id = moved[id];
    report();
    return std::nullopt;
  }

 private:
  bool ours(uint32_t t) const {
    return t < ranges_.size() && program_.tensors[t].space == Space::sbuf && program_.tensors[t].core == core_ &&
           !kernel_.origins[t].fixed_address;
  }
  void find_uses();
  void find_leaving();
  void pin_insn(const KernelInsn& w);
  void pin_loop(const std::vector<KernelInsn>& insns, uint32_t begin);
  void clear_for_loop();
  void unpin();
  uint32_t next_use(uint32_t t) const;
  bool put_off(const KernelInsn& w);
  double lead_ns(uint32_t t) const;
  bool bring_all();
  bool bring(uint32_t t);
  std::optional<Diagnostic> repack();
  bool make_room(const LiveRange& range);
  void send_away(uint32_t t);
  void note_writes(const KernelInsn& w);
  void rewrite(const KernelInsn& w);
  void add_home(uint32_t t);
  void add_copies(uint32_t t, bool out);
  void add_loads(uint32_t t);
  void report();
  template <class F>
  void report_those(F which, std::string_view fate);

  Kernel& kernel_;
  arch::Program& program_;
  FreeSpace free_space_;
  const int core_;
  const Leaver leaver_;
  const arch::RowInfo& copy_;
  uint32_t copy_attr_ = 0;
  std::vector<LiveRange> ranges_;
  std::vector<char> repeatable_;  // of each instruction as recorded
  std::vector<double> elapsed_;
  std::vector<State> states_;
  std::vector<char> leaves_;      // of each tensor as recorded: after every use that is not at once followed by another
  std::vector<uint32_t> pinned_;  // tensors that the instruction or loop in hand uses
  bool tight_ = false;            // in a loop whose tensors do not all fit at once
  size_t held_ = 0;               // of pinned_, those that stay to the loop's end
  uint32_t now_ = 0;
};

void Spiller::find_uses() {
  for (uint32_t w = 0; w < kernel_.insns.size(); ++w)
    if (!repeatable_[w])
      over_tensors(program_, kernel_.insns[w], [&](uint32_t t) {
        if (ours(t) && (states_[t].uses.empty() || states_[t].uses.back() != w)) states_[t].uses.push_back(w);
      });
}

void Spiller::find_leaving() {
  std::vector<Uses> all(states_.size());
  for (uint32_t t = 0; t < all.size(); ++t) {
    if (!ours(t)) continue;
    all[t].insns = states_[t].uses;
    all[t].writes.assign(all[t].insns.size(), 0);
    all[t].lead_ns = lead_ns(t);
    all[t].bytes = ranges_[t].bytes * program_.tensors[t].shape[0];
    all[t].is_loaded = true;
  }
  std::vector<size_t> at(all.size());
  for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
    if (repeatable_[w]) continue;
    const KernelInsn& insn = kernel_.insns[w];
    for (size_t s = 0; s < insn.info->slots.size(); ++s) {
      const Operand& o = program_.operands[insn.operand + s];
      if (o.kind != OperandKind::tile || !insn.info->slots[s].writes() || !ours(o.tensor)) continue;
      Uses& u = all[o.tensor];
      while (u.insns[at[o.tensor]] < w) ++at[o.tensor];
      u.writes[at[o.tensor]] = 1;
      u.is_loaded = false;
    }
  }
  leaves_ = find_leavers(kernel_, ranges_, all, elapsed_, free_space_.limit());
}

// A load into what is not in SBUF waits until the tile is used.
bool Spiller::put_off(const KernelInsn& w) {
  if (!repeatable_[now_]) return false;
  const uint32_t t = program_.operands[w.operand].tensor;
  State& s = states_[t];
  if (!ours(t) || !s.loaded || s.address >= 0 || next_use(t) == kNoInsn) return false;
  note_writes(w);
  return true;
}

// How long an address should have been idle for the transfer that fills it to be hidden: twice what one takes, so that
// one is under way while the next is issued.
double Spiller::lead_ns(uint32_t t) const {
  const auto& d = kernel_.chip->dma;
  const double bytes = static_cast<double>(ranges_[t].bytes * program_.tensors[t].shape[0]);
  return 2 *
         (d.start_sync_ns + d.completion_ns + bytes / (d.rate_bytes_per_ns * static_cast<double>(d.engines_per_core)));
}

void Spiller::pin_insn(const KernelInsn& w) {
  over_tensors(program_, w, [&](uint32_t t) {
    if (ours(t) && std::find(pinned_.begin(), pinned_.end(), t) == pinned_.end()) pinned_.push_back(t);
  });
}

void Spiller::pin_loop(const std::vector<KernelInsn>& insns, uint32_t begin) {
  int depth = 0;
  for (uint32_t w = begin; w < insns.size(); ++w) {
    if (insns[w].core != core_) continue;
    pin_insn(insns[w]);
    if (begins_loop(insns[w])) ++depth;
    if (ends_loop(insns[w]) && --depth == 0) return;
  }
}

// What a loop uses does not fit all at once: everything leaves, what lives through the loop is pinned, and what lives
// in its body alone comes and goes there. Nothing else may leave inside, where it would do so again and again.
void Spiller::clear_for_loop() {
  std::vector<uint32_t> all;
  for (const auto& [address, taken] : free_space_.taken()) all.push_back(taken.tensor);
  for (const uint32_t t : all) send_away(t);
  std::erase_if(pinned_, [&](uint32_t t) { return ranges_[t].first > now_; });
  free_space_.rewind();
  tight_ = true;
  held_ = pinned_.size();
}

void Spiller::unpin() {
  for (size_t i = held_; i < pinned_.size(); ++i) {
    const uint32_t t = pinned_[i];
    State& s = states_[t];
    while (s.next < s.uses.size() && s.uses[s.next] <= now_) ++s.next;
    s.used_ns = elapsed_[now_];
    s.used = now_;
    if (s.address < 0) continue;
    if (s.next < s.uses.size()) {
      if (leaves_[t] && elapsed_[s.uses[s.next]] - elapsed_[now_] > lead_ns(t)) send_away(t);
      continue;
    }
    free_space_.free(s.address);
    s.address = -1;
  }
  pinned_.resize(held_);
}

uint32_t Spiller::next_use(uint32_t t) const {
  const State& s = states_[t];
  return s.next < s.uses.size() ? s.uses[s.next] : kNoInsn;
}

bool Spiller::bring_all() {
  for (const uint32_t t : pinned_)
    if (states_[t].address < 0 && !bring(t)) return false;
  return true;
}

// What is needed now lies so that nothing fits between: everything out, then the largest first.
std::optional<Diagnostic> Spiller::repack() {
  const auto begin = pinned_.begin() + ptrdiff_t(held_);
  std::vector<uint32_t> all;
  for (const auto& [address, taken] : free_space_.taken())
    if (std::find(pinned_.begin(), begin, taken.tensor) == begin) all.push_back(taken.tensor);
  for (const uint32_t t : all) send_away(t);
  std::stable_sort(begin, pinned_.end(), [&](uint32_t a, uint32_t b) { return ranges_[a].bytes > ranges_[b].bytes; });
  free_space_.rewind();
  for (const uint32_t t : pinned_) {
    if (states_[t].address >= 0 || bring(t)) continue;
    std::vector<LiveRange> live = free_space_.fixed_at(now_);
    for (const auto& [address, taken] : free_space_.taken()) live.push_back(ranges_[taken.tensor]);
    return does_not_fit(kernel_, ranges_[t], std::move(live), free_space_.limit());
  }
  return std::nullopt;
}

bool Spiller::bring(uint32_t t) {
  State& s = states_[t];
  LiveRange range = ranges_[t];
  range.first = now_;
  int64_t at = free_space_.find_next(range);
  if (at < 0 && make_room(range)) at = free_space_.find(range, 0);
  if (at < 0) return false;
  free_space_.put(range, at);
  s.address = at;
  if (s.begun) {  // it comes back, as a tensor of its own
    arch::Tensor again = program_.tensors[t];
    again.name += cat("_back", ++s.moves);
    s.instance = kernel_.builder.add_tensor(std::move(again));
    kernel_.origins.push_back(kernel_.origins[t]);
  }
  program_.tensors[s.instance].address = at;
  if (s.home >= 0)
    add_copies(t, false);
  else if (s.loaded)
    add_loads(t);
  s.begun = true;
  return true;
}

// Of all ranges that are long enough, the one whose tensors are needed again last or were used first; first among those
// that have not been used for as long as a transfer takes.
bool Spiller::make_room(const LiveRange& range) {
  const auto& taken = free_space_.taken();
  std::vector<int64_t> starts{0};
  for (const auto& [low, t] : taken) {
    starts.push_back(free_space_.align(low, range.bytes));
    starts.push_back(free_space_.align(t.high, range.bytes));
  }
  const double idle_since = elapsed_[now_] - lead_ns(range.tensor);
  Candidate best;
  for (const int64_t at : starts) {
    if (at + range.bytes > free_space_.limit() || free_space_.past_fixed(range, at) != at) continue;
    Candidate candidate{at, true, kNoInsn, {}};
    auto it = taken.upper_bound(at);
    if (it != taken.begin() && std::prev(it)->second.high > at) --it;
    for (; it != taken.end() && it->first < at + range.bytes; ++it) {
      const uint32_t t = it->second.tensor;
      const bool held = std::find(pinned_.begin(), pinned_.end(), t) != pinned_.end();
      candidate.use = std::min(candidate.use, held                             ? 0
                                              : leaver_ == Leaver::needed_last ? next_use(t)
                                                                               : now_ - states_[t].used);
      candidate.idle &= states_[t].used_ns <= idle_since;
      candidate.out.push_back(t);
    }
    if (candidate.use && candidate > best) best = std::move(candidate);
  }
  if (best.at < 0) return false;
  for (const uint32_t t : best.out) send_away(t);
  return true;
}

void Spiller::send_away(uint32_t t) {
  State& s = states_[t];
  if (s.changed) {
    if (s.home < 0) add_home(t);
    add_copies(t, true);
    s.changed = false;
  }
  free_space_.free(s.address);
  s.address = -1;
}

void Spiller::add_home(uint32_t t) {
  arch::Tensor home;
  home.name = program_.tensors[t].name + "_spill";
  home.space = Space::hbm;
  home.dtype = Dtype::u8;
  home.shape = {program_.tensors[t].shape[0], (ranges_[t].bytes + kRowStep - 1) / kRowStep * kRowStep};
  home.address = kernel_.builder.allocator.next(Space::hbm, 0);
  states_[t].home = kernel_.builder.add_tensor(std::move(home));
  kernel_.origins.push_back(kernel_.origins[t]);
}

// One transfer per region that was written.
void Spiller::add_copies(uint32_t t, bool out) {
  const State& s = states_[t];
  const int64_t row_bytes = program_.tensors[static_cast<size_t>(s.home)].shape[1];
  for (const auto& [region, bytes] : s.writes) {
    Operand here = region;
    here.tensor = s.instance;
    arch::Pattern a = program_.patterns[region.pattern];
    const int64_t row = row_bytes / (bits(a.dtype) / 8);
    a.partition_stride = row;
    const Operand there =
        kernel_.builder.tile(static_cast<uint32_t>(s.home), a, region.partition * row + region.offset);
    KernelInsn copy;
    copy.info = &copy_;
    copy.core = static_cast<uint8_t>(core_);
    copy.engines = arch::kSync | arch::kScalar;
    copy.attr = copy_attr_;
    copy.line = kernel_.origins[t].line;
    copy.operand = static_cast<uint32_t>(program_.operands.size());
    program_.operands.push_back(out ? there : here);
    program_.operands.push_back(out ? here : there);
    kernel_.insns.push_back(copy);
  }
}

void Spiller::add_loads(uint32_t t) {
  const State& s = states_[t];
  for (KernelInsn load : s.loads) {
    Operand dst = program_.operands[load.operand];
    const Operand src = program_.operands[load.operand + 1];
    dst.tensor = s.instance;
    load.operand = static_cast<uint32_t>(program_.operands.size());
    program_.operands.push_back(dst);
    program_.operands.push_back(src);
    kernel_.insns.push_back(load);
  }
}

void Spiller::note_writes(const KernelInsn& w) {
  for (size_t i = 0; i < w.info->slots.size(); ++i) {
    Operand o = program_.operands[w.operand + i];
    if (o.kind != OperandKind::tile || !w.info->slots[i].writes() || !ours(o.tensor)) continue;
    State& s = states_[o.tensor];
    if (s.loaded && repeatable_[now_])
      s.loads.push_back(w);
    else
      s.loaded = false, s.changed = true;
    const arch::Pattern a = program_.patterns[o.pattern];
    const arch::Tensor& t = program_.tensors[o.tensor];
    if (o.dynamic || a.step != decltype(a.step){}) {  // anywhere in the tensor
      arch::Pattern all;
      all.dtype = a.dtype;
      all.rank = 1;
      all.partitions = static_cast<uint16_t>(t.shape[0]);
      all.dims[0] = {1, static_cast<uint32_t>(ranges_[o.tensor].bytes / (bits(a.dtype) / 8))};
      o = kernel_.builder.tile(o.tensor, all);
    }
    Region r = region_of(program_, o, {});
    r.low -= t.address, r.high -= t.address;
    if (std::any_of(s.writes.begin(), s.writes.end(), [&](const Written& b) { return covers(b.region, r); })) continue;
    std::erase_if(s.writes, [&](const Written& b) { return covers(r, b.region); });
    s.writes.push_back({o, r});
  }
}

void Spiller::rewrite(const KernelInsn& w) {
  note_writes(w);
  for (size_t i = 0; i < w.info->slots.size(); ++i) {
    Operand& o = program_.operands[w.operand + i];
    if (o.kind != OperandKind::tile) continue;
    if (ours(o.tensor)) o.tensor = states_[o.tensor].instance;
    if (!o.dynamic) continue;
    const arch::Dynamic d = program_.dynamics[o.dynamic - 1];
    if (d.kind == arch::DynamicKind::reg || !ours(program_.operands[d.index].tensor)) continue;
    Operand index = program_.operands[d.index];
    index.tensor = states_[index.tensor].instance;
    const uint32_t dynamic = kernel_.builder.dynamic(d.kind, index, d.scale);
    program_.operands[w.operand + i].dynamic = dynamic;  // the pool may have moved
  }
}

void Spiller::report() {
  report_those([](const State& s) { return s.home >= 0; }, "spilled to hbm");
  report_those([](const State& s) { return s.home < 0 && s.moves; }, "dropped and loaded again");
}

template <class F>
void Spiller::report_those(F which, std::string_view fate) {
  std::string names;
  int count = 0;
  int64_t bytes = 0;
  for (uint32_t t = 0; t < states_.size(); ++t) {
    if (!which(states_[t])) continue;
    const uint32_t line = kernel_.origins[t].line;
    if (count++ < 3) {
      names += cat(count > 1 ? ", " : "", program_.tensors[t].name);
      if (line)
        names += cat(" (", program_.strings[program_.lines[line - 1].file], ":", program_.lines[line - 1].line, ")");
    }
    bytes += ranges_[t].bytes;
  }
  if (count)
    kernel_.messages.push_back(cat("sbuf: ", count, count == 1 ? " tensor was " : " tensors were ", fate, ", ", bytes,
                                   " bytes per partition in all: ", names, count > 3 ? ", …" : "",
                                   "; smaller tiles or fewer at once would avoid it"));
}

}  // namespace

std::optional<Diagnostic> spill(Kernel& kernel, FreeSpace free_space, int core, Leaver leaver) {
  return Spiller(kernel, std::move(free_space), core, leaver).run();
}

}  // namespace trine::compile
