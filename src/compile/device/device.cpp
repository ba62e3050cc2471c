// The passes of device compilation, in order; see device.h.
#include "compile/device/device.h"

#include <algorithm>

#include "base/text.h"
#include "compile/device/decompose.h"
#include "compile/device/lower.h"
#include "compile/simplify.h"
#include "compile/stream/streams.h"

namespace trine::compile {

using namespace device;

std::vector<HostPlaced> host_placed(const ir::Graph& graph) { return split(simplify(graph).graph).host; }

static Result<DeviceProgram> compile_simple(const ir::Graph& graph, const arch::Chip& chip,
                                            const DeviceOptions& options) {
  const ir::Graph simple = decompose(graph);
  Lowering lowering(simple, chip, options);
  DeviceProgram out;
  out.inputs = TRY(lowering.all());
  Complaint why;
  out.program = TRY(make_streams(lowering.kernel(), why));
  return out;
}

Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options) {
  return compile_simple(simplify(graph).graph, chip, options);
}

static SplitProgram whole(DeviceProgram program, const ir::Graph& graph) {
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

Result<SplitProgram> compile_split(const ir::Graph& graph, const DeviceOptions& options, const CompilePart& compile) {
  auto all = compile(graph, options);
  if (all) return whole(std::move(*all), graph);
  if (all.error().code != Code::unsupported) return all.error();
  Split cut = split(simplify(graph).graph);
  if (cut.host.empty()) return all.error();
  SplitProgram out{.results = std::move(cut.results), .host = std::move(cut.host), .inputs = graph.params.size()};
  for (Part& part : cut.parts) {
    DevicePart made{.on_host = part.on_host, .reads = std::move(part.reads), .writes = std::move(part.writes)};
    for (const ir::Value& v : part.graph.results) made.written.push_back(v.type());
    if (part.on_host) {
      made.host = std::make_shared<const ir::Graph>(std::move(part.graph));
    } else {
      DeviceOptions own{.dots = options.dots};
      for (size_t i : made.reads) own.weights.push_back(i < options.weights.size() && options.weights[i]);
      made.device = TRY(compile(part.graph, own));
    }
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

Result<Tensor> prepare_input(const DeviceInput& input, const TensorView& given) {
  if (input.panels) TRY(check_layout(*input.panels, given.elements()));
  Tensor cast = Tensor::make(input.dtype, given.dims);
  dispatch_element(given.dtype, [&](auto from) {
    using From = decltype(from);
    dispatch_element(input.dtype, [&](auto to) {
      using To = decltype(to);
      if constexpr (!From::kIsComplex && !To::kIsComplex) {
        const auto* const x = given.as<const typename From::Storage>();
        auto* const y = cast.view().template as<typename To::Storage>();
        for (int64_t i = 0; i < given.elements(); ++i) y[i] = To::store(typename To::Wide(From::load(x[i])));
      }
    });
  });
  if (!input.panels) return cast;
  const PanelLayout& p = *input.panels;
  const size_t size = size_t(bytes(input.dtype));
  Tensor out = Tensor::make(input.dtype, {p.batches() * p.lanes, p.chunks * p.column.count});
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
        for (int64_t o = 0; o < p.column.count; ++o)
          std::copy_n(cast.data.get() + size_t(from + o * p.column.stride) * size, size,
                      out.data.get() + size_t(to + o) * size);
      }
  return out;
}

}  // namespace trine::compile
