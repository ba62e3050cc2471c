// `trine compile`: a model as a Program for one core of a chip, ahead of time, with its graph and weights in the file;
// `--dry-run` says where each op would run. Functions of Python modules are lowered by Python (trine.aot) first.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>

#include "api/kernel_call.h"
#include "api/numerics.h"
#include "base/file.h"
#include "base/text.h"
#include "compile/aot/cached.h"
#include "compile/aot/errors.h"
#include "compile/aot/trn.h"
#include "compile/device/options.h"
#include "compile/device/passes/narrow_words.h"
#include "compile/graph/simplify.h"
#include "compile/host/native.h"
#include "compile/pass/run_pass.h"
#include "ir/op_ids.h"
#include "run/drivers/timed/timed.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/model_file.h"
#include "tools/pass_log.h"
#include "tools/python.h"

namespace trine::tools {

extern const Command command_compile;

namespace {

constexpr Option kOptions[] = {
    kInstance,
    kChipFile,
    {"--output", "-o", "FILE", "where the program goes; MODEL.trn without it", file(".trn")},
    {"--shape", "", "NAME=1x128", "of an ONNX input with symbolic dims, or of a function's argument; once for each",
     Values().repeated()},
    {"--name", "", "NAME", "what messages call the model"},
    {"--params", "", "FILE", "safetensors with values of inputs that are weights, named arg0, arg1, …",
     file(".safetensors")},
    {"--weights", "", "FILE", "keep the weights in FILE (.safetensors), which other programs may share",
     file(".safetensors")},
    {"--auto-cast", "", "KIND", "what is computed in the cast type", one_of("none matmult all").otherwise("none")},
    {"--auto-cast-type", "", "TYPE", "the cast type", one_of("bf16 f16=fp16 tf32 f8").otherwise("bf16")},
    {"--dry-run", "", "", "list every op with where it would run, without compiling"},
    {"--host", "", "", "make the plan that `trine run --native` runs, to look at it; nothing is written"},
    kPrintAfter,
    kStopAfter,
    kVerifyEach,
    kTimePasses,
    kListPasses,
    kRunPass,
    kMarkdown,
    {"--memory-map", "", "FILE", "draw what lies in device memory over the program, as .svg", file(".svg")},
    kJson,
};

// A model as it was given: its graph with weights as parameters, and their values where they are known.
struct Model {
  ir::Graph graph = {};
  compile::TrnWeights weights = {};
  std::vector<front::OnnxTensor> tensors = {};  // which own those values
  std::optional<compile::TrnFlags> flags = {};  // of a .trn
};

constexpr int64_t kWeightBytes = 128;  // initializers of this size are weights; smaller ones are part of the program

Result<Model> read_onnx_model(const std::string& path, const Args& args) {
  Model out;
  const std::string bytes = TRY(read_file(path));
  front::OnnxOptions options;
  options.name = path;
  options.file = path;
  options.weights_from = kWeightBytes;
  for (const std::string& s : args.all("--shape")) TRY(add_shape(s, options));
  out.graph = TRY(front::read_onnx(bytes, options));
  out.tensors = TRY(front::read_onnx_weights(bytes, options));
  const size_t first = out.graph.params.size() - out.tensors.size();
  for (size_t i = 0; i < out.tensors.size(); ++i) out.weights.values[first + i] = out.tensors[i].tensor.view();
  return out;
}

Result<Model> read_any_model(const std::string& path, const Args& args) {
  if (path.ends_with(".onnx")) return read_onnx_model(path, args);
  Model out;
  if (compile::is_trn(path)) {
    compile::Trn old = TRY(compile::read_trn(path));
    out.graph = std::move(old.graph);
    out.weights = std::move(old.weights);
    out.flags = old.flags;
    return out;
  }
  out.graph = TRY(read_model(path, args.all("--shape")));
  if (args.has("--params")) out.weights = TRY(compile::read_weights(args.get("--params"), out.graph));
  return out;
}

Result<Exit> dry_run(const Args& args, const ir::Graph& given, const arch::Chip& chip) {
  const ir::Graph graph = compile::narrow_words(given);
  const std::vector<compile::HostOp> host = compile::host_ops(graph, chip);
  struct Count {
    int64_t all = 0, host = 0;
  };
  std::map<std::string, Count> ops;
  int64_t total = 0;
  const ir::Graph simple = std::move(compile::simplify(graph).graph);
  for (const ir::Node* node : simple.order())
    if (node->op != op::parameter && node->op != op::constant) ++ops[std::string(node->op.name())].all, ++total;
  for (const compile::HostOp& h : host) ++ops[h.op].host;
  const auto fix = [](const compile::HostOp& h) {
    return std::string(
        compile::code_of(fail(Code::unsupported, cat(h.op, " cannot run on the device: ", h.reason))).fix);
  };
  if (args.has("--json")) {
    Json out = report("compile"), list = Json::array(), all = Json::array();
    for (const auto& [op, n] : ops)
      all.push(Json::object().set("op", op).set("device", n.all - n.host).set("host", n.host));
    for (const auto& h : host)
      list.push(Json::object()
                    .set("op", h.op)
                    .set("type", h.type)
                    .set("reason", h.reason)
                    .set("where", h.where)
                    .set("try", fix(h)));
    out.set("device_ops", total - int64_t(host.size())).set("ops", std::move(all)).set("host", std::move(list));
    print(out.text(2) + "\n");
    return Exit::ok;
  }
  print(cat(graph.name, ": ", with_commas(total - int64_t(host.size())), " ops run on the device, ", host.size(),
            " on the host\n\n"));
  std::vector<std::vector<std::string>> rows = {{"op", "device", "host"}};
  for (const auto& [op, n] : ops) rows.push_back({op, with_commas(n.all - n.host), n.host ? with_commas(n.host) : ""});
  print(columns(rows, "011"));
  for (const compile::HostOp& h : host)
    print(cat("\n", h.op, " ", h.type, " runs on the host: ", h.reason, h.where.empty() ? "" : cat("\n  --> ", h.where),
              "\n  try  ", fix(h), "\n"));
  return Exit::ok;
}

Result<compile::DeviceOptions> options_of(const Args& args, const Model& model, compile::TrnFlags& flags) {
  flags = model.flags.value_or(compile::TrnFlags{});
  flags = {args.get("--auto-cast", flags.auto_cast), args.get("--auto-cast-type", flags.auto_cast_type)};
  auto out = TRY(compile::device_options(flags.auto_cast, flags.auto_cast_type));
  out.timer = run::time_among_others;
  out.weights.resize(model.graph.params.size());
  for (const auto& [i, view] : model.weights.values) out.weights[i] = true;
  return out;
}

int64_t hbm_bytes(const arch::Program& program) {
  int64_t sum = 0;
  for (const arch::Tensor& t : program.tensors)
    if (t.space == arch::Space::hbm && t.alias < 0) sum += arch::tensor_bytes(t);
  return sum;
}

// A model in as many parts as it takes, and how the cache served.
struct Made {
  compile::SplitProgram split = {};
  bool found = true;
  std::string hash = {}, trouble = {};

  int64_t instructions() const {
    int64_t sum = 0;
    for (const compile::DevicePart& part : split.parts)
      if (!part.on_host) sum += part.device.program.instruction_count();
    return sum;
  }
};

// Through the cache, unless someone wants to see the passes or what was found cannot be told to fit.
Result<Made> compile_model(const Args& args, const ir::Graph& graph, const arch::Chip& chip,
                           const compile::DeviceOptions& options, const compile::DeviceObserver& observer) {
  auto cache = TRY(compile::cache_options([](const char* name) -> const char* { return std::getenv(name); }));
  const bool looks = wants_passes(args) || args.has("--memory-map");
  cache.off = cache.off || looks;
  Made out;
  const auto one = [&](const ir::Graph& part, const compile::DeviceOptions& own) -> Result<compile::DeviceProgram> {
    auto made = TRY(compile::compile_cached(part, chip, own, cache, observer));
    out.found = out.found && made.found;
    out.hash = std::move(made.hash);
    out.trouble = std::move(made.trouble);
    if (!made.found || hbm_bytes(made.made.program) <= observer.hbm_room) return std::move(made.made);
    return compile::compile_device(part, chip, own, observer);
  };
  out.split = TRY(compile::compile_split(graph, chip, options, one));
  return out;
}

// Weights go into the file, or stay where they are, or go where they can be shared.
Result<compile::WeightsIn> locate_weights(const Args& args, const std::string& out, compile::Trn& trn) {
  if (!trn.weights.file.empty() && !args.has("--params") && !args.has("--weights"))
    return compile::name_beside(trn.weights.file, out) ? compile::WeightsIn::other : compile::WeightsIn::file;
  if (!args.has("--weights") || trn.weights.values.empty()) return compile::WeightsIn::file;
  const std::string path = args.get("--weights"), text = TRY(compile::weights_text(trn.weights, trn.graph));
  if (!compile::name_beside(path, out))
    return fail(Code::invalid, cat("--weights is not in the folder of ", out, " or below it, where alone a .trn looks"),
                path);
  const auto there = read_file(path);
  if (there && *there != text) return fail(Code::invalid, "holds other weights; name another file, or remove it", path);
  if (!there) TRY(write_file(path, text));
  note(cat("weights ", there ? "shared with " : "→ ", path));
  trn.weights.file = path;
  return compile::WeightsIn::other;
}

Exit show(const Error& error) {
  const Error full = compile::coded(error);
  note(full.message.starts_with("error ") ? full.text() : cat("trine compile: ", full.text()));
  return exit_of(full.code);
}

Result<void> save_map(const std::string& path, const compile::device::MemoryMap& map) {
  TRY(write_file(path, map.svg()));
  note(cat("memory map → ", path));
  return {};
}

// What the host runs, each op once.
void print_host(const compile::SplitProgram& split) {
  std::map<std::string, int64_t> ops;
  for (const compile::HostOp& h : split.host) ++ops[cat(h.op, ": ", h.reason)];
  if (!ops.empty()) note(cat("on the host, in ", split.parts.size(), " parts with the device's:"));
  for (const auto& [op, n] : ops) note(cat("  ", n, " ", op));
}

void print_done(const Args& args, const std::string& out, const std::string& chip, const Made& made, double seconds,
                const PassLog& log) {
  const int64_t count = made.instructions();
  print_host(made.split);
  if (!made.hash.empty() && (made.found || made.trouble.empty()))
    note(cat(made.found ? "found in the cache as " : "cached as ", made.hash.substr(0, 8), "…  (",
             made.found ? cat(fixed(seconds * 1e3, 0), " ms)") : "second time: nothing is compiled)"));
  if (!made.trouble.empty()) note(cat("the cache: ", made.trouble));
  if (args.has("--json")) {
    Json json = report("compile");
    json.set("output", out).set("chip", chip).set("instructions", count);
    json.set("parts", int64_t(made.split.parts.size())).set("host_ops", int64_t(made.split.host.size()));
    json.set("cached", made.found).set("key", made.hash).set("seconds", seconds);
    log.add_times(json);
    print(json.text(2) + "\n");
    return;
  }
  print(cat(out, ": ", with_commas(count), " instructions for ", chip, "; trine run ", out, " times it\n",
            log.times_text()));
}

// Stopped where the user wanted it; the times up to there.
Exit stopped(const Args& args, const PassLog& log) {
  if (args.has(kTimePasses.name) && args.has("--json")) {
    Json json = report("compile");
    log.add_times(json);
    print(json.text(2) + "\n");
    return Exit::ok;
  }
  print(log.times_text());
  return Exit::ok;
}

// The graph through the passes before any target, as `options` asks for them.
Result<ir::Graph> imported(const ir::Graph& graph, compile::GraphOptions options,
                           const compile::PassObserver& observer) {
  options.imports = true;
  compile::GraphState state{.graph = graph, .options = std::move(options)};
  TRY(compile::run_passes(compile::graph_pipeline(), state, observer));
  return state.graph.take();
}

Result<compile::Numerics> numerics_of(const Args& args) {
  compile::Numerics out;
  for (std::string_view option : {"--auto-cast", "--auto-cast-type"})
    if (args.has(option)) TRY(api::set_numerics(out, option, args.get(option)));
  return out;
}

Result<Exit> plan_for_host(const Args& args, const ir::Graph& given, PassLog& log) {
  const compile::NativeOptions options{.kernels = api::kernel_function, .observer = log.observer()};
  auto graph = imported(given, {.target = compile::Target::host, .numerics = TRY(numerics_of(args))}, options.observer);
  auto plan = graph ? compile::plan_native(std::make_shared<ir::Graph>(*std::move(graph)), options)
                    : Result<std::shared_ptr<const arch::HostPlan>>(graph.error());
  if (!plan && plan.error().code == Code::cancelled) return stopped(args, log);
  if (!plan) return show(plan.error());
  if (args.has("--json")) {
    Json json = report("compile");
    json.set("target", "host").set("steps", int64_t((*plan)->steps.size())).set("bytes", (*plan)->arena_bytes);
    log.add_times(json);
    print(json.text(2) + "\n");
    return Exit::ok;
  }
  print(cat(given.name, ": ", with_commas(int64_t((*plan)->steps.size())), " steps on the host, ",
            with_commas((*plan)->arena_bytes), " bytes of temporaries\n", log.times_text()));
  return Exit::ok;
}

// `trine compile --run-pass`: no model, but a text.
Result<Exit> run_passes_alone(const Args& args) {
  const std::string& path = args.words[0];
  const std::string text =
      path == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : TRY(read_file(path));
  const auto machine = TRY(choose_machine(args));
  const std::string list = args.get(kRunPass.name);
  compile::RunPassOptions options{
      .device = TRY(compile::device_options(args.get("--auto-cast", "none"), args.get("--auto-cast-type", "bf16")))};
  options.device.timer = run::time_among_others;
  options.graph = {.target = args.has("--host") ? compile::Target::host : compile::Target::device,
                   .numerics = TRY(numerics_of(args))};
  print(TRY(compile::run_named_passes(text, path, split(list, ','), machine.chip(), options)));
  return Exit::ok;
}

Result<Exit> compile_file(const Args& args) {
  const std::string& path = args.words[0];
  PassLog log(args);
  auto read = read_any_model(path, args);
  if (!read) return show(read.error());
  Model model = std::move(*read);
  const auto machine = TRY(choose_machine(args));
  const arch::Chip& chip = machine.chip();
  if (args.has("--dry-run")) return dry_run(args, model.graph, chip);
  if (args.has("--host")) return plan_for_host(args, model.graph, log);
  compile::Trn trn;
  const auto options = options_of(args, model, trn.flags);
  if (!options) return show(options.error());
  note(cat("compiling ", args.get("--name", path), " for ", machine.instance.name, ", one ", chip.name, " core"));
  const auto begin = std::chrono::steady_clock::now();
  compile::device::MemoryMap map;
  compile::DeviceObserver observer{.passes = log.observer(), .memory = &map, .hbm_room = chip.hbm.bytes / chip.cores};
  observer.progress = [&](size_t at, size_t all) { log.going("lower", at, all); };
  const auto graph = imported(
      model.graph, {.target = compile::Target::device, .narrows_words = true, .simplifies = false}, observer.passes);
  auto made = graph ? compile_model(args, *graph, chip, *options, observer) : Result<Made>(graph.error());
  const std::string out = args.get("--output", cat(path.substr(0, path.rfind('.')), ".trn"));
  if (args.has("--memory-map") && !map.rows.empty()) TRY(save_map(args.get("--memory-map"), map));
  if (!made && made.error().code == Code::cancelled) return stopped(args, log);
  if (!made) {
    if (made.error().code == Code::out_of_memory && !map.rows.empty() && !args.has("--memory-map"))
      TRY(save_map(cat(out, ".memory.svg"), map));
    return show(made.error());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  trn.made = std::move(made->split);
  trn.chip = chip.name;
  trn.graph = std::move(model.graph);
  trn.weights = std::move(model.weights);
  TRY(compile::write_trn(trn, out, TRY(locate_weights(args, out, trn))));
  made->split = std::move(trn.made);
  print_done(args, out, chip.name, *made, seconds, log);
  return Exit::ok;
}

Result<Exit> run_compile(const Args& args) {
  if (args.has(kListPasses.name)) return list_passes(args), Exit::ok;
  if (args.words.empty()) return fail(Code::invalid, "expected MODEL; `trine compile --help` explains");
  TRY(check_passes_named(args));
  if (args.has(kRunPass.name)) return run_passes_alone(args);
  const std::string& path = args.words[0];
  if (path.find(':') != std::string::npos && !std::filesystem::exists(path)) {
    return become_python(command_compile, args, "trine.aot");
  }
  return compile_file(args);
}

}  // namespace

const Command command_compile{
    .name = "compile",
    .summary = "a StableHLO or ONNX model as a program for a chip, ahead of time",
    .words = "MODEL",
    .words_min = 0,
    .words_max = 1,
    .word = file(".onnx .stablehlo .mlir .mlirbc .trn .py"),
    .details =
        "MODEL is a StableHLO or ONNX file, a function of a Python module (module:function), or a .trn, which is "
        "compiled\n"
        "again from the graph in it, its weights shared. docs/compile.md explains.",
    .examples =
        "trine compile model.onnx --shape input=1x3x224x224 --instance trn2.3xlarge -o model.trn\n"
        "trine compile model.trn --instance inf2.xlarge -o model-inf2.trn\n"
        "trine compile models.bert:forward --shape tokens=1x128:int32\n"
        "trine compile model.stablehlo --dry-run\n"
        "trine compile model.stablehlo --print-after decompose --stop-after decompose\n"
        "trine compile model.stablehlo --verify-each --time-passes\n"
        "trine compile --list-passes",
    .options = kOptions,
    .run = run_compile,
};

}  // namespace trine::tools
