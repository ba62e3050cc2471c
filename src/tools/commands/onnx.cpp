// trine onnx: what an ONNX file holds, its tensor graph, and whether it computes what its stored test data says.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "compile/host/native.h"
#include "front/onnx/read.h"
#include "host/execute.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"
#include "tools/cli.h"
#include "tools/model_file.h"

namespace trine::tools {

namespace {

namespace fs = std::filesystem;

struct Checked {
  double worst = 0;  // of all outputs: |found - expected| less what the tolerance gives
  std::string why;   // empty: all agree
};

// Elements in order; floats within tolerance, NaN where NaN is expected, all else equal.
Result<void> compare(const Tensor& found, const front::OnnxTensor& expected, double rtol, double atol, Checked& out) {
  const Tensor& want = expected.tensor;
  if (found.dtype != want.dtype || found.dims != want.dims) {
    out.why = cat("output `", expected.name, "` is ", shape_text(found.dtype, found.dims), "; expected ",
                  shape_text(want.dtype, want.dims));
    return {};
  }
  dispatch_element(found.dtype, [&](auto e) {
    using E = decltype(e);
    using S = typename E::Storage;
    for (int64_t i = 0; i < element_count(found.dims) && out.why.empty(); ++i) {
      const auto a = E::load(found.view().as<S>()[i]), b = E::load(want.view().as<S>()[i]);
      if (a == b || (a != a && b != b)) continue;
      double apart = 1, allowed = 0;
      if constexpr (E::kIsFloating || E::kIsComplex) {
        apart = double(std::abs(a - b));
        allowed = atol + rtol * double(std::abs(b));
        out.worst = std::max(out.worst, apart);
      }
      if constexpr (!E::kIsComplex)
        if (!(apart <= allowed))
          out.why = cat("output `", expected.name, "` element ", i, " is ", double(a), "; expected ", double(b));
      if constexpr (E::kIsComplex)
        if (!(apart <= allowed)) out.why = cat("output `", expected.name, "` element ", i, " is off by ", apart);
    }
    return 0;
  });
  return {};
}

Result<std::vector<front::OnnxTensor>> read_set(const fs::path& folder, std::string_view kind, size_t count) {
  std::vector<front::OnnxTensor> out;
  for (size_t i = 0; i < count; ++i) {
    const std::string path = (folder / cat(kind, "_", i, ".pb")).string(), bytes = TRY(read_file(path));
    auto tensor = front::read_onnx_tensor(bytes);
    if (!tensor) return fail(tensor.error().code, tensor.error().message, path);
    out.push_back(std::move(*tensor));
  }
  return out;
}

Result<std::vector<Tensor>> run_native(const arch::HostPlan& plan, const host::Prepared& prepared,
                                       const std::vector<front::OnnxTensor>& inputs) {
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<Tensor> results;
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const arch::Slot& slot = plan.slots[plan.inputs[i]];
    if (inputs[i].tensor.bytes() != slot.bytes())
      return fail(Code::invalid, cat("input ", i, " (`", inputs[i].name, "`) is ",
                                     shape_text(inputs[i].tensor.dtype, inputs[i].tensor.dims), "; the model takes ",
                                     shape_text(slot.dtype, slot.dims)));
    in.push_back(inputs[i].tensor.data.get());
  }
  for (arch::SlotId id : plan.outputs) {
    results.push_back(Tensor::make(plan.slots[id].dtype, plan.slots[id].dims));
    out.push_back(results.back().data.get());
  }
  TRY(host::execute(prepared, {.inputs = in, .outputs = out}));
  return results;
}

struct Model {
  std::string path, folder, bytes;
  front::OnnxOptions options;
};

Result<Model> open_model(const std::string& path, const Args& args) {
  Model model{
      .path = path, .folder = fs::path(path).parent_path().string(), .bytes = TRY(read_file(path)), .options = {}};
  if (model.folder.empty()) model.folder = ".";
  model.options.name = fs::path(path).filename().string();
  model.options.file = path;
  for (const std::string& shape : args.all("--shape")) TRY(add_shape(shape, model.options));
  return model;
}

// Shapes the file leaves open are those of the data.
void shapes_from(const std::vector<front::OnnxTensor>& inputs, const front::OnnxSummary& summary,
                 front::OnnxOptions& options) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!options.shapes.contains(summary.inputs[i].name))
      options.shapes[summary.inputs[i].name] = inputs[i].tensor.dims;
}

struct CheckResult {
  int64_t sets = 0;
  double worst = 0;
  std::string why;
};

// Each folder test_data_set_* beside the model: inputs in, outputs compared.
Result<CheckResult> check(Model& model, double rtol, double atol) {
  const front::OnnxSummary summary = TRY(front::summarize_onnx(model.bytes, model.options));
  std::vector<fs::path> sets;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(model.folder, ignored))
    if (entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  CheckResult out;
  for (const fs::path& set : sets) {
    const auto inputs = TRY(read_set(set, "input", summary.inputs.size()));
    const auto outputs = TRY(read_set(set, "output", summary.outputs.size()));
    shapes_from(inputs, summary, model.options);
    const ir::Graph graph = TRY(front::read_onnx(model.bytes, model.options));
    TRY(ir::verify(graph, ops::check));
    const auto plan = TRY(compile::compile_native(graph));
    const auto prepared = TRY(host::prepare(plan));
    const auto results = TRY(run_native(*plan, *prepared, inputs));
    Checked checked;
    for (size_t i = 0; i < results.size() && checked.why.empty(); ++i)
      TRY(compare(results[i], outputs[i], rtol, atol, checked));
    ++out.sets;
    out.worst = std::max(out.worst, checked.worst);
    if (!checked.why.empty()) {
      out.why = cat(set.filename().string(), ": ", checked.why);
      return out;
    }
  }
  if (sets.empty()) {
    const ir::Graph graph = TRY(front::read_onnx(model.bytes, model.options));
    TRY(ir::verify(graph, ops::check));
  }
  return out;
}

Result<Exit> check_all(const Args& args) {
  const double rtol = args.real("--rtol"), atol = args.real("--atol");
  Json rows = Json::array();
  bool all = true;
  for (const std::string& path : args.words) {
    auto model = open_model(path, args);
    auto outcome = model ? check(*model, rtol, atol) : Result<CheckResult>(model.error());
    const bool ok = outcome && outcome->why.empty();
    all = all && ok;
    const std::string why = !outcome ? outcome.error().text() : outcome->why;
    if (args.has("--json")) {
      Json row = Json::object().set("file", path).set("ok", ok);
      if (outcome) row.set("sets", outcome->sets).set("worst", outcome->worst);
      if (!ok) row.set("why", why).set("read", outcome.has_value());
      rows.push(std::move(row));
    } else if (!outcome && args.words.size() == 1) {
      return outcome.error();
    } else if (ok) {
      print(outcome->sets == 0 ? cat(path, ": reads; no test data beside it\n")
                               : cat(path, ": ", outcome->sets, " of ", outcome->sets,
                                     " test data sets agree, worst difference ", outcome->worst, "\n"));
    } else {
      print(cat(path, ": ", why, "\n"));
    }
  }
  if (args.has("--json")) print(report("onnx check").set("models", std::move(rows)).text(2) + "\n");
  return all ? Exit::ok : Exit::check_failed;
}

Json summary_json(const front::OnnxSummary& s) {
  const auto values = [](const std::vector<front::OnnxSummary::Input>& list) {
    Json out = Json::array();
    for (const auto& v : list) out.push(Json::object().set("name", v.name).set("type", v.type));
    return out;
  };
  Json ops = Json::array();
  for (const auto& [name, count] : s.ops)
    ops.push(Json::object().set("op", name).set("nodes", count.nodes).set("known", count.is_known));
  return report("onnx")
      .set("producer", s.producer)
      .set("ir_version", s.ir_version)
      .set("opset", s.opset)
      .set("inputs", values(s.inputs))
      .set("outputs", values(s.outputs))
      .set("weights", s.weights)
      .set("weight_bytes", s.weight_bytes)
      .set("ops", std::move(ops));
}

std::string summary_text(const std::string& path, const front::OnnxSummary& s) {
  std::string out = cat(path, ": opset ", s.opset, s.producer.empty() ? "" : cat(", by ", s.producer), ", ",
                        with_commas(s.weights), " weights (", with_unit_bytes(double(s.weight_bytes)), ")\n");
  for (const auto& v : s.inputs) append_text(out, cat("  input   ", v.name, "  ", v.type, "\n"));
  for (const auto& v : s.outputs) append_text(out, cat("  output  ", v.name, "  ", v.type, "\n"));
  std::vector<std::vector<std::string>> rows = {{"op", "nodes", ""}};
  for (const auto& [name, count] : s.ops)
    rows.push_back({name, with_commas(count.nodes), count.is_known ? "" : "not supported"});
  return out + columns(rows, "010");
}

// The rows of the reader, by name; of several versions the first.
std::string supported(bool markdown_page) {
  std::vector<std::vector<std::string>> rows = {{"op", "since opset"}};
  for (const front::OnnxRow& row : front::onnx_rows())
    if (rows.back()[0] != row.name) rows.push_back({std::string(row.name), cat(row.since)});
  if (!markdown_page) return columns(rows, "01");
  for (size_t i = 1; i < rows.size(); ++i) rows[i][0] = cat("`", rows[i][0], "`");
  return cat(
      "<!-- Written by `trine onnx --supported --markdown`; do not edit. -->\n# ONNX ops\n\nThe ops of ONNX that "
      "`front/onnx` reads, ",
      rows.size() - 1, " of them; [onnx.md](onnx.md) says how models are read.\n\n", markdown(rows));
}

Result<Exit> run(const Args& args) {
  if (args.has("--supported")) {
    print(supported(args.has("--markdown")));
    return Exit::ok;
  }
  if (args.words.empty()) return fail(Code::invalid, "which file? `trine onnx model.onnx`");
  if (args.has("--check")) return check_all(args);
  if (args.words.size() != 1) return fail(Code::invalid, "several files only with --check");
  Model model = TRY(open_model(args.words[0], args));
  if (args.has("--print")) {
    const ir::Graph graph = TRY(front::read_onnx(model.bytes, model.options));
    TRY(ir::verify(graph, ops::check));
    print(ir::text(graph, {.locations = args.has("--locations"), .constants = 64}));
    return Exit::ok;
  }
  const front::OnnxSummary summary = TRY(front::summarize_onnx(model.bytes, model.options));
  print(args.has("--json") ? summary_json(summary).text(2) + "\n" : summary_text(model.path, summary));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--print", "", "", "print the tensor graph made from it; long constants are elided"},
    {"--check", "", "", "run it natively on the test_data_set_* folders beside it and compare the outputs"},
    {"--shape", "", "NAME=1x128", "the shape of an input, or the value of a symbolic dim; may be repeated",
     Values().repeated()},
    {"--rtol", "", "X", "relative tolerance of --check", real().otherwise("0.001")},
    {"--atol", "", "X", "absolute tolerance of --check", real().otherwise("0.00001")},
    {"--supported", "", "", "list the ops of ONNX this build reads; takes no file"},
    {"--markdown", "", "", "with --supported: as a page"},
    {"--locations", "", "", "print which node of the file each op comes from"},
    kJson,
};

}  // namespace

extern const Command command_onnx{
    .name = "onnx",
    .summary = "read an ONNX model: its ops, its graph, its values",
    .words = "FILE...",
    .words_min = 0,
    .words_max = 1 << 20,
    .word = file(".onnx"),
    .details = "Without an option: inputs, outputs and ops, and which ops this build cannot read. Opset 6 to 28.",
    .examples =
        "trine onnx model.onnx\n"
        "trine onnx bert.onnx --print --shape input_ids=1x128 --shape attention_mask=1x128\n"
        "trine onnx bert.onnx --print --shape batch=1 --shape sequence=128\n"
        "trine onnx */model.onnx --check",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
