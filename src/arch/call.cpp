// Resolving a Call's operands and attributes; see call.h. Asking for a slot the row does not declare is our bug.
#include "arch/call.h"

#include <tuple>

#include "arch/row.h"
#include "arch/runs.h"
#include "base/result.h"

namespace trine::arch {

// Neighbouring elements one after the other, whatever the dims.
static bool is_dense(const Pattern& pattern) {
  int64_t expected = 1;
  for (size_t i = pattern.rank; i-- > 0;) {
    const Dim& d = pattern.dims[i];
    if (d.count == 1) continue;
    if (d.stride != expected) return false;
    expected *= d.count;
  }
  return true;
}

const Operand& Call::operand(std::string_view slot) const {
  const int index = info.slot(slot);
  CHECK(index >= 0, "a slot that the row declares");
  return operand(index);
}

bool Call::has(std::string_view slot) const { return operand(slot).kind != OperandKind::none; }

Tile unplaced(const Program& program, const Operand& o) {
  CHECK(o.kind == OperandKind::tile, "a tile where the verifier saw one");
  const Tensor& tensor = program.tensors[o.tensor];
  const Pattern& pattern = program.patterns[o.pattern];
  Tile t;
  t.space = tensor.space;
  t.dtype = pattern.dtype;
  t.core = tensor.core;
  t.tensor = o.tensor;
  t.pattern = &pattern;
  t.partition = tensor.partition + o.partition;
  t.partitions = pattern.partitions;
  t.row_elements = pattern.row_elements();
  t.offset = o.offset * t.element_bytes() + (tensor.space == Space::hbm ? 0 : tensor.address);
  t.row_stride = pattern.partition_stride * t.element_bytes();
  std::tie(t.low, t.high) = row_extent(pattern, t.element_bytes());
  t.begin = t.on_chip() ? tensor.address : 0;
  t.end = t.on_chip() ? t.begin + bytes_per_partition(tensor) : tensor_bytes(tensor);
  t.dense = is_dense(pattern);
  return t;
}

Tile Call::place(const Operand& o) const {
  Tile t = unplaced(program, o);
  int64_t elements = 0;
  if (loops)
    for (size_t d = 0; d < kLoopDepthMax; ++d) elements += t.pattern->step[d] * loops[d];
  if (o.dynamic) {
    const Dynamic& dynamic = program.dynamics[o.dynamic - 1];
    if (dynamic.kind == DynamicKind::reg) {
      if (registers) elements += static_cast<int32_t>(registers[dynamic.reg]) * dynamic.scale;
    } else {
      t.dynamic = &dynamic;
      t.index_offset = place(program.operands[dynamic.index]).offset;
    }
  }
  t.offset += elements * t.element_bytes();
  return t;
}

int64_t Call::attr(std::string_view name) const {
  const int index = info.attr(name);
  CHECK(index >= 0, "an attribute that the row declares");
  return program.attrs[insn.attr + static_cast<size_t>(index)];
}

std::span<const int64_t> Call::list(std::string_view name) const {
  const int64_t index = attr(name);
  if (index < 0) return {};
  return program.lists[static_cast<size_t>(index)];
}

std::string_view Call::string(std::string_view name) const {
  const int64_t index = attr(name);
  return index < 0 ? std::string_view{} : std::string_view(program.strings[static_cast<size_t>(index)]);
}

}  // namespace trine::arch
