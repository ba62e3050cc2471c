// `trine compile`: a StableHLO or ONNX file as a Program for one core of a chip, ahead of time; `--dry-run` says where
// each op would run.
#include <chrono>

#include "arch/container.h"
#include "base/text.h"
#include "compile/device/options.h"
#include "compile/simplify.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/model_file.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    kInstance,
    kChipFile,
    {"--output", "-o", "FILE", "where the program goes; MODEL.trn without it"},
    {"--shape", "", "NAME=1x128", "of an ONNX input with symbolic dims; once for each"},
    {"--auto-cast", "", "KIND", "none, matmult or all: what is computed in the cast type (none)"},
    {"--auto-cast-type", "", "TYPE", "bf16, f16, tf32 or f8 (bf16)"},
    {"--dry-run", "", "", "list every op with where it would run, without compiling"},
    kJson,
};

class Stages {
 public:
  // A line of progress, with how long the stage took.
  void done(std::string_view stage, std::string_view what) {
    const auto now = std::chrono::steady_clock::now();
    note(cat("  ", pad(stage), what, "  ", fixed(std::chrono::duration<double>(now - begin_).count(), 2), " s"));
    begin_ = now;
  }

 private:
  static std::string pad(std::string_view s) { return cat(s, std::string(s.size() < 11 ? 11 - s.size() : 1, ' ')); }
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

Result<Exit> dry_run(const Args& args, const ir::Graph& graph) {
  const std::vector<compile::HostPlaced> host = compile::host_placed(graph);
  const int64_t device_ops = int64_t(compile::simplify(graph).graph.order().size()) - int64_t(host.size());
  if (args.has("--json")) {
    Json out = report("compile");
    out.set("device_ops", device_ops);
    Json list = Json::array();
    for (const compile::HostPlaced& h : host)
      list.push(Json::object().set("op", h.op).set("type", h.type).set("reason", h.reason).set("where", h.where));
    out.set("host", std::move(list));
    print(out.text(2) + "\n");
    return Exit::ok;
  }
  print(cat(graph.name, ": ", with_commas(device_ops), " ops run on the device, ", host.size(), " on the host\n"));
  std::vector<std::vector<std::string>> rows = {{"on the host", "type", "why", "where"}};
  for (const compile::HostPlaced& h : host) rows.push_back({h.op, h.type, h.reason, h.where});
  if (rows.size() > 1) print("\n" + columns(rows, "0000"));
  return Exit::ok;
}

Result<Exit> run_compile(const Args& args) {
  const std::string& path = args.words[0];
  Stages stages;
  const ir::Graph graph = TRY(read_model(path, args.all("--shape")));
  if (args.has("--dry-run")) return dry_run(args, graph);
  const auto machine = TRY(choose_machine(args));
  const arch::Chip& chip = machine.chip();
  note(cat("compiling ", path, " for ", chip.name));
  stages.done("read", cat(with_commas(int64_t(graph.order().size())), " ops"));
  const auto options =
      TRY(compile::device_options(args.get("--auto-cast", "none"), args.get("--auto-cast-type", "bf16")));
  const auto made = TRY(compile::compile_device(graph, chip, options));
  stages.done("compile", cat(with_commas(made.program.instruction_count()), " instructions"));
  const std::string out = args.get("--output", cat(path.substr(0, path.rfind('.')), ".trn"));
  TRY(arch::write_program(made.program, out));
  stages.done("write", out);
  if (args.has("--json")) {
    Json json = report("compile");
    json.set("output", out).set("chip", chip.name).set("instructions", made.program.instruction_count());
    print(json.text(2) + "\n");
  } else {
    print(cat(out, ": ", with_commas(made.program.instruction_count()), " instructions for ", chip.name, "; trine run ",
              out, " times it\n"));
  }
  return Exit::ok;
}

}  // namespace

extern const Command command_compile;
const Command command_compile{
    .name = "compile",
    .summary = "a StableHLO or ONNX model as a program for a chip, ahead of time",
    .words = "MODEL",
    .words_min = 1,
    .words_max = 1,
    .details =
        "  trine compile model.onnx --shape input=1x3x224x224 --instance trn2.3xlarge -o model.trn\n"
        "  trine compile model.stablehlo --dry-run\n",
    .options = kOptions,
    .run = run_compile,
};

}  // namespace trine::tools
