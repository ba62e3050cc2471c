// The native driver: runs a host plan on virtual devices, values at the speed of this machine.
// A launch queues the program on its devices and returns; a small program whose inputs are there runs in the caller's
// thread instead. An error of a run reaches every output of that run, and what is made from them.
#pragma once

#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "arch/plan/plan.h"
#include "run/devices/buffer.h"
#include "run/devices/client.h"
#include "run/devices/rendezvous.h"

namespace trine::run {

class NativeProgram {
 public:
  // `devices` in the order of participants: replica * partitions + partition. Those of other processes run it there.
  // `kinds`: the memory of each output; empty: all of the device's own.
  static Result<std::shared_ptr<NativeProgram>> make(Client& client, std::string name,
                                                     std::shared_ptr<const arch::HostPlan> plan,
                                                     std::vector<Device*> devices, Assignment assignment,
                                                     std::vector<MemoryKind> kinds = {});

  const arch::HostPlan& plan() const { return *plan_; }
  std::span<Device* const> devices() const { return devices_; }
  const Assignment& assignment() const { return assignment_; }
  std::span<const size_t> here() const { return here_; }  // participants of this process

  struct Launched {
    explicit Launched(std::pmr::memory_resource* memory) : outputs(memory), done(memory) {}
    std::pmr::vector<std::pmr::vector<std::unique_ptr<Buffer>>> outputs;  // of each device of this process
    std::pmr::vector<Future> done;                                        // likewise
  };
  // One list of arguments for each device of this process. `not_donated`: inputs that are not donated although the plan
  // would. `memory`: of the lists that are returned.
  Result<Launched> launch(std::span<const std::span<Buffer* const>> arguments,
                          std::span<const int64_t> not_donated = {},
                          std::pmr::memory_resource* memory = std::pmr::get_default_resource());

 private:
  NativeProgram(Client& client, std::string name, std::shared_ptr<const arch::HostPlan> plan,
                std::shared_ptr<const host::Prepared> prepared, std::vector<Device*> devices, Assignment assignment);
  struct Task;

  Result<void> check_given_once(const Task& task) const;
  Result<void> check(std::span<Buffer* const> arguments, size_t participant) const;
  Result<void> prepare(Task& task, std::span<Buffer* const> arguments, size_t participant,
                       std::span<const int64_t> not_donated) const;
  Result<void> execute(const Task& task, size_t participant, host::Collectives* collectives);
  Result<void> run_queued(const Task& task, Rendezvous* rendezvous, size_t participant);
  bool is_quick() const;
  void count(Device& device, int64_t took_ns, Status status) const;
  MemoryKind kind_of(size_t output) const { return kinds_.empty() ? MemoryKind::device : kinds_[output]; }
  Result<void> prepare_all(std::pmr::vector<Task>& tasks, std::span<const std::span<Buffer* const>> arguments,
                           std::span<const int64_t> not_donated) const;
  bool run_here(const Task& task, Launched& launched, Result<void>& outcome);
  Abroad begin_abroad() const;
  std::shared_ptr<Rendezvous> make_rendezvous(Abroad abroad) const;
  void add_buffers(Launched& launched, const Task& task, size_t participant, const Future& ready) const;

  Client& client_;
  const std::shared_ptr<const std::string> name_;
  const std::shared_ptr<const arch::HostPlan> plan_;
  const std::shared_ptr<const host::Prepared> prepared_;
  const std::vector<Device*> devices_;
  const Assignment assignment_;
  std::vector<MemoryKind> kinds_;
  std::vector<size_t> here_;
  uint64_t devices_hash_ = 0, program_hash_ = 0;  // the same in every process
  StepNumbers numbers_;
  std::atomic<int64_t> mean_ns_;  // of a run, lately; at first an estimate
  CountedProgram counted_;
  std::weak_ptr<NativeProgram> self_;
};

}  // namespace trine::run
