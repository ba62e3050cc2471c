// Bytes held at each instruction, and who waits where most are; see leavers.h.
#include "compile/stream/memory/leavers.h"

#include <algorithm>
#include <map>

namespace trine::compile {

namespace {

struct Gap {
  uint32_t begin = 0, end = 0;  // instructions in between, end excluded
};

// Tiles of one line that live at the same time.
struct Group {
  std::vector<uint32_t> tensors;
  uint32_t last = 0;
  double cost = 0, freed = 0;  // bytes moved; bytes times ns
  bool leaves = false;
};

class Finder {
 public:
  Finder(const Kernel& kernel, const std::vector<LiveRange>& ranges, const std::vector<Uses>& uses,
         const std::vector<double>& elapsed)
      : kernel_(kernel), ranges_(ranges), uses_(uses), elapsed_(elapsed), gaps_(uses.size()) {
    held_.assign(kernel.insns.size() + 1, 0);
    waiting_ = held_;
    for (uint32_t t = 0; t < uses_.size(); ++t) {
      if (uses_[t].insns.empty()) continue;
      find_gaps(t);
      add(held_, {uses_[t].insns.front(), uses_[t].insns.back() + 1}, ranges_[t].bytes);
    }
    find_groups();
  }

  std::vector<char> run(int64_t limit) {
    std::vector<char> out(uses_.size());
    while (true) {
      const uint32_t at = most_held(limit);
      if (at == kNoInsn) return out;
      Group* best = nullptr;
      for (Group& g : groups_)
        if (!g.leaves && waits(g, at) && (!best || g.cost * best->freed < best->cost * g.freed)) best = &g;
      best->leaves = true;
      for (const uint32_t t : best->tensors) {
        out[t] = 1;
        for (const Gap& gap : gaps_[t]) add(held_, gap, -ranges_[t].bytes), add(waiting_, gap, -1);
      }
    }
  }

 private:
  static void add(std::vector<int64_t>& to, const Gap& span, int64_t n) { to[span.begin] += n, to[span.end] -= n; }

  void find_gaps(uint32_t t) {
    const Uses& u = uses_[t];
    for (size_t i = 0; i + 1 < u.insns.size(); ++i)
      if (elapsed_[u.insns[i + 1]] - elapsed_[u.insns[i]] > u.lead_ns)
        add(waiting_, gaps_[t].emplace_back(Gap{u.insns[i] + 1, u.insns[i + 1]}), 1);
  }

  void find_groups() {
    std::vector<uint32_t> order;
    for (uint32_t t = 0; t < uses_.size(); ++t)
      if (!gaps_[t].empty()) order.push_back(t);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return uses_[a].insns.front() < uses_[b].insns.front(); });
    std::map<std::pair<uint32_t, int64_t>, size_t> open;  // by line and size: the group that came last
    for (const uint32_t t : order) {
      const std::pair key{kernel_.origins[t].line, ranges_[t].bytes};
      auto it = open.find(key);
      if (!key.first || it == open.end() || groups_[it->second].last < uses_[t].insns.front()) {
        it = open.insert_or_assign(key, groups_.size()).first;
        groups_.emplace_back();
      }
      Group& g = groups_[it->second];
      g.tensors.push_back(t);
      g.last = std::max(g.last, uses_[t].insns.back());
      g.cost += cost(t);
      for (const Gap& gap : gaps_[t]) g.freed += double(uses_[t].bytes) * (elapsed_[gap.end] - elapsed_[gap.begin - 1]);
    }
  }

  // Bytes moved: back in after each gap, and out before it where something was written since the last.
  double cost(uint32_t t) const {
    const Uses& u = uses_[t];
    size_t saves = 0, i = 0;
    for (const Gap& gap : gaps_[t]) {
      bool changed = false;
      for (; i < u.insns.size() && u.insns[i] < gap.begin; ++i) changed |= u.writes[i];
      saves += changed && !u.is_loaded;
    }
    return double(u.bytes) * double(gaps_[t].size() + saves);
  }

  bool waits(const Group& g, uint32_t at) const {
    return std::any_of(g.tensors.begin(), g.tensors.end(), [&](uint32_t t) {
      const auto after = std::upper_bound(gaps_[t].begin(), gaps_[t].end(), at,
                                          [](uint32_t w, const Gap& gap) { return w < gap.begin; });
      return after != gaps_[t].begin() && at < std::prev(after)->end;
    });
  }

  // Where most is held, more than the limit, and somebody waits who may leave.
  uint32_t most_held(int64_t limit) const {
    int64_t now = 0, waiting = 0, most = limit;
    uint32_t at = kNoInsn;
    for (uint32_t w = 0; w < kernel_.insns.size(); ++w) {
      now += held_[w], waiting += waiting_[w];
      if (now > most && waiting > 0) most = now, at = w;
    }
    return at;
  }

  const Kernel& kernel_;
  const std::vector<LiveRange>& ranges_;
  const std::vector<Uses>& uses_;
  const std::vector<double>& elapsed_;
  std::vector<std::vector<Gap>> gaps_;  // of each tensor
  std::vector<int64_t> held_;           // of each instruction: bytes per partition more than before it
  std::vector<int64_t> waiting_;        // of each instruction: tensors that wait, more than before it
  std::vector<Group> groups_;
};

}  // namespace

std::vector<char> find_leavers(const Kernel& kernel, const std::vector<LiveRange>& ranges,
                               const std::vector<Uses>& uses, const std::vector<double>& elapsed, int64_t limit) {
  return Finder(kernel, ranges, uses, elapsed).run(limit);
}

}  // namespace trine::compile
