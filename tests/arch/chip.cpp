// Chip files: the built-in ones are complete and agree with the maker's figures; a wrong file is told what and where.
#include "arch/chips/chip.h"

#include <cmath>
#include <string>

#include "arch/chips/peaks.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

static std::string chip_text(std::string_view name) {
  return *read_file(cat(TRINE_SOURCE_DIR, "/src/arch/chips/", name, ".json"));
}

static std::string error_of(std::string_view json) {
  const auto chip = parse_chip(json, "x.json");
  return chip ? "no error" : chip.error().text();
}

// The file of a chip with one text replaced, which must be there.
static std::string changed(std::string_view name, std::string_view from, std::string_view to) {
  std::string text = chip_text(name);
  const size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, std::string(from));
  return text.replace(at, from.size(), to);
}

TEST_CASE("every generation is there, with a source for every number") {
  CHECK(all_chips().size() >= 6);
  for (const Chip& chip : all_chips())
    for (const NumberRow& row : number_rows()) {
      INFO(chip.name << " " << row.path);
      const auto source = chip.sources.find(row.path);
      REQUIRE(source != chip.sources.end());
      const bool known = source->second.starts_with("doc") || source->second.starts_with("measured") ||
                         source->second.starts_with("estimate") || source->second.starts_with("projected") ||
                         source->second.starts_with("like ");
      CHECK(known);
    }
}

TEST_CASE("every number of a projected chip says so") {
  const Chip& chip = **find_chip("trn4");
  for (const auto& [path, from] : chip.sources) CHECK_MESSAGE(from.starts_with("projected"), path);
  for (const auto& [path, peak] : chip.published) CHECK_MESSAGE(peak.from.starts_with("projected"), path);
}

TEST_CASE("published peaks follow from the parts") {
  // A core's figures are printed to two digits; chip headlines lie above what the clock gives.
  for (const Chip& chip : all_chips())
    for (const auto& [name, peak] : chip.published) {
      const PeakRow* row = find_peak(name);
      REQUIRE(row);
      if (!row->from_parts) continue;
      const double ours = row->from_parts(chip), off = ours / peak.is - 1;
      INFO(chip.name << " " << name << ": published " << peak.is << ", from the parts " << ours);
      if (name.starts_with("core_"))
        CHECK(std::fabs(off) < 0.03);
      else if (name.ends_with("_mib") || name.ends_with("_gib") || name == "dma_engines")
        CHECK(off == 0);
      else
        CHECK((off > -0.17 && off < 0.03));
    }
}

TEST_CASE("names and aliases find chips, a wrong one lists them") {
  CHECK((*find_chip("TRN2"))->name == "trn2");
  CHECK((*find_chip("gen4"))->name == "trn3");
  CHECK(find_chip("trn9").error().message.find("trn1") != std::string::npos);
}

TEST_CASE("like fills in what a file leaves out and keeps the source") {
  const auto chip =
      parse_chip(R"({"name": "mine", "title": "Mine", "like": "trn2", "cores": {"is": 4, "from": "estimate: half"},
                                  "features": {"hwdge": null}})",
                 "mine.json");
  REQUIRE_MESSAGE(chip, chip.error().text());
  CHECK(chip->cores == 4);
  CHECK(chip->tensor.clock_ghz == 2.4);
  CHECK(chip->sources.at("cores") == "estimate: half");
  CHECK(chip->sources.at("tensor.clock_ghz").starts_with("like trn2: doc:"));
  CHECK_FALSE(chip->has(Feature::hwdge));
  CHECK(chip->has(Feature::double_row));
  CHECK(chip->published.empty());
}

TEST_CASE("errors name the file, the path and the expectation") {
  const std::string_view lead = R"({"name": "m", "title": "M", "like": "trn2", )";
  const auto with = [&](std::string_view rest) { return error_of(cat(lead, rest, "}")); };
  CHECK(error_of("[]") == "x.json: found array, expected an object");
  CHECK(error_of("{\n  \"a\": }").starts_with("x.json:2:8: found '}'"));
  CHECK(with(R"("cores": 4)").starts_with("x.json: cores: a bare number"));
  CHECK(with(R"("cores": {"is": 4})") == "x.json: cores: no source under \"from\"");
  CHECK(with(R"("cores": {"from": "doc: x"})") == "x.json: cores: no number under \"is\"");
  CHECK(with(R"("cores": {"is": 4, "from": "doc: x", "unit": "ghz"})").find("unknown key \"unit\"") !=
        std::string::npos);
  CHECK(with(R"("cores": {"is": 2.5, "from": "doc: x"})") == "x.json: cores: found 2.5, expected a whole number");
  CHECK(with(R"("cores": {"is": 0, "from": "doc: x"})") == "x.json: cores: found 0, expected 1 to 256 (count)");
  CHECK(with(R"("tensor": {"clock": {"is": 2.8, "from": "doc: x"}})")
            .starts_with("x.json: tensor.clock: no such number; nearest: tensor.clock_ghz"));
  CHECK(with(R"("tensor": 5)").starts_with("x.json: tensor: found number, expected an object"));
  CHECK(with(R"("features": {"hwdg": "doc: x"})").find("nearest: hwdge") != std::string::npos);
  CHECK(with(R"("published": {"fp99_tflops": {"is": 1, "from": "doc: x"}})").starts_with("x.json: published.fp99"));
  CHECK(with(R"("lnc_default": {"is": 4, "from": "doc: x"})") == "x.json: lnc_default: expected at most lnc_max");
  CHECK(error_of(R"({"name": "m", "title": "M", "like": "inf2"})").find("cannot itself be a base") !=
        std::string::npos);
  CHECK(error_of(R"({"name": "m", "title": "M", "like": "nope"})") == "x.json: like: no chip \"nope\"");
  CHECK(error_of(changed("trn2", "\"partitions\"", "\"note\""))
            .starts_with("x.json: partitions: missing; expected lanes"));
}
