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

constexpr size_t kPackMax = 2048;  // tensors: packing compares each with each, and leaves nothing to load ahead into

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

// Of each tensor: no byte of it is read twice.
std::vector<char> streamed_tensors(const Kernel& kernel) {
  const arch::Program& p = kernel.program();
  std::vector<int64_t> left;  // bytes that no one has read
  for (const Tensor& t : p.tensors) left.push_back(t.space == Space::sbuf ? arch::tensor_bytes(t) : 0);
  for (const KernelInsn& w : kernel.insns)
    for (size_t s = 0; s < w.info->slots.size(); ++s) {
      const arch::Operand& o = p.operands[w.operand + s];
      if (o.kind != arch::OperandKind::tile || w.info->slots[s].writes()) continue;
      const arch::Pattern& pattern = p.patterns[o.pattern];
      left[o.tensor] -= pattern.elements() * bits(pattern.dtype) / 8;
    }
  std::vector<char> out;
  for (const int64_t bytes : left) out.push_back(bytes >= 0);
  return out;
}

// What Neuron's tensorizer leaves of SBUF for one copy of everything: tiles that stream through lie there twice, so
// that the next comes while one is used. All of it where there is room for that anyway, and where no more stays than
// streams through: those that leave would be the streaming ones.
int64_t limit_of(const Kernel& kernel, const Demand& d, int64_t limit) {
  const std::vector<char> streamed = streamed_tensors(kernel);
  struct Change {
    uint32_t at = 0;
    int64_t bytes = 0, again = 0;
    bool operator<(const Change& o) const { return at != o.at ? at < o.at : bytes < o.bytes; }
  };
  std::vector<Change> changes;
  for (const LiveRange& r : d.open) {
    const int64_t again = streamed[r.tensor] ? r.bytes : 0;
    changes.push_back({r.first, r.bytes, again});
    changes.push_back({r.last + 1, -r.bytes, -again});
  }
  std::sort(changes.begin(), changes.end());
  int64_t held = 0, streams = 0, most = 0, room = limit;
  for (const Change& c : changes) {
    held += c.bytes, streams += c.again;
    if (held + streams <= most) continue;
    most = held + streams;
    room = held > 2 * streams ? limit - streams : limit;
  }
  return most <= limit ? limit : room;
}

// By the rules of Neuron's tensorizer, or nothing where they leave too little room.
bool spill_as_neuron(Kernel& kernel, const Demand& d, int core) {
  FreeSpace free_space = FreeSpace::of(*kernel.chip, Space::sbuf);
  const int64_t room = limit_of(kernel, d, free_space.limit());
  if (room == free_space.limit()) return false;
  free_space.shrink(room);
  Kernel before = kernel;
  if (!spill(kernel, with_fixed(std::move(free_space), d, kernel.program()), core, Leaver::used_first)) return true;
  kernel = std::move(before);
  return false;
}

std::optional<Diagnostic> allocate_space(Kernel& kernel, const Demand& d, Space space, int core) {
  arch::Program& p = kernel.program();
  if (space == Space::sbuf && kernel.middle_end && d.fixed.empty() && spill_as_neuron(kernel, d, core))
    return std::nullopt;
  const FreeSpace empty = with_fixed(FreeSpace::of(*kernel.chip, space), d, p);
  FreeSpace free_space = empty;
  LiveRange stuck;
  if (in_order(p, free_space, d, stuck)) return std::nullopt;
  if (space == Space::psum) {
    if (tightly(p, empty, d)) return std::nullopt;
    std::vector<LiveRange> live = free_space.fixed_at(stuck.first);
    for (const LiveRange& range : d.open)
      if (range.first < stuck.first && range.last >= stuck.first) live.push_back(range);
    return does_not_fit(kernel, stuck, std::move(live), free_space.limit());
  }
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

std::optional<Diagnostic> allocate(Kernel& kernel) {
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
    auto problem = allocate_space(kernel, demand(Space::psum, core), Space::psum, core);
    if (problem && reorder_for_psum(kernel, core, FreeSpace::of(*kernel.chip, Space::psum).limit())) {
      problem = allocate_space(kernel, demand(Space::psum, core), Space::psum, core);
      kernel.messages.push_back(
          "psum: more tensors are written than there is room for before they are read; readers "
          "were moved forward");
    }
    if (problem) return problem;
    if ((problem = allocate_space(kernel, demand(Space::sbuf, core), Space::sbuf, core))) return problem;
  }
  return std::nullopt;
}

}  // namespace trine::compile
