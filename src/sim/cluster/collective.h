// Time of a collective: comm/'s schedule over the machine's links, DMA engines, HBM stacks and network, step by step.
// Groups that run at once share them. A step takes one hop's latency and as long as its busiest resource needs;
// what limits a step inside itself (packets, arbitration) is in the published latencies, not modelled.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "comm/schedule.h"

namespace trine::sim {

enum class Limit : uint8_t { latency, link, network, dma, hbm };
inline constexpr size_t kLimits = 5;
std::string_view name(Limit limit);

struct CollectiveTime {
  double ns = 0;
  double start_ns = 0, latency_ns = 0, transfer_ns = 0;  // the three parts of ns: before, hops, bytes
  int64_t steps = 0;
  Limit bound = Limit::latency;  // what most of the time goes to
  comm::Algorithm algorithm = comm::Algorithm::none;
  std::string how = {};                      // in words: also what runs inside nodes and between them
  double link_bytes = 0, network_bytes = 0;  // over all links, of all groups; for energy
  std::array<double, kLimits> busy_ns = {};  // the busiest resource of each kind, all steps together

  // As nccom-test prints them, in bytes a ns: the buffer over the time, and what that asks of each rank's wires.
  double algorithm_rate(int64_t bytes) const { return ns > 0 ? static_cast<double>(bytes) / ns : 0; }
  double bus_rate(comm::Collective kind, int64_t bytes, int64_t ranks) const;
};

// One request, done by every group at once. The request's bytes are those of comm::Request.
Result<CollectiveTime> time_collective(const comm::Cluster& cluster, std::span<const std::vector<comm::Place>> groups,
                                       const comm::Request& request);
Result<CollectiveTime> time_collective(const comm::Cluster& cluster, const std::vector<comm::Place>& group,
                                       const comm::Request& request);

}  // namespace trine::sim
