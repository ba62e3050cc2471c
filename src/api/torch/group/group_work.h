// What a collective of torch.distributed gives back, and the thread that does those nobody waits for.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "api/torch/aten.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "api/torch/eager/streams.h"
#include "run/transport/rank_group.h"

namespace trine::api::neuron {

// Operations one after the other, what they hold, and what is to be done before and after them.
struct GroupJob {
  std::vector<run::Operation> operations = {};
  std::vector<at::Tensor> held = {};
  std::vector<Operand> operands = {};                // of a stream with tasks: those that it waits for, and
  Moments ready = {};                                // when they have ended
  std::vector<std::shared_ptr<void>> memories = {};  // theirs
  std::vector<std::function<void()>> before = {}, after = {};
};

class GroupWork : public c10d::Work {
 public:
  GroupWork(int rank, c10d::OpType type, std::vector<at::Tensor> results);

  void end(const Result<void>& outcome, int source = -1);  // once
  const MomentPtr& done() const { return done_; }
  bool wait(std::chrono::milliseconds timeout) override;  // the current stream does, where it has tasks
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

 private:
  std::vector<at::Tensor> results_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  const MomentPtr done_ = std::make_shared<Moment>();
  const std::shared_ptr<std::exception_ptr> failure_ = std::make_shared<std::exception_ptr>();  // before done_
  int source_ = -1;
};

// Several as one.
class JoinedWork : public c10d::Work {
 public:
  JoinedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> all);
  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> all_;
};

class GroupQueue {
 public:
  explicit GroupQueue(run::RankGroup& group) : group_(group) {}
  ~GroupQueue() { end(); }

  // On the caller's thread where it would wait anyway and nothing is before it.
  void add(GroupJob job, c10::intrusive_ptr<GroupWork> work, bool is_async);
  void end();  // after what is in it

 private:
  struct Item {
    GroupJob job;
    c10::intrusive_ptr<GroupWork> work;
  };
  void run();
  void run_item(Item& item);

  run::RankGroup& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool is_busy_ = false, is_over_ = false;
  std::thread thread_;
};

[[noreturn]] void throw_group_error(const Error& error);

}  // namespace trine::api::neuron
