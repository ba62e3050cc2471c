// Futures of collectives, and their queue; see group_work.h.
#include "api/torch/group/group_work.h"

#include <ATen/core/ivalue.h>
#include <c10/util/Exception.h>

#include "api/torch/backend.h"
#include "api/torch/devices.h"

namespace trine::api::neuron {

namespace {

std::vector<c10::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<c10::Device> out;
  for (const at::Tensor& t : tensors)
    if (is_ours(t) && std::find(out.begin(), out.end(), t.device()) == out.end()) out.push_back(t.device());
  return out;
}

}  // namespace

namespace {

constexpr run::PageCollective kKinds[] = {run::PageCollective::all_reduce,  // barrier: a sum of nothing much
                                          run::PageCollective::all_reduce,     run::PageCollective::all_reduce,
                                          run::PageCollective::reduce_scatter, run::PageCollective::broadcast,
                                          run::PageCollective::all_gather,     run::PageCollective::all_gather,
                                          run::PageCollective::broadcast,      run::PageCollective::all_to_all};
static_assert(std::size(kKinds) == size_t(run::CollectiveOp::count));

template <class Run>
Result<void> counted(const run::Operation& operation, const Run& run) {
  const auto begin = std::chrono::steady_clock::now();
  Result<void> outcome = run();
  const auto on = device(current_device());
  if (!on) return outcome;
  const auto kind = size_t(kKinds[size_t(operation.op)]);
  run::CoreCounters& counters = (*on)->counters();
  ++counters.collectives[kind];
  counters.collective_bytes[kind] += std::max(run::total_bytes(operation.in), run::total_bytes(operation.out));
  counters.collective_ns[kind] +=
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

}  // namespace

void throw_group_error(const Error& error) { C10_THROW_ERROR(DistBackendError, error.text()); }

GroupWork::GroupWork(int rank, c10d::OpType type, std::vector<at::Tensor> results)
    : Work(rank, type),
      results_(std::move(results)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       devices_of(results_))) {}

void GroupWork::end(const Result<void>& outcome, int source) {
  source_ = source;
  std::exception_ptr error;
  if (!outcome) {
    try {
      throw_group_error(outcome.error());
    } catch (...) {
      error = std::current_exception();
    }
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  *failure_ = error;
  finish(error);
  done_->come();
}

bool GroupWork::wait(std::chrono::milliseconds timeout) {
  if (results_.empty() || !is_beside(results_[0].device()) || isCompleted()) return Work::wait(timeout);
  const c10::Stream stream = current_stream(results_[0].device());
  block(stream, done_);
  issue(stream, "c10d::" + c10d::opTypeToString(retrieveOpType()), {}, [failure = failure_] {
    if (*failure) std::rethrow_exception(*failure);
  });
  return true;
}

JoinedWork::JoinedWork(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> all)
    : Work(rank, c10d::OpType::COALESCED), all_(std::move(all)) {}

bool JoinedWork::isCompleted() {
  return std::all_of(all_.begin(), all_.end(), [](auto& w) { return w->isCompleted(); });
}

bool JoinedWork::isSuccess() const {
  return std::all_of(all_.begin(), all_.end(), [](auto& w) { return w->isSuccess(); });
}

bool JoinedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : all_) work->wait(timeout);
  return true;
}

std::vector<at::Tensor> JoinedWork::result() {
  std::vector<at::Tensor> out;
  for (const auto& work : all_)
    for (const at::Tensor& t : work->result()) out.push_back(t);
  return out;
}

c10::intrusive_ptr<c10::ivalue::Future> JoinedWork::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& work : all_) futures.push_back(work->getFuture());
  return c10::collectAll(futures);
}

void GroupQueue::add(GroupJob job, c10::intrusive_ptr<GroupWork> work, bool is_async) {
  Item item{std::move(job), std::move(work)};
  {
    std::lock_guard lock(mutex_);
    if (is_over_) throw_group_error(fail(Code::invalid, "a collective of a group that was destroyed").error());
    if (is_async || is_busy_ || !items_.empty() || !item.job.operands.empty()) {
      items_.push_back(std::move(item));
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      changed_.notify_all();
      return;
    }
    is_busy_ = true;
  }
  run_item(item);
  std::lock_guard lock(mutex_);
  is_busy_ = false;
  changed_.notify_all();
}

void GroupQueue::run_item(Item& item) {
  Result<void> outcome;
  wait_for(item.job.ready);
  for (const auto& f : item.job.before) f();
  for (const run::Operation& operation : item.job.operations)
    if (outcome) outcome = counted(operation, [&] { return group_.run(operation); });
  if (outcome)
    for (const auto& f : item.job.after) f();
  item.job = {};
  item.work->end(outcome);
  item.work.reset();
}

void GroupQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !is_busy_ && (is_over_ || !items_.empty()); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    is_busy_ = true;
    lock.unlock();
    run_item(item);
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

void GroupQueue::end() {
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
}

}  // namespace trine::api::neuron
