// The device `neuron` as torch sees it: allocator, guard, hooks and generator. What streams and events mean is in
// streams.h.

#include "api/torch/aten.h"

#include <atomic>
#include <map>
#include <mutex>

#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/eager/streams.h"
#include "api/torch/history.h"
#include "api/torch/lazy/lazy.h"
#include "api/torch/types.h"

namespace trine::api::neuron {

namespace {

constexpr auto kNeuron = c10::DeviceType::PrivateUse1;

// What the next allocation is for; null where nobody said.
struct Next {
  at::ScalarType dtype;
  at::IntArrayRef dims;
};
thread_local std::optional<Next> next;
run::Allocation next_described() { return next ? described(next->dtype, next->dims) : run::Allocation(); }

void release(void* held) {
  auto* memory = static_cast<DeviceMemory*>(held);
  if (memory) note_released(memory->bytes->data());
  delete memory;
}

// `xla` is lazy: its storages have memory when something was written.
struct LazyAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return allocate_lazily(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};

std::atomic<int64_t> ooms = 0;

// What torch.accelerator asks about memory besides; nothing is kept back for later, so reserved is in use.
struct NeuronAllocator final : c10::DeviceAllocator {
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { clear_stored(); }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}  // tasks hold their memory
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const run::MemoryStats found = stats(index);
    c10::CachingDeviceAllocator::DeviceStats out;
    for (auto* bytes : {&out.allocated_bytes, &out.reserved_bytes, &out.active_bytes, &out.requested_bytes}) {
      auto& all = (*bytes)[size_t(c10::CachingAllocator::StatType::AGGREGATE)];
      all.current = found.in_use_bytes, all.peak = found.peak_bytes;
    }
    out.num_ooms = ooms;
    out.allocation[size_t(c10::CachingAllocator::StatType::AGGREGATE)].allocated = found.allocations;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override { resetPeakStats(index); }
  void resetPeakStats(c10::DeviceIndex index) override {
    if (const auto found = device(index)) (*found)->memory().reset_peak();
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const run::MemoryStats found = stats(index);
    return {size_t(found.limit_bytes - found.in_use_bytes), size_t(found.limit_bytes)};
  }
  static run::MemoryStats stats(c10::DeviceIndex index) {
    const auto found = device(index);
    TORCH_CHECK(found, found ? "" : found.error().text());
    return (*found)->memory().stats();
  }

  c10::DataPtr allocate(size_t bytes) override {
    const int index = current_device();
    if (bytes == 0) return {nullptr, nullptr, &release, c10::Device(kNeuron, c10::DeviceIndex(index))};
    auto* memory = new DeviceMemory{memory_for(index, bytes, next_described())};
    void* const data = memory->bytes->data();
    note_allocated(index, data, bytes);
    return {data, memory, &release, c10::Device(kNeuron, c10::DeviceIndex(index))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    synchronize_device(-1);  // whose bytes they are is not said
    std::memcpy(to, from, bytes);
  }
};

// Memory of the host that copies to a device may start from: the CPU's, remembered so that is_pinned() knows it.
struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* held = new c10::DataPtr(c10::GetCPUAllocator()->allocate(bytes));
    const std::lock_guard lock(mutex_);
    if (bytes) ends_[held->get()] = static_cast<const char*>(held->get()) + bytes;
    return {held->get(), held, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
  bool holds(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto after = ends_.upper_bound(address);
    return after != ends_.begin() && address < std::prev(after)->second;
  }

 private:
  static void give_back(void* held);
  std::mutex mutex_;
  std::map<const void*, const void*> ends_;
};
PinnedAllocator& pinned() {
  static auto* made = new PinnedAllocator;  // tensors may outlive every static
  return *made;
}
void PinnedAllocator::give_back(void* held) {
  {
    const std::lock_guard lock(pinned().mutex_);
    pinned().ends_.erase(static_cast<c10::DataPtr*>(held)->get());
  }
  delete static_cast<c10::DataPtr*>(held);
}

NeuronAllocator neuron_allocator;
LazyAllocator xla_allocator;
const c10::AllocatorRegisterer<c10::DeviceType::PrivateUse1> neuron_registered(&neuron_allocator);
const c10::AllocatorRegisterer<c10::DeviceType::XLA> xla_registered(&xla_allocator);

template <c10::DeviceType kType>
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device old = getDevice();
    setDevice(d);
    return old;
  }
  c10::Device getDevice() const override { return {kType, c10::DeviceIndex(current_device())}; }
  void setDevice(c10::Device d) const override {
    if (!d.has_index()) return;
    const auto found = device(d.index());
    TORCH_CHECK(found, found ? "" : found.error().text());
    set_current_device(d.index());
  }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.has_index()) set_current_device(d.index());
  }
  c10::Stream getStream(c10::Device d) const override { return current_stream(d); }
  c10::Stream getDefaultStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream getNewStream(c10::Device d, int) const override { return new_stream(d); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return new_stream(d); }
  c10::Stream exchangeStream(c10::Stream s) const override { return exchange_stream(s); }
  c10::DeviceIndex deviceCount() const noexcept override { return c10::DeviceIndex(device_count()); }

  // An event is the moment that it was last recorded at.
  static const MomentPtr& moment(void* event) { return *static_cast<MomentPtr*>(event); }
  void record(void** event, const c10::Stream& s, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new MomentPtr;
    *static_cast<MomentPtr*>(*event) = neuron::record(s);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<MomentPtr*>(event);
  }
  void block(void* event, const c10::Stream& s) const override {
    if (event) neuron::block(s, moment(event));
  }
  bool queryEvent(void* event) const override { return !event || moment(event)->is_past(); }
  bool queryStream(const c10::Stream& s) const override { return is_idle(s); }
  void synchronizeStream(const c10::Stream& s) const override {
    if (kType == c10::DeviceType::XLA) return end_step();
    synchronize(s);
  }
  void synchronizeEvent(void* event) const override {
    if (kType == c10::DeviceType::XLA) return end_step();
    if (event) synchronize(moment(event));
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    if (kType == c10::DeviceType::XLA) return end_step();
    synchronize_device(index);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    return double(moment(to)->ns() - moment(from)->ns()) * 1e-6;
  }
};
using NeuronGuard = Guard<c10::DeviceType::PrivateUse1>;
using XlaGuard = Guard<c10::DeviceType::XLA>;
C10_REGISTER_GUARD_IMPL(PrivateUse1, NeuronGuard)
C10_REGISTER_GUARD_IMPL(XLA, XlaGuard)

const at::Generator& default_generator(c10::DeviceIndex index) {
  static auto* made = new std::vector<at::Generator>([] {
    std::vector<at::Generator> out;
    for (int i = 0; i < device_count(); ++i) out.push_back(make_generator(c10::DeviceIndex(i)));
    return out;
  }());
  const size_t at = size_t(index < 0 ? current_device() : index);
  TORCH_CHECK(at < made->size(), "neuron:", at, " is not there: this machine has ", made->size());
  return (*made)[at];
}

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return c10::DeviceIndex(device_count()); }
  void setCurrentDevice(c10::DeviceIndex index) const override { NeuronGuard().setDevice({kNeuron, index}); }
  c10::DeviceIndex getCurrentDevice() const override { return c10::DeviceIndex(current_device()); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return NeuronGuard().exchangeDevice({kNeuron, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override { return default_generator(index); }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return make_generator(index < 0 ? c10::DeviceIndex(current_device()) : index);
  }
  c10::Device getDeviceFromPtr(void*) const override { return {kNeuron, c10::DeviceIndex(current_device())}; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned(); }
  bool isPinnedPtr(const void* address) const override { return pinned().holds(address); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    c10::DataPtr larger = neuron_allocator.allocate(bytes);
    if (const size_t carried = storage.data() ? std::min(bytes, storage.nbytes()) : 0) {
      await_writes(storage);
      std::memcpy(larger.get(), storage.data(), carried);
    }
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(larger));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};

}  // namespace

run::Allocation described(at::ScalarType dtype, at::IntArrayRef dims) {
  return {.dtype = our_type(dtype).value_or(Dtype::u8), .dims = dims.vec()};
}
Described::Described(at::ScalarType dtype, at::IntArrayRef dims) { next = Next{dtype, dims}; }
Described::~Described() { next.reset(); }

std::shared_ptr<run::Storage> memory_for(int device, size_t bytes, run::Allocation what) {
  auto made = allocate(device, bytes, what);
  if (!made && made.error().code == Code::out_of_memory && is_busy()) {  // tasks hold what was given back
    synchronize_device(-1);
    made = allocate(device, bytes, std::move(what));
  }
  if (!made) {
    if (made.error().code == Code::out_of_memory) ++ooms;
    TORCH_CHECK_WITH(OutOfMemoryError, made.error().code != Code::out_of_memory, made.error().text(),
                     "\ntry a smaller batch, bf16, torch.utils.checkpoint, or an instance with more memory a core "
                     "(TRINE_INSTANCE, `trine ls --all`)");
    TORCH_CHECK(false, made.error().text());
  }
  return *std::move(made);
}

DeviceMemory* memory_of(const c10::Storage& storage) {
  const c10::DataPtr& data = storage.unsafeGetStorageImpl()->data_ptr();
  return data.get_deleter() == &release ? static_cast<DeviceMemory*>(data.get_context()) : nullptr;
}

at::Generator make_generator(c10::DeviceIndex index) { return at::make_generator<NeuronGenerator>(index); }
NeuronGenerator& generator(int index) {
  return *static_cast<NeuronGenerator*>(default_generator(c10::DeviceIndex(index)).unsafeGetGeneratorImpl());
}
uint64_t next_seed(c10::DeviceIndex index) {
  NeuronGenerator& g = generator(index);
  const std::lock_guard lock(g.mutex_);
  return g.next();
}
void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace trine::api::neuron
