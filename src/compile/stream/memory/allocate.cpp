// Addresses by live range; see allocate.h.
#include "compile/stream/memory/allocate.h"

#include <algorithm>
#include <queue>

#include "base/text.h"
#include "compile/stream/memory/reorder.h"
#include "compile/stream/memory/spill.h"

namespace trine::compile {

using arch::Space;
using arch::Tensor;

namespace {

constexpr int64_t kShortBytes = 256;  // of SBUF's tensors, a partition: a column or a few
constexpr int kShortShare = 32;       // of SBUF, where these lie if apart
constexpr size_t kPackMax = 2048;     // tensors: packing compares each with each, and leaves nothing to load ahead into

std::string line_text(const arch::Program& p, uint32_t line) {
  return line ? cat(" (", p.strings[p.lines[line - 1].file], ":", p.lines[line - 1].line, ")") : std::string();
}

// One memory of one core: the tensors the user left to us, by their first use, and those with an address of the user's.
struct Demand {
  std::vector<LiveRange> open, fixed;
};

FreeSpace with_fixed(FreeSpace free_space, const Demand& d, const arch::Program& p) {
  for (const LiveRange& range : d.fixed) free_space.fix(range, p.tensors[range.tensor].address);
  return free_space;
}

// Those that live while so much is put that the round comes by again: they would be in its way.
std::vector<bool> stayers(const Demand& d, int64_t limit) {
  std::vector<int64_t> put(d.open.size() + 1, 0);  // bytes, before each
  for (size_t i = 0; i < d.open.size(); ++i) put[i + 1] = put[i] + d.open[i].bytes;
  std::vector<bool> out(d.open.size());
  for (size_t i = 0; i < d.open.size(); ++i) {
    const auto after = std::upper_bound(d.open.begin(), d.open.end(), d.open[i].last,
                                        [](uint32_t last, const LiveRange& l) { return last < l.first; });
    out[i] = put[size_t(after - d.open.begin())] - put[i] >= limit;
  }
  return out;
}

// In the order of first use, round and round, what stays long at the end. False when one finds no room; `stuck` is then
// that one.
bool in_order(arch::Program& p, FreeSpace& free_space, const Demand& d, LiveRange& stuck) {
  using End = std::pair<uint32_t, int64_t>;  // last use, address
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const std::vector<bool> stays = stayers(d, free_space.limit());
  for (size_t i = 0; i < d.open.size(); ++i) {
    const LiveRange& range = d.open[i];
    for (; !ends.empty() && ends.top().first < range.first; ends.pop()) free_space.free(ends.top().second);
    const int64_t at = stays[i] ? free_space.find_last(range) : free_space.find_next(range);
    if (at < 0) {
      stuck = range;
      return false;
    }
    stays[i] ? free_space.put_apart(range, at) : free_space.put(range, at);
    ends.push({range.last, at});
    p.tensors[range.tensor].address = at;
  }
  return true;
}

// Largest first, each at the lowest address where nothing that lives at the same time is.
bool tightly(arch::Program& p, const FreeSpace& empty, const Demand& d) {
  if (d.open.size() > kPackMax) return false;
  std::vector<LiveRange> order = d.open;
  std::stable_sort(order.begin(), order.end(),
                   [](const LiveRange& a, const LiveRange& b) { return a.bytes > b.bytes; });
  std::vector<LiveRange> done;
  for (const LiveRange& range : order) {
    FreeSpace free_space = empty;
    for (const LiveRange& other : done)
      if (other.meets(range)) free_space.fix(other, p.tensors[other.tensor].address);
    const int64_t at = free_space.find(range, 0);
    if (at < 0) return false;
    p.tensors[range.tensor].address = at;
    done.push_back(range);
  }
  return true;
}

// In order, but the short ones in a round of their own at the end of the memory, a share of it: between the long ones
// they leave gaps in which nothing fits, and where the round comes by again they wait for each other.
bool short_apart(arch::Program& p, const FreeSpace& empty, const Demand& d, int64_t bytes, int share) {
  const int64_t all = empty.limit(), end = all - all / share;
  Demand longer, shorter;
  for (const LiveRange& range : d.open) (range.bytes <= bytes ? shorter : longer).open.push_back(range);
  FreeSpace first = empty, second = empty;
  first.shrink(end);
  second.shrink(all - end);
  LiveRange stuck;
  if (!in_order(p, first, longer, stuck) || !in_order(p, second, shorter, stuck)) return false;
  for (const LiveRange& range : shorter.open) p.tensors[range.tensor].address += end;
  return true;
}

std::optional<Diagnostic> allocate_space(Kernel& kernel, const Demand& d, Space space, int core, int psum_share) {
  arch::Program& p = kernel.program();
  const FreeSpace empty = with_fixed(FreeSpace::of(*kernel.chip, space), d, p);
  FreeSpace free_space = empty;
  LiveRange stuck;
  if (space == Space::psum && psum_share && short_apart(p, empty, d, kernel.chip->psum.bank_bytes / 2, psum_share))
    return std::nullopt;
  if (in_order(p, free_space, d, stuck)) return std::nullopt;
  if (space == Space::psum) {
    if (tightly(p, empty, d)) return std::nullopt;
    std::vector<LiveRange> live = free_space.fixed_at(stuck.first);
    for (const LiveRange& range : d.open)
      if (range.first < stuck.first && range.last >= stuck.first) live.push_back(range);
    return does_not_fit(kernel, stuck, std::move(live), free_space.limit());
  }
  if (kernel.middle_end && d.fixed.empty() &&
      (short_apart(p, empty, d, kShortBytes, kShortShare) || tightly(p, empty, d)))
    return std::nullopt;
  return spill(kernel, empty, core, kernel.middle_end ? Leaver::used_first : Leaver::needed_last);
}

}  // namespace

Diagnostic does_not_fit(Kernel& kernel, const LiveRange& range, std::vector<LiveRange> live, int64_t limit) {
  const arch::Program& p = kernel.program();
  const Tensor& t = p.tensors[range.tensor];
  int64_t used = 0;
  for (const LiveRange& l : live) used += l.bytes;
  std::stable_sort(live.begin(), live.end(), [](const LiveRange& a, const LiveRange& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (size_t i = 0; i < std::min<size_t>(3, live.size()); ++i)
    largest += cat(i ? ", " : "", p.tensors[live[i].tensor].name, " ", live[i].bytes,
                   line_text(p, kernel.origins[live[i].tensor].line));
  Diagnostic c;
  c.code = Code::out_of_memory;
  c.rule = t.space == Space::sbuf ? "sbuf capacity" : "psum capacity";
  c.found = cat("`", t.name, "` needs ", range.bytes, " bytes per partition of ", name(t.space), " while ", used,
                " are in use");
  if (!largest.empty()) c.found += cat(", the most by ", largest);
  c.expected = cat("at most ", limit, " bytes per partition in use at once");
  c.fix = "use smaller tiles, or fewer that are needed at once";
  if (const uint32_t line = kernel.origins[range.tensor].line) {
    c.file = p.strings[p.lines[line - 1].file];
    c.line = p.lines[line - 1].line;
  }
  return c;
}

bool psum_has_both(const Kernel& kernel) {
  bool any_short = false, any_long = false;
  const arch::Program& p = kernel.program();
  for (size_t t = 0; t < p.tensors.size(); ++t) {
    if (p.tensors[t].space != Space::psum) continue;
    if (kernel.origins[t].fixed_address) return false;
    (2 * arch::bytes_per_partition(p.tensors[t]) <= kernel.chip->psum.bank_bytes ? any_short : any_long) = true;
  }
  return any_short && any_long;
}

std::optional<Diagnostic> allocate(Kernel& kernel, int psum_share) {
  const auto demand = [&](Space space, int core) {
    Demand d;
    const arch::Program& p = kernel.program();
    for (const LiveRange& range : live_ranges_of(kernel)) {
      const Tensor& t = p.tensors[range.tensor];
      if (t.space != space || t.core != core || !range.used()) continue;
      (kernel.origins[range.tensor].fixed_address ? d.fixed : d.open).push_back(range);
    }
    std::stable_sort(d.open.begin(), d.open.end(),
                     [](const LiveRange& a, const LiveRange& b) { return a.first < b.first; });
    return d;
  };
  for (int core = 0; core < kernel.program().cores; ++core) {
    auto problem = allocate_space(kernel, demand(Space::psum, core), Space::psum, core, psum_share);
    if (problem && reorder_for_psum(kernel, core, FreeSpace::of(*kernel.chip, Space::psum).limit())) {
      problem = allocate_space(kernel, demand(Space::psum, core), Space::psum, core, psum_share);
      kernel.messages.push_back(
          "psum: more tensors are written than there is room for before they are read; readers "
          "were moved forward");
    }
    if (problem) return problem;
    if ((problem = allocate_space(kernel, demand(Space::sbuf, core), Space::sbuf, core, 0))) return problem;
  }
  return std::nullopt;
}

}  // namespace trine::compile
