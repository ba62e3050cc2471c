// The process group of `neuron` and `xla` in torch.distributed: every collective of c10d over run/transport. A device's
// memory is this machine's memory, so its bytes are used where they are; what is recorded on `xla` runs first.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "api/torch/group/group_work.h"

namespace trine::api::neuron {

class GroupBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  // `numbers`: the ranks' numbers in the job; empty where the group is the job.
  static c10::intrusive_ptr<GroupBackend> make(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size, std::chrono::milliseconds timeout,
                                               std::vector<int> numbers);
  GroupBackend(std::string name, std::unique_ptr<run::RankGroup> group, std::chrono::milliseconds timeout);
  ~GroupBackend() override;

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return number_; }
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void abort() override;
  void shutdown() override;

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  class Builder;
  WorkPtr submit(Builder builder, c10d::OpType type, Tensors results, bool is_async);
  WorkPtr receive(Tensors& tensors, int from, int tag, c10d::OpType type);
  void post(const std::shared_ptr<GroupJob>& job, const c10::intrusive_ptr<GroupWork>& work,
            std::function<void()> body);
  std::chrono::milliseconds timeout_or(std::chrono::milliseconds given) const;

  const std::string name_;
  std::chrono::milliseconds timeout_;
  std::unique_ptr<run::RankGroup> group_;
  std::unique_ptr<GroupQueue> queue_;
  std::atomic<uint64_t> number_{0};
  bool is_coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
  MomentPtr posted_;  // the last message of a stream with tasks: messages go in the order of their calls
};

std::string python_line();  // of the user's program that is running: "train.py:31"; in group_python.cpp

}  // namespace trine::api::neuron
