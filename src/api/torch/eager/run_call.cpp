// Running a call: by its program, on the tensors' own memory; or by torch's CPU kernels on the same memory.

#include "api/torch/aten.h"

#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/eager/call.h"
#include "api/torch/eager/streams.h"

namespace trine::api::neuron {

namespace {

// As at::empty, without its way through the dispatcher, which is half of what a small op costs.
at::Tensor new_tensor(at::IntArrayRef dims, at::ScalarType dtype, c10::Device device) {
  const c10::DeviceGuard guard(device);
  const Described what(dtype, dims);
  const bool is_xla = device.type() == c10::DeviceType::XLA;
  const c10::DispatchKeySet keys(is_xla ? c10::DispatchKey::XLA : c10::DispatchKey::PrivateUse1);
  return at::detail::empty_generic(dims, c10::GetAllocator(device.type()), keys, dtype, std::nullopt);
}

bool shares_memory(const Call& call, const at::Tensor& target) {
  if (!target.has_storage()) return false;
  int seen = 0;
  for (const at::Tensor& t : call.tensors) seen += t.has_storage() && t.storage().is_alias_of(target.storage());
  return seen > 1;
}

// Where an output is written: its target's own memory where that is safe, else a new tensor.
at::Tensor allocate_output(const Entry::Output& output, const Call& call, c10::Device device) {
  if (output.write < 0) return new_tensor(output.dims, output.dtype, device);
  const at::Tensor& target = call.tensors[size_t(output.write)];
  const bool fits = target.sizes() == output.dims && target.scalar_type() == output.dtype && target.is_contiguous() &&
                    is_ours(target);
  if (fits && (output.is_over || !shares_memory(call, target))) return target;
  return new_tensor(output.dims, output.dtype, device);
}

// One run of a program: what it reads and writes, so that another thread can do it. It stays where it is filled:
// inputs may point into it.
struct Run {
  const run::DirectProgram& program;
  int device = 0;
  uint64_t seed = 0;
  c10::SmallVector<double, 4> numbers = {};
  c10::SmallVector<const void*, 8> inputs = {};
  c10::SmallVector<std::pair<size_t, at::Tensor>, 1> scattered = {};  // inputs that are made dense first
  c10::SmallVector<void*, 4> outputs = {};
  c10::SmallVector<std::pair<at::Tensor, at::Tensor>, 1> copies = {};  // and then from, to

  Result<void> operator()() {
    std::vector<at::Tensor> held;
    for (const auto& [i, tensor] : scattered) {
      held.push_back(tensor.contiguous());
      inputs[i] = held.back().const_data_ptr();
    }
    return run_on(device, program, std::span(inputs.data(), inputs.size()), std::span(outputs.data(), outputs.size()),
                  {});
  }
};

void read_inputs(const Entry& entry, const Call& call, bool is_beside, Run& run) {
  run.inputs.resize(entry.params.size());
  if (is_beside) run.numbers.assign(call.numbers.begin(), call.numbers.end());  // the call does not last
  for (size_t i = 0; i < entry.params.size(); ++i) {
    const Entry::Param& param = entry.params[i];
    if (param.kind == Entry::Param::seed) {
      run.seed = call.next_seed();
      run.inputs[i] = &run.seed;
    } else if (param.kind == Entry::Param::number) {
      run.inputs[i] = &(is_beside ? run.numbers.data() : call.numbers.data())[param.index];
    } else {
      const at::Tensor& t = call.tensors[size_t(param.index)];
      if (is_beside && t.is_cpu())  // its owner may write it before the task runs
        run.scattered.emplace_back(i, t.clone());
      else if (t.is_contiguous() || t.is_non_overlapping_and_dense())  // other orders are part of the program
        run.inputs[i] = t.const_data_ptr();
      else
        run.scattered.emplace_back(i, is_ours(t) ? alias_of(t) : t);
    }
  }
}

// Results that are not yet where they belong.
void find_copies(const Entry& entry, const Call& call, c10::ArrayRef<at::Tensor> results, Run& run) {
  for (size_t o = 0; o < results.size(); ++o) {
    const Entry::Output& output = entry.outputs[o];
    if (output.write < 0) continue;
    const at::Tensor& target = call.tensors[size_t(output.write)];
    if (target.const_data_ptr() == results[o].const_data_ptr() && target.sizes() == results[o].sizes()) continue;
    if (target.sizes() != results[o].sizes()) target.resize_(results[o].sizes());
    run.copies.emplace_back(alias_of(results[o]), is_ours(target) ? alias_of(target) : target);
  }
}

// Waits for tasks on what the call uses, so that it can run here.
void await_operands(const Entry& entry, const Call& call) {
  for (const at::Tensor& t : call.tensors)
    if (is_ours(t)) await_uses(t, Use::read);
  for (const Entry::Output& output : entry.outputs)
    if (output.write >= 0 && is_ours(call.tensors[size_t(output.write)]))
      await_uses(call.tensors[size_t(output.write)], Use::write);
}

// An argument whose indices a task looks at: what the host has is copied, its owner may write it before then.
c10::IValue for_task(const c10::IValue& value) {
  const auto one = [](const at::Tensor& t) { return !t.defined() ? t : is_ours(t) ? alias_of(t) : t.clone(); };
  if (value.isTensor()) return one(value.toTensor());
  if (!value.isOptionalTensorList()) return value;
  c10::List<std::optional<at::Tensor>> out;
  for (const auto& t : value.toOptionalTensorVector())
    out.push_back(t ? std::optional<at::Tensor>(one(*t)) : std::nullopt);
  return out;
}

// As a task of a stream. Everything that asks Python or changes a tensor's shape happens here, before it.
void issue_entry(const c10::Stream& stream, const Entry& entry, const Call& call, torch::jit::Stack& stack) {
  const std::shared_ptr<Run> run(new Run{.program = *entry.program, .device = stream.device_index()});
  read_inputs(entry, call, true, *run);
  std::vector<Operand> operands;
  for (const at::Tensor& t : call.tensors)
    if (is_ours(t)) operands.push_back({t});
  auto held = memories_of(operands);  // before a target is resized
  c10::SmallVector<at::Tensor, 4> results;
  for (const Entry::Output& output : entry.outputs) {
    results.push_back(allocate_output(output, call, stream.device()));
    run->outputs.push_back(results.back().data_ptr());
    operands.push_back({results.back(), Use::write});
    if (output.write >= 0) operands.push_back({call.tensors[size_t(output.write)], Use::write});
  }
  find_copies(entry, call, results, *run);
  std::vector<c10::IValue> checked;
  if (entry.check)
    for (const c10::IValue& v : call.arguments) checked.push_back(for_task(v));
  const std::string& name = call.op.schema().name();
  issue(
      stream, name, operands,
      [run, name, program = entry.program, held = std::move(held), check = entry.check, checked = std::move(checked)] {
        if (check) check(name, checked);
        const auto outcome = (*run)();
        TORCH_CHECK(outcome, outcome ? "" : outcome.error().text());
        for (const auto& [from, to] : run->copies) to.copy_(from);
      });
  give_results(entry, call, results, stack);
}

}  // namespace

void run_entry(const Entry& entry, const Call& call, torch::jit::Stack& stack) {
  const c10::Device device = call.device();
  if (const c10::Stream stream = current_stream(device); is_beside(stream)) {
    bool is_all_ours = true;  // what is recorded on xla runs here
    for (const at::Tensor& t : call.tensors) is_all_ours &= t.device() == device || t.is_cpu();
    if (is_all_ours) return issue_entry(stream, entry, call, stack);
  }
  if (entry.check) entry.check(call.op.schema().name(), call.arguments);
  if (is_busy()) await_operands(entry, call);
  Run run{.program = *entry.program, .device = device.index()};
  read_inputs(entry, call, false, run);
  c10::SmallVector<at::Tensor, 4> results;
  for (const Entry::Output& output : entry.outputs) {
    results.push_back(allocate_output(output, call, device));
    run.outputs.push_back(results.back().data_ptr());
  }
  const auto outcome = run();
  TORCH_CHECK(outcome, call.op.schema().name(), ": ", outcome ? "" : outcome.error().text());
  find_copies(entry, call, results, run);
  for (const auto& [from, to] : run.copies) to.copy_(from);
  give_results(entry, call, results, stack);
}

void give_results(const Entry& entry, const Call& call, c10::ArrayRef<at::Tensor> results, torch::jit::Stack& stack) {
  c10::SmallVector<c10::IValue, 4> returned;
  for (const Entry::Return& r : entry.returns) {
    if (r.argument >= 0) {
      returned.push_back(call.arguments[size_t(r.argument)]);
    } else if (r.is_list) {
      c10::List<at::Tensor> list;
      for (int o : r.outputs) list.push_back(results[size_t(o)]);
      returned.emplace_back(std::move(list));
    } else {
      returned.emplace_back(r.outputs.empty() ? at::Tensor() : results[size_t(r.outputs[0])]);
    }
  }
  torch::jit::drop(stack, call.arguments.size());
  for (c10::IValue& value : returned) stack.push_back(std::move(value));
}

namespace {

// A tensor for the CPU's kernel. An empty one that is written may have to grow: the kernel gets a fresh one.
at::Tensor for_cpu(const at::Tensor& t, bool is_written) {
  if (is_ours(t) && is_written && t.numel() == 0) {
    return at::empty(t.sizes(), t.options().device(at::kCPU));
  }
  return as_cpu(t, is_written ? Use::write : Use::read);
}

c10::IValue for_cpu(const c10::IValue& value, bool is_written) {
  if (value.isTensor()) return for_cpu(value.toTensor(), is_written);
  if (value.isTensorList()) {
    c10::List<at::Tensor> out;
    for (const at::Tensor& t : value.toTensorVector()) out.push_back(for_cpu(t, is_written));
    return out;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> out;
    for (const auto& t : value.toOptionalTensorVector())
      out.push_back(t ? std::optional<at::Tensor>(for_cpu(*t, is_written)) : std::nullopt);
    return out;
  }
  if (value.isDevice()) return c10::Device(at::kCPU);
  return value;
}

at::Tensor to_neuron(const at::Tensor& t, c10::Device device, const std::string& name) {
  if (!t.defined() || !t.is_cpu()) return t;
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == at::kStrided && !t.is_quantized(), name, " gives a ",
                              t.is_quantized() ? "quantised tensor" : c10::str("tensor of layout ", t.layout()),
                              ", which the device neuron does not hold; move its input to the CPU first: .cpu()");
  at::Tensor out = new_tensor(t.sizes(), t.scalar_type(), device);
  as_cpu(out, Use::write).copy_(t);
  return out;
}

bool takes_generator(const c10::Argument& a) {
  const auto* optional = a.type()->castRaw<c10::OptionalType>();
  return (optional ? optional->getElementType() : a.type())->kind() == c10::TypeKind::GeneratorType;
}

// The argument that a result is, where the schema says so; -1 otherwise.
int written_argument(const c10::FunctionSchema& schema, const c10::Argument& result) {
  if (!result.alias_info()) return -1;
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    if (info && info->isWrite() && info->beforeSets() == result.alias_info()->beforeSets()) return int(i);
  }
  return -1;
}

void write_back(const at::Tensor& target, const at::Tensor& done) {
  if (!is_ours(target) || target.const_data_ptr() == done.const_data_ptr()) {
    if (!target.defined() || target.numel() || !done.numel()) return;
  }
  target.resize_(done.sizes());
  as_cpu(target, Use::write).copy_(done);
}

}  // namespace

void run_on_cpu(const Call& call, torch::jit::Stack& stack) {
  const auto& schema = call.op.schema();
  const std::string name =
      schema.overload_name().empty() ? schema.name() : schema.name() + "." + schema.overload_name();
  for (const c10::Argument& r : schema.returns())
    TORCH_CHECK_NOT_IMPLEMENTED(!r.alias_info() || r.alias_info()->isWrite(), name,
                                " is a view that the device neuron cannot make; move the tensor to the CPU first");
  count_fallback(name);
  torch::jit::Stack inner;
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    inner.push_back(for_cpu(call.arguments[i], info && info->isWrite()));
    if (takes_generator(schema.arguments()[i])) inner.back() = at::detail::createCPUGenerator(call.next_seed());
  }
  const torch::jit::Stack given = inner;
  call.op.callBoxed(&inner);
  for (size_t i = 0; i < call.arguments.size(); ++i) {
    const auto* info = schema.arguments()[i].alias_info();
    if (info && info->isWrite() && call.arguments[i].isTensor())
      write_back(call.arguments[i].toTensor(), given[i].toTensor());
  }
  const c10::Device device = call.device();
  std::vector<c10::IValue> returned;
  for (size_t r = 0; r < inner.size(); ++r) {
    const int argument = written_argument(schema, schema.returns()[r]);
    if (argument >= 0) {
      returned.push_back(call.arguments[size_t(argument)]);
    } else if (inner[r].isTensor()) {
      returned.emplace_back(to_neuron(inner[r].toTensor(), device, name));
    } else if (inner[r].isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : inner[r].toTensorVector()) list.push_back(to_neuron(t, device, name));
      returned.emplace_back(std::move(list));
    } else {
      returned.push_back(inner[r]);
    }
  }
  torch::jit::drop(stack, call.arguments.size());
  for (c10::IValue& value : returned) stack.push_back(std::move(value));
}

}  // namespace trine::api::neuron
