// Ring and KangaRing, after Neuron's page on collectives inside a node: a chunk travels once round, by way of every
// rank (ring) or of one rank of each pair (KangaRing). Several closed walks run at once, each with its sub-chunk.
#include <algorithm>

#include "comm/build.h"

namespace trine::comm {

namespace {

int32_t wrap(int32_t v, int32_t n) { return ((v % n) + n) % n; }

// A ring's positions with the primary and the secondary of each.
struct Pairs {
  std::vector<int32_t> primary, secondary;
  int32_t size() const { return static_cast<int32_t>(primary.size()); }
  int32_t p(int32_t position) const { return primary[static_cast<size_t>(wrap(position, size()))]; }
  int32_t s(int32_t position) const { return secondary[static_cast<size_t>(wrap(position, size()))]; }
};

Pairs pairs_of(const std::vector<int32_t>& walk, bool flip) {
  Pairs out;
  for (size_t i = 0; i + 1 < walk.size(); i += 2) {
    out.primary.push_back(walk[i + (flip ? 1 : 0)]);
    out.secondary.push_back(walk[i + (flip ? 0 : 1)]);
  }
  return out;
}

// Calls body(sub-chunk, its walk) for each sub-chunk.
template <class Body>
void for_each_sub(const Party& party, const Walks& walks, Body body) {
  for (int32_t s = 0; s < party.subs; ++s) body(s, walks[static_cast<size_t>(s) % walks.size()]);
}

}  // namespace

Walks ring_walks(const Cluster& cluster, const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  std::vector<int64_t> numbers;
  for (const OnChip& c : chips) numbers.push_back(c.chip);
  const bool one_node =
      std::all_of(party.places.begin(), party.places.end(), [&](auto& p) { return p.node == party.places[0].node; });
  const auto cycles =
      one_node ? chip_cycles(*cluster.instance, numbers) : std::vector<std::vector<int64_t>>{std::move(numbers)};
  Walks out;
  for (const auto& cycle : cycles)
    for (const bool forward : {true, false}) {
      if (!forward && chips.size() < 3) continue;  // there and back are the same links
      std::vector<int32_t> walk;
      for (size_t i = 0; i < cycle.size(); ++i) {
        const size_t at = forward ? i : cycle.size() - 1 - i;
        // Over several nodes chip numbers repeat, and the walk is the order given.
        const auto found = one_node
                               ? std::find_if(chips.begin(), chips.end(), [&](auto& c) { return c.chip == cycle[at]; })
                               : chips.begin() + static_cast<ptrdiff_t>(at);
        walk.insert(walk.end(), found->members.begin(), found->members.end());
      }
      out.push_back(std::move(walk));
    }
  return out;
}

Steps ring_reduce_scatter(const Party& party, const Walks& walks) {
  const int32_t n = party.size();
  Steps steps(static_cast<size_t>(std::max(0, n - 1)));
  for (int32_t t = 0; t + 1 < n; ++t) {
    StepWriter w(party, steps[static_cast<size_t>(t)]);
    steps[static_cast<size_t>(t)].fused = t + 2 < n;
    for_each_sub(party, walks, [&](int32_t sub, const std::vector<int32_t>& walk) {
      const auto at = [&](int32_t i) { return walk[static_cast<size_t>(wrap(i, n))]; };
      for (int32_t i = 0; i < n; ++i) w.send(at(i), at(i + 1), at(i - 1 - t), sub, true);
    });
  }
  return steps;
}

Steps ring_all_gather(const Party& party, const Walks& walks) {
  const int32_t n = party.size();
  Steps steps(static_cast<size_t>(std::max(0, n - 1)));
  for (int32_t t = 0; t + 1 < n; ++t) {
    StepWriter w(party, steps[static_cast<size_t>(t)]);
    for_each_sub(party, walks, [&](int32_t sub, const std::vector<int32_t>& walk) {
      const auto at = [&](int32_t i) { return walk[static_cast<size_t>(wrap(i, n))]; };
      for (int32_t i = 0; i < n; ++i) w.send(at(i), at(i + 1), at(i - t), sub, false);
    });
  }
  return steps;
}

bool can_kangaring(const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  return chips.size() > 1 && std::all_of(chips.begin(), chips.end(), [&](const OnChip& c) {
           return c.members.size() % 2 == 0 && c.members.size() == chips[0].members.size();
         });
}

// The primary combines what came, its own and its peer's chunk in one pass (3R1W); at the end the peer gets its chunk.
Steps kangaring_reduce_scatter(const Party& party, const Walks& walks) {
  const int32_t n = party.size() / 2;
  Steps steps(static_cast<size_t>(n) + 1);
  for (int32_t t = -1; t < n; ++t) {
    Step& step = steps[static_cast<size_t>(t + 1)];
    StepWriter w(party, step);
    step.in_place = true;
    step.fused = t + 2 < n;
    for_each_sub(party, walks, [&](int32_t sub, const std::vector<int32_t>& walk) {
      const Pairs ring = pairs_of(walk, sub % 2 == 1);
      for (int32_t i = 0; i < n; ++i) {
        const int32_t position = t < 0 ? i - 1 : i - 1 - t;
        if (t == n - 1) w.send(ring.p(i), ring.s(i), ring.s(i), sub, false);
        if (t < n - 1)
          for (const int32_t chunk : {ring.p(position), ring.s(position)}) {
            const int32_t to = t < 0 ? i : i + 1;
            if (t >= 0) w.send(ring.p(i), ring.p(to), chunk, sub, true);
            w.send(ring.s(to), ring.p(to), chunk, sub, true);
          }
      }
    });
  }
  return steps;
}

// The primary sends its own and its peer's chunk on, then writes each chunk that comes both on and to its peer (1R2W).
Steps kangaring_all_gather(const Party& party, const Walks& walks) {
  const int32_t n = party.size() / 2;
  Steps steps(static_cast<size_t>(n));
  for (int32_t t = 0; t < n; ++t) {
    Step& step = steps[static_cast<size_t>(t)];
    StepWriter w(party, step);
    step.duplicates = true;
    for_each_sub(party, walks, [&](int32_t sub, const std::vector<int32_t>& walk) {
      const Pairs ring = pairs_of(walk, sub % 2 == 1);
      for (int32_t i = 0; i < n; ++i) {
        const int32_t p = ring.p(i), s = ring.s(i);
        if (t == 0) {
          w.send(s, p, s, sub, false);
          w.send(p, s, p, sub, false);
          w.send(s, ring.p(i + 1), s, sub, false);
          w.send(p, ring.p(i + 1), p, sub, false);
          continue;
        }
        for (const int32_t chunk : {ring.p(i - t), ring.s(i - t)}) {
          w.send(p, s, chunk, sub, false);
          if (t + 1 < n) w.send(p, ring.p(i + 1), chunk, sub, false);
        }
      }
    });
  }
  return steps;
}

}  // namespace trine::comm
