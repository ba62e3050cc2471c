// Places of ranks, and walks over their chips; see placement.h.
#include "comm/placement.h"

#include <algorithm>

#include "comm/topology.h"

namespace trine::comm {

Place place_of(const Cluster& cluster, int64_t rank) {
  const int64_t chip = rank / cluster.ranks_per_chip();
  return {chip / cluster.instance->chips, chip % cluster.instance->chips, rank % cluster.ranks_per_chip()};
}

std::vector<Place> first_ranks(const Cluster& cluster, int64_t count) {
  std::vector<Place> out;
  for (int64_t r = 0; r < count; ++r) out.push_back(place_of(cluster, r));
  return out;
}

std::vector<std::vector<Place>> groups_of(const Cluster& cluster, int64_t size, int64_t stride) {
  std::vector<std::vector<Place>> out;
  for (int64_t first = 0; first + size * stride <= cluster.ranks(); first += size * stride)
    for (int64_t s = 0; s < stride; ++s) {
      out.emplace_back();
      for (int64_t i = 0; i < size; ++i) out.back().push_back(place_of(cluster, first + s + i * stride));
    }
  return out;
}

std::vector<std::vector<int64_t>> chip_cycles(const arch::Instance& instance, const std::vector<int64_t>& chips) {
  std::vector<int64_t> sorted = chips;
  std::sort(sorted.begin(), sorted.end());
  const bool whole = static_cast<int64_t>(chips.size()) == instance.chips && instance.chips > 1;
  if (!whole || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return {chips};
  std::vector<std::vector<int64_t>> out;
  for (int which = 0; which < ring_count(instance.levels[0]); ++which) {
    std::vector<int64_t> walk = ring(instance.levels[0], which);
    int64_t inner = instance.levels[0].size();
    for (size_t l = 1; l < instance.levels.size(); ++l) {  // there and back, index by index of the outer level
      const std::vector<int64_t> once = walk;
      walk.clear();
      for (int64_t at_level = 0; at_level < instance.levels[l].size(); ++at_level)
        for (size_t i = 0; i < once.size(); ++i)
          walk.push_back(at_level * inner + once[at_level % 2 == 0 ? i : once.size() - 1 - i]);
      inner *= instance.levels[l].size();
    }
    out.push_back(std::move(walk));
  }
  if (out.empty()) out.push_back(chips);
  return out;
}

}  // namespace trine::comm
