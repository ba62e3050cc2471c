// Mesh, after Neuron's page on collectives inside a node: chips exchange directly, by way of routing, then the ranks of
// each chip do. One rank of a chip stands for all of them towards each other chip, so that work is shared evenly.
#include "comm/build.h"

namespace trine::comm {

namespace {

int32_t one_of(const OnChip& chip, size_t number) { return chip.members[number % chip.members.size()]; }

}  // namespace

Steps mesh_reduce_scatter(const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  Steps steps(chips.size() > 1 ? 2 : 1);
  steps[0].in_place = true;
  steps[0].fused = chips.size() > 1;
  StepWriter first(party, steps[0]), second(party, steps.back());
  for (const OnChip& home : chips)
    for (const int32_t owner : home.members)
      for (const OnChip& chip : chips) {
        const int32_t collector = &chip == &home ? owner : one_of(chip, static_cast<size_t>(owner));
        for (const int32_t m : chip.members)
          if (m != collector) first.send(m, collector, owner, true);
        if (&chip != &home) second.send(collector, owner, owner, true);
      }
  return steps;
}

Steps mesh_all_gather(const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  Steps steps(chips.size() > 1 ? 2 : 1);
  StepWriter first(party, steps[0]), second(party, steps.back());
  for (size_t a = 0; a < chips.size(); ++a)
    for (const int32_t owner : chips[a].members)
      for (const OnChip& chip : chips) {
        const bool is_home = &chip == &chips[a];
        const int32_t holder = is_home ? owner : one_of(chip, a);
        if (!is_home) first.send(owner, holder, owner, false);
        for (const int32_t m : chip.members)
          if (m != holder) second.send(holder, m, owner, false);
      }
  if (chips.size() > 1 && steps[1].moves.empty()) steps.pop_back();  // one rank a chip
  return steps;
}

Steps single_step_all_reduce(const Party& party) {
  Steps steps(1);
  StepWriter w(party, steps[0]);
  for (int32_t from = 0; from < party.size(); ++from)
    for (int32_t to = 0; to < party.size(); ++to)
      if (from != to) w.send_all(from, to, true);
  return steps;
}

Steps mesh_broadcast(const Party& party, int32_t root) {
  const std::vector<OnChip> chips = by_chip(party);
  Steps steps(chips.size() > 1 ? 2 : 1);
  StepWriter first(party, steps[0]), second(party, steps.back());
  for (const OnChip& chip : chips) {
    int32_t holder = chip.members[0];
    for (const int32_t m : chip.members)
      if (m == root) holder = root;
    if (holder != root) first.send_all(root, holder, false);
    for (const int32_t m : chip.members)
      if (m != holder) second.send_all(holder, m, false);
  }
  if (chips.size() > 1 && steps[1].moves.empty()) steps.pop_back();
  return steps;
}

Steps scatter(const Party& party, int32_t root) {
  Steps steps(1);
  StepWriter w(party, steps[0]);
  for (int32_t m = 0; m < party.size(); ++m)
    if (m != root) w.send(root, m, m, false);
  return steps;
}

}  // namespace trine::comm
