// The queue of a device: recording calls, and running what is recorded.
#include "api/torch/aten.h"

#include "api/torch/lazy/lazy.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <mutex>

#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/types.h"

namespace trine::api::neuron {

namespace {

constexpr auto kXla = c10::DeviceType::XLA;
constexpr size_t kSamplesMax = 1024;
constexpr const char* kLost = ": a value of a step that failed; see the error of that step";

void release(void* held) { delete static_cast<BufferPtr*>(held); }

struct Queue {
  std::recursive_mutex mutex;
  std::vector<int64_t> words;
  std::vector<BufferPtr> slots;
  std::vector<uint64_t> numbers;
  const World* world = nullptr;  // whose devices are to run it; null: those of the storages it meets
};

Queue& queue(int device) {
  static auto* made = new std::vector<std::unique_ptr<Queue>>([] {
    std::vector<std::unique_ptr<Queue>> out;
    for (int i = 0; i < std::max(device_count(), 1); ++i) out.push_back(std::make_unique<Queue>());
    return out;
  }());
  TORCH_CHECK(device >= 0 && size_t(device) < made->size(), "xla:", device, " is not there: this machine has ",
              made->size());
  return *(*made)[size_t(device)];
}

struct State {
  std::mutex mutex;
  ByKey<std::shared_ptr<const Entry>> entries;
  ByKey<std::shared_ptr<const Step>> steps;
  std::unordered_map<std::string, Metric> metrics;
  std::unordered_map<std::string, int64_t> counters;
  bool is_extracting = false;
};
State& state() {
  static auto* made = new State;
  return *made;
}

void count(const char* name, int64_t more = 1) {
  const std::lock_guard lock(state().mutex);
  state().counters[name] += more;
}

// Adds the time of a block to a metric.
struct Timer {
  const char* name;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  ~Timer() {
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    const std::lock_guard lock(state().mutex);
    Metric& m = state().metrics[name];
    ++m.count, m.total += took;
    if (m.last.size() == kSamplesMax) m.last.erase(m.last.begin());
    m.last.emplace_back(now, took);
  }
};

// The storage's pointer where its buffer's memory is; the context stays.
void show(c10::StorageImpl& storage, const Buffer& buffer) {
  c10::DataPtr old = storage.set_data_ptr(c10::DataPtr());
  void* context = old.release_context();
  storage.set_data_ptr_noswap({buffer.memory ? buffer.memory->data() : nullptr, context, &release,
                               c10::Device(kXla, c10::DeviceIndex(buffer.device))});
}

BufferPtr& buffer_of(const c10::Storage& storage) {
  c10::StorageImpl& impl = *storage.unsafeGetStorageImpl();
  if (impl.data_ptr().get_deleter() != &release || !impl.data_ptr().get_context()) {
    TORCH_CHECK(!impl.data_ptr().get(), "xla: a storage whose memory is not the device's");
    auto* made = new BufferPtr(std::make_shared<Buffer>());
    (*made)->device = std::max<int>(impl.device().index(), 0);
    impl.set_data_ptr_noswap({nullptr, made, &release, c10::Device(kXla, c10::DeviceIndex((*made)->device))});
  }
  return *static_cast<BufferPtr*>(impl.data_ptr().get_context());
}

std::shared_ptr<run::Storage> new_memory(int device, size_t bytes, run::Allocation what) {
  return memory_for(device, std::max<size_t>(bytes, 1), std::move(what));
}

// Its parts in one memory; without a storage where only what is recorded holds it.
void join(c10::StorageImpl* storage, size_t bytes, Buffer& buffer, run::Allocation what) {
  if (buffer.parts.empty()) return;
  buffer.memory = new_memory(buffer.device, bytes, std::move(what));
  const auto joined = gather(*buffer.world, buffer.layout, buffer.parts, buffer.memory->data());
  TORCH_CHECK(joined, "xla: ", joined ? "" : joined.error().text());
  buffer.parts.clear();
  if (storage) show(*storage, buffer);
}

void need_memory(const at::Tensor& t, Buffer& buffer) {
  if (buffer.memory) return;
  TORCH_CHECK(!buffer.is_lost, "xla", kLost);
  c10::StorageImpl& storage = *t.storage().unsafeGetStorageImpl();
  if (!buffer.parts.empty()) return join(&storage, storage.nbytes(), buffer, described(t.scalar_type(), t.sizes()));
  buffer.memory = new_memory(buffer.device, storage.nbytes(), described(t.scalar_type(), t.sizes()));
  show(storage, buffer);
}

// In parts on a world's devices, from memory.
void part(c10::StorageImpl* storage, Buffer& b, const World& world, Dtype dtype, const Dims& dims) {
  if (b.world != &world) b.layout = nullptr;
  auto made = scatter(world, b.layout, dtype, dims, b.memory->data());
  TORCH_CHECK(made, "xla: ", made ? "" : made.error().text());
  b.parts = std::move(*made);
  b.world = &world;
  b.memory = nullptr;
  b.packed_forms = nullptr, b.reads = 0;
  if (storage) show(*storage, b);
}

// An alias that asks for nothing: the memory must be there.
at::Tensor host_view(const at::Tensor& tensor) {
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options().device(at::kCPU));
}

bool has_other_dtype(const at::Tensor& t) {
  const Buffer& b = *buffer_of(t.storage());
  return b.slot >= 0 && b.dtype != t.scalar_type();
}

int64_t slot_of(Queue& q, const at::Tensor& t) {
  BufferPtr& b = buffer_of(t.storage());
  if (b->slot < 0) {
    b->slot = int64_t(q.slots.size());
    b->dtype = t.scalar_type();
    b->dims = t.sizes().vec();
    b->bytes = t.storage().nbytes();
    b->storage = t.storage().getWeakStorageImpl();
    q.slots.push_back(b);
  }
  return b->slot;
}

uint64_t number_bits(const at::Tensor& t) {
  uint64_t bits = 0;
  std::memcpy(&bits, t.const_data_ptr(), t.element_size());
  return bits;
}

// Where a result goes: the tensor it is written to, or a new one.
at::Tensor target(const Entry::Output& output, const Call& call, c10::Device device) {
  if (output.write < 0) return at::empty(output.dims, at::TensorOptions().dtype(output.dtype).device(device));
  const at::Tensor& t = call.tensors[size_t(output.write)];
  if (t.sizes() != output.dims) t.resize_(output.dims);
  return t;
}

// What a failed step was to write has no value; it can only be written anew.
void check_not_lost(const Call& call) {
  const std::string& name = call.op.schema().name();
  const bool is_written_whole = name == "aten::fill_" || name == "aten::zero_";
  for (const at::Tensor& t : call.tensors) {
    if (t.device().type() != kXla) continue;
    Buffer& b = *buffer_of(t.storage());
    TORCH_CHECK(!b.is_lost || is_written_whole, name, kLost);
  }
}

void record(Queue& q, const Entry& entry, const Call& call, torch::jit::Stack& stack) {
  check_not_lost(call);
  const c10::Device device = call.device();
  std::vector<at::Tensor> results;
  for (const Entry::Output& output : entry.outputs) results.push_back(target(output, call, device));
  q.words.push_back(entry.number);
  for (const at::Tensor& t : call.tensors) {
    if (t.device().type() == kXla) {
      q.words.push_back(slot_of(q, t));
      q.words.push_back(t.storage_offset());
    } else {
      q.words.push_back(-1);
      q.numbers.push_back(number_bits(t));
    }
  }
  for (double v : call.numbers) q.numbers.push_back(std::bit_cast<uint64_t>(v));
  if (entry.is_seeded) q.numbers.push_back(call.next_seed());
  for (size_t o = 0; o < results.size(); ++o) {
    if (entry.outputs[o].write < 0) q.words.push_back(slot_of(q, results[o]));
    buffer_of(results[o].storage())->is_written = true;
  }
  give_results(entry, call, results, stack);
}

// Tensors of the host with dims become tensors of the device; false where a call cannot be recorded.
bool bring_arguments(Call& call) {
  const c10::Device device = call.device();
  if (device.type() != kXla) return false;
  for (at::Tensor& t : call.tensors) {
    if (t.device() == device) continue;
    if (!t.is_cpu()) return false;
    if (t.dim() == 0 && size_t(t.element_size()) <= sizeof(uint64_t)) continue;
    at::Tensor moved = at::empty(t.sizes(), t.options().device(device));
    copy_to_lazy(t, moved);
    t = moved;
  }
  return true;
}

bool mixes_dtypes(const Call& call) {
  for (const at::Tensor& a : call.tensors)
    for (const at::Tensor& b : call.tensors)
      if (a.device().type() == kXla && b.device().type() == kXla && a.scalar_type() != b.scalar_type() &&
          a.storage().is_alias_of(b.storage()))
        return true;
  return false;
}

std::shared_ptr<const Entry> entry_of(const Call& call) {
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().entries.find(c10::ArrayRef<int64_t>(call.key));
    if (found != state().entries.end()) return found->second;
  }
  auto entry = make_recorded(call);
  const std::lock_guard lock(state().mutex);
  return state().entries.emplace(c10::ArrayRef<int64_t>(call.key).vec(), std::move(entry)).first->second;
}

// --- running

// The world of the first storage that is dealt; storages of another are whole before.
const World* world_of(const Queue& q, const std::vector<c10::intrusive_ptr<c10::StorageImpl>>& holders) {
  if (state().is_extracting) return nullptr;
  const World* world = q.world;
  for (const BufferPtr& b : q.slots)
    if (!world && (b->layout || !b->parts.empty())) world = b->world;
  for (size_t i = 0; i < q.slots.size(); ++i) {
    Buffer& b = *q.slots[i];
    if (!b.world || b.world == world) continue;
    join(holders[i].get(), b.bytes, b, described(b.dtype, b.dims));
    b.layout = nullptr, b.world = nullptr;
  }
  return world;
}

Trace trace_of(const Queue& q, std::vector<c10::intrusive_ptr<c10::StorageImpl>>& holders) {
  Trace trace{.words = q.words};
  for (const BufferPtr& b : q.slots) holders.push_back(b->storage->lock());
  trace.world = world_of(q, holders);
  for (size_t i = 0; i < q.slots.size(); ++i) {
    const BufferPtr& b = q.slots[i];
    trace.slots.push_back({.dtype = b->dtype,
                           .elements = int64_t(b->bytes / c10::elementSize(b->dtype)),
                           .has_memory = b->memory != nullptr || !b->parts.empty(),
                           .is_given = b->is_written && holders[i],
                           .layout = b->layout});
  }
  return trace;
}

std::shared_ptr<const Step> step_of(const Trace& trace) {
  std::vector<int64_t> key = trace.words;
  for (const Trace::Slot& s : trace.slots) {
    key.push_back((int64_t(s.dtype) << 2) | (int64_t(s.has_memory) << 1) | int64_t(s.is_given));
    key.push_back(s.elements);
    if (trace.world) key.push_back(s.layout ? s.layout->number : 0);
  }
  if (trace.world) key.push_back(-trace.world->number);
  {
    const std::lock_guard lock(state().mutex);
    const auto found = state().steps.find(key);
    if (found != state().steps.end()) {
      ++state().counters["CachedCompile"];
      return found->second;
    }
  }
  const Timer timer{"CompileTime"};
  auto made = make_step(trace);
  const std::lock_guard lock(state().mutex);
  ++state().counters["UncachedCompile"];
  return state().steps.emplace(std::move(key), std::move(made)).first->second;
}

run::ArrayForms* forms_of(Buffer& b) {
  if (b.is_written || b.reads++ == 0) return nullptr;
  if (!b.packed_forms) b.packed_forms = std::make_unique<run::ArrayForms>();
  return b.packed_forms.get();
}

// On the devices of a world: what comes whole is dealt first, what is written stays in parts.
void run_spread(const Step& step, const Queue& q, const std::vector<c10::intrusive_ptr<c10::StorageImpl>>& holders) {
  const Spread& spread = *step.spread;
  const arch::HostPlan& plan = spread.program->plan();
  std::vector<Spread::Input> inputs;
  for (const Step::Param& p : step.params) {
    if (p.is_number) {
      inputs.push_back({.bytes = &q.numbers[size_t(p.index)]});
      continue;
    }
    Buffer& b = *q.slots[size_t(p.index)];
    const arch::Slot& slot = plan.slots[plan.inputs[inputs.size()]];
    if (b.parts.empty()) part(holders[size_t(p.index)].get(), b, *spread.world, slot.dtype, slot.dims);
    inputs.push_back({.parts = &b.parts});
  }
  const Timer timer{"ExecuteTime"};
  auto results = spread.run(inputs);
  TORCH_CHECK(results, "xla: ", results ? "" : results.error().text());
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    Buffer& b = *q.slots[size_t(step.outputs[i].slot)];
    b.parts = std::move((*results)[i]);
    b.world = spread.world, b.layout = spread.outputs[i];
    b.memory = nullptr, b.is_lost = false;
    show(*holders[size_t(step.outputs[i].slot)], b);
  }
}

void run_step(const Step& step, const Queue& q, const std::vector<c10::intrusive_ptr<c10::StorageImpl>>& holders) {
  if (step.spread) return run_spread(step, q, holders);
  std::vector<const void*> inputs;
  std::vector<run::ArrayForms*> forms;
  for (const Step::Param& p : step.params) {
    if (p.is_number) {
      inputs.push_back(&q.numbers[size_t(p.index)]);
      forms.push_back(nullptr);
    } else {
      Buffer& b = *q.slots[size_t(p.index)];
      inputs.push_back(b.memory->data());
      forms.push_back(forms_of(b));
    }
  }
  std::vector<std::shared_ptr<run::Storage>> memories;
  std::vector<void*> outputs;
  for (const Step::Output& o : step.outputs) {
    const Buffer& b = *q.slots[size_t(o.slot)];
    memories.push_back(
        o.over >= 0 ? b.memory : new_memory(b.device, holders[size_t(o.slot)]->nbytes(), described(b.dtype, b.dims)));
    outputs.push_back(memories.back()->data());
    if (state().is_extracting) std::memset(outputs.back(), 0, memories.back()->bytes());
  }
  if (!state().is_extracting) {
    const Timer timer{"ExecuteTime"};
    const auto outcome = run_on(step.outputs.empty() ? current_device() : q.slots[size_t(step.outputs[0].slot)]->device,
                                *step.program, inputs, outputs, forms);
    TORCH_CHECK(outcome, "xla: ", outcome ? "" : outcome.error().text());
  }
  for (size_t i = 0; i < memories.size(); ++i) {
    Buffer& b = *q.slots[size_t(step.outputs[i].slot)];
    b.memory = std::move(memories[i]);
    b.is_lost = false;
    show(*holders[size_t(step.outputs[i].slot)], b);
  }
}

void forget(Queue& q, bool failed) {
  for (const BufferPtr& b : q.slots) {
    if (b->is_written) b->packed_forms = nullptr, b->reads = 0, b->is_lost = failed;
    if (b->is_lost) b->memory = nullptr, b->parts.clear();
    b->slot = -1, b->is_written = false;
  }
  q.words.clear(), q.slots.clear(), q.numbers.clear();
  q.world = nullptr;
}

void flush(Queue& q) {
  if (q.words.empty()) return;
  std::vector<c10::intrusive_ptr<c10::StorageImpl>> holders;
  bool failed = true;
  struct Forget {
    Queue& q;
    const bool& failed;
    ~Forget() { forget(q, failed); }
  } const at_end{q, failed};
  const Trace trace = trace_of(q, holders);
  run_step(*step_of(trace), q, holders);
  failed = false;
}

}  // namespace

c10::DataPtr allocate_lazily(size_t) {
  auto* held = new BufferPtr(std::make_shared<Buffer>());
  (*held)->device = current_device();
  return {nullptr, held, &release, c10::Device(kXla, c10::DeviceIndex((*held)->device))};
}

void resize_lazily(const c10::Storage& storage, size_t bytes) {
  Buffer& b = *buffer_of(storage);
  const std::lock_guard lock(queue(b.device).mutex);
  if (b.slot >= 0) flush(queue(b.device));
  join(storage.unsafeGetStorageImpl(), storage.nbytes(), b, {});
  if (b.memory) {
    auto larger = new_memory(b.device, bytes, {});
    std::memcpy(larger->data(), b.memory->data(), std::min(bytes, storage.nbytes()));
    b.memory = std::move(larger);
    show(*storage.unsafeGetStorageImpl(), b);
  }
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
}

void lazy_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call call(op, *stack, Call::Keep::recorded);
  check_devices(call);
  if (call.is_cacheable && bring_arguments(call) && !mixes_dtypes(call)) {
    const auto entry = entry_of(call);
    if (entry->number >= 0) {
      Queue& q = queue(call.device().index());
      const std::lock_guard lock(q.mutex);
      for (const at::Tensor& t : call.tensors)
        if (t.device().type() == kXla && has_other_dtype(t)) flush(q);
      return record(q, *entry, call, *stack);
    }
  }
  const Call eager(op, *stack);
  run_on_cpu(eager, *stack);
}

void settle(const at::Tensor& tensor, Use use) {
  if (tensor.device().type() != kXla) return;
  Buffer& b = *buffer_of(tensor.storage());
  Queue& q = queue(b.device);
  const std::lock_guard lock(q.mutex);
  if (b.slot >= 0 && (b.is_written || use == Use::write)) flush(q);
  if (use == Use::write) b.packed_forms = nullptr, b.reads = 0;
  need_memory(tensor, b);
}

void copy_to_lazy(const at::Tensor& from, const at::Tensor& to) {
  Buffer& b = *buffer_of(to.storage());
  Queue& q = queue(b.device);
  const std::lock_guard lock(q.mutex);
  if (from.device().type() != kXla && b.slot < 0) {
    settle(to, Use::write);
    host_view(to).copy_(as_cpu(from));
    return;
  }
  at::Tensor source = from;
  if (from.device() != to.device()) {
    source = at::empty(from.sizes(), from.options().device(to.device()));
    settle(source, Use::write);
    host_view(source).copy_(as_cpu(from));
  }
  static const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{to, source, false};
  lazy_fallback(copy, &stack);
}

void end_step() {
  count("MarkStep");
  for (int i = 0; i < device_count(); ++i) {
    Queue& q = queue(i);
    const std::lock_guard lock(q.mutex);
    flush(q);
  }
}

bool deal(const at::Tensor& tensor, const World& world, Dims dims, compile::Sharding sharding) {
  Buffer& b = *buffer_of(tensor.storage());
  Queue& q = queue(b.device);
  const std::lock_guard lock(q.mutex);
  if (state().is_extracting || world.devices.size() == 1) return true;
  if (b.slot >= 0 && b.is_written) {
    q.world = &world;
    return false;
  }
  need_memory(tensor, b);
  b.world = &world, b.layout = Layout::find(world, dims, std::move(sharding));
  if (const auto dtype = our_type(tensor.scalar_type()))
    part(tensor.storage().unsafeGetStorageImpl(), b, world, *dtype, dims);
  return true;
}

void undeal(const at::Tensor& tensor) {
  settle(tensor, Use::write);
  Buffer& b = *buffer_of(tensor.storage());
  b.layout = nullptr, b.world = nullptr;
}

// A step that is to write the tensor decides how it lies.
std::string sharding_spec(const at::Tensor& tensor) {
  if (tensor.device().type() != kXla) return {};
  Buffer& b = *buffer_of(tensor.storage());
  Queue& q = queue(b.device);
  const std::lock_guard lock(q.mutex);
  if (b.slot >= 0 && b.is_written) flush(q);
  if (!b.world) return {};
  compile::Sharding sharding = b.layout ? b.layout->sharding : compile::Sharding();
  if (b.layout && tensor.dim() == int64_t(sharding.size())) {
    std::vector<size_t> order(sharding.size());  // of memory, back to the tensor's dims
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t x, size_t y) { return tensor.stride(int64_t(x)) > tensor.stride(int64_t(y)); });
    for (size_t i = 0; i < order.size(); ++i) sharding[order[i]] = b.layout->sharding[i];
  }
  return b.world->meshes.hlo_text(sharding, {}, b.world->ids);
}

std::vector<Shard> shards(const at::Tensor& tensor) {
  std::vector<Shard> out;
  Buffer& b = *buffer_of(tensor.storage());
  Queue& q = queue(b.device);
  const std::lock_guard lock(q.mutex);
  if (b.slot >= 0 && b.is_written) flush(q);
  if (b.parts.empty() && b.world && b.memory)
    if (const auto dtype = our_type(tensor.scalar_type()))
      part(tensor.storage().unsafeGetStorageImpl(), b, *b.world, *dtype, tensor.sizes().vec());
  for (size_t d = 0; d < b.parts.size(); ++d) {
    const run::Buffer& held = *b.parts[d];
    auto bytes = held.use();
    TORCH_CHECK(bytes, "xla: ", bytes ? "" : bytes.error().text());
    Shard shard{.device = held.device().id()};
    shard.values = at::from_blob((*bytes)->data(), b.layout ? held.dims() : tensor.sizes().vec(),
                                 tensor.options().device(at::kCPU))
                       .clone();
    shard.start = b.layout ? part_start(*b.world, *b.layout, d) : std::vector<int64_t>(size_t(tensor.dim()));
    out.push_back(std::move(shard));
  }
  return out;
}

int64_t recorded_words(int device) {
  Queue& q = queue(device);
  const std::lock_guard lock(q.mutex);
  return int64_t(q.words.size());
}

std::unordered_map<std::string, Metric> metrics() {
  const std::lock_guard lock(state().mutex);
  return state().metrics;
}
std::unordered_map<std::string, int64_t> counters() {
  const std::lock_guard lock(state().mutex);
  return state().counters;
}
void clear_metrics() {
  const std::lock_guard lock(state().mutex);
  state().metrics.clear();
  state().counters.clear();
}
void set_extracting(bool extracting) { state().is_extracting = extracting; }

}  // namespace trine::api::neuron
