// The generator of `neuron`, and what the files of this folder share. Every draw of a program takes one seed from it.
#pragma once

#include "api/torch/aten.h"

#include <functional>

#include "api/torch/eager/tasks.h"
#include "run/devices/memory.h"

namespace trine::api::neuron {

struct NeuronGenerator final : c10::GeneratorImpl {
  explicit NeuronGenerator(c10::DeviceIndex index)
      : c10::GeneratorImpl({c10::DeviceType::PrivateUse1, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { seed_ = seed, offset_ = 0; }
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return seed_;
  }
  void set_state(const c10::TensorImpl& state) override {
    TORCH_CHECK(state.numel() == 16 && state.dtype() == c10::kByte, "a generator's state is 16 bytes");
    const auto* words = reinterpret_cast<const uint64_t*>(state.data());
    seed_ = words[0], offset_ = words[1];
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor out = at::empty({16}, at::kByte);
    auto* words = reinterpret_cast<uint64_t*>(out.data_ptr());
    words[0] = seed_, words[1] = offset_;
    return out.getIntrusivePtr();
  }
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  // SplitMix64 of seed and offset: one 62-bit number per call.
  uint64_t next() {
    uint64_t z = seed_ + ++offset_ * 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return (z ^ (z >> 31)) >> 2;
  }

 private:
  c10::GeneratorImpl* clone_impl() const override {
    auto* out = new NeuronGenerator(device().index());
    out->seed_ = seed_, out->offset_ = offset_;
    return out;
  }
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

at::Generator make_generator(c10::DeviceIndex index);
NeuronGenerator& generator(int index);  // the default one of a device
uint64_t next_seed(c10::DeviceIndex index);
void register_hooks();

// What a tensor is, for the list that an out-of-memory error gives: torch's allocators are told its bytes alone.
// A Described says it for the allocations of a block.
run::Allocation described(at::ScalarType dtype, at::IntArrayRef dims);
class Described {
 public:
  Described(at::ScalarType dtype, at::IntArrayRef dims);
  ~Described();
  Described(const Described&) = delete;
  Described& operator=(const Described&) = delete;
};
std::shared_ptr<run::Storage> memory_for(int device, size_t bytes, run::Allocation what);  // or throws

// What a storage of `neuron` has. Tasks hold its bytes: torch may give a storage others at any time.
struct DeviceMemory {
  std::shared_ptr<run::Storage> bytes;
  Uses uses = {};
};
DeviceMemory* memory_of(const c10::Storage& storage);  // null: it has no bytes, or not the allocator's

// Python's lock is let go of meanwhile, where this thread has it. In group_python.cpp.
void without_python(const std::function<void()>& body);

// A tensor on the CPU whose memory, once given back, is kept for the next of its size (stored.cpp).
at::Tensor empty_stored(at::IntArrayRef dims, at::ScalarType dtype);
void clear_stored();

// Ours are `neuron`, and `xla` as the older stack named it: two names for the same devices.
inline bool is_ours(c10::DeviceType type) {
  return type == c10::DeviceType::PrivateUse1 || type == c10::DeviceType::XLA;
}
inline bool is_ours(const at::Tensor& tensor) { return tensor.defined() && is_ours(tensor.device().type()); }

// A neuron tensor's memory under a CPU tensor's name, and back: device memory is this machine's memory. For the host:
// tasks on it have ended.
enum class Use { read, write };
at::Tensor as_cpu(const at::Tensor& tensor, Use use = Use::read);

}  // namespace trine::api::neuron
