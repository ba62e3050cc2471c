// Inputs, chips and native values of compiled models; see trn_file.h.
#include "tools/trn_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "api/device.h"
#include "base/file.h"
#include "base/format/npy.h"
#include "base/number/convert.h"
#include "base/text.h"
#include "compile/host/native.h"
#include "run/drivers/native/direct.h"
#include "run/drivers/random_input.h"
#include "tools/choose.h"

namespace trine::tools {

Result<api::Machine> machine_for(const Args& args, const std::string& chip, const std::string& path) {
  api::Machine chosen = TRY(choose_machine(args));
  if (chosen.chip().name == chip || chip.empty()) return chosen;
  if (chosen.chosen_by == "default")
    for (const arch::Instance& i : arch::all_instances())
      if (i.chip->name == chip && i.hosts <= 1)
        return api::choose_machine({.instance = i.name, .lnc = args.get("--lnc")});
  return fail(Code::unsupported,
              cat("was compiled for ", chip, "; ", chosen.instance.name, " has ", chosen.chip().name,
                  " chips. Compile it again from the graph in it: trine compile ", path, " --instance ",
                  chosen.instance.name, " -o NEW.trn"),
              path);
}

static Result<Tensor> read_array(const std::string& path, const ir::Type& type, const std::string& name) {
  const Array a = TRY(parse_npy(TRY(read_file(path)), type.dtype, path));
  if (a.shape != type.dims)
    return fail(Code::invalid, cat("shape is ", shape_text(a.shape), "; input ", name, " has ", shape_text(type.dims)),
                path);
  Tensor out = Tensor::make(type.dtype, type.dims);
  std::memcpy(out.data.get(), a.bytes.data(), std::min(out.bytes(), a.bytes.size()));
  return out;
}

// A complex number is two of its parts' format.
static std::pair<Dtype, int64_t> parts_of(Dtype dtype) {
  if (dtype == Dtype::c64) return {Dtype::f32, 2};
  return dtype == Dtype::c128 ? std::pair(Dtype::f64, int64_t{2}) : std::pair(dtype, int64_t{1});
}

static Tensor made_up(const ir::Type& type, uint64_t seed) {
  const auto [dtype, parts] = parts_of(type.dtype);
  arch::Tensor like;
  like.dtype = is_floating(dtype) ? Dtype::f32 : Dtype::u8;
  like.shape = {type.elements() * parts};
  const auto bytes = run::random_bytes(like, seed);
  const TensorView from{like.dtype, like.shape, const_cast<std::byte*>(bytes.data())};
  Tensor out = Tensor::make(type.dtype, type.dims);
  if (const auto cast = compile::prepare_input({.dtype = dtype}, from); cast && out.bytes())
    std::memcpy(out.data.get(), cast->data.get(), std::min(out.bytes(), cast->bytes()));
  return out;
}

Result<TrnInputs> read_inputs(const Args& args, const compile::Trn& trn, uint64_t seed) {
  TrnInputs out;
  const auto& params = trn.graph.params;
  std::map<std::string, size_t, std::less<>> names;
  for (size_t i = 0; i < params.size(); ++i) names[compile::param_name(trn.graph, i)] = names[cat("arg", i)] = i;
  out.given.resize(params.size());
  for (const auto& [i, view] : trn.weights.values) out.given[i] = view;
  for (const std::string& text : args.all("--input")) {
    const size_t eq = text.find('=');
    if (eq == std::string::npos) return fail(Code::invalid, cat("found --input ", text, ", expected NAME=FILE.npy"));
    const auto found = names.find(text.substr(0, eq));
    if (found == names.end())
      return fail(Code::not_found, cat("no input is called ", text.substr(0, eq)), trn.graph.name);
    out.owned.push_back(TRY(read_array(text.substr(eq + 1), params[found->second].type(), found->first)));
    out.given[found->second] = out.owned.back().view();
  }
  for (size_t i = 0; i < params.size(); ++i) {
    if (out.given[i].data) continue;
    out.owned.push_back(made_up(params[i].type(), seed + i));
    out.given[i] = out.owned.back().view();
    out.random = true;
  }
  return out;
}

Result<TrnRun> run_exactly(const compile::Trn& trn, const TrnInputs& inputs, const arch::Chip& chip,
                           const run::ExactOptions& options) {
  const api::Compiled compiled(std::shared_ptr<const compile::SplitProgram>(std::shared_ptr<void>(), &trn.made));
  api::Ran ran = TRY(compiled.run(inputs.given, chip, options));
  TrnRun out;
  out.result.finished = ran.finished;
  out.result.findings = std::move(ran.findings);
  out.result.counts = {ran.instructions, ran.transfers};
  out.loaded = std::move(ran.loaded);
  for (size_t i = 0; i < ran.outputs.size(); ++i) {
    const TensorView v = ran.outputs[i].view();
    const auto* const bytes = static_cast<const std::byte*>(v.data);
    out.result.outputs.push_back({cat("out", i), v.dtype, v.dims, {bytes, bytes + v.bytes()}});
  }
  return out;
}

Result<std::vector<run::Output>> run_native(const compile::Trn& trn, const TrnInputs& inputs) {
  const auto plan = TRY(compile::compile_native(trn.graph));
  const auto direct = TRY(run::DirectProgram::make(plan));
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<run::Output> out;
  for (const TensorView& v : inputs.given) from.push_back(v.data);
  for (size_t i = 0; i < trn.graph.results.size(); ++i) {
    const ir::Type& type = trn.graph.results[i].type();
    const size_t size = size_t(type.elements()) * size_t(bytes(type.dtype));
    out.push_back(
        {.name = cat("out", i), .dtype = type.dtype, .shape = type.dims, .bytes = std::vector<std::byte>(size)});
  }
  for (run::Output& o : out) to.push_back(o.bytes.data());
  TRY(direct->run(from, to, {}));
  return out;
}

std::vector<float> floats(const run::Output& o) {
  const Dtype dtype = parts_of(o.dtype).first;
  const size_t n = o.bytes.size() / size_t(std::max(1, bytes(dtype)));
  Tensor from = Tensor::make(dtype, {int64_t(n)});
  if (n) std::memcpy(from.data.get(), o.bytes.data(), o.bytes.size());
  const auto cast = compile::prepare_input({.dtype = Dtype::f32}, from.view());
  std::vector<float> out(n);
  if (cast && n) std::memcpy(out.data(), cast->data.get(), n * sizeof(float));
  return out;
}

std::vector<double> differences(const std::vector<run::Output>& a, const std::vector<run::Output>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const auto x = floats(a[i]), y = floats(b[i]);
    double most = 0, scale = 0;
    for (size_t e = 0; e < x.size() && e < y.size(); ++e) {
      if (std::isfinite(y[e])) scale = std::max(scale, std::abs(double(y[e])));
      if (x[e] != y[e] && !(std::isnan(x[e]) && std::isnan(y[e])))
        most = std::max(most, std::abs(double(x[e]) - double(y[e])));
    }
    out.push_back(scale > 0 ? most / scale : most);
  }
  return out;
}

}  // namespace trine::tools
