// Groups after StableHLO's rules, and the arrivals of their members.
#include "run/devices/rendezvous.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/pool.h"
#include "base/text.h"
#include "run/devices/collective.h"

namespace trine::run {

using arch::CollectiveKind;
using arch::CollectiveStep;

namespace {

// StableHLO: what the numbers of a group count. Without a channel replicas, of the same partition; with one, global
// numbers where the op says so; else partitions of the same replica, but for ops that reduce or gather: replicas, each
// with all its partitions.
enum class Counts { replicas, partitions, everything, replicas_with_partitions };

Counts counts_of(const CollectiveStep& step) {
  if (step.channel <= 0) return Counts::replicas;
  if (step.is_global) return Counts::everything;
  const bool whole = step.kind == CollectiveKind::all_reduce || step.kind == CollectiveKind::reduce_scatter ||
                     step.kind == CollectiveKind::all_gather;
  return whole ? Counts::replicas_with_partitions : Counts::partitions;
}

void write_id(std::span<const TensorView> out, int64_t id) {
  for (const TensorView& v : out) *v.as<uint32_t>() = uint32_t(id);
}

}  // namespace

Result<Group> group_of(const CollectiveStep& step, const Assignment& assignment, int64_t participant) {
  const int64_t partitions = assignment.partitions;
  const int64_t replica = participant / partitions, partition = participant % partitions;
  const Counts counts = counts_of(step);
  const bool by_partition = counts == Counts::partitions;
  const int64_t me = by_partition ? partition : counts == Counts::everything ? participant : replica;
  const int64_t total = by_partition                   ? partitions
                        : counts == Counts::everything ? assignment.size()
                                                       : assignment.replicas;
  std::vector<int64_t> ids;
  for (const auto& group : step.groups)
    if (std::find(group.begin(), group.end(), me) != group.end()) ids = group;
  if (step.groups.empty())
    for (int64_t i = 0; i < total; ++i) ids.push_back(i);
  if (ids.empty())
    return fail(Code::invalid, cat("device ", participant, " takes part in a collective but is in none of its groups"));
  Group out;
  for (int64_t id : ids) {
    if (id < 0 || id >= total) return fail(Code::invalid, cat("a collective's group names device ", id, " of ", total));
    if (counts == Counts::replicas_with_partitions) {
      for (int64_t p = 0; p < partitions; ++p) {
        out.participants.push_back(id * partitions + p);
        out.ids.push_back(id);
      }
      continue;
    }
    out.participants.push_back(counts == Counts::everything ? id
                               : by_partition               ? replica * partitions + id
                                                            : id * partitions + partition);
    out.ids.push_back(id);
  }
  return out;
}

StepNumbers number_collectives(const arch::HostPlan& plan) {
  StepNumbers out;
  const auto walk = [&](const auto& self, const arch::HostPlan& p) -> void {
    for (const arch::Step& step : p.steps) {
      if (const auto* c = std::get_if<CollectiveStep>(&step.what)) out.emplace(c, out.size());
      if (const auto* loop = std::get_if<arch::WhileStep>(&step.what)) self(self, *loop->cond), self(self, *loop->body);
      if (const auto* choice = std::get_if<arch::CaseStep>(&step.what))
        for (const auto& branch : choice->branches) self(self, *branch);
    }
  };
  walk(walk, plan);
  return out;
}

Rendezvous::Rendezvous(Assignment assignment, Permits* permits, SumOrders* orders, std::vector<comm::Place> places,
                       Abroad abroad)
    : assignment_(assignment),
      permits_(permits),
      orders_(orders),
      places_(std::move(places)),
      abroad_(std::move(abroad)) {
  for (int64_t p = 0; p < assignment_.size(); ++p) here_ += abroad_.is_here(p);
}

Rendezvous::~Rendezvous() {
  if (abroad_.peers) abroad_.peers->forget(abroad_.launch);
}

struct Rendezvous::Arrivals {
  Group group;
  std::vector<Member> members;                   // in the group's order
  std::vector<std::vector<TensorView>> brought;  // by members of other processes, and the memory it is in
  std::vector<Peers::Message> messages;
  size_t here = 0;  // members of this process
  size_t arrived = 0;
  uint64_t round = 0;
  bool is_running = false, done = false;
  Result<void> outcome = {};
};

Result<void> Rendezvous::join(int64_t participant, const CollectiveStep& step, std::span<const TensorView> in,
                              std::span<const TensorView> out) {
  if (step.kind == CollectiveKind::partition_id)
    return write_id(out, participant % assignment_.partitions), Result<void>();
  if (step.kind == CollectiveKind::replica_id)
    return write_id(out, participant / assignment_.partitions), Result<void>();
  Group group = TRY(group_of(step, assignment_, participant));
  const Key key{&step, group.participants[0]};
  std::unique_lock lock(mutex_);
  if (error_) return *error_;
  std::shared_ptr<Arrivals>& slot = arrivals_[key];
  if (!slot) {
    slot = std::make_shared<Arrivals>();
    slot->members.resize(group.participants.size());
    slot->group = std::move(group);
    for (const int64_t p : slot->group.participants) slot->here += abroad_.is_here(p);
    slot->round = rounds_[key]++;
  }
  const std::shared_ptr<Arrivals> arrivals = slot;
  const auto& all = arrivals->group.participants;
  const size_t index = size_t(std::find(all.begin(), all.end(), participant) - all.begin());
  arrivals->members[index] = {arrivals->group.ids[index], in, out};
  if (++arrivals->arrived < arrivals->here) {
    ++waiting_;
    look_for_deadlock();
    lock.unlock();
    permits_->give();
    lock.lock();
    changed_.wait(lock, [&] { return arrivals->done || (error_ && !arrivals->is_running); });
    const Result<void> outcome = arrivals->done ? arrivals->outcome : Result<void>(*error_);
    lock.unlock();
    permits_->take();
    return outcome;
  }
  arrivals->is_running = true;  // from here on the members' memory is in use: nobody leaves
  arrivals_.erase(key);
  waiting_ -= int64_t(arrivals->here) - 1;
  lock.unlock();
  const Result<void> outcome = run(step, *arrivals);
  lock.lock();
  finish(*arrivals, outcome);
  return outcome;
}

Result<void> Rendezvous::run(const CollectiveStep& step, Arrivals& arrivals) {
  const auto& all = arrivals.group.participants;
  if (arrivals.here < all.size()) {
    permits_->give();
    const Result<void> exchanged = exchange(step, arrivals);
    permits_->take();
    TRY(exchanged);
  }
  const ThreadPool::Use whole_pool(ThreadPool::process());
  Sums sums{orders_, {}};
  if (orders_)
    for (const int64_t p : all) sums.places.push_back(places_[size_t(p)]);
  return run_collective(step, arrivals.members, sums);
}

// Every process of the group gets what the others' members bring, in the group's order.
Result<void> Rendezvous::exchange(const CollectiveStep& step, Arrivals& arrivals) {
  const auto& all = arrivals.group.participants;
  const RendezvousKey point{abroad_.program, abroad_.numbers->at(&step), uint64_t(all[0]), arrivals.round};
  std::vector<std::span<const std::byte>> mine;
  const Member* like = nullptr;
  std::set<int> others;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!abroad_.is_here(all[i])) {
      others.insert(abroad_.processes[size_t(all[i])]);
      continue;
    }
    like = &arrivals.members[i];
    for (const TensorView& v : like->in) mine.emplace_back(v.as<const std::byte>(), v.bytes());
  }
  for (const int other : others) TRY(abroad_.peers->send(other, abroad_.launch, point, mine));
  const auto is_over = [&] {
    std::lock_guard lock(mutex_);
    return error_.has_value();
  };
  arrivals.brought.resize(all.size());
  for (const int other : others) {
    const Peers::Message& message =
        arrivals.messages.emplace_back(TRY(abroad_.peers->receive(other, abroad_.launch, point, is_over)));
    size_t at = 0;
    for (size_t i = 0; i < all.size(); ++i) {
      if (abroad_.processes[size_t(all[i])] != other) continue;
      arrivals.brought[i].assign(like->in.begin(), like->in.end());
      for (TensorView& v : arrivals.brought[i]) {
        v.data = message.bytes.data() + at;
        at += v.bytes();
      }
      arrivals.members[i] = {arrivals.group.ids[i], arrivals.brought[i], {}};
    }
    if (at != message.size)
      return fail(Code::invalid,
                  cat("process ", other, " brings ", message.size, " bytes to a collective; expected ", at));
  }
  return {};
}

void Rendezvous::finish(Arrivals& arrivals, const Result<void>& outcome) {
  arrivals.outcome = outcome;
  arrivals.done = true;
  changed_.notify_all();
}

void Rendezvous::abort(const Error& error) {
  if (!error_) error_ = error;
  changed_.notify_all();
}

void Rendezvous::look_for_deadlock() {
  if (waiting_ == 0 || waiting_ + left_ < here_ || error_) return;
  abort(fail(Code::invalid, cat(waiting_, " of ", here_,
                                " devices wait in collectives for others that never come: the devices took different "
                                "ways through a loop or a branch")));
}

void Rendezvous::leave(int64_t, const Result<void>& outcome) {
  std::optional<Error> to_notify;
  {
    std::lock_guard lock(mutex_);
    ++left_;
    if (!outcome) abort(outcome.error());
    look_for_deadlock();
    if (error_ && !std::exchange(has_notified_, true)) to_notify = error_;
  }
  if (to_notify && abroad_.peers) abroad_.peers->give_up(abroad_.launch, to_notify->message);
}

}  // namespace trine::run
