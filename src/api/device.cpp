// The device compiler behind its options; see device.h.
#include "api/device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "api/graph_text.h"
#include "api/observe.h"
#include "base/format/json.h"
#include "base/text.h"
#include "compile/aot/cached.h"
#include "compile/aot/errors.h"
#include "compile/device/options.h"
#include "compile/graph/pipeline.h"
#include "compile/host/native.h"
#include "compile/partition/collectives_of.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/native/direct.h"
#include "run/drivers/timed/timed.h"

namespace trine::api {

static Result<compile::DeviceOptions> options_of(const DeviceChoice& choice) {
  auto out = TRY(compile::device_options(choice.auto_cast, choice.auto_cast_type));
  out.timer = run::time_among_others;
  for (int64_t i : choice.weights) {
    if (i < 0 || i >= (int64_t{1} << 20))
      return fail(Code::invalid, cat("weights name input ", i, "; expected 0 or more"));
    if (size_t(i) >= out.weights.size()) out.weights.resize(size_t(i) + 1);
    out.weights[size_t(i)] = true;
  }
  return out;
}

Result<const arch::Program*> Compiled::program() const {
  if (const compile::DeviceProgram* const only = split_->only()) return &only->program;
  if (split_->host.empty()) return fail(Code::unsupported, "a program that computes nothing");
  const compile::HostOp& first = split_->host[0];
  return compile::coded(fail(Code::unsupported,
                             cat(first.op, " ", first.type, " cannot run on the device: ", first.reason), first.where));
}
size_t Compiled::input_count() const { return split_->inputs; }

static Tensor copied(const TensorView& v) {
  Tensor out = Tensor::make(v.dtype, v.dims);
  if (v.bytes()) std::memcpy(out.data.get(), v.data, v.bytes());
  return out;
}

// The part that takes the program's input, and as which of its own.
static std::pair<const compile::DevicePart*, size_t> reader_of(const compile::SplitProgram& split, size_t input) {
  for (const compile::DevicePart& part : split.parts)
    for (size_t i = 0; !part.on_host && i < part.reads.size(); ++i)
      if (part.reads[i] == input) return {&part, i};
  return {};
}

Result<Tensor> Compiled::prepare(size_t input, const TensorView& given) const {
  if (input >= split_->inputs) return fail(Code::invalid, cat("input ", input, "; the program has ", split_->inputs));
  const auto [part, i] = reader_of(*split_, input);
  if (part) return compile::prepare_input(part->device.inputs[i], given);
  return copied(given);
}

struct Compiled::Ready {
  std::mutex mutex = {};
  std::map<std::pair<const compile::DevicePart*, const arch::Chip*>, std::shared_ptr<const run::ExactProgram>> exact =
      {};
  std::map<const compile::DevicePart*, std::shared_ptr<const run::DirectProgram>> host = {};

  Result<std::shared_ptr<const run::ExactProgram>> on_device(const compile::DevicePart& part, const arch::Chip& chip) {
    const std::lock_guard held(mutex);
    auto& found = exact[{&part, &chip}];
    if (!found) found = TRY(run::ExactProgram::make(part.device.program, chip));
    return found;
  }
  Result<std::shared_ptr<const run::DirectProgram>> on_host(const compile::DevicePart& part) {
    const std::lock_guard held(mutex);
    auto& found = host[&part];
    if (!found)
      found = TRY(run::DirectProgram::make(
          TRY(compile::compile_native(*part.host, {.observer = observer_from_environment()}))));
    return found;
  }
};

Compiled::Compiled(std::shared_ptr<const compile::SplitProgram> split)
    : split_(std::move(split)), ready_(std::make_shared<Ready>()) {}

static Result<std::vector<Tensor>> run_on_host(const compile::DevicePart& part, const run::DirectProgram& program,
                                               const std::vector<TensorView>& in) {
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<Tensor> out;
  std::vector<Tensor> narrowed;  // as compile/device/passes/narrow_words.h has it
  for (size_t i = 0; i < in.size(); ++i)
    narrowed.push_back(TRY(compile::prepare_input({part.host->params[i].type().dtype}, in[i])));
  for (const Tensor& t : narrowed) from.push_back(t.data.get());
  for (const ir::Type& t : part.written) out.push_back(Tensor::make(t.dtype, t.dims));
  for (Tensor& t : out) to.push_back(t.data.get());
  TRY(program.run(from, to, {}));
  return out;
}

static Result<std::vector<Tensor>> run_on_device(const compile::DevicePart& part, const run::ExactProgram& program,
                                                 const std::vector<TensorView>& in, const run::ExactOptions& options,
                                                 const Compiled::InputBytes& input_bytes, Ran& ran) {
  std::vector<Tensor> made;
  run::Inputs inputs;
  for (size_t i = 0; i < in.size(); ++i) {
    const compile::DeviceInput& form = part.device.inputs[i];
    std::span<const std::byte>& bytes = inputs[cat("arg", i)];
    if (const auto found = input_bytes.find(part.reads[i]); found != input_bytes.end()) {
      bytes = found->second;
    } else if (form.dtype == in[i].dtype && !form.panels) {
      bytes = {in[i].as<const std::byte>(), in[i].bytes()};
    } else {
      made.push_back(TRY(compile::prepare_input(form, in[i])));
      bytes = {made.back().data.get(), made.back().bytes()};
    }
  }
  const Tensor rank = Tensor::make(Dtype::u32, {1});  // of the one core: partition_id, replica_id
  for (std::string_view name : {"partition_id", "replica_id"})
    if (part.device.program.find_tensor(name) >= 0) inputs[std::string(name)] = {rank.data.get(), rank.bytes()};
  auto result = TRY(program.run(inputs, options));
  std::vector<Tensor> out;
  for (size_t i = 0; i < part.written.size(); ++i) {
    const auto found = std::find_if(result.outputs.begin(), result.outputs.end(),
                                    [&](const run::Output& o) { return o.name == cat("out", i); });
    if (found == result.outputs.end())
      return fail(Code::invalid, cat("has no output out", i), part.device.program.name);
    out.push_back(Tensor::make(part.written[i].dtype, part.written[i].dims));
    std::copy_n(found->bytes.begin(), std::min(out.back().bytes(), found->bytes.size()), out.back().data.get());
    found->bytes = {};  // a model's outputs may be as large as its weights
  }
  ran.instructions += result.counts.instructions;
  ran.transfers += result.counts.transfers;
  ran.finished = ran.finished && result.finished;
  ran.loaded.back() = std::move(result.loaded);
  std::move(result.findings.begin(), result.findings.end(), std::back_inserter(ran.findings));
  return out;
}

Result<Ran> Compiled::run(std::vector<TensorView> inputs, const arch::Chip& chip, const run::ExactOptions& options,
                          const InputBytes& input_bytes) const {
  if (inputs.size() != split_->inputs)
    return fail(Code::invalid, cat(inputs.size(), " inputs; the program has ", split_->inputs));
  if (!input_bytes.empty()) TRY(program());
  Ran out;
  std::map<size_t, Tensor> made;
  const auto value = [&](size_t slot) { return slot < inputs.size() ? inputs[slot] : made.at(slot).view(); };
  for (const compile::DevicePart& part : split_->parts) {
    std::vector<TensorView> in;
    for (size_t slot : part.reads) in.push_back(value(slot));
    out.loaded.emplace_back();
    auto results = part.on_host
                       ? TRY(run_on_host(part, *TRY(ready_->on_host(part)), in))
                       : TRY(run_on_device(part, *TRY(ready_->on_device(part, chip)), in, options, input_bytes, out));
    for (size_t i = 0; i < results.size(); ++i) made.insert_or_assign(part.writes[i], std::move(results[i]));
  }
  for (size_t slot : split_->results)
    out.outputs.push_back(slot < inputs.size() ? copied(inputs[slot]) : made.at(slot));
  return out;
}

static Result<compile::CompiledSource> compile_source(const std::string& artifact, const arch::Chip& chip,
                                                      const compile::DeviceOptions& options) {
  const compile::DeviceObserver observer{.passes = observer_from_environment()};
  compile::GraphState imported{
      .graph = TRY(read_graph(artifact)),
      .options = {.target = compile::Target::device, .narrows_words = true, .partitions = true, .simplifies = false}};
  TRY(compile::run_passes(compile::graph_pipeline(), imported, observer.passes));
  const ir::Graph graph = imported.graph.take();
  compile::CompiledSource out{.name = graph.name};
  out.split = TRY(compile::compile_split(graph, chip, options, [&](const ir::Graph& part, const auto& own) {
    return compile::compile_device(part, chip, own, observer);
  }));
  out.signature = compile::signature_of(graph);
  Json uses = Json::array();
  for (const auto& use : compile::collectives_of(graph))
    uses.push(
        Json::object().set("kind", use.kind).set("bytes", use.bytes).set("ranks", use.ranks).set("count", use.count));
  out.collectives = uses.text();
  return out;
}

static Result<Compiled> compile_any(const std::string& artifact, const arch::Chip& chip, const DeviceChoice& choice) {
  const auto options = TRY(options_of(choice));
  const auto cache = TRY(compile::cache_options([](const char* name) -> const char* { return std::getenv(name); }));
  auto cached = TRY(
      compile::source_cached(artifact, chip, options, cache, [&] { return compile_source(artifact, chip, options); }));
  Compiled out(std::make_shared<const compile::SplitProgram>(std::move(cached.made.split)));
  out.set_cached({cached.found, std::move(cached.hash), std::move(cached.trouble)});
  out.set_collectives(std::move(cached.made.collectives));
  return out;
}

Result<Compiled> compile_for_device(const std::string& artifact, const arch::Chip& chip, const DeviceChoice& choice) {
  auto made = compile_any(artifact, chip, choice);
  return made ? std::move(made) : Result<Compiled>(compile::coded(made.error()));
}

}  // namespace trine::api
