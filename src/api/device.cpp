// The device compiler behind its options; see device.h.
#include "api/device.h"

#include "base/json.h"
#include "base/text.h"
#include "compile/collectives_of.h"
#include "compile/device/options.h"
#include "front/stablehlo/graph.h"
#include "front/stablehlo/read.h"

namespace trine::api {

static Result<compile::DeviceOptions> options_of(const DeviceChoice& choice) {
  auto out = TRY(compile::device_options(choice.auto_cast, choice.auto_cast_type));
  for (int64_t i : choice.weights) {
    if (i < 0 || i >= (int64_t{1} << 20))
      return fail(Code::invalid, cat("weights name input ", i, "; expected 0 or more"));
    if (size_t(i) >= out.weights.size()) out.weights.resize(size_t(i) + 1);
    out.weights[size_t(i)] = true;
  }
  return out;
}

const arch::Program& Compiled::program() const { return program_->program; }
size_t Compiled::input_count() const { return program_->inputs.size(); }

Result<Tensor> Compiled::prepare(size_t input, const TensorView& given) const {
  if (input >= program_->inputs.size())
    return fail(Code::invalid, cat("input ", input, "; the program has ", program_->inputs.size()));
  return compile::prepare_input(program_->inputs[input], given);
}

Result<Compiled> compile_for_device(std::string artifact, const arch::Chip& chip, const DeviceChoice& choice) {
  const auto options = TRY(options_of(choice));
  const auto module = TRY(front::stablehlo::read_module(std::move(artifact), "program"));
  const auto graph = TRY(front::stablehlo::to_graph(module));
  auto made = TRY(compile::compile_device(graph, chip, options));
  Compiled out(std::make_shared<compile::DeviceProgram>(std::move(made)));
  Json uses = Json::array();
  for (const auto& use : compile::collectives_of(graph))
    uses.push(
        Json::object().set("kind", use.kind).set("bytes", use.bytes).set("ranks", use.ranks).set("count", use.count));
  out.set_collectives(uses.text());
  return out;
}

}  // namespace trine::api
