// From the payload to a program for the exact driver; see kernel_call.h.
#include "api/kernel_call.h"

#include <cstring>
#include <memory>

#include "api/observe.h"
#include "arch/program/recording.h"
#include "base/format/base64.h"
#include "base/text.h"
#include "compile/stream/streams.h"
#include "run/drivers/exact/exact.h"

namespace trine::api {

namespace {

struct Made {
  arch::Program program = {};
  std::shared_ptr<const run::ExactProgram> exact = {};
  std::vector<std::string> inputs = {}, outputs = {};
};

std::vector<std::string> names_of(const arch::Program& p, arch::TensorKind kind) {
  std::vector<std::string> out;
  for (const arch::Tensor& t : p.tensors)
    if (t.kind == kind) out.push_back(t.name);
  return out;
}

Result<void> run(const Made& made, std::span<const TensorView> in, std::span<const TensorView> out) {
  if (in.size() != made.inputs.size() || out.size() != made.outputs.size())
    return fail(Code::invalid, cat("a kernel of ", made.inputs.size(), " inputs is given ", in.size()));
  run::Inputs inputs;
  for (size_t i = 0; i < in.size(); ++i)
    inputs.emplace(made.inputs[i], std::span(static_cast<const std::byte*>(in[i].data), in[i].bytes()));
  const auto ran = TRY(made.exact->run(inputs, {.weigh_unwritten = true}));
  for (const run::Finding& f : ran.findings)
    if (!f.stream.empty() && !f.warning)
      return fail(Code::invalid, cat("the kernel ", made.program.name, ": ", f.text()));
  for (size_t o = 0; o < out.size(); ++o)
    for (const run::Output& got : ran.outputs)
      if (got.name == made.outputs[o]) {
        if (got.bytes.size() != out[o].bytes())
          return fail(Code::invalid, cat("the kernel gives ", got.bytes.size(), " bytes; expected ", out[o].bytes()));
        std::memcpy(out[o].data, got.bytes.data(), got.bytes.size());
      }
  return {};
}

}  // namespace

Result<compile::HostFunction> kernel_function(std::string_view payload) {
  const auto bytes = from_base64(payload);
  if (!bytes) return fail(Code::invalid, "a kernel's payload is no base64");
  const arch::Recording recording = TRY(arch::parse_recording(*bytes));
  arch::Kernel kernel;
  kernel.chip = TRY(arch::find_chip(recording.program.chip));
  kernel.program().name = recording.program.name;
  kernel.program().chip = kernel.chip->name;
  TRY(arch::append(kernel, recording, {}));
  auto made = std::make_shared<Made>();
  Diagnostic why;
  made->program = TRY(compile::make_streams(kernel, why, {.is_nki = true, .observer = observer_from_environment()}));
  made->exact = TRY(run::ExactProgram::make(made->program, *kernel.chip));
  made->inputs = names_of(made->program, arch::TensorKind::input);
  made->outputs = names_of(made->program, arch::TensorKind::output);
  return compile::HostFunction([made](auto in, auto out) { return run(*made, in, out); });
}

}  // namespace trine::api
