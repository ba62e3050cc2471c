// Keys, the cache of entries, and the boxed fallback that every op without a registration of its own reaches.
#include "api/torch/aten.h"

#include "api/torch/eager/call.h"

#include "api/torch/backend.h"
#include "api/torch/lazy/lazy.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_set>

namespace trine::api::neuron {

namespace {

// Ops whose factors change from step to step in optimisers: these numbers are inputs, not part of the program,
// as is whatever is called lr.
const std::unordered_set<std::string_view>& varying() {
  static const std::unordered_set<std::string_view> names = {
      "aten::add",      "aten::add_",    "aten::sub",      "aten::sub_", "aten::addcdiv",
      "aten::addcdiv_", "aten::addcmul", "aten::addcmul_", "aten::lerp", "aten::lerp_"};
  return names;
}

bool is_special(double v) { return v == 0 || v == 1 || v == -1; }
bool is_common(double v) { return is_special(v) || v == 2 || v == 0.5; }

struct Cache {
  std::mutex mutex;
  ByKey<std::shared_ptr<const Entry>> entries;
  std::unordered_map<std::string, int64_t> fallbacks;
};
Cache& cache() {
  static auto* made = new Cache;
  return *made;
}

}  // namespace

bool is_part_of_key(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.dim() == 0 && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         !tensor.is_complex() && is_common(at::native::_local_scalar_dense_cpu(tensor).toDouble());
}

Call::Call(const c10::OperatorHandle& handle, const torch::jit::Stack& stack, Keep keep)
    : op(handle), arguments(torch::jit::last(stack, handle.schema().arguments().size())), keep_(keep) {
  const auto& schema = op.schema();
  key.push_back(int64_t(std::bit_cast<uintptr_t>(&schema)));
  const bool may_vary = varying().contains(std::string_view(schema.name()));
  for (size_t i = 0; i < arguments.size(); ++i) add(arguments[i], may_vary || schema.arguments()[i].name() == "lr");
}

void Call::add(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    key.push_back(-1);
    return;
  }
  if (keep_ == Keep::recorded && is_part_of_key(tensor)) {
    key.push_back(-10 - int64_t(tensor.scalar_type()));
    key.push_back(int64_t(2 * at::native::_local_scalar_dense_cpu(tensor).toDouble()));
    return;
  }
  tensors.push_back(tensor);
  const bool dense = tensor.is_contiguous();
  key.push_back((int64_t(tensor.scalar_type()) << 8) | (tensor.dim() << 1) | int64_t(dense));
  for (int64_t d : tensor.sizes()) key.push_back(d);
  if (!dense)
    for (int64_t s : tensor.strides()) key.push_back(s);
  if (keep_ == Keep::run) add_memory(tensor);
  if (tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor() || !(tensor.is_cpu() || is_ours(tensor)) ||
      tensor.layout() != at::kStrided)
    is_cacheable = false;
}

void Call::add_memory(const at::Tensor& tensor) {
  const void* data = is_ours(tensor) || tensor.is_cpu() ? tensor.const_data_ptr() : nullptr;
  size_t first = tensors.size() - 1;
  for (size_t i = 0; i < first && data; ++i)
    if (tensors[i].const_data_ptr() == data) first = i;
  key.push_back(int64_t(first));
}

void Call::add(const c10::IValue& value, bool may_vary) {
  if (value.isTensor()) return add(value.toTensor());
  if (value.isDouble()) {
    const double v = value.toDouble();
    if (may_vary && !is_special(v)) {
      numbers.push_back(v);
      key.push_back(-9);
    } else {
      key.push_back(-2);
      key.push_back(std::bit_cast<int64_t>(v));
    }
  } else if (value.isInt() || value.isBool()) {
    key.push_back(value.isInt() ? -3 : -4);
    key.push_back(value.isInt() ? value.toInt() : int64_t(value.toBool()));
  } else if (value.isNone()) {
    key.push_back(-5);
  } else if (value.isList()) {
    const auto list = value.toListRef();
    key.push_back(-6);
    key.push_back(int64_t(list.size()));
    for (const c10::IValue& v : list) add(v, false);
  } else if (value.isString()) {
    key.push_back(-7);
    key.push_back(int64_t(std::hash<std::string>()(value.toStringRef())));
  } else if (value.isDevice()) {
    key.push_back(-8);
  } else if (value.isGenerator()) {
    key.push_back(-5);  // as none: it is asked for a seed when the program runs
    generator = value.toGenerator();
    TORCH_CHECK(is_ours(generator.device().type()), op.schema().name(), ": found a generator of ", generator.device(),
                ", expected one of the device: torch.Generator(\"neuron\")");
  } else {
    is_cacheable = false;  // complex numbers and the like
  }
}

c10::Device Call::device() const {
  for (const at::Tensor& t : tensors)
    if (is_ours(t)) return t.device();
  for (const c10::IValue& v : arguments)
    if (v.isDevice() && is_ours(v.toDevice().type()) && v.toDevice().has_index()) return v.toDevice();
  return c10::impl::VirtualGuardImpl(c10::DeviceType::PrivateUse1).getDevice();
}

uint64_t Call::next_seed() const {
  if (!generator.defined()) return api::neuron::next_seed(device().index());
  auto* g = static_cast<NeuronGenerator*>(generator.unsafeGetGeneratorImpl());
  const std::lock_guard lock(g->mutex_);
  return g->next();
}

void count_fallback(const std::string& op) {
  const std::lock_guard lock(cache().mutex);
  ++cache().fallbacks[op];
}
std::unordered_map<std::string, int64_t> fallbacks() {
  const std::lock_guard lock(cache().mutex);
  return cache().fallbacks;
}
void clear_cache() {
  const std::lock_guard lock(cache().mutex);
  cache().entries.clear();
  cache().fallbacks.clear();
}
size_t cache_size() {
  const std::lock_guard lock(cache().mutex);
  return cache().entries.size();
}

// Operators of two tensors that torch_xla takes either of to the device by itself; none in place on the CPU's.
bool brings_operands(const Call& call) {
  static const std::unordered_set<std::string_view> names = {"add",  "bitwise_and", "bitwise_or", "bitwise_xor",
                                                             "div",  "fmod",        "mul",        "pow",
                                                             "rsub", "sub",         "__lshift__", "__rshift__"};
  std::string_view name = call.op.schema().name();
  if (!name.starts_with("aten::") || call.op.schema().overload_name().ends_with("out")) return false;
  name.remove_prefix(6);
  const bool in_place = name.ends_with('_') && !name.ends_with("__");
  if (in_place) name.remove_suffix(1);
  return call.device().type() == c10::DeviceType::XLA && names.contains(name) &&
         !(in_place && call.tensors[0].is_cpu());
}

// As other accelerators: a tensor with dims must be on the device, indices on the CPU and copies excepted.
void check_devices(const Call& call) {
  const c10::Device device = call.device();
  for (const at::Tensor& t : call.tensors) {
    if (t.device() == device || (t.is_cpu() && t.dim() == 0)) continue;
    if (t.is_cpu() && brings_operands(call)) continue;
    const std::string& name = call.op.schema().name();
    if ((t.is_cpu() && name.find("index") != std::string::npos) || name.find("copy") != std::string::npos) continue;
    TORCH_CHECK(false, name, ": found a tensor on ", t.device(), " of shape ", t.sizes(), " among tensors on ", device,
                "; expected all on one device (move it with .to(\"", device, "\"))");
  }
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Call call(op, *stack);
  if (call.generator.defined() && call.device().type() == c10::DeviceType::XLA) return lazy_fallback(op, stack);
  check_devices(call);
  std::shared_ptr<const Entry> entry;
  if (call.is_cacheable) {
    {
      const std::lock_guard lock(cache().mutex);
      const auto found = cache().entries.find(c10::ArrayRef<int64_t>(call.key));
      if (found != cache().entries.end()) entry = found->second;
    }
    if (!entry) {
      entry = make_entry(call);
      const std::lock_guard lock(cache().mutex);
      cache().entries.emplace(c10::ArrayRef<int64_t>(call.key).vec(), entry);
    }
  }
  if (entry && entry->program)
    run_entry(*entry, call, *stack);
  else
    run_on_cpu(call, *stack);
}

namespace {

// Ops that torch would take apart, or refuse, before they reach the fallback.
constexpr const char* kWhole[] = {"convolution_overrideable",
                                  "convolution_backward_overrideable",
                                  "native_layer_norm",
                                  "native_layer_norm_backward",
                                  "native_group_norm",
                                  "native_group_norm_backward",
                                  "embedding",
                                  "_fused_rms_norm",
                                  "_native_batch_norm_legit_functional",
                                  "_native_batch_norm_legit_no_training"};

template <void (*kRun)(const c10::OperatorHandle&, torch::jit::Stack*)>
void register_whole(torch::Library& m) {
  for (const char* name : kWhole) m.impl(name, torch::CppFunction::makeFromBoxedFunction<kRun>());
}

}  // namespace

void no_sparse(const c10::OperatorHandle& op, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().name(),
                              ": found a sparse tensor, which the device neuron does not hold; expected a dense one "
                              "(.to_dense(), nn.Embedding(sparse=False)) or a tensor on the CPU");
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_sparse>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&no_sparse>()); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }
TORCH_LIBRARY_IMPL(_, XLA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&lazy_fallback>()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { register_whole<&fallback>(m); }
TORCH_LIBRARY_IMPL(aten, XLA, m) { register_whole<&lazy_fallback>(m); }

}  // namespace trine::api::neuron
