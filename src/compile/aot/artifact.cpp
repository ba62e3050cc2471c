// Layouts of inputs as JSON, and the container around them; see artifact.h.
#include "compile/aot/artifact.h"

#include "arch/program/container.h"
#include "base/text.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "ops/op.h"

namespace trine::compile {

namespace {

using device::Axes;
using device::Axis;
using device::PanelLayout;

Json axis_json(const Axis& a) { return Json::array().push(a.stride).push(a.count); }
Json axes_json(const Axes& axes) {
  Json out = Json::array();
  for (const Axis& a : axes) out.push(axis_json(a));
  return out;
}

Error wrong(std::string what) { return fail(Code::invalid, cat("how inputs are prepared cannot be read: ", what)); }

Result<Axis> parse_axis(const Json& json) {
  if (json.items().size() != 2) return wrong("a dim is no pair of stride and count");
  const Axis out{json.items()[0].integer(), json.items()[1].integer()};
  constexpr int64_t kMax = int64_t{1} << 40;
  if (out.stride < 0 || out.stride > kMax || out.count < 1 || out.count > kMax)
    return wrong(cat("a dim of stride ", out.stride, ", count ", out.count));
  return out;
}

Result<Axes> parse_axes(const Json& json) {
  Axes out;
  for (const Json& item : json.items()) out.push_back(TRY(parse_axis(item)));
  if (out.size() > 16) return wrong("more than 16 dims");
  return out;
}

Result<PanelLayout> parse_panels(const Json& json) {
  const auto part = [&](const char* name) {
    const Json* const found = json.find(name);
    return found ? *found : Json();
  };
  PanelLayout out;
  out.batch = TRY(parse_axes(part("batch")));
  out.depth = TRY(parse_axes(part("depth")));
  out.column = TRY(parse_axis(part("column")));
  out.lanes = part("lanes").integer();
  out.chunks = part("chunks").integer();
  out.strip = json.find("strip") ? part("strip").integer() : 0;
  if (out.strip < 0 || out.strip > out.column.count) return wrong("panels in strips wider than they are");
  if (out.depth.empty() || out.lanes < 1 || out.lanes > 65536 || out.chunks < 1)
    return wrong("panels without an order");
  return out;
}

}  // namespace

Result<ir::Graph> read_graph(std::string_view text, std::string_view name) {
  ir::Graph out = TRY(ir::parse_graph(text, name));
  TRY(ir::verify(out, ops::check));
  return out;
}

std::string graph_text(const ir::Graph& graph) { return ir::text(graph); }

Json inputs_json(const std::vector<DeviceInput>& inputs) {
  Json out = Json::array();
  for (const DeviceInput& input : inputs) {
    Json one = Json::object().set("dtype", row(input.dtype).name);
    if (const auto& p = input.panels) {
      Json panels = Json::object()
                        .set("batch", axes_json(p->batch))
                        .set("depth", axes_json(p->depth))
                        .set("column", axis_json(p->column))
                        .set("lanes", p->lanes)
                        .set("chunks", p->chunks);
      if (p->strip) panels.set("strip", p->strip);
      one.set("panels", std::move(panels));
    }
    out.push(std::move(one));
  }
  return out;
}

Result<std::vector<DeviceInput>> parse_inputs(const Json& json) {
  std::vector<DeviceInput> out;
  for (const Json& one : json.items()) {
    const Json* const name = one.find("dtype");
    const auto dtype = dtype_by_name(name ? name->string() : "");
    if (!dtype) return wrong(cat("no format \"", name ? name->string() : "", "\""));
    DeviceInput input{.dtype = *dtype};
    if (const Json* const panels = one.find("panels")) input.panels = TRY(parse_panels(*panels));
    out.push_back(std::move(input));
  }
  return out;
}

std::string artifact_bytes(const DeviceProgram& made) {
  const std::string loading = Json::object().set("version", 1).set("inputs", inputs_json(made.inputs)).text();
  const arch::Attachment attached[] = {{arch::SectionKind::loading, std::as_bytes(std::span(loading))}};
  const auto bytes = arch::program_bytes(made.program, attached);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<DeviceProgram> parse_artifact(std::span<const std::byte> bytes, std::string_view name,
                                     std::shared_ptr<const void> owner) {
  std::vector<arch::Attachment> attached;
  DeviceProgram out;
  out.program = TRY(arch::parse_program(bytes, name, std::move(owner), &attached));
  for (const arch::Attachment& a : attached) {
    if (a.kind != arch::SectionKind::loading) continue;
    const Json json = TRY(parse_json({reinterpret_cast<const char*>(a.bytes.data()), a.bytes.size()}, name));
    if (const Json* const inputs = json.find("inputs")) out.inputs = TRY(parse_inputs(*inputs));
  }
  return out;
}

}  // namespace trine::compile
