// `trine run`: a program's values, its time, or both.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>

#include "base/file.h"
#include "base/format/npy.h"
#include "base/number/convert.h"
#include "base/text.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/random_input.h"
#include "run/drivers/timed/timed.h"
#include "run/faults/apply.h"
#include "run/picture/picture.h"
#include "run/profile/trace.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/program_file.h"
#include "tools/run_faults.h"
#include "tools/trn_file.h"

namespace trine::tools {

namespace {

constexpr Option kOptions[] = {
    kInstance,
    kChipFile,
    {"--values", "", "", "run every instruction and show the outputs"},
    {"--native", "", "", "a compiled model's values at host speed; with --values, how far they are apart"},
    {"--time", "", "", "time it (the default when --values is not given)"},
    {"--input", "", "NAME=FILE", "an input from a .npy file; the others are random", file(".npy").repeated()},
    {"--output", "", "DIR", "write each output as DIR/NAME.npy", folder()},
    {"--seed", "", "N", "of random inputs and stochastic rounding", whole().otherwise("0")},
    {"--stochastic", "", "", "round results stochastically"},
    {"--trap-nan", "", "", "report every instruction that writes a NaN"},
    {"--no-jump", "", "", "walk every loop iteration, even when they repeat"},
    {"--window", "", "A:B", "record every instruction that starts between A and B ns"},
    {"--trace", "", "FILE", "write every instruction's time as .json or .json.gz, which Perfetto opens",
     file(".json .json.gz")},
    {"--picture", "", "FILE", "draw how busy each engine is over time, as .svg or .png", file(".svg .png")},
    kFault,
    kJson,
};

struct Values {
  run::RunResult result;
  bool random = false;                                          // some input was made up
  std::vector<double> apart = {};                               // from native, of each output
  std::vector<std::vector<std::vector<uint32_t>>> loaded = {};  // of each program
};

Result<std::map<std::string, Array, std::less<>>> read_inputs(const Args& args, const arch::Program& program) {
  std::map<std::string, Array, std::less<>> arrays;
  for (const std::string& text : args.all("--input")) {
    const size_t eq = text.find('=');
    if (eq == std::string::npos) return fail(Code::invalid, cat("found --input ", text, ", expected NAME=FILE.npy"));
    const std::string name = text.substr(0, eq), path = text.substr(eq + 1);
    const int index = program.find_tensor(name);
    if (index < 0 || program.tensors[static_cast<size_t>(index)].kind != arch::TensorKind::input)
      return fail(Code::not_found, cat("no input is called ", name), program.name);
    const arch::Tensor& t = program.tensors[static_cast<size_t>(index)];
    Array a = TRY(parse_npy(TRY(read_file(path)), t.dtype, path));
    if (a.shape != t.shape)
      return fail(Code::invalid, cat("shape is ", shape_text(a.shape), "; input ", name, " has ", shape_text(t.shape)),
                  path);
    arrays.insert_or_assign(name, std::move(a));
  }
  return arrays;
}

Result<Values> run_values(const Args& args, const arch::Program& program, const arch::Chip& chip,
                          const run::Faults& faults) {
  Values v;
  auto arrays = TRY(read_inputs(args, program));
  const uint64_t seed = static_cast<uint64_t>(args.integer("--seed"));
  run::Inputs inputs;
  for (size_t i = 0; i < program.tensors.size(); ++i) {
    const arch::Tensor& t = program.tensors[i];
    if (t.kind != arch::TensorKind::input) continue;
    if (!arrays.contains(t.name)) {
      arrays[t.name] = {t.dtype, t.shape, run::random_bytes(t, seed + i)};
      v.random = true;
    }
    inputs[t.name] = arrays[t.name].bytes;
  }
  run::ExactOptions options;
  options.seed = seed;
  options.stochastic = args.has("--stochastic");
  options.trap_nan = args.has("--trap-nan");
  TRY(add_flips(faults, &program, options));
  const auto begin = std::chrono::steady_clock::now();
  v.result = TRY(run::run_exact(program, chip, inputs, options));
  const auto took = std::chrono::steady_clock::now() - begin;
  leave_traces(program, chip, v.result, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
  v.loaded.push_back(v.result.loaded);
  if (args.has("--output"))
    for (const run::Output& o : v.result.outputs)
      TRY(write_file(cat(args.get("--output"), "/", o.name, ".npy"), npy_text(o.dtype, o.shape, o.bytes)));
  return v;
}

// A compiled model: exactly, natively, or both.
Result<Values> run_model(const Args& args, const compile::Trn& trn, const arch::Chip& chip, const run::Faults& faults) {
  Values v;
  const auto seed = static_cast<uint64_t>(args.integer("--seed"));
  const TrnInputs given = TRY(read_inputs(args, trn, seed));
  v.random = given.random;
  std::vector<run::Output> native;
  if (args.has("--native")) native = TRY(run_native(trn, given));
  if (args.has("--values")) {
    run::ExactOptions options;
    options.seed = seed;
    options.stochastic = args.has("--stochastic");
    options.trap_nan = args.has("--trap-nan");
    const compile::DeviceProgram* const only = trn.made.only();
    TRY(add_flips(faults, only ? &only->program : nullptr, options));
    const auto begin = std::chrono::steady_clock::now();
    TrnRun ran = TRY(run_exactly(trn, given, chip, options));
    const auto took = std::chrono::steady_clock::now() - begin;
    if (only)
      leave_traces(only->program, chip, ran.result, std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
    v.result = std::move(ran.result);
    v.loaded = std::move(ran.loaded);
    if (args.has("--native")) v.apart = differences(v.result.outputs, native);
  } else {
    v.result.outputs = std::move(native);
    v.result.finished = true;
  }
  for (size_t i = 0; i < v.result.outputs.size(); ++i) v.result.outputs[i].name = compile::result_name(trn.graph, i);
  if (args.has("--output"))
    for (const run::Output& o : v.result.outputs)
      TRY(write_file(cat(args.get("--output"), "/", o.name, ".npy"), npy_text(o.dtype, o.shape, o.bytes)));
  return v;
}

struct Summary {
  double low = INFINITY, high = -INFINITY, sum = 0;
  int64_t nans = 0, count = 0;
};

Summary summarize(const run::Output& o) {
  Summary s;
  for (const float v : floats(o)) {
    if (std::isnan(v)) {
      ++s.nans;
      continue;
    }
    s.low = std::min<double>(s.low, v);
    s.high = std::max<double>(s.high, v);
    s.sum += v;
    ++s.count;
  }
  return s;
}

std::string short_number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", v);
  return text;
}

void print_values(const Values& v, std::string_view name) {
  const auto& counts = v.result.counts;
  print(cat(name, ": ",
            counts.instructions
                ? cat(with_commas(counts.instructions), " instructions, ", with_commas(counts.transfers), " transfers")
                : std::string("native"),
            v.random ? ", random inputs" : "", v.result.finished ? "\n" : ", did not finish\n"));
  std::vector<std::vector<std::string>> rows;
  for (const run::Output& o : v.result.outputs) {
    const Summary s = summarize(o);
    rows.push_back({cat("  ", o.name), cat(row(o.dtype).name, shape_text(o.shape)), cat("min ", short_number(s.low)),
                    cat("max ", short_number(s.high)),
                    cat("mean ", short_number(s.count ? s.sum / static_cast<double>(s.count) : 0)),
                    s.nans ? cat(s.nans, " NaN") : "",
                    v.apart.empty() ? "" : cat(short_number(v.apart[rows.size()]), " from native")});
  }
  print(columns(rows, "0000000"));
  for (const run::Finding& f : v.result.findings) print(cat("\n", f.text(), "\n"));
  if (v.result.findings_dropped) print(cat("\n… and ", v.result.findings_dropped, " more findings\n"));
}

Json values_json(const Values& v) {
  Json outputs = Json::array(), findings = Json::array();
  for (const run::Output& o : v.result.outputs) {
    const Summary s = summarize(o);
    Json shape = Json::array(), x = Json::object();
    for (int64_t d : o.shape) shape.push(d);
    x.set("name", o.name).set("dtype", row(o.dtype).name).set("shape", shape);
    if (s.count) x.set("min", s.low).set("max", s.high).set("mean", s.sum / static_cast<double>(s.count));
    if (!v.apart.empty()) x.set("from_native", v.apart[outputs.items().size()]);
    outputs.push(x.set("nan", s.nans));
  }
  for (const run::Finding& f : v.result.findings) {
    Json x = Json::object();
    x.set("kind", arch::name(f.kind))
        .set("message", f.message())
        .set("stream", f.stream)
        .set("instruction", f.instruction);
    x.set("file", f.file).set("line", f.line).set("fix", f.fix).set("warning", f.warning);
    findings.push(std::move(x));
  }
  Json out = Json::object();
  out.set("finished", v.result.finished)
      .set("instructions", v.result.counts.instructions)
      .set("random_inputs", v.random);
  return out.set("outputs", outputs).set("findings", findings);
}

Result<void> read_window(const Args& args, sim::TimeOptions& options) {
  if (!args.has("--window")) return {};
  const std::string text = args.get("--window");
  const auto parts = split(text, ':');
  double ends[2] = {0, 0};
  bool ok = parts.size() == 2;
  for (size_t i = 0; ok && i < 2; ++i) {
    const auto [end, ec] = std::from_chars(parts[i].data(), parts[i].data() + parts[i].size(), ends[i]);
    ok = ec == std::errc{} && end == parts[i].data() + parts[i].size();
  }
  if (!ok || !(ends[0] >= 0) || !(ends[1] > ends[0]))
    return fail(Code::invalid, cat("found --window ", text, ", expected two times in ns, for example 15000:20000"));
  options.window_begin_ns = ends[0];
  options.window_end_ns = ends[1];
  return {};
}

void note_part(double begin_ns, double end_ns, double time_ns) {
  note(cat("it shows ", with_unit_ns(begin_ns), " to ", with_unit_ns(end_ns), " of ", with_unit_ns(time_ns),
           "; --window A:B (in ns) chooses the part"));
}

// part: put before the file's ending, where each of several programs has a file.
std::string numbered(const std::string& path, const std::string& part) {
  const size_t dot = path.rfind('.'), at = dot == std::string::npos ? path.size() : dot;
  return part.empty() ? path : cat(path.substr(0, at), ".", part, path.substr(at));
}

Result<void> save_views(const Args& args, const arch::Program& program, const Machine& machine,
                        const sim::TimeOptions& options, const run::TimedResult& t, const std::string& part) {
  if (args.has("--trace")) {
    const std::string path = numbered(args.get("--trace"), part);
    const auto saved = TRY(run::save_trace(path, program, machine.instance, options, t.timing));
    note(cat("trace → ", path, " (", with_commas(saved.slices), " slices; open it in Perfetto)"));
    if (!saved.whole) note_part(saved.begin_ns, saved.end_ns, t.report.time_ns);
  }
  if (args.has("--picture")) {
    const std::string path = numbered(args.get("--picture"), part);
    const auto saved = TRY(run::save_picture(path, program, machine.instance, options, t.timing, t.report));
    note(cat("picture → ", path));
    if (!saved.whole) note_part(saved.begin_ns, saved.end_ns, t.report.time_ns);
  }
  return {};
}

// What is run: a program, or the parts of a model one after the other.
struct Piece {
  const arch::Program* program = nullptr;  // null: the host's
  size_t part = 0;
};

std::vector<Piece> pieces_of(const std::optional<compile::Trn>& trn, const arch::Program& loaded) {
  if (!trn) return {{&loaded}};
  std::vector<Piece> out;
  for (const compile::DevicePart& part : trn->made.parts)
    out.push_back({part.on_host ? nullptr : &part.device.program, out.size()});
  return out;
}

// Time of each program. Of several, each under its number.
Result<Exit> run_times(const Args& args, const std::vector<Piece>& pieces, const Machine& machine,
                       sim::TimeOptions options, const Values& values, const run::Faults& faults, Json& out) {
  Json parts = Json::array();
  for (const Piece& piece : pieces) {
    const std::string title = cat("part ", piece.part + 1, " of ", pieces.size());
    if (!piece.program) {
      parts.push(Json::object().set("on_host", true));
      if (!args.has("--json")) print(cat("\n", title, ": on the host\n"));
      continue;
    }
    options.loaded =
        piece.part < values.loaded.size() ? values.loaded[piece.part] : std::vector<std::vector<uint32_t>>{};
    options.scales.clear();
    options.dma_engine_scale.clear();
    run::slow_down(*piece.program, faults, options);
    const run::TimedResult t = TRY(run::run_timed(*piece.program, machine.instance, options));
    TRY(save_views(args, *piece.program, machine, options, t, pieces.size() > 1 ? cat(piece.part + 1) : ""));
    for (const run::Finding& f : t.findings) note(f.text());
    if (!t.findings.empty()) return Exit::check_failed;
    if (args.has("--json"))
      parts.push(Json::object().set("on_host", false).set("time", t.report.json()));
    else
      print(cat(pieces.size() > 1      ? cat("\n", title, ": on the device\n")
                : args.has("--values") ? "\n"
                                       : "",
                t.report.text()));
  }
  if (pieces.size() == 1 && pieces[0].program)
    if (const Json* const time = parts.items().empty() ? nullptr : parts.items()[0].find("time"))
      out.set("time", *time);
  if (pieces.size() > 1 || !pieces[0].program) out.set("parts", std::move(parts));
  return Exit::ok;
}

Result<Exit> run_run(const Args& args) {
  const std::string& path = args.words[0];
  std::optional<compile::Trn> trn;
  if (path != "-" && compile::is_trn(path)) trn = TRY(compile::read_trn(path));
  if (args.has("--native") && !trn)
    return fail(Code::invalid, "has no graph, which --native runs; `trine compile` writes programs that have", path);
  arch::Program loaded = trn ? arch::Program{} : TRY(load_program(path));
  const auto faults = faults_of(args);
  if (!faults) return note(cat("trine run: ", faults.error().text())), Exit::usage;
  apply_faults(*faults, trn, loaded);
  if (refusal(*faults, trn ? trn->graph.name : loaded.name) != run::Status::success) return Exit::check_failed;
  const std::vector<Piece> pieces = pieces_of(trn, loaded);
  const Machine machine = TRY(trn ? machine_for(args, trn->chip, path) : choose_machine(args));
  for (const Piece& piece : pieces) {
    if (!piece.program) continue;
    if (const Exit illegal = TRY(report_findings(*piece.program, machine.chip())); illegal != Exit::ok) return illegal;
  }
  const bool values = args.has("--values") || args.has("--native");
  const bool time = args.has("--time") || args.has("--trace") || args.has("--picture") || !values;
  Json out = report("run");
  Exit exit = Exit::ok;
  sim::TimeOptions options;
  options.jump = !args.has("--no-jump");
  if (const auto window = read_window(args, options); !window) {
    note(cat("trine run: ", window.error().text()));
    return Exit::usage;
  }
  Values v;
  if (values) {
    v = TRY(trn ? run_model(args, *trn, machine.chip(), *faults) : run_values(args, loaded, machine.chip(), *faults));
    for (const run::Finding& f : v.result.findings)
      if (!f.warning) exit = Exit::check_failed;
    if (args.has("--json"))
      out.set("values", values_json(v));
    else
      print_values(v, trn ? trn->graph.name : loaded.name);
  }
  if (time && !pieces.empty())
    if (const Exit failed = TRY(run_times(args, pieces, machine, options, v, *faults, out)); failed != Exit::ok)
      return failed;
  if (args.has("--json")) print(out.text(2) + "\n");
  return exit;
}

}  // namespace

extern const Command command_run;
const Command command_run{
    .name = "run",
    .summary = "a program's values, its time, or both",
    .words = "PROGRAM",
    .words_min = 1,
    .words_max = 1,
    .word = file(".trn .tasm .tprog"),
    .details =
        "PROGRAM is a compiled model (`trine compile`), assembly text or a container (`trine asm`), - for stdin.",
    .examples =
        "trine run matmul.tasm --instance trn2.3xlarge\n"
        "trine run model.trn --values --native --input tokens=tokens.npy\n"
        "trine run matmul.tasm --values --input lhsT=a.npy --input rhs=b.npy --output out\n"
        "trine run matmul.tasm --values --fault stuck:semaphore=0",
    .options = kOptions,
    .run = run_run,
};

}  // namespace trine::tools
