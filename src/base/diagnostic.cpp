// Diagnostics as text, as JSON, and from the verifier's one-line errors; see diagnostic.h.
#include "base/diagnostic.h"

#include <charconv>

#include "base/text.h"

namespace trine {

std::string_view code_name(Code code) {
  static constexpr std::string_view kNames[] = {"invalid",      "not_found", "unsupported", "out_of_memory",
                                                "out_of_range", "io",        "cancelled",   "internal"};
  return kNames[static_cast<size_t>(code)];
}

Error Diagnostic::error() const {
  std::string message = found;
  if (!expected.empty()) message += cat("; expected ", expected);
  if (!fix.empty()) message += cat("; ", fix);
  return fail(code, std::move(message), file.empty() ? std::string() : cat(file, ":", line));
}

std::string Diagnostic::json() const {
  Json out = Json::object();
  out.set("code", code_name(code)).set("rule", rule).set("found", found).set("expected", expected);
  out.set("try", fix).set("file", file).set("line", line);
  return out.text();
}

Diagnostic diagnostic_of(const Error& error, std::string_view rule) {
  Diagnostic c{.code = error.code, .rule = std::string(rule), .found = error.message};
  const size_t cut = c.found.rfind("; ");
  if (cut != std::string::npos) {
    c.fix = c.found.substr(cut + 2);
    c.found.resize(cut);
  }
  const size_t wants = c.found.find(", expected ");
  if (wants != std::string::npos) {
    c.expected = c.found.substr(wants + 11);
    c.found.resize(wants);
  }
  const size_t colon = error.where.rfind(':');
  if (colon == std::string::npos) return c;
  const char* const end = error.where.data() + error.where.size();
  if (std::from_chars(error.where.data() + colon + 1, end, c.line).ptr == end) c.file = error.where.substr(0, colon);
  return c;
}

}  // namespace trine
