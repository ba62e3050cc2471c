// Adds up what each step asks of each resource; see collective.h. How memory is passed over (which reads and writes a
// move costs) follows Neuron's page on collectives: 2R1W for a ring's sum, 3R1W and 1R2W for KangaRing's.
#include "sim/cluster/collective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/text.h"
#include "comm/topology.h"

namespace trine::sim {

namespace {

using comm::Cluster;
using comm::Move;
using comm::Place;
using comm::Schedule;
using comm::Step;

constexpr std::string_view kLimitNames[] = {"latency", "link", "network", "dma", "hbm"};

// Read off nccom-test's all-reduce of 64 ranks on two trn1.32xlarge, a ring of 126 steps: 520 us at 16 bytes, 1,315 at
// 64 KiB and hardly more at 1 MiB, 11,954 at 256 MiB, of which 57 are launch and start. A message follows the last one
// over the network no sooner than the gap, which grows with its size up to 1 KiB; the rest of the time is half the
// network's published rate.
constexpr double kGapLeastNs = 3670, kGapMostNs = 9980, kGapMostBytes = 1024;
constexpr double kNetworkShare = 0.5;
// Read off nccom-test's two-rank all-reduce: up to 4 MiB its five passes over HBM account for it, and what is beyond
// takes two more, which a copy into a buffer of the runtime's would be.
constexpr double kStagedAbove = 4 << 20, kStagedPasses = 2;

double message_gap_ns(double bytes) {
  const double share = std::clamp(std::log2(std::max(bytes, 1.0)) / std::log2(kGapMostBytes), 0.0, 1.0);
  return kGapLeastNs + share * (kGapMostNs - kGapLeastNs);
}

// Everything that bytes pass through, each with its rate; loads are kept beside.
class Resources {
 public:
  explicit Resources(const Cluster& cluster) : cluster_(cluster), instance_(*cluster.instance) {}

  size_t dma(const Place& p) {
    const auto& d = instance_.chip->dma;
    return find({Limit::dma, p.node, p.chip, p.core},
                d.rate_bytes_per_ns * static_cast<double>(d.engines_per_core * cluster_.lnc));
  }
  size_t stack(const Place& p) {
    const arch::Chip& k = *instance_.chip;
    return find({Limit::hbm, p.node, p.chip, k.stack_of_core(p.core * cluster_.lnc)}, k.stack_bytes_per_ns());
  }
  // Links from one chip to another of the same node; a switch's port out of the one and into the other.
  const std::vector<size_t>& links(const Place& from, const Place& to) {
    std::vector<size_t>& out = routes_[{from.node, from.chip, to.chip}];
    if (!out.empty()) return out;
    int64_t at = from.chip;
    for (const int64_t next : comm::route(instance_, from.chip, to.chip)) {
      const arch::Level& level = instance_.levels[static_cast<size_t>(comm::link_level(instance_, at, next))];
      const bool is_switch = level.wiring == arch::Wiring::all_to_all;
      const int64_t name = comm::link_level(instance_, at, next);
      if (is_switch) {
        out.push_back(find({Limit::link, from.node, at, -1 - name}, level.link_bytes_per_ns));
        out.push_back(find({Limit::link, from.node, -1 - next, -1 - name}, level.link_bytes_per_ns));
      } else {
        out.push_back(find({Limit::link, from.node, at, next}, level.link_bytes_per_ns));
      }
      at = next;
    }
    return out;
  }
  // Network of the host of a chip, out of it or into it.
  size_t network(const Place& p, bool out) {
    const double rate = kNetworkShare * instance_.network.efa_gbps / 8 / static_cast<double>(instance_.hosts);
    return find({Limit::network, p.node, p.chip / instance_.chips_per_host(), out}, rate);
  }

  void load(size_t resource, double bytes) {
    if (loads_[resource] == 0) touched_.push_back(resource);
    loads_[resource] += bytes;
  }

  // The longest any resource of each kind is busy with what was loaded since the last call.
  std::array<double, kLimits> busiest() {
    std::array<double, kLimits> out{};
    for (const size_t r : touched_) {
      double& most = out[static_cast<size_t>(kinds_[r])];
      most = std::max(most, loads_[r] / rates_[r]);
      (kinds_[r] == Limit::link ? link_bytes : network_bytes) +=
          kinds_[r] == Limit::link || kinds_[r] == Limit::network ? loads_[r] : 0;
      loads_[r] = 0;
    }
    touched_.clear();
    return out;
  }

  double link_bytes = 0, network_bytes = 0;

 private:
  struct Key {
    Limit kind;
    int64_t node, a, b;
    auto operator<=>(const Key&) const = default;
  };
  size_t find(const Key& key, double rate) {
    const auto [at, is_new] = known_.try_emplace(key, rates_.size());
    if (is_new) {
      rates_.push_back(rate);
      loads_.push_back(0);
      kinds_.push_back(key.kind);
    }
    return at->second;
  }

  const Cluster& cluster_;
  const arch::Instance& instance_;
  std::map<Key, size_t> known_ = {};
  std::map<std::array<int64_t, 3>, std::vector<size_t>> routes_ = {};
  std::vector<double> rates_ = {}, loads_ = {};
  std::vector<Limit> kinds_ = {};
  std::vector<size_t> touched_ = {};
};

// Ranges that appear in a step more than once, by rank and first piece.
class Seen {
 public:
  int32_t& operator()(int32_t rank, int32_t piece) { return seen_[{rank, piece}]; }

 private:
  std::map<std::pair<int32_t, int32_t>, int32_t> seen_ = {};
};

class GroupTimer {
 public:
  GroupTimer(Resources& resources, const Cluster& cluster, const Schedule& schedule, std::span<const Place> places,
             int64_t bytes)
      : r_(resources),
        schedule_(schedule),
        places_(places),
        piece_bytes_(static_cast<double>(bytes) / schedule.parts),
        // What one pass that combines costs, in bytes an engine could have copied, for each byte it reads.
        combine_(1 / (2 * cluster.instance->chip->dma.compute_fraction)) {
    for (const Place& p : places) {
      dma_.push_back(r_.dma(p));
      stack_.push_back(r_.stack(p));
    }
  }

  // Loads the resources with step i and returns its latency.
  double step(size_t i, const arch::Instance& instance) {
    const Step& step = schedule_.steps[i];
    const bool rides = i > 0 && schedule_.steps[i - 1].fused;  // what is sent was just combined, in the same pass
    Seen copies, sums;
    if (step.duplicates)
      for (const Move& m : step.moves) ++copies(m.from, m.first);
    const auto& dma = instance.chip->dma;
    double latency = dma.start_sync_ns + dma.completion_ns + instance.chip->semaphore.latency_ns;
    for (const Move& m : step.moves) {
      const Place &from = at(m.from), &to = at(m.to);
      const double bytes = piece_bytes_ * m.count;
      latency = std::max(latency, travel(from, to, bytes, instance));
      const bool in_place = step.in_place && m.reduce && from.node == to.node && from.chip == to.chip;
      const double share = step.duplicates ? 1.0 / std::min(2, copies(m.from, m.first)) : 1;
      if (!rides || in_place) r_.load(stack_of(m.from), bytes * share);
      if (!rides && !in_place) r_.load(dma_of(m.from), bytes * share);
      if (!in_place) r_.load(stack_of(m.to), bytes);
      if (m.reduce) combine(m, bytes, in_place, step.fused, sums(m.to, m.first)++ == 0);
    }
    return latency;
  }

 private:
  const Place& at(int32_t rank) const { return places_[static_cast<size_t>(rank)]; }
  size_t dma_of(int32_t rank) const { return dma_[static_cast<size_t>(rank)]; }
  size_t stack_of(int32_t rank) const { return stack_[static_cast<size_t>(rank)]; }

  double travel(const Place& from, const Place& to, double bytes, const arch::Instance& instance) {
    if (from.node != to.node) {
      r_.load(r_.network(from, true), bytes);
      r_.load(r_.network(to, false), bytes);
      return schedule_.algorithm == comm::Algorithm::ring ? message_gap_ns(bytes) : instance.network.hop_ns;
    }
    if (from.chip == to.chip) return 0;
    for (const size_t link : r_.links(from, to)) r_.load(link, bytes);
    return instance.levels[static_cast<size_t>(comm::link_level(instance, from.chip, to.chip))].hop_ns;
  }

  // The receiver reads what arrived and, once, what it has; it writes the sum unless the next step sends it on.
  void combine(const Move& m, double bytes, bool in_place, bool fused, bool first) {
    if (!in_place) r_.load(stack_of(m.to), bytes);
    r_.load(dma_of(m.to), bytes * combine_);
    if (!first) return;
    r_.load(stack_of(m.to), fused ? bytes : 2 * bytes);
    r_.load(dma_of(m.to), bytes * combine_);
  }

  Resources& r_;
  const Schedule& schedule_;
  std::span<const Place> places_;
  const double piece_bytes_, combine_;
  std::vector<size_t> dma_ = {}, stack_ = {};
};

// Whether two steps load the same resources alike: they differ in which pieces travel, at most.
bool alike(const Schedule& s, size_t a, size_t b) {
  const auto same = [](const Move& x, const Move& y) {
    return x.from == y.from && x.to == y.to && x.count == y.count && x.reduce == y.reduce;
  };
  const Step &x = s.steps[a], &y = s.steps[b];
  const bool rides_x = a > 0 && s.steps[a - 1].fused, rides_y = b > 0 && s.steps[b - 1].fused;
  return rides_x == rides_y && x.fused == y.fused && x.in_place == y.in_place && x.duplicates == y.duplicates &&
         std::equal(x.moves.begin(), x.moves.end(), y.moves.begin(), y.moves.end(), same);
}

// What a buffer between two ranks of a chip takes beyond its schedule.
double staging_ns(const Cluster& cluster, std::span<const std::vector<Place>> groups, const comm::Request& request) {
  const auto& g = groups[0];
  const bool pair = g.size() == 2 && g[0].node == g[1].node && g[0].chip == g[1].chip;
  if (!pair || request.kind != comm::Collective::all_reduce) return 0;
  const double beyond = std::max(0.0, static_cast<double>(request.bytes) - kStagedAbove);
  return kStagedPasses * beyond / cluster.instance->chip->stack_bytes_per_ns();
}

Result<void> check_network(const Cluster& cluster, std::span<const std::vector<Place>> groups) {
  if (cluster.instance->knows("network.efa_gbps")) return {};
  for (const auto& group : groups)
    for (const Place& p : group)
      if (p.node != group[0].node)
        return fail(Code::unsupported, cat(cluster.instance->name, " has no published network between instances"));
  return {};
}

}  // namespace

std::string_view name(Limit limit) { return kLimitNames[static_cast<size_t>(limit)]; }

double CollectiveTime::bus_rate(comm::Collective kind, int64_t bytes, int64_t ranks) const {
  const double share = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  const bool plain = kind == comm::Collective::permute || kind == comm::Collective::broadcast;
  return algorithm_rate(bytes) * (plain ? 1 : kind == comm::Collective::all_reduce ? 2 * share : share);
}

Result<CollectiveTime> time_collective(const Cluster& cluster, std::span<const std::vector<Place>> groups,
                                       const comm::Request& request) {
  CollectiveTime out;
  TRY(check_network(cluster, groups));
  std::vector<Schedule> schedules;
  for (const auto& group : groups) schedules.push_back(TRY(comm::make_schedule(cluster, group, request)));
  Resources resources(cluster);
  std::vector<GroupTimer> timers;
  size_t steps = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    timers.emplace_back(resources, cluster, schedules[g], groups[g], request.bytes);
    steps = std::max(steps, schedules[g].steps.size());
  }
  if (steps == 0) return out;
  out.algorithm = schedules[0].algorithm;
  out.how = schedules[0].text();
  out.steps = static_cast<int64_t>(steps);
  out.start_ns = cluster.instance->chip->collective.start_ns;
  std::array<double, kLimits> shares{};
  shares[static_cast<size_t>(Limit::latency)] = out.start_ns;
  double latency = 0, links = 0, network = 0;
  std::array<double, kLimits> busiest{};
  for (size_t i = 0; i < steps; ++i) {
    const bool again = i > 0 && std::all_of(schedules.begin(), schedules.end(), [&](const Schedule& s) {
                         return i < s.steps.size() && alike(s, i - 1, i);
                       });
    if (!again) {
      latency = 0;
      resources.link_bytes = resources.network_bytes = 0;
      for (size_t g = 0; g < groups.size(); ++g)
        if (i < schedules[g].steps.size()) latency = std::max(latency, timers[g].step(i, *cluster.instance));
      busiest = resources.busiest();
      links = resources.link_bytes;
      network = resources.network_bytes / 2;  // counted where it leaves and where it arrives
    }
    const auto most = std::max_element(busiest.begin(), busiest.end());
    out.latency_ns += latency;
    out.transfer_ns += *most;
    shares[static_cast<size_t>(Limit::latency)] += latency;
    shares[static_cast<size_t>(most - busiest.begin())] += *most;
    for (size_t k = 0; k < kLimits; ++k) out.busy_ns[k] += busiest[k];
    out.link_bytes += links;
    out.network_bytes += network;
  }
  const double staging = staging_ns(cluster, groups, request);
  out.transfer_ns += staging;
  shares[static_cast<size_t>(Limit::hbm)] += staging;
  out.busy_ns[static_cast<size_t>(Limit::hbm)] += staging;
  out.ns = out.start_ns + out.latency_ns + out.transfer_ns;
  out.bound = static_cast<Limit>(std::max_element(shares.begin(), shares.end()) - shares.begin());
  return out;
}

Result<CollectiveTime> time_collective(const Cluster& cluster, const std::vector<Place>& group,
                                       const comm::Request& request) {
  return time_collective(cluster, std::span(&group, 1), request);
}

}  // namespace trine::sim
