// Launching a host plan: arguments checked, donated or held, outputs allocated, then queued or run at once.
#include "run/drivers/native/native.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "base/pool.h"
#include "base/stop.h"
#include "base/text.h"
#include "host/execute.h"
#include "run/faults/inject.h"
#include "run/profile/activity.h"
#include "run/profile/ran.h"

namespace trine::run {

namespace {

constexpr int64_t kQuickNs = 40'000;  // shorter programs run in the caller's thread: a hand-over costs as much
// Rough rates of one processor, for the first run only; later runs are measured.
constexpr double kFlopsPerNs = 8, kBytesPerNs = 4, kStepNs = 500;

int64_t estimate_ns(const arch::HostPlan& plan) {
  double ns = plan.flops / kFlopsPerNs + plan.moved_bytes / kBytesPerNs + double(plan.steps.size()) * kStepNs;
  for (arch::SlotId id : plan.outputs) ns += double(plan.slots[id].bytes()) / kBytesPerNs;
  for (const arch::Step& step : plan.steps)
    if (std::holds_alternative<arch::WhileStep>(step.what)) ns += double(kQuickNs);
  return int64_t(std::min(ns, 1e15));
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t hash(std::string_view text) {  // FNV-1a: the same in every process
  uint64_t out = 0xcbf29ce484222325;
  for (const char c : text) out = (out ^ uint8_t(c)) * 0x100000001b3;
  return out;
}

// Lists of a call: where they are short, nothing is allocated for them.
struct StackMemory {
  std::array<std::byte, 1024> bytes;
  std::pmr::monotonic_buffer_resource lists{bytes.data(), bytes.size()};
};

ThreadPool& single_thread() {
  static ThreadPool pool(1);
  return pool;
}

}  // namespace

// What one device needs to run: inputs and outputs are held until the end.
struct NativeProgram::Task {
  using allocator_type = std::pmr::polymorphic_allocator<>;
  std::pmr::vector<std::shared_ptr<Storage>> inputs, outputs;
  std::pmr::vector<bool> is_donated;  // of inputs
  std::pmr::vector<Future> awaited;   // of inputs that were not ready
  uint32_t since = interrupts();      // those that follow stop it

  explicit Task(allocator_type memory = {}) : inputs(memory), outputs(memory), is_donated(memory), awaited(memory) {}
  Task(const Task& other, allocator_type memory)
      : inputs(other.inputs, memory),
        outputs(other.outputs, memory),
        is_donated(other.is_donated, memory),
        awaited(other.awaited, memory),
        since(other.since) {}

  void take(const Future& ready) {
    if (!ready.is_ready())
      awaited.push_back(ready);
    else if (ready.error())
      awaited.insert(awaited.begin(), ready);  // the first error is the one that is passed on
  }
};

NativeProgram::NativeProgram(Client& client, std::string name, std::shared_ptr<const arch::HostPlan> plan,
                             std::shared_ptr<const host::Prepared> prepared, std::vector<Device*> devices,
                             Assignment assignment)
    : client_(client),
      name_(std::make_shared<const std::string>(std::move(name))),
      plan_(std::move(plan)),
      prepared_(std::move(prepared)),
      devices_(std::move(devices)),
      assignment_(assignment),
      mean_ns_(estimate_ns(*plan_)) {
  for (size_t d = 0; d < devices_.size(); ++d)
    if (client_.is_here(*devices_[d])) here_.push_back(d);
  if (here_.size() == devices_.size()) return;
  std::string ids;
  for (const Device* d : devices_) ids += cat(d->id(), " ");
  devices_hash_ = hash(ids);
  program_hash_ = hash(*name_);
  numbers_ = number_collectives(*plan_);
}

Result<std::shared_ptr<NativeProgram>> NativeProgram::make(Client& client, std::string name,
                                                           std::shared_ptr<const arch::HostPlan> plan,
                                                           std::vector<Device*> devices, Assignment assignment,
                                                           std::vector<MemoryKind> kinds) {
  if (int64_t(devices.size()) != assignment.size())
    return fail(Code::invalid, cat("a program of ", assignment.replicas, " replicas and ", assignment.partitions,
                                   " partitions was given ", devices.size(), " devices"));
  auto prepared = TRY(host::prepare(plan));
  std::shared_ptr<NativeProgram> program(
      new NativeProgram(client, std::move(name), std::move(plan), std::move(prepared), std::move(devices), assignment));
  program->self_ = program;
  program->kinds_ = std::move(kinds);
  return program;
}

Result<void> NativeProgram::check(std::span<Buffer* const> arguments, size_t participant) const {
  if (arguments.size() != plan_->inputs.size())
    return fail(Code::invalid,
                cat(*name_, " takes ", plan_->inputs.size(), " arguments, ", arguments.size(), " were given"));
  for (size_t i = 0; i < arguments.size(); ++i) {
    const arch::Slot& slot = plan_->slots[plan_->inputs[i]];
    const Buffer& given = *arguments[i];
    if (given.dtype() != slot.dtype || given.dims() != slot.dims)
      return fail(Code::invalid, cat("argument ", i, " of ", *name_, " is ", shape_text(given.dtype(), given.dims()),
                                     ", expected ", shape_text(slot.dtype, slot.dims)));
    if (&given.device() != devices_[participant])
      return fail(Code::invalid, cat("argument ", i, " of ", *name_, " is on ", given.device().name(), ", expected on ",
                                     devices_[participant]->name()));
  }
  return {};
}

// A donated tensor may be written over, so nobody else may be reading it.
Result<void> NativeProgram::check_given_once(const Task& task) const {
  std::vector<std::pair<const Storage*, size_t>> all;
  for (size_t i = 0; i < task.inputs.size(); ++i) all.emplace_back(task.inputs[i].get(), i);
  std::sort(all.begin(), all.end());
  for (size_t k = 1; k < all.size(); ++k) {
    const auto [same, a] = all[k - 1];
    const size_t b = all[k].second;
    if (same == all[k].first && (task.is_donated[a] || task.is_donated[b]))
      return fail(Code::invalid,
                  cat("Attempt to use a buffer that was previously donated in the same call to Execute() "
                      "(flattened argument ",
                      b, ", first use: ", a, "): arguments ", a, " and ", b, " of ", *name_,
                      " are the same array, and it is donated"));
  }
  return {};
}

// Outputs are allocated before anything is donated, so that running out of memory takes nothing away.
Result<void> NativeProgram::prepare(Task& task, std::span<Buffer* const> arguments, size_t participant,
                                    std::span<const int64_t> not_donated) const {
  TRY(check(arguments, participant));
  const Device& device = *devices_[participant];
  task.inputs.reserve(arguments.size());
  task.outputs.resize(plan_->outputs.size());
  task.is_donated.resize(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    task.inputs.push_back(TRY(arguments[i]->use()));
    task.take(arguments[i]->ready());
    const int output = i < plan_->donations.size() ? plan_->donations[i] : -1;
    if (output < 0 || std::find(not_donated.begin(), not_donated.end(), int64_t(i)) != not_donated.end()) continue;
    task.is_donated[i] = true;
    const bool over = arguments[i]->kind() == kind_of(size_t(output)) && size_t(output) < plan_->in_place.size() &&
                      plan_->in_place[size_t(output)] == int(i);
    const bool is_free = over && !task.inputs[i]->has_foreign_use() &&
                         task.inputs[i]->bytes() == plan_->slots[plan_->outputs[size_t(output)]].bytes();
    if (is_free && !task.outputs[size_t(output)]) task.outputs[size_t(output)] = task.inputs[i]->reuse();
  }
  for (size_t o = 0; o < task.outputs.size(); ++o) {
    if (task.outputs[o]) continue;
    const arch::Slot& slot = plan_->slots[plan_->outputs[o]];
    task.outputs[o] = TRY(
        device.memory(kind_of(o))
            .allocate({.dtype = slot.dtype, .dims = slot.dims, .memory_class = MemoryClass::output, .owner = name_}));
  }
  if (std::find(task.is_donated.begin(), task.is_donated.end(), true) != task.is_donated.end())
    TRY(check_given_once(task));
  if (plan_->arena_bytes > 0) TRY(device.memory().check_room(plan_->arena_bytes, cat("temporaries of ", *name_)));
  for (size_t i = 0; i < arguments.size(); ++i)
    if (task.is_donated[i]) TRY(arguments[i]->donate());
  return {};
}

Result<void> NativeProgram::execute(const Task& task, size_t participant, host::Collectives* collectives) {
  const bool is_faulty = Injector::process().is_on();
  Injector::Ruling ruling;
  if (is_faulty) {
    Device& device = *devices_[participant];
    ruling = Injector::process().before(device.id(), device.counters(), *name_);
    if (ruling.failure) {
      count(device, 0, ruling.status);
      return ruling.failure;
    }
  }
  StackMemory few;
  const std::pmr::polymorphic_allocator<> memory(&few.lists);
  std::pmr::vector<const void*> inputs(task.inputs.size(), nullptr, memory);
  std::pmr::vector<void*> outputs(task.outputs.size(), nullptr, memory);
  std::pmr::vector<host::PackedForms*> packed_forms(task.inputs.size(), nullptr, memory);
  const std::vector<bool>& by_forms = host::by_forms_alone(*prepared_);
  std::pmr::vector<bool> counts(inputs.size(), false, memory);
  for (size_t i = 0; i < inputs.size(); ++i) {
    host::PackedForms& beside = task.inputs[i]->packed_forms();
    counts[i] = beside.begin_use(by_forms[i] && !task.is_donated[i]);
    inputs[i] = task.inputs[i]->data();
    packed_forms[i] = task.is_donated[i] ? nullptr : &beside;
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = task.outputs[i]->data();
  const int64_t start = now_ns();
  const Result<void> outcome = without_throwing([&] {
    const Work work(limits().run_seconds, "running, by TRINE_RUN_SECONDS", task.since);
    return host::execute(*prepared_, {inputs, outputs, packed_forms, collectives});
  });
  for (size_t i = 0; i < inputs.size(); ++i)
    task.inputs[i]->packed_forms().end_use(counts[i], by_forms[i] && !task.is_donated[i]);
  const int64_t took = now_ns() - start, mean = mean_ns_.load(std::memory_order_relaxed);
  mean_ns_.store(mean + (std::min(took, 2 * mean + 1000) - mean) / 8,
                 std::memory_order_relaxed);  // outliers weigh little
  if (ActivityRecord& record = ActivityRecord::process(); record.is_on())
    record.add(name_, plan_->source, devices_[participant]->id(), took);
  count(*devices_[participant], took, outcome ? Status::success : status_of(outcome.error().code));
  if (is_faulty && outcome) {
    std::vector<std::span<std::byte>> bytes;
    for (const auto& o : task.outputs) bytes.emplace_back(o->data(), o->bytes());
    Injector::process().after(devices_[participant]->id(), ruling.run, bytes);
  }
  return outcome;
}

void NativeProgram::count(Device& device, int64_t took_ns, Status status) const {
  ProgramCounters* const row = counted_.in(device.page(), [this] {
    CountedInfo info = info_of(*plan_, int64_t(devices_.size()));
    info.name = *name_;
    return info;
  });
  if (row) return device.page()->count_run(*row, device.page_core(), took_ns, 1, status);
  CoreCounters& counters = device.counters();
  counters.executions.fetch_add(1, std::memory_order_relaxed);
  counters.busy_ns.fetch_add(took_ns, std::memory_order_relaxed);
  if (status != Status::success) ++counters.failures;
}

bool NativeProgram::is_quick() const { return mean_ns_.load(std::memory_order_relaxed) < kQuickNs; }

// Waits for the inputs, then for a permit to compute. Alone, a program has the whole thread pool.
Result<void> NativeProgram::run_queued(const Task& task, Rendezvous* rendezvous, size_t participant) {
  Device& device = *devices_[participant];
  for (const Future& input : task.awaited)
    if (Result<void> ready = input.wait(); !ready) {
      count(device, 0, status_of(ready.error().code));
      return ready;
    }
  const bool is_alone = client_.permits().take() && !rendezvous;
  device.memory().begin_temporaries(plan_->arena_bytes);
  Result<void> outcome;
  {
    const ThreadPool::Use pool(is_alone ? ThreadPool::process() : single_thread());
    if (rendezvous) {
      Participant member(*rendezvous, int64_t(participant));
      outcome = execute(task, participant, &member);
    } else {
      outcome = execute(task, participant, nullptr);
    }
  }
  device.memory().end_temporaries(plan_->arena_bytes);
  client_.permits().give();
  return outcome;
}

// Every run counts, whatever becomes of it: the other processes count it too.
Abroad NativeProgram::begin_abroad() const {
  Abroad out;
  if (here_.size() == devices_.size()) return out;
  out.peers = client_.peers();
  out.launch = {devices_hash_, out.peers->next_launch(devices_hash_)};
  out.program = program_hash_;
  for (const Device* d : devices_) out.processes.push_back(d->info().process);
  out.numbers = &numbers_;
  return out;
}

std::shared_ptr<Rendezvous> NativeProgram::make_rendezvous(Abroad abroad) const {
  std::vector<comm::Place> places;
  for (const Device* d : devices_) places.push_back({d->info().node, d->info().chip, d->info().core});
  return std::make_shared<Rendezvous>(assignment_, &client_.permits(), &client_.sum_orders(), std::move(places),
                                      std::move(abroad));
}

void NativeProgram::add_buffers(Launched& launched, const Task& task, size_t participant, const Future& ready) const {
  auto& out = launched.outputs.emplace_back(task.outputs.size());
  for (size_t o = 0; o < out.size(); ++o) {
    const arch::Slot& slot = plan_->slots[plan_->outputs[o]];
    out[o] =
        std::make_unique<Buffer>(*devices_[participant], slot.dtype, slot.dims, task.outputs[o], ready, kind_of(o));
  }
}

Result<void> NativeProgram::prepare_all(std::pmr::vector<Task>& tasks,
                                        std::span<const std::span<Buffer* const>> arguments,
                                        std::span<const int64_t> not_donated) const {
  if (arguments.size() != here_.size())
    return fail(Code::invalid,
                cat(*name_, " runs on ", here_.size(), " devices, arguments of ", arguments.size(), " were given"));
  tasks.reserve(here_.size());
  for (size_t i = 0; i < here_.size(); ++i) TRY(prepare(tasks.emplace_back(), arguments[i], here_[i], not_donated));
  return {};
}

// A short program whose inputs are there, in the caller's thread; false where the device has other work.
bool NativeProgram::run_here(const Task& task, Launched& launched, Result<void>& outcome) {
  Queue& queue = devices_[0]->queue();
  if (!task.awaited.empty() || !queue.begin_inline()) return false;
  outcome = execute(task, 0, nullptr);
  queue.end_inline();
  if (!outcome) return true;
  add_buffers(launched, task, 0, Future());
  launched.done.emplace_back();
  return true;
}

Result<NativeProgram::Launched> NativeProgram::launch(std::span<const std::span<Buffer* const>> arguments,
                                                      std::span<const int64_t> not_donated,
                                                      std::pmr::memory_resource* memory) {
  const RunClock clock(RunRecord::process().is_on()
                           ? RunRecord::process().add(*plan_, int64_t(devices_.size()), {}, int(devices_[0]->id()))
                           : nullptr);
  Launched launched(memory);
  std::unique_lock<std::mutex> order;
  if (devices_.size() > 1) order = std::unique_lock(client_.launch_order());
  Abroad abroad = begin_abroad();
  const bool is_short = devices_.size() == 1 && !here_.empty() && is_quick();
  StackMemory few;
  std::pmr::vector<Task> tasks(is_short ? &few.lists : std::pmr::get_default_resource());
  const Result<void> checked = prepare_all(tasks, arguments, not_donated);
  if (!checked) {
    if (abroad.peers) abroad.peers->give_up(abroad.launch, checked.error().message);
    return Error(checked.error());
  }
  Result<void> outcome;
  if (is_short && run_here(tasks[0], launched, outcome)) {
    if (!outcome) return Error(outcome.error());
    return launched;
  }
  auto rendezvous = devices_.size() > 1 ? make_rendezvous(std::move(abroad)) : nullptr;
  for (size_t i = 0; i < here_.size(); ++i) {
    const size_t d = here_[i];
    Promise done;
    launched.done.push_back(done.future());
    add_buffers(launched, tasks[i], d, done.future());
    auto task = is_short ? std::make_shared<Task>(tasks[i], Task::allocator_type())  // its lists outlive this call
                         : std::make_shared<Task>(std::move(tasks[i]));
    devices_[d]->queue().add([self = self_.lock(), task, rendezvous, d, done] {
      const Result<void> outcome = self->run_queued(*task, rendezvous.get(), d);
      if (rendezvous) rendezvous->leave(int64_t(d), outcome);
      *task = Task();  // free what nobody holds before anyone is told
      done.set(outcome);
    });
  }
  return launched;
}

}  // namespace trine::run
