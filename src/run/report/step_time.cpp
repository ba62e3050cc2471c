// Reading and writing; see step_time.h.
#include "run/report/step_time.h"

#include <algorithm>

#include "base/text.h"

namespace trine::run {

namespace {

using sim::StagePiece;
using sim::StagePieces;

constexpr std::string_view kStreams[] = {"compute",      "copies",           "ring",         "receive_forward",
                                         "send_forward", "receive_backward", "send_backward"};
static_assert(std::size(kStreams) == sim::kLanes);

Result<int32_t> index_of(std::span<const std::string_view> names, std::string_view name, std::string_view kind) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return fail(Code::invalid, cat("no ", kind, " \"", name, "\""));
  return static_cast<int32_t>(at - names.begin());
}

Result<StagePiece> piece_of(const Json& json, const std::vector<std::string>& names) {
  StagePiece out;
  const auto text = [&](std::string_view key) { return json.find(key) ? json.find(key)->string() : std::string(); };
  const std::vector<std::string_view> known(names.begin(), names.end());
  out.piece.what = TRY(index_of(known, text("what"), "name"));
  if (const Json* ns = json.find("ns")) out.piece.ns = ns->number();
  if (json.find("lane")) out.piece.lane = TRY(index_of(kStreams, text("lane"), "lane"));
  if (const Json* uses = json.find("uses"))
    for (size_t u = 0; u < sim::kUnits; ++u)
      if (const Json* use = uses->find(sim::name(static_cast<sim::Unit>(u))))
        out.piece.uses[u] = std::clamp(use->number(), 0.0, 1.0);
  if (json.find("group")) {
    static constexpr std::string_view kAxes[] = {"tensor", "data"};
    out.piece.group = TRY(index_of(kAxes, text("group"), "group"));
  }
  if (const Json* after = json.find("after"))
    for (const Json& a : after->items()) out.piece.after.push_back(static_cast<int32_t>(a.integer()));
  if (const Json* all = json.find("after_all")) out.after_all = all->boolean();
  return out;
}

Result<StagePieces> pieces_of(const Json* json, const std::vector<std::string>& names) {
  StagePieces out;
  if (json)
    for (const Json& piece : json->items()) out.push_back(TRY(piece_of(piece, names)));
  return out;
}

Result<std::vector<StagePieces>> chunks_of(const Json* json, const std::vector<std::string>& names) {
  std::vector<StagePieces> out;
  if (json)
    for (const Json& chunk : json->items()) out.push_back(TRY(pieces_of(&chunk, names)));
  return out;
}

Json parts_of(const sim::Pipeline& pipeline, const sim::RankTime& rank) {
  Json out = Json::array();
  for (const auto& [part, ns] : rank.parts) {
    if (ns <= 0) continue;
    Json row = Json::object().set("spent", sim::name(part.spent)).set("ns", ns);
    row.set("what", part.what < 0 ? "end" : pipeline.names[static_cast<size_t>(part.what)]);
    if (part.rank >= 0) row.set("stage", part.rank);
    out.push(std::move(row));
  }
  return out;
}

}  // namespace

Result<sim::Pipeline> pipeline_of(const Json& json) {
  sim::Pipeline out;
  if (const Json* names = json.find("names"))
    for (const Json& n : names->items()) out.names.push_back(n.string());
  if (const Json* batches = json.find("batches")) out.batches = batches->integer();
  if (const Json* bytes = json.find("packet_bytes")) {
    if (const Json* b = bytes->find("compute")) out.packet_bytes_compute = b->number();
    if (const Json* b = bytes->find("collective")) out.packet_bytes_collective = b->number();
  }
  if (const Json* send = json.find("send")) {
    out.send = TRY(piece_of(*send, out.names)).piece;
    out.sends_block = send->find("blocks") && send->find("blocks")->boolean();
  }
  const Json* stages = json.find("stages");
  for (const Json& s : stages ? stages->items() : Json::Array{}) {
    sim::Stage& stage = out.stages.emplace_back();
    stage.forward = TRY(chunks_of(s.find("forward"), out.names));
    stage.backward = TRY(chunks_of(s.find("backward"), out.names));
    stage.backward_last = TRY(chunks_of(s.find("backward_last"), out.names));
    stage.begin = TRY(pieces_of(s.find("begin"), out.names));
    stage.end = TRY(pieces_of(s.find("end"), out.names));
  }
  return out;
}

Json json_of(const sim::Pipeline& pipeline, const sim::StepTime& time) {
  Json stages = Json::array();
  const auto count = static_cast<int64_t>(pipeline.stages.size());
  for (size_t s = 0; s < time.ranks.size(); ++s) {
    const sim::RankTime& rank = time.ranks[s];
    Json collectives = Json::object();
    for (const auto& [what, ns] : rank.collectives) collectives.set(pipeline.names[static_cast<size_t>(what)], ns);
    // A schedule has settled long before three rounds of batches, whatever follows.
    const int64_t batches = std::min(pipeline.batches, 4 * count + pipeline.batches % count);
    const auto order = sim::passes(count, pipeline.chunks(), batches, static_cast<int64_t>(s));
    stages.push(Json::object()
                    .set("parts", parts_of(pipeline, rank))
                    .set("collectives", std::move(collectives))
                    .set("hidden_ns", rank.hidden_ns())
                    .set("in_flight", sim::in_flight_max(order)));
  }
  Json out = Json::object().set("ns", time.ns).set("stages", std::move(stages));
  if (time.spans.empty()) return out;
  Json spans = Json::array();
  for (const sim::LaneSpan& span : time.spans)
    spans.push(Json::object()
                   .set("stage", span.rank)
                   .set("lane", kStreams[static_cast<size_t>(span.lane)])
                   .set("what", pipeline.names[static_cast<size_t>(span.what)])
                   .set("begin_ns", span.begin_ns)
                   .set("end_ns", span.end_ns));
  return out.set("spans", std::move(spans));
}

}  // namespace trine::run
