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

static Tile of_pattern(const Pattern& pattern) {
  Tile t;
  t.dtype = pattern.dtype;
  t.pattern = &pattern;
  t.partitions = pattern.partitions;
  t.row_elements = pattern.row_elements();
  t.row_stride = pattern.partition_stride * t.element_bytes();
  std::tie(t.low, t.high) = row_extent(pattern, t.element_bytes());
  t.dense = is_dense(pattern);
  return t;
}

static Forms::Part of_tensor(const Tensor& t) {
  if (t.space == Space::hbm) return {0, tensor_bytes(t)};
  return {t.address, t.address + bytes_per_partition(t)};
}

Forms::Forms(const Program& p) {
  for (const Pattern& pattern : p.patterns) patterns.push_back(of_pattern(pattern));
  for (const Tensor& t : p.tensors) tensors.push_back(of_tensor(t));
}

static Tile base_tile(const Program& program, const Operand& o, const Forms* forms) {
  CHECK(o.kind == OperandKind::tile, "a tile where the verifier saw one");
  const Tensor& tensor = program.tensors[o.tensor];
  Tile t = forms ? forms->patterns[o.pattern] : of_pattern(program.patterns[o.pattern]);
  const Forms::Part lies = forms ? forms->tensors[o.tensor] : of_tensor(tensor);
  t.space = tensor.space;
  t.core = tensor.core;
  t.tensor = o.tensor;
  t.partition = tensor.partition + o.partition;
  t.offset = o.offset * t.element_bytes() + (tensor.space == Space::hbm ? 0 : tensor.address);
  t.begin = lies.begin;
  t.end = lies.end;
  return t;
}

Tile base_tile(const Program& program, const Operand& o) { return base_tile(program, o, nullptr); }

Tile Call::tile_of(const Operand& o) const {
  Tile t = base_tile(program, o, forms);
  int64_t elements = 0;
  if (loops)
    for (size_t d = 0; d < kLoopDepthMax; ++d) elements += t.pattern->step[d] * loops[d];
  if (o.dynamic) {
    t.moves = true;
    const Dynamic& dynamic = program.dynamics[o.dynamic - 1];
    if (dynamic.kind == DynamicKind::reg) {
      if (registers) elements += static_cast<int32_t>(registers[dynamic.reg]) * dynamic.scale;
    } else {
      t.dynamic = &dynamic;
      t.index_offset = tile_of(program.operands[dynamic.index]).offset;
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
