// Constants of one value; see splat.h.
#include "compile/device/splat.h"

#include <algorithm>
#include <cmath>

namespace trine::compile::device {

bool splat(const ir::Node& node, double& out) {
  const Tensor* const t = node.op == "constant" ? node.attrs.tensor("value") : nullptr;
  if (!t || t->view().elements() == 0) return false;
  const size_t size = size_t(bytes(t->dtype));
  const std::byte* const data = t->data.get();
  for (size_t i = 1; i < size_t(t->view().elements()); ++i)
    if (!std::equal(data, data + size, data + i * size)) return false;
  out = dispatch_element(t->dtype, [&](auto element) -> double {
    using E = decltype(element);
    if constexpr (E::kIsComplex)
      return std::nan("");
    else
      return double(E::load(*reinterpret_cast<const typename E::Storage*>(data)));
  });
  return true;
}

}  // namespace trine::compile::device
