// The order in which the values of a collective's members are combined: that of the schedule Neuron would run on the
// machine (comm/), so it is fixed by the devices and the size alone. Partial sums stay wide; a result is rounded once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "comm/schedule.h"

namespace trine::run {

struct SumOrder {
  // Buffer `to` = the terms combined, in this order; a term is member t, or buffer ~t where t is negative.
  struct Sum {
    int32_t to = 0;
    std::vector<int32_t> terms = {};
  };
  struct Piece {
    std::vector<Sum> sums = {};
    int32_t result = 0;  // a term
  };
  std::vector<Piece> pieces = {};  // as they lie in the buffer, cut evenly
  int32_t buffers = 1;

  int64_t parts() const { return static_cast<int64_t>(pieces.size()); }
};

SumOrder members_in_order(int64_t members);             // one piece, first to last
SumOrder sum_order_of(const comm::Schedule& schedule);  // of an all_reduce or a reduce_scatter

// Orders of one machine, made when first asked for. Thread-safe.
class SumOrders {
 public:
  explicit SumOrders(comm::Cluster cluster) : cluster_(cluster) {}
  std::shared_ptr<const SumOrder> find(comm::Collective kind, std::span<const comm::Place> members, int64_t bytes);

 private:
  using Key = std::tuple<comm::Collective, comm::Algorithm, std::vector<int64_t>>;

  const comm::Cluster cluster_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const SumOrder>> known_;
};

}  // namespace trine::run
