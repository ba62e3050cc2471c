// Front-end, compiler and plan in a row; and the saved form of the result.
#include "api/executable.h"

#include <charconv>

#include "api/graph_text.h"
#include "api/kernel_call.h"
#include "api/numerics.h"
#include "api/observe.h"
#include "api/program_text.h"
#include "base/format/json.h"
#include "base/stop.h"
#include "base/text.h"
#include "compile/graph/hlo_text.h"
#include "compile/graph/pipeline.h"
#include "compile/host/native.h"

namespace trine::api {

namespace {

constexpr std::string_view kMagic = "trine executable\n";
constexpr int64_t kVersion = 2;  // 1: without the header under the checksum

constexpr int64_t kCopiesMax = int64_t{1} << 20;  // replicas or partitions

uint64_t hash_of(std::string_view bytes, uint64_t seed = 0xcbf29ce484222325) {  // FNV-1a
  for (unsigned char c : bytes) seed = (seed ^ c) * 0x100000001b3;
  return seed;
}

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

int64_t bytes_of(const Executable& e, const std::vector<arch::SlotId>& slots) {
  int64_t sum = 0;
  for (arch::SlotId id : slots) sum += int64_t(e.plan->slots[id].bytes());
  return sum;
}

// As the options say, before it is planned; `out` learns where inputs and outputs lie.
Result<ir::Graph> run_graph_passes(ir::Graph graph, compile::GraphOptions passes, const CompileOptions& options,
                                   Executable& out) {
  out.layouts.params.resize(graph.params.size());
  out.layouts.results.resize(graph.results.size());
  if (options.has_layouts) out.layouts = TRY(compile::layouts_of(graph));
  passes.target = compile::Target::host;
  passes.selects_predicates = options.has_choosing_truths;
  passes.partitions = true;
  if (passes.simplifies) passes.layouts = out.layouts;
  compile::GraphState state{.graph = std::move(graph), .options = std::move(passes)};
  TRY(compile::run_passes(compile::graph_pipeline(), state, observer_from_environment()));
  out.shardings = std::move(state.shardings);
  return state.graph.take();
}

struct Saved {
  CompileOptions options = {};
  std::string_view extra = {}, artifact = {};
};
Result<Saved> read_saved(std::string_view bytes);

}  // namespace

int64_t Executable::input_bytes() const { return bytes_of(*this, plan->inputs); }
int64_t Executable::output_bytes() const { return bytes_of(*this, plan->outputs); }
int64_t Executable::donated_bytes() const {
  int64_t sum = 0;
  for (size_t i = 0; i < plan->donations.size(); ++i)
    if (plan->donations[i] >= 0) sum += int64_t(input(i).bytes());
  return sum;
}

Result<ExecutablePtr> compile(std::string artifact, const CompileOptions& options) {
  const Work work(limits().compile_seconds, "compiling, by TRINE_COMPILE_SECONDS");
  auto out = std::make_shared<Executable>();
  out->options = options;
  out->fingerprint = hex(
      hash_of(artifact, hash_of(cat(options.replicas, ",", options.partitions, ",", numerics_text(options.numerics)))));
  auto source = std::make_shared<arch::PlanSource>();
  source->artifact = artifact;
  auto graph = TRY(read_graph(std::move(artifact)));
  source->name = graph.name;
  out->output_kinds = graph.attrs.strings("result_memory_kinds");
  out->output_kinds.resize(graph.results.size());
  graph = TRY(run_graph_passes(std::move(graph), {.numerics = options.numerics}, options, *out));
  out->plan = TRY(
      compile::plan_native(std::make_shared<ir::Graph>(std::move(graph)), {.host_functions = options.host_functions,
                                                                           .kernels = kernel_function,
                                                                           .source = std::move(source),
                                                                           .observer = observer_from_environment()}));
  out->text = program_text(*out);
  return ExecutablePtr(std::move(out));
}

Result<ExecutablePtr> compile_with_flags(std::string artifact, std::string_view flags) {
  CompileOptions options;
  options.numerics = TRY(numerics_from_environment());
  TRY(set_numerics_by_flags(options.numerics, flags));
  return compile(std::move(artifact), options);
}

std::string sealed(std::string_view head_and_body) {
  return cat(kMagic, hex(hash_of(head_and_body)), "\n", head_and_body);
}

std::string save(const Executable& executable, std::string_view extra) {
  std::string body = cat(extra, executable.artifact());
  const Json header = Json::object()
                          .set("version", kVersion)
                          .set("replicas", executable.options.replicas)
                          .set("partitions", executable.options.partitions)
                          .set("layouts", executable.options.has_layouts)
                          .set("choosing_truths", executable.options.has_choosing_truths)
                          .set("numerics", numerics_text(executable.options.numerics))
                          .set("extra_bytes", int64_t(extra.size()))
                          .set("bytes", int64_t(body.size()));
  return sealed(cat(header.text(0), "\n", body));
}

namespace {

Result<Saved> read_saved(std::string_view bytes) {
  if (!bytes.starts_with(kMagic))
    return fail(Code::invalid,
                "these bytes are not a saved executable: expected \"trine executable\" at the beginning");
  bytes.remove_prefix(kMagic.size());
  const size_t sum_end = bytes.find('\n'), end = bytes.find('\n', sum_end + 1);
  if (bytes.starts_with("{\"version\":1,"))
    return fail(Code::unsupported, cat("a saved executable of version 1; this build reads ", kVersion));
  if (sum_end == std::string_view::npos || end == std::string_view::npos)
    return fail(Code::invalid, "a saved executable ends within its header");
  const std::string_view head = bytes.substr(sum_end + 1, end - sum_end - 1), body = bytes.substr(end + 1);
  if (bytes.substr(0, sum_end) != hex(hash_of(bytes.substr(sum_end + 1))))
    return fail(Code::invalid, cat("a saved executable is damaged: its ", bytes.size() - sum_end - 1,
                                   " bytes have another checksum than it says"));
  const Json header = TRY(parse_json(head, "executable header"));
  const auto number = [&](const char* key) { return header.find(key) ? header.find(key)->integer() : -1; };
  if (number("version") != kVersion)
    return fail(Code::unsupported,
                cat("a saved executable of version ", number("version"), "; this build reads ", kVersion));
  const int64_t extra = number("extra_bytes");
  if (number("bytes") != int64_t(body.size()) || extra < 0 || extra > int64_t(body.size()))
    return fail(Code::invalid, cat("a saved executable is damaged: found ", body.size(), " bytes, expected ",
                                   number("bytes"), ", of them ", extra, " of the caller"));
  CompileOptions options{.replicas = number("replicas"), .partitions = number("partitions")};
  for (const int64_t count : {options.replicas, options.partitions})
    if (count < 1 || count > kCopiesMax)
      return fail(Code::invalid, cat("a saved executable of ", options.replicas, " replicas and ", options.partitions,
                                     " partitions; expected 1 to ", kCopiesMax));
  if (const Json* layouts = header.find("layouts")) options.has_layouts = layouts->boolean();
  if (const Json* truths = header.find("choosing_truths")) options.has_choosing_truths = truths->boolean();
  if (const Json* numerics = header.find("numerics")) TRY(set_numerics_by_flags(options.numerics, numerics->string()));
  return Saved{options, body.substr(0, size_t(extra)), body.substr(size_t(extra))};
}

}  // namespace

Result<Loaded> load(std::string_view bytes) {
  const Saved saved = TRY(read_saved(bytes));
  return Loaded{TRY(compile(std::string(saved.artifact), saved.options)), std::string(saved.extra)};
}

Result<std::string> saved_as_hlo(std::string_view bytes) {
  const Saved saved = TRY(read_saved(bytes));
  Executable out;
  const ir::Graph graph =
      TRY(run_graph_passes(TRY(read_graph(std::string(saved.artifact))), {.simplifies = false}, saved.options, out));
  return compile::hlo_text(graph, out.shardings, saved.options.partitions);
}

}  // namespace trine::api
