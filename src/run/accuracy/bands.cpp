// Looks bands up; see bands.h.
#include "run/accuracy/bands.h"

#include <map>
#include <span>
#include <utility>

#include "base/embedded.h"
#include "base/format/json.h"
#include "base/text.h"

namespace trine::run {

std::span<const EmbeddedFile> embedded_accuracy();  // written by the build

namespace {

using Bands = std::map<std::pair<int64_t, std::string>, Band>;  // by generation and bound

Bands read_bands() {
  const auto text = accuracy_file("bands.json");
  CHECK(text.has_value(), "bands.json is among the embedded files");
  const auto json = parse_json(*text, "bands.json");
  CHECK(json.has_value(), "bands.json is written by `make accuracy`");
  Bands out;
  for (const Json& row : (*json).find("bands")->items())
    out[{row.find("generation")->integer(), row.find("bound")->string()}] = {
        row.find("low")->number(), row.find("high")->number(), static_cast<int>(row.find("rows")->integer()),
        row.find("from")->string()};
  return out;
}

}  // namespace

Result<std::string_view> accuracy_file(std::string_view name) {
  for (const EmbeddedFile& f : embedded_accuracy())
    if (f.name == name) return f.text;
  return fail(Code::not_found, cat("no file ", name, " among those of run/accuracy"));
}

Band band_of(Bound bound, const arch::Chip& chip) {
  static const Bands all = read_bands();
  const auto found = all.find({chip.generation, std::string(name(bound))});
  return found == all.end() ? Band{} : found->second;
}

}  // namespace trine::run
