// From a schedule's outcome to sums over few buffers; see sum_order.h.
#include "run/devices/sum_order.h"

#include <algorithm>

#include "comm/outcome.h"

namespace trine::run {

namespace {

// Gives each value a buffer, and a buffer back after its value's last use. A sum may go over its first or second term,
// which are read before it is written.
class Allocator {
 public:
  Allocator(const comm::PieceOutcome& outcome, int32_t ranks, int32_t result) : outcome_(outcome), ranks_(ranks) {
    uses_.assign(outcome.sums.size(), 0);
    buffer_of_.assign(outcome.sums.size(), -1);
    mark(result);
    if (result >= ranks) ++uses_[static_cast<size_t>(result - ranks)];
  }

  SumOrder::Piece run(int32_t result) {
    SumOrder::Piece out;
    for (size_t v = 0; v < outcome_.sums.size(); ++v)
      if (uses_[v] > 0) out.sums.push_back(sum(v));
    out.result = term(result);
    return out;
  }

  int32_t buffers() const { return buffers_; }

 private:
  void mark(int32_t value) {  // counts the uses of everything below
    std::vector<int32_t> stack{value};
    while (!stack.empty()) {
      const int32_t v = stack.back();
      stack.pop_back();
      if (v < ranks_) continue;
      for (const int32_t t : outcome_.sums[static_cast<size_t>(v - ranks_)])
        if (t >= ranks_ && uses_[static_cast<size_t>(t - ranks_)]++ == 0) stack.push_back(t);
    }
  }

  int32_t term(int32_t value) const {
    return value < ranks_ ? value : ~buffer_of_[static_cast<size_t>(value - ranks_)];
  }

  SumOrder::Sum sum(size_t v) {
    SumOrder::Sum out;
    const std::vector<int32_t>& values = outcome_.sums[v];
    int32_t over = -1;
    for (size_t i = 0; i < values.size(); ++i) {
      out.terms.push_back(term(values[i]));
      if (values[i] < ranks_ || --uses_[static_cast<size_t>(values[i] - ranks_)] > 0) continue;
      const int32_t freed = ~out.terms.back();
      if (i < 2 && over < 0)
        over = freed;
      else
        free_.push_back(freed);
    }
    if (over < 0 && !spare_.empty()) {
      over = spare_.back();
      spare_.pop_back();
    }
    buffer_of_[v] = out.to = over >= 0 ? over : buffers_++;
    spare_.insert(spare_.end(), free_.begin(), free_.end());  // only from now on: this sum still reads them
    free_.clear();
    return out;
  }

  const comm::PieceOutcome& outcome_;
  const int32_t ranks_;
  std::vector<int32_t> uses_ = {}, buffer_of_ = {}, free_ = {}, spare_ = {};
  int32_t buffers_ = 0;
};

}  // namespace

SumOrder members_in_order(int64_t members) {
  SumOrder out;
  SumOrder::Piece& piece = out.pieces.emplace_back();
  if (members < 2) return out;
  SumOrder::Sum& sum = piece.sums.emplace_back();
  for (int64_t m = 0; m < members; ++m) sum.terms.push_back(static_cast<int32_t>(m));
  piece.result = ~0;
  return out;
}

SumOrder sum_order_of(const comm::Schedule& schedule) {
  SumOrder out;
  out.pieces.resize(static_cast<size_t>(schedule.pieces));
  const std::vector<comm::PieceOutcome> pieces = comm::outcome(schedule);
  for (int32_t p = 0; p < schedule.pieces; ++p) {
    const comm::PieceOutcome& outcome = pieces[static_cast<size_t>(p)];
    const int32_t at = schedule.kind == comm::Collective::reduce_scatter ? schedule.owner(p) : 0;
    const int32_t result = outcome.holds[static_cast<size_t>(at)];
    Allocator allocator(outcome, schedule.ranks, result);
    out.pieces[static_cast<size_t>(schedule.position[static_cast<size_t>(p)])] = allocator.run(result);
    out.buffers = std::max(out.buffers, allocator.buffers());
  }
  return out;
}

std::shared_ptr<const SumOrder> SumOrders::find(comm::Collective kind, std::span<const comm::Place> members,
                                                int64_t bytes) {
  const comm::Request request{.kind = kind, .bytes = bytes, .root = 0, .pairs = {}, .algorithm = {}};
  Key key{kind, comm::choose(cluster_, members, request), {}};
  for (const comm::Place& p : members)
    std::get<2>(key).push_back((p.node * cluster_.instance->chips + p.chip) * cluster_.ranks_per_chip() + p.core);
  std::lock_guard lock(mutex_);
  std::shared_ptr<const SumOrder>& order = known_[std::move(key)];
  if (order) return order;
  const auto schedule = comm::make_schedule(cluster_, members, request);
  const int64_t count = static_cast<int64_t>(members.size());
  order = std::make_shared<const SumOrder>(schedule ? sum_order_of(*schedule) : members_in_order(count));
  return order;
}

}  // namespace trine::run
