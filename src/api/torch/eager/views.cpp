// Ops that torch must find registered: making, viewing, copying. Everything else reaches the fallback.

#include "api/torch/aten.h"

#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/eager/streams.h"
#include "api/torch/lazy/lazy.h"
#include "run/devices/device.h"
#include "run/profile/ran.h"

namespace trine::api::neuron {

at::Tensor as_cpu(const at::Tensor& tensor, Use use) {
  if (!is_ours(tensor)) return tensor;
  settle(tensor, use);
  await_uses(tensor, use);
  return alias_of(tensor);
}

namespace {

template <c10::DeviceType kType>
constexpr c10::DispatchKeySet kKeys(kType == c10::DeviceType::XLA ? c10::DispatchKey::XLA
                                                                  : c10::DispatchKey::PrivateUse1);

template <c10::DeviceType kType>
c10::Device device_or_current(std::optional<c10::Device> device) {
  const c10::Device d = device.value_or(c10::Device(kType));
  return d.has_index() ? d : c10::impl::VirtualGuardImpl(kType).getDevice();
}

template <c10::DeviceType kType>
at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_or_current<kType>(device));
  const Described what(c10::dtype_or_default(dtype), size);
  auto* allocator = c10::GetAllocator(kType);
  return at::detail::empty_generic(size, allocator, kKeys<kType>, c10::dtype_or_default(dtype), format);
}

template <c10::DeviceType kType>
at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device_or_current<kType>(device));
  const Described what(c10::dtype_or_default(dtype), size);
  auto* allocator = c10::GetAllocator(kType);
  return at::detail::empty_strided_generic(size, stride, allocator, kKeys<kType>, c10::dtype_or_default(dtype));
}

// Bytes between host and a device: counted, and logged where runs are logged, until it goes out of scope. Within a
// device nothing crosses.
class CountedTransfer {
 public:
  CountedTransfer(c10::Device from, c10::Device to, int64_t bytes) {
    const bool enters = from.is_cpu() && is_ours(to.type()), leaves = is_ours(from.type()) && to.is_cpu();
    if (!bytes || enters == leaves) return;
    const int ours = std::max<int>((enters ? to : from).index(), 0);
    clock_.emplace(enters ? run::Transfer::to_device : run::Transfer::from_device, bytes, ours);
    const auto on = device(ours);
    if (!on) return;
    run::CoreCounters& counters = (*on)->counters();
    (enters ? counters.host_to_device_bytes : counters.device_to_host_bytes) += bytes;
  }

 private:
  std::optional<run::TransferClock> clock_;
};

bool is_neuron(const at::Tensor& t) { return t.device().type() == c10::DeviceType::PrivateUse1; }

// The stream that a copy is a task of: the source's, as torch.cuda has it, or the target's. None where it is done at
// once: on default streams, and from and to memory of the host unless it is pinned and nobody waits.
std::optional<c10::Stream> stream_of_copy(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const auto can_wait = [&](const at::Tensor& t) { return is_neuron(t) || (non_blocking && t.is_pinned()); };
  for (const at::Tensor& t : {from, to})
    if (is_neuron(t) && is_beside(t.device()) && can_wait(from) && can_wait(to)) return current_stream(t.device());
  return std::nullopt;
}

void issue_copy(const c10::Stream& stream, const at::Tensor& from, const at::Tensor& to) {
  const at::Tensor& other = is_neuron(from) && from.device() != stream.device() ? from : to;
  const bool crosses = is_neuron(other) && other.device() != stream.device();
  if (crosses) block(stream, record(current_stream(other.device())));
  const at::Tensor source = is_neuron(from) ? alias_of(from) : from.detach();
  const at::Tensor target = is_neuron(to) ? alias_of(to) : to.detach();
  issue(stream, "aten::copy_", {{from, Use::read}, {to, Use::write}},
        [source, target, a = from.device(), b = to.device(), bytes = int64_t(to.nbytes())] {
          const CountedTransfer transfer(a, b, bytes);
          target.copy_(source);
        });
  if (crosses) block(current_stream(other.device()), record(stream));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  if (const auto stream = stream_of_copy(from, to, non_blocking)) {
    issue_copy(*stream, from, to);
    return to;
  }
  const at::Tensor source = to.is_cpu() ? as_cpu(from) : from;  // what is to be computed first is no part of the copy
  const CountedTransfer transfer(from.device(), to.device(), to.numel() * int64_t(to.element_size()));
  if (to.device().type() == c10::DeviceType::XLA)
    copy_to_lazy(source, to);
  else
    as_cpu(to, Use::write).copy_(as_cpu(source));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Scalar local_scalar(const at::Tensor& tensor) {
  const at::Tensor held = as_cpu(tensor);
  const CountedTransfer transfer(tensor.device(), at::kCPU, int64_t(tensor.element_size()));
  return at::native::_local_scalar_dense_cpu(held);
}

// Grown before torch resizes: a storage that is to be written has no bytes torch could carry over.
const at::Tensor& resize_lazy(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  const size_t bytes = size_t(self.storage_offset() + c10::multiply_integers(size)) * self.dtype().itemsize();
  if (bytes > self.storage().nbytes()) resize_lazily(self.storage(), bytes);
  return at::native::resize_(self, size, format);
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
  const int64_t count = int64_t(source.nbytes() / self.dtype().itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, count, {});
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_storage_cpu_(self, source.storage(), source.storage_offset(), source.sizes(),
                                      source.strides());
}

// As CUDA's and the CPU's: a parameter that is moved stays the object that it was, and what was tied stays tied.
bool can_take_data(const at::Tensor& self, const at::Tensor& from) {
  const auto is_dense = [](const at::Tensor& t) {
    return t.layout() == at::kStrided && (t.is_cpu() || is_ours(t)) && !t.unsafeGetTensorImpl()->is_python_dispatch();
  };
  return (is_dense(self) && is_dense(from)) ||
         self.unsafeGetTensorImpl()->has_compatible_shallow_copy_type(from.key_set());
}

// Nested tensors are not held: torch's transformer then takes the way of masks.
bool is_left_aligned(const at::Tensor&, const at::Tensor&) { return false; }

void record_stream(at::Tensor&, c10::Stream) {}  // tasks hold their memory

bool is_set_to(const at::Tensor& self, const at::Tensor& source) { return at::native::is_set_to(self, source); }

template <c10::DeviceType kType>
void register_views(torch::Library& m) {
  m.impl("empty.memory_format", TORCH_FN(empty<kType>));
  m.impl("empty_strided", TORCH_FN(empty_strided<kType>));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("_copy_from", TORCH_FN(copy_from));
  m.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  m.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  m.impl("set_.source_Storage", TORCH_FN(set_storage));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  m.impl("set_.source_Tensor", TORCH_FN(set_tensor));
  m.impl("is_set_to", TORCH_FN(is_set_to));
  m.impl("record_stream", TORCH_FN(record_stream));
  m.impl("_has_compatible_shallow_copy_type", TORCH_FN(can_take_data));
  m.impl("_nested_tensor_from_mask_left_aligned", TORCH_FN(is_left_aligned));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_views<c10::DeviceType::PrivateUse1>(m);
  m.impl("resize_", TORCH_FN(at::native::resize_));
}
TORCH_LIBRARY_IMPL(aten, XLA, m) {
  register_views<c10::DeviceType::XLA>(m);
  m.impl("resize_", TORCH_FN(resize_lazy));
}
// copy_from looks at these bits itself; torch would clone first, by way of copy_from again.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, m) { m.impl("_copy_from", torch::CppFunction::makeFallthrough()); }

}  // namespace trine::api::neuron
