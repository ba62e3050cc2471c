// Who is wired to whom: neighbours, distances, routes and rings over an instance's levels. Times nothing, sends
// nothing. A chip's number counts the innermost level fastest: chip = index in level 0 + size 0 * (index in level 1 +
// …).
#pragma once

#include <cstdint>
#include <vector>

#include "arch/instances/instance.h"
#include "base/result.h"

namespace trine::comm {

struct Neighbour {
  int64_t chip = 0;
  int level = 0;  // of instance.levels, which has the link's rate and latency
};

// In the order the driver lists them: on a torus up, left, down, right; on a ring or line the one before, the one
// after. Through a switch every chip of the same group is a neighbour.
std::vector<Neighbour> neighbours(const arch::Instance& instance, int64_t chip);

// Chips after `from` up to and including `to`: one hop through a switch, else innermost level first and the shorter way
// round; empty when they are equal.
std::vector<int64_t> route(const arch::Instance& instance, int64_t from, int64_t to);
int64_t hops(const arch::Instance& instance, int64_t from, int64_t to);
// The outermost level at which two chips differ: that of the link between neighbours. -1 for a chip and itself.
int link_level(const arch::Instance& instance, int64_t a, int64_t b);

// A closed walk through all chips of one level, each once, over its links. A square torus has two that share no link
// (`which` 0 and 1). A line's walk is not closed; a torus with odd, unequal sides has none that we build: empty.
std::vector<int64_t> ring(const arch::Level& level, int which = 0);
int ring_count(const arch::Level& level);

}  // namespace trine::comm
