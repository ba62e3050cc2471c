// The pipelines of device compilation one after the other, graphs in parts, and inputs as a program wants them; see
// device.h.
#include "compile/device/device.h"

#include <algorithm>
#include <cstring>

#include "arch/asm/asm.h"
#include "base/stop.h"
#include "base/text.h"
#include "compile/device/pipeline.h"
#include "compile/graph/simplify.h"
#include "compile/stream/streams.h"
#include "ir/text.h"
#include "ops/wide.h"

namespace trine::compile {

using namespace device;

std::vector<HostOp> host_ops(const ir::Graph& graph, const arch::Chip& chip) {
  return split(simplify(graph).graph, chip).host;
}

Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options,
                                     const DeviceObserver& observer) {
  const Work work(limits().compile_seconds, "compiling, by TRINE_COMPILE_SECONDS");
  GraphState imported{.graph = graph, .options = {.target = Target::device}};
  TRY(run_passes(graph_pipeline(), imported, observer.passes));
  DeviceState state{imported.graph.take(), chip, options, observer};
  TRY(run_passes(device_pipeline(), state, observer.passes));
  Lowered& lowered = *state.lowered;
  if (observer.chosen) *observer.chosen = lowered.lowering.chosen();
  DeviceProgram out{.inputs = std::move(lowered.inputs)};
  Diagnostic why;
  if (lowered.program && !observer.passes.sees_all()) {  // made when it was timed
    out.program = *std::move(lowered.program);
    if (observer.passes.after)
      observer.passes.after({"stream", "schedule", true, 0, {{"instructions", out.program.instruction_count()}}},
                            [&] { return arch::disassemble(out.program); });
  } else {
    out.program = TRY(make_unverified(lowered.lowering.kernel(), why, {.hoists = true, .observer = observer.passes}));
  }
  TRY(verify_streams(out.program, chip, why));
  return out;
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
static HostOp refused(const ir::Graph& graph, const Error& why) {
  constexpr std::string_view kPrefix = "cannot run on the device: ";
  const size_t at = why.message.find(kPrefix);
  const ir::Value* const last = graph.results.empty() ? nullptr : &graph.results[0];
  return {.op = last ? std::string(last->node->op.name()) : "program",
          .type = last ? ir::text(last->type()) : "",
          .reason = at == std::string::npos ? why.message : why.message.substr(at + kPrefix.size()),
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
  constexpr int64_t kChunk = 1024;
  Tensor out = Tensor::make(dtype, given.dims);
  const TensorView to = out.view();
  ops::dispatch_wide(dtype, [&]<class W>() {
    W wide[kChunk];
    for (int64_t at = 0, n = given.elements(); at < n; at += kChunk) {
      ops::load_wide(given, at, std::min(kChunk, n - at), wide);
      ops::store_wide(wide, std::min(kChunk, n - at), to, at);
    }
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
  const int64_t per_outer = (p.depth.back().count + p.lanes - 1) / p.lanes, all = p.column.count;
  for (int64_t b = 0; b < p.batches(); ++b)
    for (int64_t lane = 0; lane < p.lanes; ++lane)
      for (int64_t c = 0; c < p.chunks; ++c) {
        const int64_t k = c % per_outer * p.lanes + lane;
        if (k >= p.depth.back().count) continue;
        const int64_t from = offset_of(p.batch, b) + offset_of(p.depth, c / per_outer * p.depth.back().count + k);
        for (int64_t begin = 0, wide = p.strip ? p.strip : all; begin < all; begin += wide) {
          const int64_t each = std::min(wide, all - begin);
          const int64_t to = p.lanes * p.chunks * (b * all + begin) + (lane * p.chunks + c) * each;
          gather(given + size_t(from + begin * p.column.stride) * size, p.column.stride,
                 out.data.get() + size_t(to) * size, each, size);
        }
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
