// Writing parts down and believing nothing of what is read; see parts.h.
#include "compile/aot/parts.h"

#include <map>

#include "base/text.h"
#include "compile/aot/artifact.h"
#include "ir/text.h"

namespace trine::compile {

namespace {

constexpr size_t kAlign = 64;
constexpr size_t kPartsMax = 1 << 16, kDimsMax = 64;

Json numbers(const std::vector<size_t>& list) {
  Json out = Json::array();
  for (size_t n : list) out.push(int64_t(n));
  return out;
}

Json type_json(const ir::Type& t) {
  Json dims = Json::array();
  for (int64_t d : t.dims) dims.push(d);
  return Json::object().set("dtype", row(t.dtype).name).set("dims", std::move(dims)).set("token", t.is_token);
}

Error wrong(std::string what) { return fail(Code::invalid, cat("the program's parts cannot be read: ", what)); }

const Json& part_of(const Json& json, const char* name) {
  static const Json none;
  const Json* const found = json.find(name);
  return found ? *found : none;
}

Result<ir::Type> parse_type(const Json& json) {
  const auto dtype = dtype_by_name(part_of(json, "dtype").string());
  if (!dtype) return wrong(cat("no format \"", part_of(json, "dtype").string(), "\""));
  Dims dims;
  int64_t elements = 1;
  for (const Json& d : part_of(json, "dims").items()) {
    dims.push_back(d.integer());
    if (dims.back() < 0 || dims.size() > kDimsMax || __builtin_mul_overflow(elements, dims.back(), &elements))
      return wrong("a shape that no tensor has");
  }
  ir::Type out = ir::tensor_type(*dtype, std::move(dims));
  out.is_token = part_of(json, "token").boolean();
  return out;
}

// What slots hold, as far as it has been written.
using Slots = std::map<size_t, ir::Type>;

Result<std::vector<size_t>> parse_slots(const Json& json, const Slots* known) {
  std::vector<size_t> out;
  for (const Json& n : json.items()) {
    if (!n.is_integer() || n.integer() < 0 || n.integer() > (int64_t{1} << 32))
      return wrong("a slot that is no number");
    out.push_back(size_t(n.integer()));
    if (known && !known->count(out.back())) return wrong(cat("slot ", out.back(), " is read before it is written"));
  }
  return out;
}

Result<void> check_host(const DevicePart& part, const Slots& slots) {
  if (part.host->params.size() != part.reads.size() || part.host->results.size() != part.writes.size())
    return wrong("a host part reads or writes other values than its graph");
  for (size_t i = 0; i < part.reads.size(); ++i)
    if (part.host->params[i].type().dims != slots.at(part.reads[i]).dims)
      return wrong(cat("a host part takes ", ir::text(part.host->params[i].type()), " where there is ",
                       ir::text(slots.at(part.reads[i]))));
  return {};
}

Result<DevicePart> parse_part(const Json& json, std::span<const std::byte> programs, const Slots& slots,
                              std::string_view name, const std::shared_ptr<const void>& owner) {
  DevicePart out{.on_host = json.find("graph") != nullptr};
  out.reads = TRY(parse_slots(part_of(json, "reads"), &slots));
  out.writes = TRY(parse_slots(part_of(json, "writes"), nullptr));
  if (out.on_host) {
    out.host = std::make_shared<const ir::Graph>(TRY(read_graph(part_of(json, "graph").string(), name)));
    TRY(check_host(out, slots));
    for (const ir::Value& v : out.host->results) out.written.push_back(v.type());
    return out;
  }
  const Json::Array& range = part_of(json, "program").items();
  const int64_t at = range.size() == 2 ? range[0].integer() : -1, size = range.size() == 2 ? range[1].integer() : -1;
  if (at < 0 || size < 0 || at > int64_t(programs.size()) || size > int64_t(programs.size()) - at)
    return wrong("a program that lies outside the file");
  out.device = TRY(parse_artifact(programs.subspan(size_t(at), size_t(size)), name, owner));
  for (const Json& t : part_of(json, "written").items()) out.written.push_back(TRY(parse_type(t)));
  if (out.written.size() != out.writes.size()) return wrong("a program writes other values than it has types for");
  if (out.device.inputs.size() != out.reads.size()) return wrong("a program prepares other inputs than it reads");
  TRY(check_results(out));
  return out;
}

}  // namespace

Result<void> check_results(const DevicePart& part) {
  for (size_t i = 0; i < part.written.size(); ++i) {
    const int at = part.device.program.find_tensor(cat("out", i));
    const ir::Type& t = part.written[i];
    const int64_t bytes = t.is_token ? 0 : t.elements() * trine::bytes(t.dtype);
    if (at < 0 || part.device.program.tensors[size_t(at)].kind != arch::TensorKind::output ||
        bytes > tensor_bytes(part.device.program.tensors[size_t(at)]))
      return wrong(cat("a program has no result ", i, " of ", ir::text(t)));
  }
  return {};
}

Json parts_json(const SplitProgram& made, std::string& programs) {
  Json parts = Json::array(), host = Json::array();
  for (const DevicePart& part : made.parts) {
    Json one = Json::object().set("reads", numbers(part.reads)).set("writes", numbers(part.writes));
    if (part.on_host) {
      parts.push(one.set("graph", ir::text(*part.host)));
      continue;
    }
    const std::string bytes = artifact_bytes(part.device);
    programs.resize((programs.size() + kAlign - 1) / kAlign * kAlign);
    one.set("program", Json::array().push(int64_t(programs.size())).push(int64_t(bytes.size())));
    programs += bytes;
    Json written = Json::array();
    for (const ir::Type& t : part.written) written.push(type_json(t));
    parts.push(one.set("written", std::move(written)));
  }
  for (const HostOp& h : made.host)
    host.push(Json::object().set("op", h.op).set("type", h.type).set("reason", h.reason).set("where", h.where));
  return Json::object()
      .set("parts", std::move(parts))
      .set("results", numbers(made.results))
      .set("host", std::move(host));
}

Signature signature_of(const ir::Graph& graph) {
  Signature out;
  for (const ir::Value& v : graph.params) out.inputs.push_back(v.type());
  for (const ir::Value& v : graph.results) out.results.push_back(v.type());
  return out;
}

Json signature_json(const Signature& signature) {
  Json inputs = Json::array(), results = Json::array();
  for (const ir::Type& t : signature.inputs) inputs.push(type_json(t));
  for (const ir::Type& t : signature.results) results.push(type_json(t));
  return Json::object().set("inputs", std::move(inputs)).set("results", std::move(results));
}

Result<Signature> parse_signature(const Json& json) {
  Signature out;
  for (const Json& t : part_of(json, "inputs").items()) out.inputs.push_back(TRY(parse_type(t)));
  for (const Json& t : part_of(json, "results").items()) out.results.push_back(TRY(parse_type(t)));
  return out;
}

Result<SplitProgram> parse_parts(const Json& json, std::span<const std::byte> programs, const Signature& signature,
                                 std::string_view name, std::shared_ptr<const void> owner) {
  SplitProgram out{.inputs = signature.inputs.size()};
  Slots slots;
  for (size_t i = 0; i < signature.inputs.size(); ++i) slots[i] = signature.inputs[i];
  if (part_of(json, "parts").items().size() > kPartsMax) return wrong("there are too many");
  for (const Json& one : part_of(json, "parts").items()) {
    DevicePart part = TRY(parse_part(one, programs, slots, name, owner));
    for (size_t i = 0; i < part.writes.size(); ++i)
      if (!slots.emplace(part.writes[i], part.written[i]).second)
        return wrong(cat("slot ", part.writes[i], " is written twice"));
    out.parts.push_back(std::move(part));
  }
  out.results = TRY(parse_slots(part_of(json, "results"), &slots));
  if (out.results.size() != signature.results.size())
    return wrong(cat(out.results.size(), " results of ", signature.results.size()));
  for (size_t i = 0; i < out.results.size(); ++i)
    if (slots.at(out.results[i]).dims != signature.results[i].dims)
      return wrong(cat("result ", i, " is ", ir::text(slots.at(out.results[i]))));
  for (const Json& h : part_of(json, "host").items())
    out.host.push_back({part_of(h, "op").string(), part_of(h, "type").string(), part_of(h, "reason").string(),
                        part_of(h, "where").string()});
  return out;
}

}  // namespace trine::compile
