// Indices that are data, looked at before an eager op reads by them: out of range is an error, as on torch's CPU.
// A compiled program takes the nearest index instead, as XLA does.
#include <algorithm>

#include "api/torch/aten.h"

#include "api/torch/backend.h"
#include "api/torch/eager/call.h"

namespace trine::api::neuron {

namespace {

struct Range {
  int64_t from, size;  // from: 0, or -size where indices count from the end too
  std::optional<int64_t> also = {};
};

template <class T>
void check(const std::string& name, const at::Tensor& dense, Range range) {
  const T* data = dense.const_data_ptr<T>();
  const auto is_bad = [&](T i) { return (i < range.from || i >= range.size) && (!range.also || i != *range.also); };
  const T* end = data + dense.numel();
  const T* bad = std::find_if(data, end, is_bad);
  TORCH_CHECK_INDEX(bad == end, name, ": found index ", bad == end ? 0 : int64_t(*bad), " at place ", bad - data,
                    ", expected ", range.from, " to ", range.size - 1);
}

void check(const std::string& name, const at::Tensor& index, Range range) {
  if (index.scalar_type() != at::kLong && index.scalar_type() != at::kInt) return;
  const at::Tensor dense = as_cpu(index).contiguous();
  index.scalar_type() == at::kLong ? check<int64_t>(name, dense, range) : check<int32_t>(name, dense, range);
}

void embedding(const std::string& name, c10::ArrayRef<c10::IValue> a) {
  check(name, a[1].toTensor(), {0, a[0].toTensor().size(0)});
}

void along_dim(const std::string& name, c10::ArrayRef<c10::IValue> a) {
  const at::Tensor& self = a[0].toTensor();
  if (self.dim() > 0) check(name, a[2].toTensor(), {0, self.size(a[1].toInt())});
}

void many(const std::string& name, c10::ArrayRef<c10::IValue> a) {
  const auto indices = a[1].toListRef();
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i].isTensor() || !indices[i].toTensor().defined()) continue;
    const int64_t size = a[0].toTensor().size(int64_t(i));
    check(name, indices[i].toTensor(), {-size, size});
  }
}

void classes(const std::string& name, c10::ArrayRef<c10::IValue> a) {
  const at::Tensor& self = a[0].toTensor();
  check(name, a[1].toTensor(), {0, self.size(self.dim() > 1 ? 1 : 0), a[4].toInt()});
}

constexpr std::pair<std::string_view, CheckIndices> kOps[] = {
    {"aten::embedding", embedding},      {"aten::index_select", along_dim},
    {"aten::gather", along_dim},         {"aten::index", many},
    {"aten::_index_put_impl_", many},    {"aten::index_put_", many},
    {"aten::nll_loss_forward", classes}, {"aten::nll_loss2d_forward", classes},
};

}  // namespace

CheckIndices check_of(std::string_view op) {
  for (const auto& [name, check_it] : kOps)
    if (name == op) return check_it;
  return nullptr;
}

}  // namespace trine::api::neuron
