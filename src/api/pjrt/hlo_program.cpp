// Parameters, a custom call for each step, and the root: the result itself, or a tuple.
#include "api/pjrt/hlo_program.h"

#include <algorithm>
#include <map>

#include "api/pjrt/proto.h"
#include "api/program_text.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

constexpr size_t kStepsShown = 64;
constexpr uint64_t kTuple = 13, kComputation = 1;  // a PrimitiveType; the one computation's id

// PrimitiveType; 0 where it is not written here.
uint64_t primitive_type(Dtype dtype) {
  static constexpr std::pair<Dtype, uint64_t> kTypes[] = {
      {Dtype::boolean, 1}, {Dtype::s8, 2},   {Dtype::s16, 3},  {Dtype::s32, 4},   {Dtype::s64, 5},
      {Dtype::u8, 6},      {Dtype::u16, 7},  {Dtype::u32, 8},  {Dtype::u64, 9},   {Dtype::f16, 10},
      {Dtype::f32, 11},    {Dtype::f64, 12}, {Dtype::c64, 15}, {Dtype::bf16, 16}, {Dtype::c128, 18},
  };
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.first == dtype; });
  return found == std::end(kTypes) ? 0 : found->second;
}

// ShapeProto: 2 type, 3 dims, 5 layout {1 minor to major, 16 alignment of the tail}, 6 whether dims are dynamic.
std::string shape_of(const arch::Slot& slot, const Dims& minor_to_major) {
  std::string out, dims, order, fixed(slot.dims.size(), '\0'), layout;
  for (int64_t d : slot.dims) write_varint(dims, uint64_t(d));
  for (size_t i = slot.dims.size(); minor_to_major.empty() && i-- > 0;) write_varint(order, i);
  for (int64_t d : minor_to_major) write_varint(order, uint64_t(d));
  if (!order.empty()) put(layout, 1, order);
  put(layout, 16, 1);
  put(out, 2, primitive_type(slot.dtype));
  if (!dims.empty()) put(out, 3, dims);
  put(out, 5, layout);
  if (!fixed.empty()) put(out, 6, fixed);
  return out;
}

// HloComputationProto: 1 name, 2 instructions, 4 program shape, 5 id, 6 id of the root.
class Entry {
 public:
  explicit Entry(const api::Executable& executable) : shown_(shown_plan(executable)), plan_(*shown_) {
    for (size_t i = 0; i < plan_.inputs.size(); ++i)
      if (!executable.input_layout(i).empty()) layouts_[plan_.inputs[i]] = executable.input_layout(i);
    for (size_t i = 0; i < plan_.outputs.size(); ++i)
      if (!executable.output_layout(i).empty()) layouts_[plan_.outputs[i]] = executable.output_layout(i);
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      std::string own;
      if (i > 0) put(own, 9, i);
      values_[plan_.inputs[i]] = add("parameter", shape(plan_.inputs[i]), {}, own);
      put(shape_, 1, shape(plan_.inputs[i]));
    }
    put(shape_, 2, shape(plan_.outputs));
    for (size_t i = 0; i < plan_.inputs.size(); ++i) put(shape_, 3, cat("p", i));
    const size_t steps = executable.plan->steps.size();
    if (shown_ == executable.plan && steps <= kStepsShown) {
      for (const arch::Step& step : plan_.steps) call(step_name(step), step.in, step.out);
    } else {
      call(cat("program of ", steps, " steps"), plan_.inputs, plan_.outputs);
    }
    std::vector<uint64_t> results;
    for (arch::SlotId id : plan_.outputs) results.push_back(value(id));
    root_ = results.size() == 1 ? results[0] : add("tuple", shape(plan_.outputs), results);
  }

  const std::string& program_shape() const { return shape_; }
  std::string bytes() const {
    std::string out;
    put(out, 1, "main");
    out += instructions_;
    put(out, 4, shape_);
    put(out, 5, kComputation);
    put(out, 6, root_);
    return out;
  }

 private:
  std::string shape(arch::SlotId id) const {
    const auto layout = layouts_.find(id);
    return shape_of(plan_.slots[id], layout == layouts_.end() ? Dims() : layout->second);
  }
  std::string shape(const std::vector<arch::SlotId>& slots) const {
    if (slots.size() == 1) return shape(slots[0]);
    std::string out;
    put(out, 2, kTuple);
    for (arch::SlotId id : slots) put(out, 4, shape(id));
    return out;
  }
  // HloInstructionProto: 1 name, 2 opcode, 3 shape, 35 id, 36 operands; of each opcode its own.
  uint64_t add(std::string_view opcode, const std::string& shape, const std::vector<uint64_t>& operands,
               const std::string& own = {}) {
    const uint64_t id = kComputation << 32 | ++count_;
    std::string out, ids;
    put(out, 1, cat(opcode, ".", count_));
    put(out, 2, opcode);
    put(out, 3, shape);
    out += own;
    put(out, 35, id);
    for (uint64_t o : operands) write_varint(ids, o);
    if (!ids.empty()) put(out, 36, ids);
    put(instructions_, 2, out);
    return id;
  }
  // 28 target, 65 whether it has an effect, 77 version of its interface.
  void call(std::string_view name, const std::vector<arch::SlotId>& in, const std::vector<arch::SlotId>& out) {
    std::vector<uint64_t> operands;
    for (arch::SlotId id : in) operands.push_back(value(id));
    std::string own;
    put(own, 28, name);
    put(own, 65, 1);
    put(own, 77, 1);
    const uint64_t result = add("custom-call", shape(out), operands, own);
    for (size_t i = 0; i < out.size(); ++i) {
      std::string index;
      if (i > 0) put(index, 13, i);
      values_[out[i]] = out.size() == 1 ? result : add("get-tuple-element", shape(out[i]), {result}, index);
    }
  }
  // A slot that no step has written is a constant, or shares another's bytes.
  uint64_t value(arch::SlotId id) {
    if (!values_.contains(id)) call("constant", {}, {id});
    return values_[id];
  }

  const std::shared_ptr<const arch::HostPlan> shown_;
  const arch::HostPlan& plan_;
  std::map<arch::SlotId, Dims> layouts_;
  std::map<arch::SlotId, uint64_t> values_;
  std::string instructions_, shape_;
  uint64_t count_ = 0, root_ = 0;
};

}  // namespace

std::string hlo_program(const api::Executable& executable) {
  const arch::HostPlan& plan = *executable.plan;
  const auto is_known = [](const arch::Slot& slot) { return primitive_type(slot.dtype) != 0; };
  if (executable.options.partitions != 1 || !executable.shardings.results.empty() ||
      !std::all_of(plan.slots.begin(), plan.slots.end(), is_known))
    return {};
  const Entry entry(executable);
  // HloModuleProto: 1 name, 2 and 6 the entry, 3 computations, 4 program shape, 5 id.
  std::string module, config, out;
  put(module, 1, executable.name());
  put(module, 2, "main");
  put(module, 3, entry.bytes());
  put(module, 4, entry.program_shape());
  put(module, 6, kComputation);
  // HloModuleConfigProto: 1 layout of the entry, 4 replicas, 5 partitions.
  put(config, 1, entry.program_shape());
  put(config, 4, uint64_t(executable.options.replicas));
  put(config, 5, 1);
  put(out, 1, module);
  put(out, 2, config);
  return out;
}

}  // namespace trine::api::pjrt
