// Arguments and results of a kernel are memory in HBM that the graph's other nodes share; see kernel_call.h.
#include "compile/device/kernel_call.h"

#include "arch/program/recording.h"
#include "base/format/base64.h"
#include "base/text.h"
#include "compile/device/memory/moves.h"
#include "compile/host/native.h"

namespace trine::compile::device {

namespace {

Result<void> check_type(const arch::Tensor& t, const Memory& m, const ir::Type& type) {
  if (arch::element_count(t) == m.elements && t.dtype == m.dtype) return {};
  return fail(Code::invalid, cat("the kernel's tensor ", t.name, " is ", shape_text(t.dtype, t.shape),
                                 "; the call has ", ir::text(type)));
}

// The storage that each of the kernel's tensors has in the program; kOwn where it is the kernel's alone.
Result<std::vector<uint32_t>> tensors_of(Recorder& rec, Store& store, const ir::Node& node,
                                         const arch::Recording& kernel) {
  const auto inputs = kernel.tensors(arch::TensorKind::input), outputs = kernel.tensors(arch::TensorKind::output);
  if (inputs.size() != node.inputs.size() || outputs.size() != node.types.size())
    return fail(Code::invalid, cat("a kernel of ", inputs.size(), " inputs and ", outputs.size(), " outputs is given ",
                                   node.inputs.size(), " and ", node.types.size()));
  std::vector<uint32_t> out(kernel.program.tensors.size(), arch::kOwn);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Memory& m = store.made(node.inputs[i]);
    TRY(check_type(kernel.program.tensors[inputs[i]], m, node.inputs[i].type()));
    out[inputs[i]] = store.hbm(m);
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    const arch::Tensor& t = kernel.program.tensors[outputs[o]];
    Memory& m = store.of(node.result(uint32_t(o)));
    TRY(check_type(t, m, node.types[o]));
    store.keep_in_hbm(m, "", arch::TensorKind::scratch);
    out[outputs[o]] = uint32_t(m.hbm);
    if (t.alias < 0) continue;
    // It writes to an argument: to a copy, since a graph's values do not change.
    copy_all(rec, uint32_t(m.hbm), m.dtype, out[size_t(t.alias)], m.dtype, m.elements);
    out[size_t(t.alias)] = uint32_t(m.hbm);
  }
  return out;
}

Result<void> lower(Recorder& rec, Store& store, const ir::Node& node) {
  const auto bytes = from_base64(node.attrs.text("backend_config"));
  if (!bytes) return fail(Code::invalid, "a kernel's payload is no base64");
  const arch::Recording kernel = TRY(arch::parse_recording(*bytes));
  const auto tensors = TRY(tensors_of(rec, store, node, kernel));
  return arch::append(rec.kernel(), kernel, tensors, rec.depth());
}

}  // namespace

std::string kernel_obstacle(const ir::Node& node) {
  const std::string_view target = node.attrs.text("call_target_name");
  return target == kKernelCall ? std::string() : cat("no engine computes the custom call ", target);
}

void lower_kernel(Recorder& rec, Store& store, const ir::Node& node) {
  if (auto outcome = lower(rec, store, node); !outcome) rec.fail_with(outcome.error());
}

}  // namespace trine::compile::device
