// Where ranks are: a cluster of equal instances, joined by the network, and the logical core of each rank.
// Not the wires inside an instance: those are topology.h.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/instances/instance.h"

namespace trine::comm {

struct Cluster {
  const arch::Instance* instance = nullptr;
  int64_t nodes = 1;  // equal instances, reached over their network
  int64_t lnc = 1;    // physical cores in a logical one

  int64_t ranks_per_chip() const { return instance->chip->cores / lnc; }
  int64_t ranks_per_node() const { return instance->chips * ranks_per_chip(); }
  int64_t ranks() const { return nodes * ranks_per_node(); }
};

struct Place {
  int64_t node = 0, chip = 0, core = 0;  // core: logical, of the chip

  bool operator==(const Place&) const = default;
};

// The place of a logical core, counted over chips, then nodes, as devices are.
Place place_of(const Cluster& cluster, int64_t rank);
std::vector<Place> first_ranks(const Cluster& cluster, int64_t count);
// All ranks in groups of `size`: neighbours in one group (stride 1), or every stride-th, as data-parallel groups are.
std::vector<std::vector<Place>> groups_of(const Cluster& cluster, int64_t size, int64_t stride = 1);

// Closed walks over these chips of an instance, each chip once; two that share no link where all of a square torus is
// walked. Without one over links alone, the order given.
std::vector<std::vector<int64_t>> chip_cycles(const arch::Instance& instance, const std::vector<int64_t>& chips);

}  // namespace trine::comm
