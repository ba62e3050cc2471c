// Recursive doubling and halving, after Neuron's page on collectives inside a node: chips are corners of a cube, whose
// axes are walked one after the other; a side of four chips in a ring is two axes, numbered so that corners beside each
// other are chips beside each other (Gray code). Ranks of equal position on their chips work together.
#include <algorithm>
#include <bit>

#include "comm/build.h"

namespace trine::comm {

namespace {

// Corner of a chip, and back: each side's coordinate in Gray code, side by side.
struct Cube {
  explicit Cube(std::span<const int64_t> sides) {
    for (const int64_t side : sides) axes_of_side.push_back(std::countr_zero(static_cast<uint64_t>(side)));
    for (const int a : axes_of_side) axes += a;
  }
  uint64_t corner(uint64_t chip) const {
    uint64_t out = 0;
    int at = 0;
    for (const int a : axes_of_side) {
      const uint64_t coordinate = chip >> at & ((uint64_t{1} << a) - 1);
      out |= (coordinate ^ coordinate >> 1) << at;
      at += a;
    }
    return out;
  }
  std::vector<int> axes_of_side = {};
  int axes = 0;
};

struct Plan {
  std::vector<OnChip> chips;
  std::vector<size_t> chip_at;   // of a corner
  std::vector<uint64_t> corner;  // of a chip
  int axes = 0;
};

Plan plan_of(const Party& party, std::span<const int64_t> sides) {
  Plan p{by_chip(party), {}, {}, 0};
  const Cube cube(sides);
  p.axes = cube.axes;
  p.chip_at.resize(p.chips.size());
  for (size_t c = 0; c < p.chips.size(); ++c) {
    p.corner.push_back(cube.corner(c));
    p.chip_at[p.corner[c]] = c;
  }
  return p;
}

// The axis that ranks of position `local` take in phase `phase`; each position begins with another, so that all links
// of a chip are in use at once. `done`: the axes they took before.
struct Phase {
  uint64_t axis = 0, done = 0;
};
Phase phase_of(const Plan& p, size_t local, size_t locals, int phase) {
  const int shift = static_cast<int>(local) * std::max(1, p.axes / static_cast<int>(locals));
  Phase out;
  for (int t = 0; t <= phase; ++t) {
    out.done |= out.axis;
    out.axis = uint64_t{1} << (t + shift) % p.axes;
  }
  return out;
}

}  // namespace

bool can_rdh(const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  return chips.size() > 1 && std::has_single_bit(chips.size()) &&
         std::all_of(chips.begin(), chips.end(),
                     [&](const OnChip& c) { return c.members.size() == chips[0].members.size(); });
}

std::vector<int64_t> rdh_sides(const arch::Instance& instance, const Party& party) {
  const std::vector<OnChip> chips = by_chip(party);
  int64_t left = static_cast<int64_t>(chips.size());
  bool in_order = true;
  for (size_t c = 1; c < chips.size(); ++c) in_order &= chips[c].chip == chips[c - 1].chip + 1;
  std::vector<int64_t> out;
  for (const arch::Level& level : instance.levels)
    for (size_t s = level.sides.size(); s-- > 0 && in_order;) {
      if (left == 1 || left % level.sides[s] != 0 || !std::has_single_bit(static_cast<uint64_t>(level.sides[s]))) break;
      out.push_back(level.sides[s]);
      left /= level.sides[s];
    }
  if (left > 1) out.push_back(left);
  return out;
}

Steps rdh_reduce_scatter(const Party& party, std::span<const int64_t> sides) {
  const Plan p = plan_of(party, sides);
  const size_t local = p.chips[0].members.size();
  Steps steps;
  if (local > 1) {
    StepWriter w(party, steps.emplace_back());
    steps[0].in_place = steps[0].fused = true;
    for (const OnChip& chip : p.chips)
      for (size_t l = 0; l < local; ++l)
        for (size_t x = 0; x < local; ++x)
          for (const OnChip& home : p.chips)
            if (x != l) w.send(chip.members[x], chip.members[l], home.members[l], true);
  }
  for (int phase = 0; phase < p.axes; ++phase) {
    Step& step = steps.emplace_back();
    step.fused = phase + 1 < p.axes;
    StepWriter w(party, step);
    for (size_t c = 0; c < p.chips.size(); ++c)
      for (size_t l = 0; l < local; ++l) {
        const Phase t = phase_of(p, l, local, phase);
        const uint64_t other = p.corner[c] ^ t.axis;
        for (size_t home = 0; home < p.chips.size(); ++home)
          if (((p.corner[home] ^ other) & (t.done | t.axis)) == 0)
            w.send(p.chips[c].members[l], p.chips[p.chip_at[other]].members[l], p.chips[home].members[l], true);
      }
  }
  return steps;
}

Steps rdh_all_gather(const Party& party, std::span<const int64_t> sides) {
  const Plan p = plan_of(party, sides);
  const size_t local = p.chips[0].members.size();
  Steps steps;
  for (int phase = p.axes; phase-- > 0;) {
    StepWriter w(party, steps.emplace_back());
    for (size_t c = 0; c < p.chips.size(); ++c)
      for (size_t l = 0; l < local; ++l) {
        const Phase t = phase_of(p, l, local, phase);
        const size_t other = p.chip_at[p.corner[c] ^ t.axis];
        for (size_t home = 0; home < p.chips.size(); ++home)
          if (((p.corner[home] ^ p.corner[c]) & (t.done | t.axis)) == 0)
            w.send(p.chips[c].members[l], p.chips[other].members[l], p.chips[home].members[l], false);
      }
  }
  if (local > 1) {
    StepWriter w(party, steps.emplace_back());
    for (const OnChip& chip : p.chips)
      for (size_t l = 0; l < local; ++l)
        for (size_t x = 0; x < local; ++x)
          for (const OnChip& home : p.chips)
            if (x != l) w.send(chip.members[l], chip.members[x], home.members[l], false);
  }
  return steps;
}

}  // namespace trine::comm
