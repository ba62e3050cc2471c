// One run of a program on several devices, and the rendezvous of their collectives. The last to arrive at a collective
// does it for all; the others give their permit back and wait. A device that fails, or leaves while others wait for it,
// ends the whole run with an error; so does a state in which everyone waits: no program can hang. Where devices of
// other processes take part, the processes of a group exchange what their devices bring, and each does the whole
// collective.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "host/execute.h"
#include "run/devices/peers.h"
#include "run/devices/permits.h"
#include "run/devices/sum_order.h"

namespace trine::run {

struct Assignment {
  int64_t replicas = 1, partitions = 1;  // participant = replica * partitions + partition

  int64_t size() const { return replicas * partitions; }
};

// The participants of `step`, this one among them, in the group's order, and the number each goes by there.
struct Group {
  std::vector<int64_t> participants = {}, ids = {};
};
Result<Group> group_of(const arch::CollectiveStep& step, const Assignment& assignment, int64_t participant);

// Collectives of a program, numbered alike in every process.
using StepNumbers = std::map<const arch::CollectiveStep*, uint64_t>;
StepNumbers number_collectives(const arch::HostPlan& plan);

// What ties this run to the same run in other processes.
struct Abroad {
  Peers* peers = nullptr;  // null: all participants are here
  Launch launch = {};
  uint64_t program = 0;             // a hash
  std::vector<int> processes = {};  // of participants
  const StepNumbers* numbers = nullptr;

  bool is_here(int64_t participant) const { return !peers || processes[size_t(participant)] == peers->process(); }
};

class Rendezvous {
 public:
  // `orders` and the places of participants say in which order sums run; without them, in that of participants.
  Rendezvous(Assignment assignment, Permits* permits, SumOrders* orders = nullptr, std::vector<comm::Place> places = {},
             Abroad abroad = {});
  ~Rendezvous();

  Result<void> join(int64_t participant, const arch::CollectiveStep& step, std::span<const TensorView> in,
                    std::span<const TensorView> out);
  void leave(int64_t participant, const Result<void>& outcome);  // each participant once, at its end

 private:
  struct Arrivals;
  using Key = std::pair<const arch::CollectiveStep*, int64_t>;  // a step, and the first participant of a group

  Result<void> run(const arch::CollectiveStep& step, Arrivals& arrivals);
  Result<void> exchange(const arch::CollectiveStep& step, Arrivals& arrivals);
  void finish(Arrivals& arrivals, const Result<void>& outcome);  // with mutex_ held
  void abort(const Error& error);                                // likewise
  void look_for_deadlock();                                      // likewise

  const Assignment assignment_;
  Permits* const permits_;
  SumOrders* const orders_;
  const std::vector<comm::Place> places_;
  const Abroad abroad_;
  int64_t here_ = 0;  // participants of this process
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Key, std::shared_ptr<Arrivals>> arrivals_;
  std::map<Key, uint64_t> rounds_;  // how often
  int64_t waiting_ = 0, left_ = 0;
  std::optional<Error> error_;
  bool has_notified_ = false;  // other processes of it
};

// One participant's view of it, for the executor.
class Participant : public host::Collectives {
 public:
  Participant(Rendezvous& rendezvous, int64_t participant) : rendezvous_(rendezvous), participant_(participant) {}
  Result<void> join(const arch::CollectiveStep& step, std::span<const TensorView> in,
                    std::span<const TensorView> out) override {
    return rendezvous_.join(participant_, step, in, out);
  }

 private:
  Rendezvous& rendezvous_;
  const int64_t participant_;
};

}  // namespace trine::run
