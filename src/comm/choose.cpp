// Which algorithm Neuron would take, by size and topology. Sizes from its page on collectives inside a node, measured
// there on 16 chips in a torus; the rest is chosen here and says so.
#include <algorithm>

#include "comm/build.h"

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

// The page's own rule: in one step when moving whole buffers takes less time than the steps it saves.
bool single_step_pays(const Cluster& cluster, int64_t bytes, int64_t ranks, int64_t chips, double hop_ns,
                      double chip_bytes_per_ns) {
  const auto& dma = cluster.instance->chip->dma;
  const double rate = dma.rate_bytes_per_ns * static_cast<double>(dma.engines_per_core * cluster.lnc);
  const double n = static_cast<double>(ranks), b = static_cast<double>(bytes);
  const double extra = (n - 1) * b - 2 * (n - 1) / n * b;
  double ns = extra / rate;
  if (chips > 1) ns = std::max(ns, extra * n / static_cast<double>(chips) / chip_bytes_per_ns);
  return ns <= hop_ns;
}

Algorithm choose_in_node(const Cluster& cluster, const Party& party, const Request& request) {
  const int64_t chips = static_cast<int64_t>(by_chip(party).size());
  const arch::Instance& instance = *cluster.instance;
  const bool mesh = chips == 1 || has_switch(instance) || request.bytes < kMeshBelow;
  if (mesh) {
    const double out =
        chips == 1 ? 0
                   : instance.levels[0].link_bytes_per_ns * (instance.levels[0].wiring == arch::Wiring::torus ? 4 : 2);
    const double saved = instance.chip->link.hop_ns * (chips == 1 ? 1 : 3);
    const bool single = request.kind == Collective::all_reduce &&
                        single_step_pays(cluster, request.bytes, party.size(), chips, saved, out);
    return single ? Algorithm::single_step : Algorithm::mesh;
  }
  if (request.bytes <= kRingAbove && can_rdh(party)) return Algorithm::rdh;
  return can_kangaring(party) ? Algorithm::kangaring : Algorithm::ring;
}

}  // namespace

Algorithm choose_between_nodes(const Cluster& cluster, const Request& request, int64_t nodes, int64_t ranks_per_node) {
  const int64_t bytes = request.bytes / ranks_per_node;  // of one of the groups that run side by side
  const arch::Instance& instance = *cluster.instance;
  if (nodes <= kSmallNodes && bytes < kMeshBelow) {
    const bool single = request.kind == Collective::all_reduce &&
                        single_step_pays(cluster, bytes, nodes, nodes, instance.network.hop_ns,
                                         instance.network.efa_gbps / 8 / static_cast<double>(ranks_per_node));
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
