// A compiled program inside a ScriptModule: what torch_neuronx.trace gives, and torch.jit.save and load keep.
// Weights are the module's own tensors; the program is kept as StableHLO text and compiled again when loaded.
#include <torch/custom_class.h>

#include "api/torch/aten.h"

#include "api/executable.h"
#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "run/drivers/native/direct.h"

namespace trine::api::neuron {

namespace {

constexpr std::pair<Dtype, at::ScalarType> kTypes[] = {
    {Dtype::f32, at::kFloat},     {Dtype::f64, at::kDouble},       {Dtype::f16, at::kHalf},
    {Dtype::bf16, at::kBFloat16}, {Dtype::boolean, at::kBool},     {Dtype::s8, at::kChar},
    {Dtype::s16, at::kShort},     {Dtype::s32, at::kInt},          {Dtype::s64, at::kLong},
    {Dtype::u8, at::kByte},       {Dtype::c64, at::kComplexFloat}, {Dtype::c128, at::kComplexDouble},
};

at::ScalarType torch_type(Dtype dtype) {
  for (const auto& [ours, theirs] : kTypes)
    if (ours == dtype) return theirs;
  TORCH_CHECK(false, "a traced program gives ", row(dtype).name, ", which torch has no dtype for");
}

struct ScriptProgram final : ::torch::CustomClassHolder {
  explicit ScriptProgram(std::string given) : text(std::move(given)) {
    auto compiled = api::compile(text, {});
    TORCH_CHECK(compiled, "a saved trace is damaged: ", compiled ? "" : compiled.error().text());
    auto made = run::DirectProgram::make((*compiled)->plan);
    TORCH_CHECK(made, made ? "" : made.error().text());
    direct = *made;
    for (size_t i = 0; i < direct->plan().inputs.size(); ++i) kept.push_back(std::make_unique<run::KeptForms>());
  }

  const std::string text;
  std::shared_ptr<const run::DirectProgram> direct;
  std::vector<std::unique_ptr<run::KeptForms>> kept;  // beside the weights, which never change
};

using ProgramPtr = c10::intrusive_ptr<ScriptProgram>;

void check_input(const at::Tensor& t, const arch::Slot& slot, size_t i) {
  TORCH_CHECK(t.sizes() == at::IntArrayRef(slot.dims) && t.scalar_type() == torch_type(slot.dtype), "input ", i,
              " of a traced program is ", t.scalar_type(), t.sizes(), "; it was traced for ",
              shape_text(slot.dtype, slot.dims), " (trace again for another shape)");
}

// `weights` come first and keep packed forms.
std::vector<at::Tensor> run_program(const ProgramPtr& program, std::vector<at::Tensor> weights,
                                    std::vector<at::Tensor> inputs) {
  const arch::HostPlan& plan = program->direct->plan();
  std::vector<at::Tensor> held;
  std::vector<const void*> in;
  std::vector<run::KeptForms*> kept;
  TORCH_CHECK(weights.size() + inputs.size() == plan.inputs.size(), "a traced program takes ",
              plan.inputs.size() - weights.size(), " inputs, ", inputs.size(), " were given");
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const at::Tensor& t = i < weights.size() ? weights[i] : inputs[i - weights.size()];
    if (i >= weights.size()) check_input(t, plan.slots[plan.inputs[i]], i - weights.size());
    held.push_back(as_cpu(t).contiguous());
    in.push_back(held.back().const_data_ptr());
    kept.push_back(i < weights.size() ? program->kept[i].get() : nullptr);
  }
  const c10::Device device = inputs.empty() ? c10::Device(at::kCPU) : inputs[0].device();
  std::vector<at::Tensor> results;
  std::vector<void*> out;
  for (arch::SlotId id : plan.outputs) {
    const arch::Slot& slot = plan.slots[id];
    results.push_back(at::empty(slot.dims, at::TensorOptions().dtype(torch_type(slot.dtype)).device(device)));
    out.push_back(results.back().data_ptr());
  }
  const auto outcome = program->direct->run(in, out, kept);
  TORCH_CHECK(outcome, outcome ? "" : outcome.error().text());
  return results;
}

}  // namespace

TORCH_LIBRARY(neuron, m) {
  m.class_<ScriptProgram>("Program")
      .def(::torch::init<std::string>())
      .def("text", [](const ProgramPtr& p) { return p->text; })
      .def_pickle([](const ProgramPtr& p) -> std::string { return p->text; },
                  [](std::string text) -> ProgramPtr { return c10::make_intrusive<ScriptProgram>(std::move(text)); });
  m.def("run(__torch__.torch.classes.neuron.Program program, Tensor[] weights, Tensor[] inputs) -> Tensor[]",
        run_program);
}

}  // namespace trine::api::neuron
