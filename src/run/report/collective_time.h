// A question about a collective on a machine, and its answer with a band: what `trine collectives` prints and Python
// gets. The timing itself is sim/cluster.
#pragma once

#include "base/format/json.h"
#include "run/accuracy/bands.h"
#include "sim/cluster/collective.h"

namespace trine::run {

struct CollectiveQuery {
  comm::Cluster cluster = {};
  comm::Request request = {};  // a permute without pairs: each rank to the next
  int64_t ranks = 0;           // logical cores in a group; 0: all
  int64_t stride = 1;          // a group takes every stride-th core
  bool all_groups = false;     // every such group of the machine at once
};

struct CollectiveAnswer {
  comm::Collective kind = comm::Collective::all_reduce;
  int64_t ranks = 0, bytes = 0;
  sim::CollectiveTime time = {};
  Band band = {};

  double rate() const { return time.algorithm_rate(bytes); }             // bytes a ns, as nccom-test's algbw
  double bus_rate() const { return time.bus_rate(kind, bytes, ranks); }  // as its busbw
  Json json() const;
};

Result<CollectiveAnswer> answer(const CollectiveQuery& query);

}  // namespace trine::run
