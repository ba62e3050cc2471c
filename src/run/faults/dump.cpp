// Dumps as JSON, as files, as text; see dump.h.
#include "run/faults/dump.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

namespace {

constexpr int64_t kVersion = 1;

Json head(std::string_view program, Status status, std::string_view message) {
  return Json::object()
      .set("version", kVersion)
      .set("kind", "trine core")
      .set("program", program)
      .set("pid", int64_t(::getpid()))
      .set("status", row_of(status).name)
      .set("code", row_of(status).code)
      .set("message", message);
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : bytes) out += kDigits[size_t(b) >> 4], out += kDigits[size_t(b) & 15];
  return out;
}

std::string text(const Json& in, std::string_view key) {
  const Json* const found = in.find(key);
  if (!found) return "";
  return found->is_string() ? found->string() : found->is_null() ? "" : found->text();
}

const Json::Array& items(const Json& in, std::string_view key) {
  static const Json kNone;
  const Json* const found = in.find(key);
  return (found ? *found : kNone).items();
}

}  // namespace

Status status_of(const RunResult& result) {
  for (const Finding& f : result.findings) {
    if (f.warning) continue;
    if (f.kind == arch::FaultKind::deadlock) return Status::timeout;
    if (f.kind == arch::FaultKind::out_of_bounds || f.kind == arch::FaultKind::bad_register) return Status::exec_oob;
    if (f.kind == arch::FaultKind::nan) return Status::exec_completed_with_num_err;
    if (f.kind == arch::FaultKind::over_capacity) return Status::resource;
    if (f.kind == arch::FaultKind::collective_mismatch) return Status::exec_hw_err_collectives;
    return Status::exec_completed_with_err;
  }
  return result.finished ? Status::success : Status::timeout;
}

Json exact_dump(const arch::Program& program, std::string_view chip, const RunResult& result) {
  const Status status = status_of(result);
  Json findings = Json::array(), engines = Json::array(), semaphores = Json::array(), memory = Json::array();
  for (const Finding& f : result.findings)
    findings.push(Json::object()
                      .set("kind", arch::name(f.kind))
                      .set("message", f.message())
                      .set("stream", f.stream)
                      .set("instruction", f.instruction)
                      .set("file", f.file)
                      .set("line", int64_t(f.line)));
  Json out = head(program.name, status, result.findings.empty() ? "did not finish" : result.findings[0].message());
  out.set("chip", chip).set("instructions", result.counts.instructions).set("findings", std::move(findings));
  if (!result.stopped) return out;
  for (const EngineState& e : result.stopped->engines) {
    Json loops = Json::array();
    for (const int64_t i : e.loops) loops.push(i);
    engines.push(Json::object()
                     .set("stream", e.stream)
                     .set("core", e.core)
                     .set("state", e.state)
                     .set("index", int64_t(e.index))
                     .set("instruction", e.instruction)
                     .set("where", e.where)
                     .set("waits_for", e.waits_for)
                     .set("loops", std::move(loops)));
  }
  for (size_t core = 0; core < result.stopped->semaphores.size(); ++core) {
    Json values = Json::object();
    const auto& all = result.stopped->semaphores[core];
    for (size_t s = 0; s < all.size(); ++s)
      if (all[s]) values.set(cat("s", s), all[s]);
    semaphores.push(std::move(values));
  }
  for (const MemoryPiece& m : result.stopped->memory)
    memory.push(Json::object()
                    .set("stream", m.stream)
                    .set("operand", m.operand)
                    .set("tensor", m.tensor)
                    .set("dtype", m.dtype)
                    .set("space", m.space)
                    .set("partition", m.partition)
                    .set("address", m.address)
                    .set("bytes", hex(m.bytes)));
  return out.set("engines", std::move(engines))
      .set("semaphores", std::move(semaphores))
      .set("memory", std::move(memory));
}

Json refused_dump(std::string_view program, int64_t core, Status status, std::string_view message) {
  return head(program, status, message).set("core", core);
}

Result<std::string> write_dump(const std::string& folder, const Json& dump) {
  std::error_code none;
  std::filesystem::create_directories(folder, none);
  std::string name = text(dump, "program");
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  if (name.size() > 64) name.resize(64);
  for (int n = 0; n < 1000; ++n) {
    const std::string path = cat(folder, "/core.", name, ".", int64_t(::getpid()), ".", n, ".json");
    if (::access(path.c_str(), F_OK) == 0) continue;
    TRY(write_file(path, dump.text(1) + "\n"));
    return path;
  }
  return fail(Code::io, "holds a thousand dumps of this process", folder);
}

Result<std::string> dump_text(const Json& dump) {
  if (text(dump, "kind") != "trine core" || text(dump, "version") != "1")
    return fail(Code::unsupported, cat("found version ", text(dump, "version"), " of \"", text(dump, "kind"),
                                       "\", expected version 1 of \"trine core\""));
  std::string out = cat(text(dump, "program"), text(dump, "chip").empty() ? "" : cat(" on ", text(dump, "chip")), ": ",
                        text(dump, "status"), " (", text(dump, "code"), ")\n  ", text(dump, "message"), "\n");
  std::vector<std::vector<std::string>> rows;
  for (const Json& e : items(dump, "engines")) {
    const std::string waits = text(e, "waits_for");
    rows.push_back({cat("  ", text(e, "stream")), text(e, "state"),
                    text(e, "state") == "ended" ? "" : cat("#", text(e, "index")), text(e, "instruction"),
                    text(e, "where")});
    if (!waits.empty()) rows.push_back({"", "", "", cat("for ", waits), ""});
  }
  if (!rows.empty()) out += "\nengines\n" + columns(rows, "00100");
  std::string values;
  for (size_t core = 0; core < items(dump, "semaphores").size(); ++core)
    for (const auto& [name, value] : items(dump, "semaphores")[core].members())
      values += cat(values.empty() ? "  " : "  ", core ? cat("core ", core, " ") : "", name, "=", value.integer());
  if (!values.empty()) out += cat("\nsemaphores that are not 0\n", values, "\n");
  rows.clear();
  for (const Json& m : items(dump, "memory")) {
    std::string bytes = text(m, "bytes");
    bytes.resize(std::min<size_t>(bytes.size(), 48));
    rows.push_back(
        {cat("  ", text(m, "stream")), text(m, "operand"), text(m, "tensor"),
         cat(text(m, "space"), "@", text(m, "space") == "hbm" ? "" : text(m, "partition") + "/", text(m, "address")),
         bytes});
  }
  if (!rows.empty()) out += "\nmemory the instructions at hand touch\n" + columns(rows, "00000");
  return out;
}

}  // namespace trine::run
