// One state after the other, made from the one before when a pass of its pipeline is named; see run_pass.h.
#include "compile/pass/run_pass.h"

#include <algorithm>

#include "arch/asm/kernel.h"
#include "base/text.h"
#include "compile/device/pipeline.h"
#include "compile/host/pipeline.h"
#include "compile/pass/all.h"
#include "compile/stream/pipeline.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

using device::DeviceState;

class NamedPasses {
 public:
  NamedPasses(const arch::Chip& chip, const RunPassOptions& options) : chip_(chip), options_(options) {}

  Result<void> read(std::string_view text, std::string_view file) {
    if (text.starts_with("kernel ")) {
      kernel_ = TRY(arch::assemble_kernel(text, file, chip_));
      if (auto sound = verify_kernel(*kernel_); !sound) return in_input(sound.error());
      stream_.emplace(StreamState{.kernel = *kernel_, .is_nki = true});
      return {};
    }
    ir::Graph graph = TRY(ir::parse_graph(text, file));
    if (auto sound = verify_graph(graph); !sound) return in_input(sound.error());
    GraphOptions options = options_.graph;
    options.layouts = TRY(layouts_of(graph));
    options.numerics.is_stochastic = true;  // for the pass that does it, where that is named
    graph_.emplace(GraphState{.graph = std::move(graph), .options = std::move(options)});
    return {};
  }

  Result<void> run(std::string_view name) {
    TRY(check_pass_name(name));
    if (const auto* pass = find(graph_pipeline(), name)) return one(*pass, graph_, "a graph");
    if (const auto* pass = find(host_pipeline(), name)) return TRY(plan()), one(*pass, host_, "a graph");
    if (const auto* pass = find(device::device_pipeline(), name)) return TRY(lower()), one(*pass, device_, "a graph");
    if (const auto* pass = find(stream_pipeline(), name)) return TRY(stream()), one(*pass, stream_, "a kernel");
    return fail(Code::not_found, "`all` is no pass");
  }

  std::string text = {};  // of what the last pass left

 private:
  static Error in_input(const Error& error) {
    return fail(error.code, cat("the input is not well formed: ", error.message), error.where);
  }

  template <class State>
  static const Pass<State>* find(const Pipeline<State>& pipeline, std::string_view name) {
    const auto found = std::find_if(pipeline.passes.begin(), pipeline.passes.end(),
                                    [&](const Pass<State>& pass) { return pass.name == name; });
    return found == pipeline.passes.end() ? nullptr : &*found;
  }

  template <class State>
  Result<void> one(const Pass<State>& pass, std::optional<State>& state, std::string_view wanted) {
    if (!state) return fail(Code::invalid, cat("pass ", pass.name, " works on ", wanted, "; it has none here"));
    TRY(pass.run(*state));
    if (pass.form->verify)
      if (auto sound = pass.form->verify(*state); !sound) return refused_after(pass.name, sound.error());
    text = pass.form->text(*state);
    return {};
  }

  Result<void> plan() {
    if (host_ || !graph_) return {};
    host_.emplace(std::make_shared<ir::Graph>(graph_->graph.take()), native_);
    graph_.reset();
    host_->inputs = host_->graph->params;
    host_->nodes = ir::Graph::order(host_->graph->results, host_->graph->effects);
    host_->results = host_->graph->results;
    host_->donations = host_->graph->donations;
    return {};
  }
  Result<void> lower() {
    if (device_ || !graph_) return {};
    device_.emplace(DeviceState{graph_->graph.take(), chip_, options_.device});
    graph_.reset();
    return {};
  }
  Result<void> stream() {
    if (stream_ || !device_ || !device_->lowered) return {};
    stream_.emplace(StreamState{.kernel = device_->lowered->lowering.kernel(), .hoists = true});
    return {};
  }

  const arch::Chip& chip_;
  const RunPassOptions& options_;
  const NativeOptions native_ = {};
  std::optional<arch::Kernel> kernel_ = {};
  std::optional<GraphState> graph_ = {};
  std::optional<HostState> host_ = {};
  std::optional<DeviceState> device_ = {};
  std::optional<StreamState> stream_ = {};
};

}  // namespace

Result<std::string> run_named_passes(std::string_view text, std::string_view file,
                                     std::span<const std::string_view> passes, const arch::Chip& chip,
                                     const RunPassOptions& options) {
  NamedPasses all(chip, options);
  TRY(all.read(text, file));
  for (std::string_view pass : passes) TRY(all.run(pass));
  return std::move(all.text);
}

}  // namespace trine::compile
