// Addresses by lifetime; see place.h.
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

// One memory of one core: the tensors the user left to us, by their first use, and those he placed.
struct Demand {
  std::vector<Life> open, fixed;
};

Shelf with_fixed(Shelf shelf, const Demand& d, const arch::Program& p) {
  for (const Life& life : d.fixed) shelf.fix(life, p.tensors[life.tensor].address);
  return shelf;
}

// Those that live while so much is put that the round comes by again: they would be in its way.
std::vector<bool> stayers(const Demand& d, int64_t limit) {
  std::vector<int64_t> put(d.open.size() + 1, 0);  // bytes, before each
  for (size_t i = 0; i < d.open.size(); ++i) put[i + 1] = put[i] + d.open[i].bytes;
  std::vector<bool> out(d.open.size());
  for (size_t i = 0; i < d.open.size(); ++i) {
    const auto after = std::upper_bound(d.open.begin(), d.open.end(), d.open[i].last,
                                        [](uint32_t last, const Life& l) { return last < l.first; });
    out[i] = put[size_t(after - d.open.begin())] - put[i] >= limit;
  }
  return out;
}

// In the order of first use, round and round, what stays long at the end. False when one finds no room; `stuck` is then
// that one.
bool in_turn(arch::Program& p, Shelf& shelf, const Demand& d, Life& stuck) {
  using End = std::pair<uint32_t, int64_t>;  // last use, address
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const std::vector<bool> stays = stayers(d, shelf.limit());
  for (size_t i = 0; i < d.open.size(); ++i) {
    const Life& life = d.open[i];
    for (; !ends.empty() && ends.top().first < life.first; ends.pop()) shelf.free(ends.top().second);
    const int64_t at = stays[i] ? shelf.find_last(life) : shelf.find_next(life);
    if (at < 0) {
      stuck = life;
      return false;
    }
    stays[i] ? shelf.put_aside(life, at) : shelf.put(life, at);
    ends.push({life.last, at});
    p.tensors[life.tensor].address = at;
  }
  return true;
}

// Largest first, each at the lowest address where nothing that lives at the same time is.
bool tightly(arch::Program& p, const Shelf& empty, const Demand& d) {
  if (d.open.size() > kPackMax) return false;
  std::vector<Life> order = d.open;
  std::stable_sort(order.begin(), order.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::vector<Life> done;
  for (const Life& life : order) {
    Shelf shelf = empty;
    for (const Life& other : done)
      if (other.meets(life)) shelf.fix(other, p.tensors[other.tensor].address);
    const int64_t at = shelf.find(life, 0);
    if (at < 0) return false;
    p.tensors[life.tensor].address = at;
    done.push_back(life);
  }
  return true;
}

std::optional<Complaint> place_one(Kernel& kernel, const Demand& d, Space space, int core) {
  arch::Program& p = kernel.program();
  const Shelf empty = with_fixed(Shelf::of(*kernel.chip, space), d, p);
  Shelf shelf = empty;
  Life stuck;
  if (in_turn(p, shelf, d, stuck)) return std::nullopt;
  if (space == Space::psum) {
    if (tightly(p, empty, d)) return std::nullopt;
    std::vector<Life> living = shelf.fixed_at(stuck.first);
    for (const Life& life : d.open)
      if (life.first < stuck.first && life.last >= stuck.first) living.push_back(life);
    return does_not_fit(kernel, stuck, std::move(living), shelf.limit());
  }
  return spill(kernel, empty, core);
}

}  // namespace

Complaint does_not_fit(Kernel& kernel, const Life& life, std::vector<Life> living, int64_t limit) {
  const arch::Program& p = kernel.program();
  const Tensor& t = p.tensors[life.tensor];
  int64_t used = 0;
  for (const Life& l : living) used += l.bytes;
  std::stable_sort(living.begin(), living.end(), [](const Life& a, const Life& b) { return a.bytes > b.bytes; });
  std::string largest;
  for (size_t i = 0; i < std::min<size_t>(3, living.size()); ++i)
    largest += cat(i ? ", " : "", p.tensors[living[i].tensor].name, " ", living[i].bytes,
                   line_text(p, kernel.origins[living[i].tensor].line));
  Complaint c;
  c.code = Code::out_of_memory;
  c.rule = t.space == Space::sbuf ? "sbuf capacity" : "psum capacity";
  c.found = cat("`", t.name, "` needs ", life.bytes, " bytes per partition of ", name(t.space), " while ", used,
                " are in use");
  if (!largest.empty()) c.found += cat(", the most by ", largest);
  c.expected = cat("at most ", limit, " bytes per partition in use at once");
  c.fix = "use smaller tiles, or fewer that are needed at once";
  if (const uint32_t line = kernel.origins[life.tensor].line) {
    c.file = p.strings[p.lines[line - 1].file];
    c.line = p.lines[line - 1].line;
  }
  return c;
}

std::optional<Complaint> place(Kernel& kernel) {
  const auto demand = [&](Space space, int core) {
    Demand d;
    const arch::Program& p = kernel.program();
    for (const Life& life : lives_of(kernel)) {
      const Tensor& t = p.tensors[life.tensor];
      if (t.space != space || t.core != core || !life.used()) continue;
      (kernel.origins[life.tensor].placed ? d.fixed : d.open).push_back(life);
    }
    std::stable_sort(d.open.begin(), d.open.end(), [](const Life& a, const Life& b) { return a.first < b.first; });
    return d;
  };
  for (int core = 0; core < kernel.program().cores; ++core) {
    auto problem = place_one(kernel, demand(Space::psum, core), Space::psum, core);
    if (problem && reorder_for_psum(kernel, core, Shelf::of(*kernel.chip, Space::psum).limit())) {
      problem = place_one(kernel, demand(Space::psum, core), Space::psum, core);
      kernel.messages.push_back(
          "psum: more tensors are written than there is room for before they are read; readers "
          "were moved forward");
    }
    if (problem) return problem;
    if ((problem = place_one(kernel, demand(Space::sbuf, core), Space::sbuf, core))) return problem;
  }
  return std::nullopt;
}

}  // namespace trine::compile
