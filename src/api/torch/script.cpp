// A compiled program inside a ScriptModule: what torch_neuronx.trace gives, and torch.jit.save and load keep.
// Weights are the module's own tensors; the program is kept as api::save writes it, checksum included, and compiled
// again when loaded. With `any_batch` a batch is cut into pieces of the traced size, the last one filled up.
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <torch/custom_class.h>

#include "api/torch/aten.h"

#include "api/executable.h"
#include "api/machine.h"
#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/types.h"
#include "base/text.h"
#include "run/drivers/native/direct.h"

namespace trine::api::neuron {

namespace {

at::ScalarType torch_type(Dtype dtype) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == dtype) return theirs;
  TORCH_CHECK(false, "a traced program gives ", row(dtype).name, ", which torch has no dtype for");
}

constexpr std::string_view kAnyBatch = "any batch";

// The chip of the machine that is meant; empty where none can be had.
std::string chip_here() {
  const auto machine = api::choose_machine({});
  return machine ? machine->chip().name : "";
}

// Packed forms of a weight, for as long as it is the same bytes.
struct Weight {
  const void* data = nullptr;
  uint32_t version = 0;
  std::unique_ptr<run::ArrayForms> forms = {};

  run::ArrayForms* of(const at::Tensor& t) {
    const uint32_t now = t.is_inference() ? 0 : uint32_t(t._version());
    if (!forms || data != t.const_data_ptr() || version != now)
      data = t.const_data_ptr(), version = now, forms = std::make_unique<run::ArrayForms>();
    return forms.get();
  }
};

struct ScriptProgram final : ::torch::CustomClassHolder {
  ScriptProgram(const std::string& text, const std::string& flags) {
    auto compiled = api::compile_with_flags(text, flags);
    TORCH_CHECK(compiled, "trace: ", compiled ? "" : compiled.error().text());
    set(*compiled);
  }
  ScriptProgram(ExecutablePtr loaded, bool any) : any_batch(any) { set(std::move(loaded)); }

  // What is kept beside the program: the chip it was compiled for, and `any batch`.
  std::string extra() const { return cat(chip_here(), any_batch ? cat("\n", kAnyBatch) : ""); }

  void set(ExecutablePtr given) {
    executable = std::move(given);
    auto made = run::DirectProgram::make(executable->plan);
    TORCH_CHECK(made, made ? "" : made.error().text());
    direct = *made;
    weights.resize(direct->plan().inputs.size());
  }

  ExecutablePtr executable;
  std::shared_ptr<const run::DirectProgram> direct;
  std::vector<Weight> weights;
  bool any_batch = false;
};

using ProgramPtr = c10::intrusive_ptr<ScriptProgram>;

ProgramPtr load_program(const std::string& bytes) {
  auto loaded = api::load(bytes);
  TORCH_CHECK(loaded, "a saved trace is damaged, or of another version: ", loaded ? "" : loaded.error().text(),
              "; trace the model again and save it with torch.jit.save");
  std::string_view chip = loaded->extra;
  const bool any_batch = chip.ends_with(kAnyBatch);
  if (any_batch) chip.remove_suffix(kAnyBatch.size());
  chip = trim(chip);
  const std::string here = chip_here();
  if (!chip.empty() && !here.empty() && chip != here)
    TORCH_WARN("torch.jit.load: found a trace for ", chip, ", expected one for ", here,
               ", the chip of this machine; it is compiled again. Trace it there, or choose its instance "
               "(TRINE_INSTANCE, `trine use`)");
  return c10::make_intrusive<ScriptProgram>(loaded->executable, any_batch);
}

// For constant_pad_nd: rows after the last, in the first dim.
std::vector<int64_t> fill_up(const at::Tensor& t, int64_t rows) {
  std::vector<int64_t> out(size_t(2 * t.dim()), 0);
  out.back() = rows;
  return out;
}

void check_input(const at::Tensor& t, const arch::Slot& slot, size_t i) {
  TORCH_CHECK(t.sizes() == at::IntArrayRef(slot.dims) && t.scalar_type() == torch_type(slot.dtype), "input ", i,
              " of a traced program is ", t.scalar_type(), t.sizes(), "; it was traced for ",
              shape_text(slot.dtype, slot.dims), " (trace again for another shape)");
}

// `weights` come first and keep packed forms.
std::vector<at::Tensor> run_once(const ProgramPtr& program, const std::vector<at::Tensor>& weights,
                                 const std::vector<at::Tensor>& inputs) {
  const arch::HostPlan& plan = program->direct->plan();
  std::vector<at::Tensor> held;
  std::vector<const void*> in;
  std::vector<run::ArrayForms*> packed_forms;
  TORCH_CHECK(weights.size() + inputs.size() == plan.inputs.size(), "a traced program takes ",
              plan.inputs.size() - weights.size(), " inputs, ", inputs.size(), " were given");
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const at::Tensor& t = i < weights.size() ? weights[i] : inputs[i - weights.size()];
    if (i >= weights.size()) check_input(t, plan.slots[plan.inputs[i]], i - weights.size());
    held.push_back(as_cpu(t).contiguous());
    in.push_back(held.back().const_data_ptr());
    packed_forms.push_back(i < weights.size() && t.is_contiguous() ? program->weights[i].of(t) : nullptr);
  }
  const c10::Device device = inputs.empty() ? c10::Device(at::kCPU) : inputs[0].device();
  std::vector<at::Tensor> results;
  std::vector<void*> out;
  for (arch::SlotId id : plan.outputs) {
    const arch::Slot& slot = plan.slots[id];
    results.push_back(at::empty(slot.dims, at::TensorOptions().dtype(torch_type(slot.dtype)).device(device)));
    out.push_back(results.back().data_ptr());
  }
  const auto outcome =
      run_on(device.has_index() ? device.index() : current_device(), *program->direct, in, out, packed_forms);
  TORCH_CHECK(outcome, outcome ? "" : outcome.error().text());
  return results;
}

int64_t traced_batch(const ProgramPtr& program, size_t weights) {
  const arch::HostPlan& plan = program->direct->plan();
  TORCH_CHECK(weights < plan.inputs.size() && !plan.slots[plan.inputs[weights]].dims.empty(),
              "a traced program whose first input has no batch");
  return plan.slots[plan.inputs[weights]].dims[0];
}

std::vector<at::Tensor> run_program(const ProgramPtr& program, std::vector<at::Tensor> weights,
                                    std::vector<at::Tensor> inputs) {
  if (!program->any_batch || inputs.empty() || inputs[0].dim() == 0) return run_once(program, weights, inputs);
  const int64_t piece = traced_batch(program, weights.size()), total = inputs[0].size(0);
  for (const at::Tensor& t : inputs)
    TORCH_CHECK(t.dim() > 0 && t.size(0) == total, "inputs of a traced program have batches of ", total, " and ",
                t.dim() > 0 ? t.size(0) : 0);
  if (total == piece) return run_once(program, weights, inputs);
  std::vector<std::vector<at::Tensor>> results;  // per output: its pieces
  for (int64_t at = 0; at < std::max<int64_t>(total, 1); at += piece) {
    std::vector<at::Tensor> part;
    for (const at::Tensor& t : inputs) {
      at::Tensor x = as_cpu(t).narrow(0, at, std::min(piece, total - at));
      if (x.size(0) < piece) x = at::constant_pad_nd(x, fill_up(x, piece - x.size(0)), 0);
      part.push_back(x);
    }
    const auto found = run_once(program, weights, part);
    results.resize(found.size());
    for (size_t o = 0; o < found.size(); ++o) results[o].push_back(found[o]);
  }
  std::vector<at::Tensor> joined;
  for (const auto& pieces : results)
    joined.push_back(at::cat(pieces, 0).narrow(0, 0, total).contiguous().to(inputs[0].device()));
  return joined;
}

}  // namespace

TORCH_LIBRARY(neuron, m) {
  m.class_<ScriptProgram>("Program")
      .def(::torch::init<std::string, std::string>())
      .def("text", [](const ProgramPtr& p) { return p->executable->artifact(); })
      .def("batch", [](const ProgramPtr& p, int64_t weights) { return traced_batch(p, size_t(weights)); })
      .def("take_any_batch", [](const ProgramPtr& p) { p->any_batch = true; })
      .def_pickle([](const ProgramPtr& p) -> std::string { return api::save(*p->executable, p->extra()); },
                  [](std::string bytes) -> ProgramPtr { return load_program(bytes); });
  m.def("run(__torch__.torch.classes.neuron.Program program, Tensor[] weights, Tensor[] inputs) -> Tensor[]",
        run_program);
}

}  // namespace trine::api::neuron
