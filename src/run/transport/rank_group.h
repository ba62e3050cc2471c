// The ranks of a job, or some of them, each in a process of its own: collectives, one after the other, and messages.
// Sums run in the order of the schedule that Neuron would run among the cores the ranks stand for, however many
// processes and hosts there are: rank r of the job is logical core r, counted over chips, then nodes.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "run/devices/peers.h"
#include "run/transport/mailbox.h"

namespace trine::run {

struct RankGroupOptions {
  int rank = 0;                          // in the group
  std::vector<int> numbers = {};         // of all ranks, in the job
  std::chrono::milliseconds timeout{0};  // to find each other
  std::shared_ptr<const arch::Instance> instance = {};
  int64_t lnc = 1;
  std::string host = {};     // equal on ranks that can share memory
  std::string address = {};  // of this host, as others reach it
};

class RankGroup {
 public:
  static Result<std::unique_ptr<RankGroup>> make(Board& board, RankGroupOptions options);
  ~RankGroup();

  int rank() const { return options_.rank; }
  int ranks() const { return int(options_.numbers.size()); }

  Result<void> run(
      const Operation& operation);  // waits for all; calls of several threads take their order as they come
  Mailbox& mailbox() { return *mailbox_; }
  void abort(const std::string& why);  // for every rank
  void leave();                        // this rank comes to nothing more

 private:
  explicit RankGroup(RankGroupOptions options);
  Result<bool> is_one_host(Board& board) const;
  Result<void> share_memory(Board& board);
  const SumOrder* order_of(const Operation& operation);

  const RankGroupOptions options_;
  std::vector<comm::Place> places_;
  std::unique_ptr<SumOrders> orders_;
  std::map<std::pair<CollectiveOp, int64_t>, std::shared_ptr<const SumOrder>> known_;
  std::mutex mutex_;
  uint64_t number_ = 0;
  std::unique_ptr<Shared> shared_;  // where all ranks are on one host
  std::unique_ptr<Channels> channels_;
  std::unique_ptr<Mailbox> mailbox_;
};

}  // namespace trine::run
