// The passes of device compilation, in order; see device.h.
#include "compile/device/device.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <map>

#include "arch/asm/asm.h"
#include "base/text.h"
#include "compile/device/attention/attention.h"
#include "compile/device/decompose/decompose.h"
#include "compile/device/lower.h"
#include "compile/device/passes/attention_gradient.h"
#include "compile/device/passes/by_sample.h"
#include "compile/device/passes/flat.h"
#include "compile/device/passes/long_rows.h"
#include "compile/device/passes/pick.h"
#include "compile/device/passes/spread.h"
#include "compile/graph/simplify.h"
#include "compile/stream/hoist.h"
#include "compile/stream/streams.h"
#include "ir/text.h"

namespace trine::compile {

using namespace device;

std::vector<HostPlaced> host_placed(const ir::Graph& graph, const arch::Chip& chip) {
  return split(simplify(graph).graph, chip).host;
}

// What the passes tell whoever looks on.
class Teller {
 public:
  explicit Teller(const Watch& watch) : watch_(watch) {}

  Result<void> graph(std::string_view pass, const ir::Graph& graph) const {
    return tell(
        pass, [&] { return cat(with_commas(int64_t(graph.order().size())), " ops"); }, [&] { return ir::text(graph); });
  }
  Result<void> fusion(const ir::Graph& graph) const {
    if (!watch_.after) return {};
    const Fusion fusion = units_of(graph.order(), graph.results);
    return tell(
        "fuse", [&] { return cat(with_commas(int64_t(fusion.units.size())), " regions"); },
        [&] {
          std::string out;
          for (const Unit& unit : fusion.units) append_text(out, cat(unit_text(unit), "\n"));
          return out;
        });
  }
  Result<void> choices(const std::vector<Chosen>& chosen) const {
    return tell(
        "choose",
        [&] {
          const auto others =
              std::count_if(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.verdict.best; });
          return cat(with_commas(int64_t(chosen.size())), " regions of several ways, ", with_commas(others),
                     " not by the first");
        },
        [&] {
          std::string out;
          for (const Chosen& c : chosen) append_text(out, c.text());
          return out;
        });
  }
  Result<void> kernel(arch::Kernel& kernel) const {
    return tell(
        "lower", [&] { return cat(with_commas(int64_t(kernel.works.size())), " instructions"); },
        [&] {
          std::map<std::string_view, int64_t> counts;
          for (const arch::Work& w : kernel.works) ++counts[w.info->row->name];
          std::string out;
          for (const auto& [name, count] : counts) append_text(out, cat(name, " ", count, "\n"));
          return out;
        });
  }
  Result<void> program(const arch::Program& program) const {
    return tell(
        "schedule",
        [&] { return cat(program.streams.size(), " streams of ", with_commas(program.instruction_count())); },
        [&] { return arch::disassemble(program); });
  }

 private:
  template <class What>
  Result<void> tell(std::string_view pass, What what, const Watch::Text& text) const {
    if (watch_.after && !watch_.after(pass, what(), text)) return fail(Code::cancelled, cat("stopped after ", pass));
    return {};
  }
  const Watch& watch_;
};

// What loops make alike every time is made before them, where there is room for it.
static Result<arch::Program> make_program(arch::Kernel& kernel, Complaint& why) {
  if (std::none_of(kernel.works.begin(), kernel.works.end(), arch::begins_loop)) return make_unverified(kernel, why);
  arch::Kernel hoisted = kernel;
  if (hoist_from_loops(hoisted))
    if (auto made = make_unverified(hoisted, why)) return made;
  return make_unverified(kernel, why);
}

// A graph lowered; its program where it was made already.
struct Attempt {
  Lowering lowering;
  std::vector<DeviceInput> inputs = {};
  std::optional<arch::Program> program = {};

  Attempt(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options)
      : lowering(graph, chip, options) {}

  // What its program takes; nothing where it cannot be made.
  std::optional<int64_t> time(Timer timer) {
    arch::Kernel kernel = lowering.kernel();
    Complaint why;
    if (auto made = make_program(kernel, why)) program = std::move(*made);
    const auto fs = program ? timer(*program, *kernel.chip) : Result<int64_t>(why.error());
    return fs ? std::optional(*fs) : std::nullopt;
  }
};

// Who turns rows for a unit was timed for the unit alone, which does not see what the others leave of DMA's and the
// vector engine's time. So where others than the tensor engine do it the whole program is timed with them and without,
// the one on a thread of its own, if there is one to be had.
static Result<std::unique_ptr<Attempt>> best_lowered(const ir::Graph& graph, const arch::Chip& chip,
                                                     const DeviceOptions& options, const Watch& watch) {
  auto first = std::make_unique<Attempt>(graph, chip, options);
  first->lowering.progress = watch.progress;
  first->inputs = TRY(first->lowering.all());
  const auto& chosen = first->lowering.chosen();
  if (std::all_of(chosen.begin(), chosen.end(), [](const Chosen& c) { return c.taken().turner == Turner::tensor; }))
    return first;
  auto plain = std::make_unique<Attempt>(graph, chip, options);
  plain->lowering.others_turn = false;
  plain->lowering.choices = std::move(first->lowering.choices);
  auto timed = std::async(std::launch::async | std::launch::deferred, [&] { return first->time(options.timer); });
  plain->inputs = TRY(plain->lowering.all());
  const auto others = plain->time(options.timer), fs = timed.get();
  return others && (!fs || *others < *fs) ? std::move(plain) : std::move(first);
}

static Result<DeviceProgram> compile_simple(const ir::Graph& graph, const arch::Chip& chip,
                                            const DeviceOptions& options, const Watch& watch) {
  const Teller teller(watch);
  TRY(teller.graph("simplify", graph));
  ir::Graph known = picked_in_rows(put_together(with_attention_gradients(graph, takes_gradient)));
  const ir::Graph simple = spread(decompose(long_rows(flat(by_sample(std::move(known), chip), chip), chip)), chip);
  TRY(teller.graph("decompose", simple));
  TRY(teller.fusion(simple));
  const auto attempt = TRY(best_lowered(simple, chip, options, watch));
  Lowering& lowering = attempt->lowering;
  DeviceProgram out;
  out.inputs = std::move(attempt->inputs);
  if (watch.chosen) *watch.chosen = lowering.chosen();
  TRY(teller.choices(lowering.chosen()));
  TRY(teller.kernel(lowering.kernel()));
  if (watch.memory || watch.hbm_room) {
    MemoryMap map = memory_map(lowering.kernel(), options.weights, watch.hbm_room ? watch.hbm_room : chip.hbm.bytes);
    const bool fits = map.bytes() <= map.room;
    const std::string story = fits ? std::string() : map.text();
    if (watch.memory) *watch.memory = std::move(map);
    if (!fits) return fail(Code::out_of_memory, story);
  }
  Complaint why;
  out.program = attempt->program ? *std::move(attempt->program) : TRY(make_program(lowering.kernel(), why));
  TRY(verify_streams(out.program, chip, why));
  TRY(teller.program(out.program));
  return out;
}

Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                     const Watch& watch) {
  return compile_simple(simplify(graph).graph, chip, options, watch);
}

SplitProgram whole(DeviceProgram program, const ir::Graph& graph) {
  SplitProgram out{.inputs = graph.params.size()};
  DevicePart all{.device = std::move(program)};
  for (size_t i = 0; i < out.inputs; ++i) all.reads.push_back(i);
  for (const ir::Value& v : graph.results) {
    all.writes.push_back(out.inputs + all.writes.size());
    all.written.push_back(v.type());
  }
  out.results = all.writes;
  out.parts.push_back(std::move(all));
  return out;
}

// What the compiler says of a graph whose nodes, each by itself, it would compute.
static HostPlaced refused(const ir::Graph& graph, const Error& why) {
  constexpr std::string_view kSays = "cannot run on the device: ";
  const size_t at = why.message.find(kSays);
  const ir::Value* const last = graph.results.empty() ? nullptr : &graph.results[0];
  return {.op = last ? std::string(last->node->op.name()) : "program",
          .type = last ? ir::text(last->type()) : "",
          .reason = at == std::string::npos ? why.message : why.message.substr(at + kSays.size()),
          .where = why.where};
}

Result<SplitProgram> compile_split(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                   const CompilePart& compile) {
  auto all = compile(graph, options);
  if (all) return whole(std::move(*all), graph);
  if (all.error().code != Code::unsupported) return all.error();
  Split cut = split(simplify(graph).graph, chip);
  SplitProgram out{.results = std::move(cut.results), .host = std::move(cut.host), .inputs = graph.params.size()};
  for (Part& part : cut.parts) {
    DevicePart made{.on_host = part.on_host, .reads = std::move(part.reads), .writes = std::move(part.writes)};
    for (const ir::Value& v : part.graph.results) made.written.push_back(v.type());
    if (!made.on_host) {
      DeviceOptions own{.dots = options.dots, .timer = options.timer};
      for (size_t i : made.reads) own.weights.push_back(i < options.weights.size() && options.weights[i]);
      auto program = compile(part.graph, own);
      made.on_host = !program && program.error().code == Code::unsupported;
      if (made.on_host)
        out.host.push_back(refused(part.graph, program.error()));
      else
        made.device = TRY(std::move(program));
    }
    if (made.on_host) made.host = std::make_shared<const ir::Graph>(std::move(part.graph));
    out.parts.push_back(std::move(made));
  }
  return out;
}

// Layouts come from files too: none may read past the weight.
static Result<void> check_layout(const PanelLayout& p, int64_t elements) {
  __int128 last = 0, count = p.chunks;
  for (const Axes* axes : {&p.batch, &p.depth})
    for (const Axis& a : *axes) last += __int128(a.count - 1) * a.stride;
  last += __int128(p.column.count - 1) * p.column.stride;
  for (int64_t n : {p.batches(), p.lanes, p.column.count}) count *= n;
  const int64_t per_outer = (p.depth.back().count + p.lanes - 1) / p.lanes;
  if (last < elements && count <= __int128(elements) * 256 + 65536 &&
      p.chunks <= count_of(p.depth) / p.depth.back().count * per_outer)
    return {};
  return fail(Code::invalid, cat("the layout reads element ", int64_t(last), " of an input that has ", elements));
}

static Tensor cast_to(Dtype dtype, const TensorView& given) {
  Tensor out = Tensor::make(dtype, given.dims);
  dispatch_element(given.dtype, [&](auto from) {
    using From = decltype(from);
    dispatch_element(dtype, [&](auto to) {
      using To = decltype(to);
      if constexpr (!From::kIsComplex && !To::kIsComplex) {
        const auto* const x = given.as<const typename From::Storage>();
        auto* const y = out.view().template as<typename To::Storage>();
        const int64_t n = given.elements();
        for (int64_t i = 0; i < n; ++i) y[i] = To::store(typename To::Wide(From::load(x[i])));
      }
    });
  });
  return out;
}

// n elements that lie `stride` of them apart, one after the other.
static void gather(const std::byte* from, int64_t stride, std::byte* to, int64_t n, size_t size) {
  if (stride == 1) {
    std::memcpy(to, from, size_t(n) * size);
    return;
  }
  const auto each = [&](auto width) {
    for (int64_t i = 0; i < n; ++i)
      std::memcpy(to + i * int64_t(sizeof width), from + i * stride * int64_t(sizeof width), sizeof width);
  };
  size == 1 ? each(uint8_t{}) : size == 2 ? each(uint16_t{}) : size == 4 ? each(uint32_t{}) : each(uint64_t{});
}

static Tensor laid_out(const PanelLayout& p, Dtype dtype, const std::byte* given) {
  const size_t size = size_t(bytes(dtype));
  Tensor out = Tensor::make(dtype, {p.batches() * p.lanes, p.chunks * p.column.count});
  const auto offset_of = [](const Axes& axes, int64_t i) {
    int64_t at = 0;
    for (size_t d = axes.size(); d-- > 0; i /= axes[d].count) at += i % axes[d].count * axes[d].stride;
    return at;
  };
  const int64_t per_outer = (p.depth.back().count + p.lanes - 1) / p.lanes;
  for (int64_t b = 0; b < p.batches(); ++b)
    for (int64_t lane = 0; lane < p.lanes; ++lane)
      for (int64_t c = 0; c < p.chunks; ++c) {
        const int64_t k = c % per_outer * p.lanes + lane;
        if (k >= p.depth.back().count) continue;
        const int64_t from = offset_of(p.batch, b) + offset_of(p.depth, c / per_outer * p.depth.back().count + k);
        const int64_t to = ((b * p.lanes + lane) * p.chunks + c) * p.column.count;
        gather(given + size_t(from) * size, p.column.stride, out.data.get() + size_t(to) * size, p.column.count, size);
      }
  return out;
}

Result<Tensor> prepare_input(const DeviceInput& input, const TensorView& given) {
  if (input.panels) TRY(check_layout(*input.panels, given.elements()));
  const bool casts = input.dtype != given.dtype;
  if (!casts && !input.panels) {
    Tensor out = Tensor::make(input.dtype, given.dims);
    if (given.bytes()) std::memcpy(out.data.get(), given.data, given.bytes());
    return out;
  }
  const Tensor cast = casts ? cast_to(input.dtype, given) : Tensor{};
  if (!input.panels) return cast;
  return laid_out(*input.panels, input.dtype, casts ? cast.data.get() : given.as<const std::byte>());
}

}  // namespace trine::compile
