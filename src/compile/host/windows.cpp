// Dimension numbers to strides.
#include "compile/host/windows.h"

#include <algorithm>

#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ops/layout/slices.h"

namespace trine::compile {

namespace {

namespace tuned = thresholds::host_windows;

bool holds(const ir::Ints& ints, int64_t d) { return std::find(ints.begin(), ints.end(), d) != ints.end(); }

std::optional<arch::WindowKind> kind_of(const ir::Node& node) {
  if (node.op == op::gather) return arch::WindowKind::gather;
  if (node.op != op::scatter || !node.regions.empty() || node.inputs.size() != 3) return std::nullopt;
  const std::string_view kind = node.attrs.text("kind");
  const Dtype dtype = node.types[0].dtype;
  if (kind == "set") return arch::WindowKind::set;
  if (!is_floating(dtype) && !is_integer(dtype)) return std::nullopt;
  if (kind == "add") return arch::WindowKind::add;
  if (kind == "multiply") return arch::WindowKind::multiply;
  if (kind == "maximum") return arch::WindowKind::maximum;
  if (kind == "minimum") return arch::WindowKind::minimum;
  return std::nullopt;
}

}  // namespace

std::optional<arch::WindowStep> plan_windows(const ir::Node& node) {
  const std::optional<arch::WindowKind> kind = kind_of(node);
  if (!kind) return std::nullopt;
  const bool gathers = *kind == arch::WindowKind::gather;
  const ops::SliceAxes axes = gathers ? ops::gather_axes(node.attrs) : ops::scatter_axes(node.attrs);
  const Dims &operand = node.inputs[0].type().dims, &indices = node.inputs[1].type().dims;
  const Dims& many = gathers ? node.types[0].dims : node.inputs[2].type().dims;
  const Dims operand_strides = row_major_strides(operand), index_strides = row_major_strides(indices),
             many_strides = row_major_strides(many);
  arch::WindowStep step{.kind = *kind};
  Dims sizes(operand.size(), 1);
  for (size_t d = 0, w = 0; d < operand.size(); ++d) {
    if (holds(axes.collapsed, int64_t(d)) || holds(axes.operand_batching, int64_t(d))) continue;
    const size_t at = size_t(axes.window[w++]);
    sizes[d] = many[at];
    step.window.push_back({many[at], many_strides[at], operand_strides[d]});
  }
  for (size_t d = 0, i = 0; d < many.size(); ++d) {
    if (holds(axes.window, int64_t(d))) continue;
    i += i == size_t(axes.index_vector_dim);
    arch::WindowStep::Loop loop{many[d], many_strides[d], 0, index_strides[i]};
    for (size_t b = 0; b < axes.indices_batching.size(); ++b)
      if (axes.indices_batching[b] == int64_t(i)) loop.operand = operand_strides[size_t(axes.operand_batching[b])];
    step.windows.push_back(loop);
    ++i;
  }
  const bool has_vectors = axes.index_vector_dim < int64_t(indices.size());
  for (size_t k = 0; k < axes.index_map.size(); ++k) {
    const size_t d = size_t(axes.index_map[k]);
    const int64_t apart = has_vectors ? index_strides[size_t(axes.index_vector_dim)] : 0;
    step.starts.push_back({int64_t(k) * apart, operand_strides[d], operand[d] - sizes[d]});
    step.is_disjoint &= sizes[d] == 1;
  }
  return step;
}

bool is_loop_gather(const ir::Node& node) {
  if (node.op != op::gather) return false;
  const ir::Type &operand = node.inputs[0].type(), &indices = node.inputs[1].type(), &out = node.types[0];
  const bool has_words =
      bits(out.dtype) >= 16 || out.dtype == Dtype::boolean || (is_integer(out.dtype) && bits(out.dtype) == 8);
  if (!arch::is_loop_dtype(out.dtype) || !has_words || !is_integer(indices.dtype)) return false;
  if (bits(indices.dtype) == 64 && bits(out.dtype) != 64) return false;  // the whole loop would have lanes of 64 bits
  if (operand.elements() == 0 || operand.elements() > INT32_MAX || out.elements() == 0) return false;
  const ir::Ints& window = ops::gather_axes(node.attrs).window;
  for (size_t d = out.dims.size(); d-- > 0;)
    if (out.dims[d] > 1) return !holds(window, int64_t(d));
  return true;
}

namespace {

// Are the windows side by side in `many` the same, in the same order?
bool are_alike(const arch::WindowStep& a, const arch::WindowStep& b) {
  if (a.windows.size() != b.windows.size() || a.window.size() != b.window.size()) return false;
  int64_t elements = 1;
  for (size_t d = 0; d < a.window.size(); ++d) {
    elements *= a.window[d].size;
    if (a.window[d].size != b.window[d].size || a.window[d].many != b.window[d].many) return false;
  }
  for (size_t d = 0; d < a.windows.size(); ++d)
    if (a.windows[d].size != b.windows[d].size || a.windows[d].many != b.windows[d].many) return false;
  return elements >= tuned::kJoinedElements;
}

}  // namespace

void join_windows(arch::HostPlan& plan) {
  std::vector<size_t> reads(plan.slots.size(), 0), made_by(plan.slots.size(), SIZE_MAX);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (arch::SlotId id : plan.steps[i].in) ++reads[id];
    for (arch::SlotId id : plan.steps[i].out) made_by[id] = i;
  }
  for (const arch::Slot& slot : plan.slots)
    if (slot.same_as != arch::kNoSlot) ++reads[slot.same_as];
  std::vector<bool> goes(plan.steps.size(), false);
  for (arch::Step& step : plan.steps) {
    auto* scatter = std::get_if<arch::WindowStep>(&step.what);
    if (!scatter || scatter->kind == arch::WindowKind::gather) continue;
    const arch::SlotId updates = step.in[2];
    const size_t maker = made_by[updates];
    if (maker == SIZE_MAX || reads[updates] != 1 || plan.slots[updates].kind != arch::SlotKind::temporary) continue;
    const auto* gather = std::get_if<arch::WindowStep>(&plan.steps[maker].what);
    if (!gather || gather->kind != arch::WindowKind::gather || !are_alike(*gather, *scatter)) continue;
    scatter->updates = std::make_shared<const arch::WindowStep>(*gather);
    step.in = {step.in[0], step.in[1], plan.steps[maker].in[0], plan.steps[maker].in[1]};
    goes[maker] = true;
  }
  size_t i = 0;
  std::erase_if(plan.steps, [&](const arch::Step&) { return goes[i++]; });
}

}  // namespace trine::compile
