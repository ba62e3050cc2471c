// Which algorithm Neuron would take, by size and topology. Sizes from its page on collectives inside a node, measured
// there on 16 chips in a torus; the rest is chosen here and says so.
#include <algorithm>
#include <map>

#include "comm/build.h"
#include "comm/topology.h"

namespace trine::comm {

namespace {

constexpr int64_t kMeshBelow = 1'000'000;   // doc: mesh below 1 MB
constexpr int64_t kRingAbove = 56'000'000;  // doc: RDH from 1 to 56 MB, KangaRing above
constexpr int64_t kSmallNodes = 8;          // estimate: the page says small groups
constexpr int64_t kRingNodes = 16;          // estimate: the page says small to medium groups

bool has_switch(const arch::Instance& instance) {
  return std::any_of(instance.levels.begin(), instance.levels.end(),
                     [](const arch::Level& l) { return l.wiring == arch::Wiring::all_to_all; });
}

// What a step waits for inside a chip, whatever it moves.
double on_chip_ns(const arch::Chip& chip) {
  return chip.dma.start_sync_ns + chip.dma.completion_ns + chip.semaphore.latency_ns;
}

// How long the busiest wire takes when every chip sends every other one byte.
double wire_ns(const arch::Instance& instance, const std::vector<OnChip>& chips) {
  std::map<std::pair<int64_t, int64_t>, double> busy;
  for (const OnChip& from : chips)
    for (const OnChip& to : chips) {
      int64_t at = from.chip;
      for (const int64_t next : route(instance, from.chip, to.chip)) {
        const auto number = link_level(instance, at, next);
        const arch::Level& level = instance.levels[static_cast<size_t>(number)];
        const bool is_switch = level.wiring == arch::Wiring::all_to_all;  // whose wires are each chip's own
        busy[{at, is_switch ? -1 - number : next}] += 1 / level.link_bytes_per_ns;
        at = next;
      }
    }
  double most = 0;
  for (const auto& [wire, ns] : busy) most = std::max(most, ns);
  return most;
}

// The page's own rule: in one step when moving whole buffers takes less time than the steps it saves (saved_ns). What
// moves more than in a mesh is also combined by the DMA engines, and read and written by the stack; among two ranks
// nothing does, and their published times are those of one step. groups: chips or nodes of equally many ranks;
// byte_ns: of one byte from each of them to each other.
bool single_step_pays(const Cluster& cluster, int64_t bytes, int64_t ranks, int64_t groups, double saved_ns,
                      double byte_ns) {
  const arch::Chip& chip = *cluster.instance->chip;
  const double engines = chip.dma.rate_bytes_per_ns * static_cast<double>(chip.dma.engines_per_core * cluster.lnc);
  const double combine = 1 / (2 * chip.dma.compute_fraction);  // bytes an engine could have copied, for each combined
  const double n = static_cast<double>(ranks), b = static_cast<double>(bytes), each = n / static_cast<double>(groups);
  const double on_stack =
      std::clamp(static_cast<double>(chip.cores_per_stack()) / static_cast<double>(cluster.lnc), 1.0, each);
  const double moved = (n - 1) * b - 2 * (n - 1) / n * b;
  const double on_links = (each * each * b - 2 * each * b / n) * byte_ns;
  return std::max({moved * (1 + combine) / engines, 3 * moved * on_stack / chip.stack_bytes_per_ns(), on_links}) <=
         saved_ns;
}

Algorithm choose_in_node(const Cluster& cluster, const Party& party, const Request& request) {
  const std::vector<OnChip> by = by_chip(party);
  const int64_t chips = static_cast<int64_t>(by.size());
  const arch::Instance& instance = *cluster.instance;
  const bool mesh = chips == 1 || has_switch(instance) || request.bytes < kMeshBelow;
  if (mesh) {
    // A mesh sums and gathers: between chips once each, and within them where they have several ranks.
    const double within = on_chip_ns(*instance.chip);
    const double saved = chips == 1 ? within : instance.levels[0].hop_ns + (party.size() > chips ? 2 * within : 0);
    const bool single = request.kind == Collective::all_reduce &&
                        single_step_pays(cluster, request.bytes, party.size(), chips, saved, wire_ns(instance, by));
    return single ? Algorithm::single_step : Algorithm::mesh;
  }
  if (request.bytes <= kRingAbove && can_rdh(party)) return Algorithm::rdh;
  return can_kangaring(party) ? Algorithm::kangaring : Algorithm::ring;
}

}  // namespace

// doc: Neuron's page on collectives between nodes has the flat ring over all ranks on Trainium1 alone; nccom-test's
// two-node times there are those of its 126 steps.
bool flat_between_nodes(const arch::Instance& instance) { return instance.chip->generation <= 2; }

Algorithm choose_between_nodes(const Cluster& cluster, const Request& request, int64_t nodes, int64_t ranks_per_node) {
  const int64_t bytes = request.bytes / ranks_per_node;  // of one of the groups that run side by side
  const arch::Instance& instance = *cluster.instance;
  if (nodes <= kSmallNodes && bytes < kMeshBelow) {
    const bool single =
        request.kind == Collective::all_reduce &&
        single_step_pays(cluster, bytes, nodes, nodes, instance.network.hop_ns,
                         static_cast<double>((nodes - 1) * ranks_per_node) * 8 / instance.network.efa_gbps);
    return single ? Algorithm::single_step : Algorithm::mesh;
  }
  const bool power_of_two = (nodes & (nodes - 1)) == 0;
  const bool ring = nodes <= kRingNodes && bytes > kRingAbove;
  return power_of_two && !ring ? Algorithm::rdh : Algorithm::ring;
}

Algorithm choose(const Cluster& cluster, std::span<const Place> ranks, const Request& request) {
  if (ranks.size() < 2) return Algorithm::none;
  if (request.kind == Collective::all_to_all || request.kind == Collective::permute) return Algorithm::direct;
  const bool one_node = std::all_of(ranks.begin(), ranks.end(), [&](auto& p) { return p.node == ranks[0].node; });
  if (!one_node) return Algorithm::hierarchical;
  Party party;
  for (size_t r = 0; r < ranks.size(); ++r) party.ranks.push_back(static_cast<int32_t>(r));
  party.places.assign(ranks.begin(), ranks.end());
  return choose_in_node(cluster, party, request);
}

}  // namespace trine::comm
