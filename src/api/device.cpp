// The device compiler behind its options; see device.h.
#include "api/device.h"

#include <cstdlib>

#include "api/graph_text.h"
#include "base/json.h"
#include "base/text.h"
#include "compile/aot/cached.h"
#include "compile/collectives_of.h"
#include "compile/device/options.h"
#include "compile/device/words.h"

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
  const auto graph = compile::narrow_words(TRY(read_graph(std::move(artifact))));
  const auto cache = TRY(compile::cache_options([](const char* name) -> const char* { return std::getenv(name); }));
  auto made = TRY(compile::compile_cached(graph, chip, options, cache));
  Compiled out(std::make_shared<compile::DeviceProgram>(std::move(made.made)));
  out.set_kept({made.found, std::move(made.hash), std::move(made.trouble)});
  Json uses = Json::array();
  for (const auto& use : compile::collectives_of(graph))
    uses.push(
        Json::object().set("kind", use.kind).set("bytes", use.bytes).set("ranks", use.ranks).set("count", use.count));
  out.set_collectives(uses.text());
  return out;
}

}  // namespace trine::api
