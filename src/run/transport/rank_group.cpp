// How ranks find each other, and the orders of their sums; see rank_group.h.
#include "run/transport/rank_group.h"

#include <algorithm>

#include "base/text.h"
#include "run/transport/mail_collectives.h"
#include "run/transport/shared_collectives.h"
#include "run/transport/socket_channels.h"

namespace trine::run {

namespace {

constexpr size_t kOrdersMax = 1024;  // by sizes of buffers

}  // namespace

RankGroup::RankGroup(RankGroupOptions options) : options_(std::move(options)) {
  comm::Cluster cluster{.instance = options_.instance.get(), .nodes = 1, .lnc = options_.lnc};
  const int64_t last = *std::max_element(options_.numbers.begin(), options_.numbers.end());
  cluster.nodes = last / cluster.ranks_per_node() + 1;
  const std::vector<comm::Place> all = comm::first_ranks(cluster, last + 1);
  for (const int number : options_.numbers) places_.push_back(all[size_t(number)]);
  orders_ = std::make_unique<SumOrders>(cluster);
}

RankGroup::~RankGroup() = default;

Result<std::unique_ptr<RankGroup>> RankGroup::make(Board& board, RankGroupOptions options) {
  std::unique_ptr<RankGroup> out(new RankGroup(std::move(options)));
  const RankGroupOptions& o = out->options_;
  if (TRY(out->is_one_host(board))) {
    TRY(out->share_memory(board));
    out->channels_ = std::make_unique<SharedChannels>(*out->shared_);
  } else {
    out->channels_ = TRY(SocketChannels::connect(board, o.rank, o.numbers, o.address, Clock::now() + o.timeout));
  }
  out->mailbox_ = std::make_unique<Mailbox>(*out->channels_);
  return out;
}

Result<bool> RankGroup::is_one_host(Board& board) const {
  TRY(board.put(cat("host/", rank()), options_.host));
  bool is_one = true;
  for (int r = 0; r < ranks(); ++r)
    is_one &= TRY(board.get(cat("host/", r), int(options_.timeout.count()))) == options_.host;
  return is_one;
}

// The first rank makes the segment and stays until all others have it.
Result<void> RankGroup::share_memory(Board& board) {
  const std::string key = "segment";
  if (rank() == 0) {
    Segment segment = TRY(Segment::create(Shared::bytes_for(ranks())));
    const std::string name = segment.name();
    shared_ = TRY(Shared::make(std::move(segment), 0, options_.numbers));
    TRY(board.put(key, name));
  } else {
    Segment segment = TRY(Segment::attach(TRY(board.get(key, int(options_.timeout.count())))));
    shared_ = TRY(Shared::make(std::move(segment), rank(), options_.numbers));
  }
  return shared_->meet(Clock::now() + options_.timeout);
}

const SumOrder* RankGroup::order_of(const Operation& operation) {
  if (!reduces(operation.op)) return nullptr;
  const int64_t bytes = operation.elements() * trine::bytes(operation.dtype);
  const auto kind =
      operation.op == CollectiveOp::reduce_scatter ? comm::Collective::reduce_scatter : comm::Collective::all_reduce;
  if (known_.size() > kOrdersMax) known_.clear();
  std::shared_ptr<const SumOrder>& order = known_[{operation.op, bytes}];
  if (!order) order = orders_->find(kind, places_, bytes);
  return order.get();
}

Result<void> RankGroup::run(const Operation& operation) {
  std::lock_guard lock(mutex_);
  if (channels_->is_broken()) return channels_->failure();
  const SumOrder* const order = order_of(operation);
  ++number_;
  return shared_ ? run_shared(*shared_, operation, number_, order)
                 : run_mailed(*mailbox_, *channels_, operation, number_, order);
}

void RankGroup::abort(const std::string& why) {
  (void)channels_->break_with(cat("rank ", options_.numbers[size_t(rank())], " ended the group: ", why));
}

void RankGroup::leave() { channels_->leave(); }

}  // namespace trine::run
