// The table of device passes; see pipeline.h.
#include "compile/device/pipeline.h"

#include <algorithm>
#include <future>

#include "arch/asm/kernel.h"
#include "base/text.h"
#include "compile/device/attention/attention.h"
#include "compile/device/decompose/decompose.h"
#include "compile/device/passes/attention_gradient.h"
#include "compile/stream/streams.h"
#include "ir/text.h"

namespace trine::compile::device {

// Each in passes/<name>.cpp; nothing else calls them.
using GraphPass = ir::Graph(ir::Graph graph, const arch::Chip& chip);
GraphPass flatten_sequences, pick_in_rows, split_batches, split_long_rows, spread_partitions;

namespace {

// A pass that is one function from graph to graph.
template <ir::Graph (*kPass)(const ir::Graph&)>
Result<void> run_graph(DeviceState& s) {
  s.graph = kPass(*s.graph);
  return {};
}
template <GraphPass* kPass>
Result<void> run_graph(DeviceState& s) {
  s.graph = kPass(s.graph.take(), s.chip);
  return {};
}

ir::Graph attention_gradients(const ir::Graph& graph) { return with_attention_gradients(graph, takes_gradient); }

Result<void> run_fuse(DeviceState& s) {
  s.fusion = units_of(s.graph->order(), s.graph->results);
  return {};
}

Result<void> run_lower(DeviceState& s) {
  s.lowered = std::make_unique<Lowered>(*s.graph, s.chip, s.options);
  s.lowered->lowering.progress = s.observer.progress;
  s.lowered->inputs = TRY(s.lowered->lowering.all(s.fusion));
  return {};
}

// What its program takes; nothing where it cannot be made.
std::optional<int64_t> time_of(Lowered& lowered, Timer timer) {
  arch::Kernel kernel = lowered.lowering.kernel();
  Diagnostic why;
  if (auto made = make_unverified(kernel, why, {.hoists = true})) lowered.program = std::move(*made);
  const auto fs = lowered.program ? timer(*lowered.program, *kernel.chip) : Result<int64_t>(why.error());
  return fs ? std::optional(*fs) : std::nullopt;
}

// Who transposes for a unit was timed for the unit alone, which does not see what the others leave of DMA's and the
// vector engine's time. So where others than the tensor engine do it the whole program is timed with them and without,
// the one on a thread of its own, if there is one to be had.
Result<void> run_choose(DeviceState& s) {
  Lowered& first = *s.lowered;
  const auto& chosen = first.lowering.chosen();
  if (std::all_of(chosen.begin(), chosen.end(),
                  [](const Chosen& c) { return c.taken().transpose_engine == TransposeEngine::tensor; }))
    return {};
  auto plain = std::make_unique<Lowered>(*s.graph, s.chip, s.options);
  plain->lowering.others_transpose = false;
  plain->lowering.choices = std::move(first.lowering.choices);
  auto timed = std::async(std::launch::async | std::launch::deferred, [&] { return time_of(first, s.options.timer); });
  plain->inputs = TRY(plain->lowering.all(s.fusion));
  const auto others = time_of(*plain, s.options.timer), fs = timed.get();
  if (others && (!fs || *others < *fs)) s.lowered = std::move(plain);
  return {};
}

Result<void> run_memory_map(DeviceState& s) {
  const int64_t room = s.observer.hbm_room ? s.observer.hbm_room : s.chip.hbm.bytes;
  s.memory = memory_map(s.lowered->lowering.kernel(), s.options.weights, room);
  if (s.observer.memory) *s.observer.memory = s.memory;
  if (s.memory.bytes() > s.memory.room) return fail(Code::out_of_memory, s.memory.text());
  return {};
}

constexpr PassForm<DeviceState> kGraph{
    "graph",
    [](const DeviceState& s) { return graph_sizes(*s.graph); },
    [](const DeviceState& s) { return ir::text(*s.graph); },
    [](const DeviceState& s) { return verify_graph(*s.graph); },
};

constexpr PassForm<DeviceState> kUnits{
    "units",
    [](const DeviceState& s) { return std::vector<PassSize>{{"regions", int64_t(s.fusion.units.size())}}; },
    [](const DeviceState& s) { return fusion_text(s.fusion); },
};

constexpr PassForm<DeviceState> kKernel{
    "kernel",
    [](const DeviceState& s) { return kernel_sizes(s.lowered->lowering.kernel()); },
    [](const DeviceState& s) { return arch::disassemble(s.lowered->lowering.kernel(), false); },
    [](const DeviceState& s) { return verify_kernel(s.lowered->lowering.kernel()); },
};

constexpr PassForm<DeviceState> kChoices{
    "choices",
    [](const DeviceState& s) {
      const auto& chosen = s.lowered->lowering.chosen();
      const auto others =
          std::count_if(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.comparison.best; });
      return std::vector<PassSize>{{"regions of several ways", int64_t(chosen.size())}, {"not by the first", others}};
    },
    [](const DeviceState& s) {
      std::string out;
      for (const Chosen& c : s.lowered->lowering.chosen()) append_text(out, c.text());
      return out;
    },
    [](const DeviceState& s) { return verify_kernel(s.lowered->lowering.kernel()); },
};

constexpr PassForm<DeviceState> kMemory{
    "memory",
    [](const DeviceState& s) { return std::vector<PassSize>{{"bytes", s.memory.bytes()}}; },
    [](const DeviceState& s) { return s.memory.text() + "\n"; },
};

constexpr Pass<DeviceState> kPasses[] = {
    {.name = "attention-gradient",
     .run = run_graph<attention_gradients>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "the derivative of attention as one op, which makes the weights again tile by tile"},
    {.name = "recognise",
     .run = run_graph<recognise>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "what several nodes compute together as one: arg max, division downwards; nothing for empty results"},
    {.name = "pick-in-rows",
     .run = run_graph<pick_in_rows>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "one element of each row that is reduced anyway, as the sum of the row with the others left out"},
    {.name = "split-batches",
     .run = run_graph<split_batches>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "convolutions over a batch that does not fit on chip go one image after the other"},
    {.name = "flatten-sequences",
     .run = run_graph<flatten_sequences>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "sequences of odd lengths as one list of rows around the multiplies that do not tell them apart"},
    {.name = "split-long-rows",
     .run = run_graph<split_long_rows>,
     .needs = "canonical",
     .form = &kGraph,
     .help = "few rows that are very long as several each, so that every partition has some"},
    {.name = "decompose",
     .run = run_graph<decompose>,
     .needs = "canonical",
     .leaves = "decomposed",
     .form = &kGraph,
     .help = "ops without a lowering as ops that have one, then simplified again",
     .is_stage = true},
    {.name = "spread-partitions",
     .run = run_graph<spread_partitions>,
     .needs = "decomposed",
     .form = &kGraph,
     .help = "elementwise work on few rows as rows that fill all partitions"},
    {.name = "fuse",
     .run = run_fuse,
     .needs = "decomposed",
     .leaves = "units",
     .form = &kUnits,
     .help = "which nodes become one loop nest, multiply or attention",
     .is_stage = true},
    {.name = "lower",
     .run = run_lower,
     .needs = "units",
     .leaves = "kernel",
     .form = &kKernel,
     .help = "the units as instructions; of several ways to write one, that which the chip's timer likes best",
     .is_stage = true},
    {.name = "choose",
     .run = run_choose,
     .needs = "kernel",
     .form = &kChoices,
     .help = "the whole program with transposes by DMA and the vector engine against without, by the timer",
     .is_stage = true},
    {.name = "memory-map",
     .run = run_memory_map,
     .needs = "kernel",
     .form = &kMemory,
     .help = "what lies in HBM over the program; one that does not fit is refused",
     .applies = [](const DeviceState& s) { return s.observer.memory || s.observer.hbm_room; }},
};

}  // namespace

const Pipeline<DeviceState>& device_pipeline() {
  static constexpr Pipeline<DeviceState> kPipeline{"device", kPasses};
  return kPipeline;
}

}  // namespace trine::compile::device
