// Stores before a collective and loads after it; see collective.h.
#include "compile/device/collective.h"

#include "base/text.h"

namespace trine::compile::device {

void lower_collective(Recorder& rec, Store& store, const ir::Node& node) {
  for (uint32_t i = 0; i < node.types.size() && i < node.inputs.size(); ++i) {
    Memory &from = store.of(node.inputs[i]), &to = store.of(node.result(i));
    const uint32_t source = store.hbm(from);
    if (from.elements == to.elements && from.dtype == to.dtype) {
      to.hbm = source;
      continue;
    }
    store.keep_in_hbm(to, "", arch::TensorKind::scratch);
    const int64_t n = std::min(from.elements, to.elements);  // what one core's share of a larger or smaller buffer is
    rec.transfer({.tensor = uint32_t(to.hbm), .dtype = to.dtype, .axes = {{1, n}}},
                 {.tensor = source, .dtype = from.dtype, .axes = {{1, n}}});
  }
}

void lower_rank(Recorder& rec, Store& store, const ir::Node& node) {
  Memory& m = store.of(node.result());
  const int found = rec.kernel().builder.find_tensor(node.op.name());
  if (found >= 0)
    m.hbm = found;
  else
    store.keep_in_hbm(m, node.op.name(), arch::TensorKind::input);
}

}  // namespace trine::compile::device
